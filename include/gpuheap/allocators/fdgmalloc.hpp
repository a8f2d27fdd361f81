// `fdgmalloc`: an arena for each warp, given back as a whole.
//   S. Widmer, D. Wodniok, N. Weber, M. Goesele, "Fast Dynamic Memory Allocator for Massively Parallel Architectures", GPGPU-6, 2013.
//
// Layout:    own part of the region:  record of warp 0 | record of warp 1 | ...                     64 bytes each, all zero at first
//            in the backing:
//              superblock    8192 bytes   | blocks, end to end, from 0 on ... | 8176: unused |      a warp's current one: its record's area
//              dedicated     any          | the blocks of one request |
//              list          1024 bytes   | how many | older list | 126 addresses |                 every superblock and dedicated block
//            area word       {address / 16 : 48, units of 16 bytes used : 16}, 0: no area
//
// malloc:    the lanes that come together are one request: a prefix sum places them, the highest sum is the total.
//            1. A total below 8188 bytes that fits into the warp's area: one compare-exchange of the area word. No other warp is met.
//            2. Otherwise the lanes that fit take what is left of the area, and the rest a new one, which the record's newest list
//            remembers.
//            3. A total of 8188 bytes and more is one dedicated block of exactly so many, remembered in the same list.
//            4. No memory for a superblock: a dedicated block. None for that either: each lane asks alone, one after the other.
// free:      nothing. release_warp(): takes area and lists from the record, then the lanes share out the frees; the lists go last.
//            tidy_up_warp(): the same, but keeps one list, empty.
// Reuse:     what a warp had serves any thread, once released: it lies in the backing again.
// Progress:  blocking. For a new area, a dedicated block and a release a call waits for the warp's record's lock, which is held for a few
//            accesses, never while the backing is called; beyond that as the backing. malloc in the area is lock-free. Groups of one warp
//            that find its area full at once each get a superblock, and all but one give theirs back.
//
// A warp is known by simt::global_warp(): so a later kernel's warp of the same number goes on with the same record and may release it, and
// kernels that run at the same time share records. Allocation by any of them is safe; a release takes the blocks of all. A warp beyond the
// table (Config::max_warps, fewer in small regions: a record for each 4 KiB) is answered nullptr.
//
// Different from the paper:
//   - Records lie in a table rather than in the backing: found without the program's keeping an address, never absent (hazard 9), and not
//     freed, so that no thread meets a dead one. Alignment of the backing's blocks beyond 16 is not relied on (hazard 10).
//   - No request slots in memory (hazards 3, 4): sums pass through shuffles of the one captured mask (hazard 2), addresses through 64-bit
//     shuffles (hazard 1), and the area's index moves with its address in one word, so that diverged groups of a warp take apart.
//   - The leader belongs to the group that was captured, and no lane of it returns before all are answered (hazard 6).
//   - No thread is counted (hazard 5): end() waits for as many lanes as once started, and leaks if one left early. Here a release is one
//     call for the warp, made where the program says that it is over: heap_ref::release_warp(group) waits for the group's lanes, before and
//     after.
//   - An absent list is no list of no blocks (hazard 7). Lanes that fit fill a replaced area, the others begin the new one at 0 (hazard 8).
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/allocators/backing.hpp>
#include <gpuheap/memory/allocation.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/spin_lock.hpp>
#include <gpuheap/structures/warp_group.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// The paper's sizes, and how many warps can have memory at once.
struct fdgmalloc_config {
  unsigned superblock_bytes = 8192;  // the last 4 are the index in the paper and hold nothing here
  unsigned list_pointers = 126;
  unsigned max_warps = 1u << 17;
};

#if GPUHEAP_HAS_HOST
// The result of verify().
struct fdgmalloc_report {
  simt::uint64_t warps = 0;  // that have memory
  simt::uint64_t blocks = 0;
  simt::uint64_t lists = 0;
  simt::uint64_t block_bytes = 0;  // asked of the backing for the blocks
  std::string problem;
};
#endif

namespace detail {
template <class Allocator>
struct verify_fdgmalloc;
}

template <fdgmalloc_config Config = fdgmalloc_config{}, class Backing = default_backing>
class basic_fdgmalloc {
  static constexpr unsigned unit_bytes = 16;
  static constexpr unsigned area_units = (Config.superblock_bytes - 4) / unit_bytes;  // that hold blocks
  // Totals from here on get a dedicated block. Totals are whole units: the same as 8188 bytes and more.
  static constexpr simt::uint64_t hand_off_bytes = simt::uint64_t{area_units + 1} * unit_bytes;
  static_assert(Config.superblock_bytes % unit_bytes == 0 && area_units >= 1 && area_units < 1u << 16);
  static_assert(Config.list_pointers >= 1 && Config.max_warps >= 1);

 public:
  static constexpr allocator_traits traits{
      .name = "fdgmalloc",
      .title = "FDGMalloc",
      .paper = "Widmer, Wodniok, Weber, Goesele: Fast Dynamic Memory Allocator for Massively Parallel Architectures, GPGPU-6",
      .year = 2013,
      .variant = "an arena for each warp",
      .reuse = "all that a warp had, by any request, once the warp has released it",
      .free = frees::collectively,
      .warp_level = true,
      .process_wide = Backing::traits.process_wide,
      .full_reuse = Backing::traits.full_reuse,
  };

  // `bytes` > 0.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    if (bytes > most_bytes_) return nullptr;  // before any arithmetic; 32 such add up to less than 2^64
    structures::warp_group const group = together(purpose::malloc);
    unsigned const warp = simt::global_warp();
    if (warp >= num_warps_) return nullptr;
    record& r = records_[warp];
    unsigned const units = bytes < hand_off_bytes ? static_cast<unsigned>(simt::ceil_div(bytes, unit_bytes)) : area_units + 1;
    unsigned total = 0;
    unsigned const before = group.sum_before(units, total);
    simt::uint64_t at = 0;
    if (total <= area_units && group.leads()) {
      at = take(r, total);
      // relaxed: a count.
      if (at != 0) simt::global_ref<simt::uint64_t>{r.allocations}.fetch_add(group.size(), simt::relaxed);
    }
    simt::sync_warp(group.mask);  // what the leader acquired holds for all
    at = group.from_leader(at);
    if (at == 0) return malloc_slowly(backing_, &r, group.mask, simt::round_up_pow2(bytes, unit_bytes));
    return reinterpret_cast<void*>(at + simt::uint64_t{before} * unit_bytes);
  }

  // Does nothing.
  GPUHEAP_FN void free(void*) const {}

  // `alignment`: a power of two.
  [[nodiscard]] GPUHEAP_FN void* aligned_malloc(simt::size_t bytes, simt::size_t alignment) const {
    if (alignment < unit_bytes) alignment = unit_bytes;
    if (bytes > most_bytes_) return nullptr;
    auto const p = reinterpret_cast<simt::uintptr_t>(malloc(bytes + (alignment - unit_bytes)));
    return reinterpret_cast<void*>(simt::round_up_pow2(p, alignment));  // of nullptr: nullptr
  }

  [[nodiscard]] GPUHEAP_FN released_memory release_warp() const { return release<false>(); }
  [[nodiscard]] GPUHEAP_FN released_memory tidy_up_warp() const { return release<true>(); }

  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t rounded_size(simt::size_t bytes) {
    return simt::round_up_or_same(bytes, unit_bytes);
  }

  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const requires has_owns<Backing> { return backing_.owns(p); }

  // Warps with a number below this can have memory. Either side.
  [[nodiscard]] GPUHEAP_HD unsigned num_warps() const { return num_warps_; }

#if GPUHEAP_HAS_HOST
  // A superblock and a list fit.
  [[nodiscard]] static simt::size_t min_region_bytes() {
    return own_bytes(0) + Backing::min_region_bytes() + Config.superblock_bytes + sizeof(list) + 256;
  }
  // The table.
  [[nodiscard]] static simt::size_t own_bytes(simt::size_t region_bytes) {
    return simt::round_up_pow2(simt::size_t{warps_for(region_bytes)} * sizeof(record), 256);
  }

  [[nodiscard]] static basic_fdgmalloc create(memory::region region, stream_ref stream) {
    simt::size_t const own = own_bytes(region.bytes);
    basic_fdgmalloc a;
    a.records_ = static_cast<record*>(region.base);
    a.num_warps_ = warps_for(region.bytes);
    a.most_bytes_ = region.bytes;
    simt::fill(region.base, 0, own, stream);
    char* const rest = static_cast<char*>(region.base) + own;
    a.backing_ = Backing::create({Backing::traits.process_wide ? nullptr : rest, region.bytes - own}, stream);
    return a;
  }

  [[nodiscard]] static simt::size_t granted_bytes() requires has_granted_bytes<Backing> { return Backing::granted_bytes(); }

  // Held bytes are whole blocks and lists of the backing.
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const requires has_footprint<Backing> {
    allocator_footprint f = backing_.footprint(stream);
    f.metadata_bytes += simt::round_up_pow2(simt::size_t{num_warps_} * sizeof(record), 256);
    return f;
  }

  // Looks at every record and at every block that it remembers.
  [[nodiscard]] fdgmalloc_report verify(stream_ref stream) const;
#endif

 private:
  // A list in which a warp keeps the addresses of its backing blocks. It lies in the backing itself, which aligns it to 16.
  struct list {
    simt::uint64_t count;
    list* older;
    void* pointers[Config.list_pointers];
  };
  struct alignas(64) record {
    simt::uint64_t area;         // the area word
    simt::uint64_t allocations;  // lanes served since the last release
    simt::uint32_t lock;         // of the rest, and of the address in the area word
    list* newest;                // its older ones are full
    simt::uint64_t block_bytes;  // asked of the backing for what the lists remember
  };
  static_assert(sizeof(record) == 64);

  // The lanes that are together here with this heap for the same purpose: a compiler may merge the code of different calls.
  enum class purpose : unsigned { malloc, release, tidy_up };
  [[nodiscard]] GPUHEAP_FN structures::warp_group together(purpose what) const {
    auto const at = static_cast<simt::uint64_t>(reinterpret_cast<simt::uintptr_t>(records_));
    return structures::warp_group::of_equal(simt::active_mask(), at | static_cast<unsigned>(what));
  }

  // ---- the area word

  [[nodiscard]] GPUHEAP_HD static constexpr simt::uint64_t area_at(simt::uint64_t address) { return address << 12; }
  [[nodiscard]] GPUHEAP_HD static constexpr simt::uint64_t units_used(simt::uint64_t area) { return area & 0xffff; }
  [[nodiscard]] GPUHEAP_HD static constexpr simt::uint64_t address_of(simt::uint64_t area) { return area >> 16 << 4; }
  [[nodiscard]] GPUHEAP_HD static constexpr simt::uint64_t room_in(simt::uint64_t area) {
    return area == 0 ? 0 : area_units - units_used(area);
  }
  // Whether the word can hold it: CUDA's device addresses have 49 bits.
  [[nodiscard]] GPUHEAP_HD static constexpr bool is_addressable(simt::uint64_t address) { return address >> 52 == 0; }

  // One lane. Takes `units` of the current area; the address, or 0 if there is not so much room.
  [[nodiscard]] GPUHEAP_FN static simt::uint64_t take(record& r, simt::uint64_t units) {
    simt::global_ref<simt::uint64_t> const word{r.area};
    // relaxed: what the exchange will find.
    simt::uint64_t area = word.load(simt::relaxed);
    // Ends: an exchange that fails has lost to a group of the same warp that was served, or to a change of the area. Lock-free.
    GPUHEAP_NO_UNROLL
    while (room_in(area) >= units) {
      // consume: pairs with the release in keep(), through other groups' exchanges. The area's last owner was done with it before.
      // relaxed on failure: looked at only.
      if (word.compare_exchange(area, area + units, simt::consume, simt::relaxed)) return address_of(area) + units_used(area) * unit_bytes;
    }
    return 0;
  }

  // ---- what does not fit into the area

  // Called by the lanes of `mask` together; each needs `need` bytes, whole units.
  GPUHEAP_COLD static void* malloc_slowly(Backing backing, record* r, simt::lane_mask mask, simt::uint64_t need) {
    structures::warp_group const group{mask};
    simt::uint64_t mine = 0;
    simt::uint64_t left = 0;                              // bytes of the lanes that wait
    simt::uint64_t ahead = group.sum_before(need, left);  // of those before this one; at least 2^63 once this lane is served or given up
    bool alone = false;                                   // no block for all that wait: each lane asks for itself
    bool no_superblock = false;
    // Ends: a pass serves lanes, gives one up, sets one of the two flags, or has lost the area to a group that was served. Every lane of
    // the mask passes as often.
    GPUHEAP_NO_UNROLL
    while (left != 0) {
      simt::uint64_t const first = simt::shuffle(mask, need, simt::lowest_bit(simt::ballot(mask, ahead == 0)));
      simt::uint64_t taken = alone ? first : left;
      simt::uint64_t at = 0;
      if (taken < hand_off_bytes) {
        simt::uint64_t room = no_room;
        if (group.leads()) room = find_room(backing, *r, first, !no_superblock);
        room = group.from_leader(room);
        if (room == no_room) {
          no_superblock = true;
          continue;
        }
        if (room >= first) {
          // The lanes that fit: each ends where the next one begins.
          if (room < taken)
            taken = simt::shuffle(mask, ahead + need, simt::highest_bit(simt::ballot(mask, ends_within(ahead, need, room))));
          if (group.leads()) at = take(*r, taken / unit_bytes);
          simt::sync_warp(mask);  // what the leader acquired holds for all
          at = group.from_leader(at);
          if (at == 0) continue;
        }
      }
      if (at == 0) {
        if (group.leads()) at = take_dedicated(backing, *r, taken);
        simt::sync_warp(mask);  // what the leader acquired holds for all
        at = group.from_leader(at);
      }
      if (at == 0 && taken != first) {
        alone = true;
        continue;
      }
      if (at != 0 && ahead < taken) mine = at + ahead;
      ahead -= taken;
      left -= taken;
    }
    unsigned const served = simt::popcount(simt::ballot(mask, mine != 0));
    // relaxed: a count.
    if (group.leads() && served != 0) simt::global_ref<simt::uint64_t>{r->allocations}.fetch_add(served, simt::relaxed);
    return reinterpret_cast<void*>(mine);
  }
  static constexpr simt::uint64_t no_room = ~simt::uint64_t{0};
  [[nodiscard]] GPUHEAP_FN static bool ends_within(simt::uint64_t ahead, simt::uint64_t need, simt::uint64_t room) {
    return ahead < room && need <= room - ahead;
  }

  // For one lane, with the requests of this lane and those below. Returns the bytes that the current area has room for: at least `first`,
  // in a new area if need be; no_room if no memory is available for that. Without `may_renew` it returns whatever there is.
  [[nodiscard]] GPUHEAP_FN static simt::uint64_t find_room(Backing const& backing, record& r, simt::uint64_t first, bool may_renew) {
    // relaxed: a guess that keep() and take() put to the test.
    simt::uint64_t const room = room_in(simt::global_ref<simt::uint64_t>{r.area}.load(simt::relaxed)) * unit_bytes;
    if (room >= first || !may_renew) return room;
    void* const block = new_block(backing, Config.superblock_bytes);
    if (block == nullptr) return no_room;
    kept const what = keep(backing, r, block, Config.superblock_bytes, first);
    if (what == kept::yes) return area_units * unit_bytes;
    backing.free(block);
    return what == kept::needless ? first : no_room;
  }
  // The address of a block of its own, or 0.
  [[nodiscard]] GPUHEAP_FN static simt::uint64_t take_dedicated(Backing const& backing, record& r, simt::uint64_t bytes) {
    void* const block = new_block(backing, bytes);
    if (block == nullptr) return 0;
    if (keep(backing, r, block, bytes, 0) == kept::yes) return reinterpret_cast<simt::uintptr_t>(block);
    backing.free(block);
    return 0;
  }
  [[nodiscard]] GPUHEAP_FN static void* new_block(Backing const& backing, simt::uint64_t bytes) {
    void* const block = backing.malloc(bytes);
    if (is_addressable(reinterpret_cast<simt::uintptr_t>(block))) return block;
    backing.free(block);
    return nullptr;
  }

  enum class kept { yes, needless, no_list };

  // Puts `block` into the record's newest list, and a new list before that if it is full. `area_for` > 0: the block becomes the current
  // area, unless the current one has room for so many bytes meanwhile. The lock is never held while the backing is called: the thread first
  // gets a list, then checks again whether it is needed.
  [[nodiscard]] GPUHEAP_FN static kept keep(Backing const& backing, record& r, void* block, simt::uint64_t bytes, simt::uint64_t area_for) {
    simt::global_ref<simt::uint64_t> const area{r.area};
    list* spare = nullptr;
    kept result = kept::no_list;
    // With a spare list there is always a place.
    GPUHEAP_NO_UNROLL
    for (unsigned pass = 0; pass < 2; ++pass) {
      structures::spin_lock{&r.lock}.run([&] {
        // relaxed: addresses change under the lock only.
        if (area_for != 0 && room_in(area.load(simt::relaxed)) * unit_bytes >= area_for) {
          result = kept::needless;
          return;
        }
        list* at = simt::plain_read(r.newest);
        if (at == nullptr || simt::plain_read(at->count) == Config.list_pointers) {
          if (spare == nullptr) return;
          simt::plain_write(spare->count, simt::uint64_t{0});
          simt::plain_write(spare->older, at);
          simt::plain_write(r.newest, spare);
          at = spare;
          spare = nullptr;
        }
        simt::uint64_t const count = simt::plain_read(at->count);
        simt::plain_write(at->pointers[count], block);
        simt::plain_write(at->count, count + 1);
        simt::plain_write(r.block_bytes, simt::plain_read(r.block_bytes) + bytes);
        // release: pairs with the exchange in take(), which may be another group's. The unused part of the area before is lost until the
        // release; its blocks are not.
        if (area_for != 0) area.store(area_at(reinterpret_cast<simt::uintptr_t>(block)), simt::release);
        result = kept::yes;
      });
      if (result != kept::no_list || pass == 1) break;
      spare = static_cast<list*>(backing.malloc(sizeof(list)));
      if (spare == nullptr) break;
    }
    if (spare != nullptr) backing.free(spare);
    return result;
  }

  // ---- release

  template <bool KeepList>
  [[nodiscard]] GPUHEAP_FN released_memory release() const {
    structures::warp_group const group = together(KeepList ? purpose::tidy_up : purpose::release);
    unsigned const warp = simt::global_warp();
    if (warp >= num_warps_) return {};
    record& r = records_[warp];
    simt::sync_warp(group.mask);  // the accesses of all lanes happen before the frees
    list* detached = nullptr;
    released_memory released;
    if (group.leads()) {
      structures::spin_lock{&r.lock}.run([&] {
        detached = simt::plain_read(r.newest);
        simt::plain_write(r.newest, static_cast<list*>(nullptr));
        simt::plain_write(r.block_bytes, simt::uint64_t{0});
        // relaxed, both: publish nothing. A group that takes from the area at this moment is within its rights until now, and not after.
        simt::global_ref<simt::uint64_t>{r.area}.store(0, simt::relaxed);
        released.allocations = simt::global_ref<simt::uint64_t>{r.allocations}.exchange(0, simt::relaxed);
      });
    }
    simt::sync_warp(group.mask);  // the lists' contents, which the leader acquired
    detached = group.from_leader(detached);
    list* spare = nullptr;
    // Ends: each list was linked to one that was there before it, and the lists are no other thread's any more.
    GPUHEAP_NO_UNROLL
    while (detached != nullptr) {
      simt::uint64_t const count = simt::plain_read(detached->count);
      list* const older = simt::plain_read(detached->older);
      GPUHEAP_NO_UNROLL
      for (simt::uint64_t i = group.rank(); i < count; i += group.size()) backing_.free(simt::plain_read(detached->pointers[i]));
      simt::sync_warp(group.mask);  // all have read the list
      if (KeepList && older == nullptr) {
        spare = detached;
      } else if (group.leads()) {
        backing_.free(detached);
      }
      detached = older;
    }
    if (KeepList && spare != nullptr && group.leads()) {
      structures::spin_lock{&r.lock}.run([&] {
        if (simt::plain_read(r.newest) != nullptr) return;
        simt::plain_write(spare->count, simt::uint64_t{0});
        simt::plain_write(spare->older, static_cast<list*>(nullptr));
        simt::plain_write(r.newest, spare);
        spare = nullptr;
      });
      if (spare != nullptr) backing_.free(spare);
    }
    return released;
  }

#if GPUHEAP_HAS_HOST
  static constexpr unsigned least_warps = 64;
  [[nodiscard]] static unsigned warps_for(simt::size_t region_bytes) {
    simt::size_t const warps = region_bytes / 4096 < least_warps ? least_warps : region_bytes / 4096;
    return warps < Config.max_warps ? static_cast<unsigned>(warps) : Config.max_warps;
  }
#endif

  // ---- verify()

  friend struct detail::verify_fdgmalloc<basic_fdgmalloc>;
  struct tallies {
    simt::uint64_t warps, blocks, lists, block_bytes;
    simt::uint64_t locked;      // records
    simt::uint64_t overfull;    // areas with more used than there is, lists with more blocks than fit
    simt::uint64_t half_empty;  // older lists with free places
    simt::uint64_t strays;      // areas that no list remembers
    simt::uint64_t dead;        // blocks or lists that the backing does not know as live
    simt::uint64_t short_of;    // records whose blocks are smaller than what was asked for them
    simt::uint64_t unbacked;    // records with allocations and no block
  };

  GPUHEAP_FN void look_at(record const& r, tallies& t) const {
    auto const count = [](simt::uint64_t& what, simt::uint64_t more) {
      // relaxed: tallies, read after the kernel.
      if (more != 0) simt::global_ref<simt::uint64_t>{what}.fetch_add(more, simt::relaxed);
    };
    simt::uint64_t blocks = 0, lists = 0, overfull = units_used(r.area) > area_units, half_empty = 0, dead = 0, usable = 0;
    bool area_known = r.area == 0;
    // Ends: the list is acyclic, or else has more lists than the heap has room for.
    for (list const* at = r.newest; at != nullptr && lists * sizeof(list) <= most_bytes_; at = at->older) {
      if constexpr (has_usable_size<Backing>) dead += backing_.usable_size(const_cast<list*>(at)) < sizeof(list);
      ++lists;
      half_empty += at != r.newest && at->count != Config.list_pointers;
      if (at->count > Config.list_pointers) {
        ++overfull;
        break;
      }
      for (simt::uint64_t i = 0; i < at->count; ++i) {
        ++blocks;
        area_known = area_known || reinterpret_cast<simt::uintptr_t>(at->pointers[i]) == address_of(r.area);
        if constexpr (has_usable_size<Backing>) {
          simt::uint64_t const bytes = backing_.usable_size(at->pointers[i]);
          dead += bytes == 0;
          usable += bytes;
        }
      }
    }
    count(t.warps, blocks != 0);
    count(t.blocks, blocks);
    count(t.lists, lists);
    count(t.block_bytes, r.block_bytes);
    count(t.locked, r.lock != 0);
    count(t.overfull, overfull);
    count(t.half_empty, half_empty);
    count(t.strays, !area_known);
    count(t.dead, dead);
    count(t.unbacked, r.allocations != 0 && blocks == 0);
    if constexpr (has_usable_size<Backing>) count(t.short_of, usable < r.block_bytes);
  }

  record* records_ = nullptr;
  simt::uint64_t most_bytes_ = 0;  // no heap of this size holds a block of more
  unsigned num_warps_ = 0;
  Backing backing_{};
};

// With the paper's sizes, over the machine's second heap.
using fdgmalloc = basic_fdgmalloc<>;

static_assert(device_allocator<fdgmalloc> && has_tidy_up_warp<fdgmalloc>);

#if GPUHEAP_HAS_HOST
namespace detail {
// Kernel: thread i looks at record i.
template <class Allocator>
struct verify_fdgmalloc {
  Allocator heap;
  typename Allocator::tallies* tallies;
  GPUHEAP_FN void operator()(unsigned i) const { heap.look_at(heap.records_[i], *tallies); }
};
}  // namespace detail

template <fdgmalloc_config Config, class Backing>
fdgmalloc_report basic_fdgmalloc<Config, Backing>::verify(stream_ref stream) const {
  memory::allocation const memory{memory::device, sizeof(tallies)};
  simt::fill(memory.base(), 0, sizeof(tallies), stream);
  simt::launch(num_warps_, detail::verify_fdgmalloc<basic_fdgmalloc>{*this, static_cast<tallies*>(memory.base())}, {.stream = stream});
  tallies t;
  simt::copy(&t, memory.base(), sizeof t, stream);
  simt::synchronize(stream);
  fdgmalloc_report report{t.warps, t.blocks, t.lists, t.block_bytes, ""};
  auto const say = [&](simt::uint64_t count, char const* what) {
    if (count != 0) report.problem += std::to_string(count) + " " + what + "\n";
  };
  say(t.locked, "records are locked");
  say(t.overfull, "areas or lists hold more than fits");
  say(t.half_empty, "lists with free places lie behind others");
  say(t.strays, "areas are in no list");
  say(t.dead, "blocks or lists are not live in the backing");
  say(t.short_of, "warps hold less memory than they have requested");
  say(t.unbacked, "warps have allocations and no memory");
  return report;
}
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
