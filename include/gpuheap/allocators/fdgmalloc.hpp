// `fdgmalloc`: each warp allocates from superblocks of its own, and frees all of it at once.
//   S. Widmer, D. Wodniok, N. Weber, M. Goesele, "Fast Dynamic Memory Allocator for Massively Parallel Architectures", GPGPU-6, 2013.
//
// The area of a warp is the superblock from which it takes blocks at present.
//
// Layout:    own part of the region:  record of warp 0 | record of warp 1 | ...                     64 bytes each, all zero at first
//            in the backing:
//              superblock    8192 bytes   | blocks, end to end, from 0 on ... | 8176: unused |      the warp's area, or a former one
//              dedicated     any          | the blocks of one request |
//              list          1024 bytes   | count | older list | 126 addresses |     of superblocks and dedicated blocks
//            area word       {address / 16 : 48, units of 16 bytes used : 16}, 0: no area
//
// malloc:    the lanes that call together make one request: a prefix sum of their sizes, rounded up to 16, places their blocks, and the
//            highest sum is the total.
//            1. A total below 8188 bytes that fits into the warp's area takes one compare-exchange of the area word. Other groups of the
//               warp, and warps of the same number in concurrent kernels, may change the word too.
//            2. If such a total does not fit, the lanes whose blocks fit take the rest of the area. The other lanes take a new area, which
//               goes into the record's newest list.
//            3. A total of 8188 bytes or more takes one dedicated block of exactly that size, which goes into the same list.
//            4. If the backing has no superblock, the request takes a dedicated block. If the backing has no block of that size either, the
//               lanes are served one after the other.
// free:      does nothing. release_warp() takes the area and the lists from the record; the lanes then free the blocks in parallel, and one
//            lane frees each list after its blocks. tidy_up_warp() does the same, but keeps one empty list.
// Reuse:     released memory is in the backing again, so it serves any thread.
// Progress:  blocking. A call that needs a new area or a dedicated block, or that releases, waits for the lock of the warp's record. A
//            thread holds the lock for a few accesses, and never while it calls the backing. Calls of the backing have the backing's
//            progress. malloc in the area is lock-free. If several groups of one warp find its area full at the same time, each gets a
//            superblock, and a group that then finds room in another group's new area gives its own back.
//
// A warp's record is that of its number, simt::global_warp(). So the warp of the same number in a later kernel continues with the record
// and may release it, and kernels that run at the same time share records. Each of these kernels may allocate at any time; a release frees
// the blocks of all of them. The table has Config.max_warps records; in small regions it has one for each 4 KiB, but at least 64. malloc
// returns nullptr to a warp without a record.
//
// Different from the paper (the numbers are those of the hazards in tests/hazards/fdgmalloc_test.cpp):
//   - Records lie in a table rather than in the backing, and are never freed. So the program keeps no address of a record, and no call
//     finds a missing or freed one (hazard 9): a warp beyond the table gets nullptr. No more than 16-byte alignment of the backing's blocks
//     is assumed (hazard 10).
//   - Requests stay in registers. The published code keeps each lane's request in memory, where a lane that asks for nothing leaves its
//     last one (hazards 3, 4). Sums pass through shuffles of the one captured mask (hazard 2), addresses through 64-bit shuffles (hazard
//     1). The area's address and its number of used units are in one word, so that diverged groups of a warp never get the same bytes.
//   - The leader is a lane of the captured group, and no lane of the group returns before all have their answers (hazard 6).
//   - No threads are counted (hazard 5). The published end() waits for as many lanes as have started, and leaks memory if one of them has
//     left early. Here a release is one call for the warp, at a place that the program chooses: heap_ref::release_warp(group) waits for the
//     group's lanes, before and after.
//   - The published tidyUp() follows a null pointer if the warp has no list (hazard 7). Here such a call does nothing.
//   - Before an area is replaced, the lanes whose blocks fit fill it, and the others begin the new area at 0 (hazard 8).
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
  unsigned superblock_bytes = 8192;  // the last 4 bytes are an index in the paper; here the last 16 are unused
  unsigned list_pointers = 126;
  unsigned max_warps = 1u << 17;
};

#if GPUHEAP_HAS_HOST
// The result of verify().
struct fdgmalloc_report {
  simt::uint64_t warps = 0;  // warps that have memory
  simt::uint64_t blocks = 0;
  simt::uint64_t lists = 0;
  simt::uint64_t block_bytes = 0;  // bytes requested from the backing for the blocks
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
  static constexpr unsigned area_units = (Config.superblock_bytes - 4) / unit_bytes;  // units of an area
  // A total of this many bytes or more gets a dedicated block. The paper's limit is 8188 bytes. Totals here are multiples of 16, so the
  // smallest total that reaches the limit is 8192.
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
      .reuse = "the memory that a warp has released: any request",
      .free = frees::collectively,
      .warp_level = true,
      .process_wide = Backing::traits.process_wide,
      .full_reuse = Backing::traits.full_reuse,
  };

  // Returns memory of `bytes` > 0 bytes, aligned to 16; nullptr if the backing has none, or the warp has no record.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    if (bytes > most_bytes_) return nullptr;  // before any arithmetic: 32 sizes of at most most_bytes_ add up to less than 2^64
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
    simt::sync_warp(group.mask);  // all lanes acquire what the leader acquired
    at = group.from_leader(at);
    if (at == 0) return malloc_slowly(backing_, &r, group.mask, simt::round_up_pow2(bytes, unit_bytes));
    return reinterpret_cast<void*>(at + simt::uint64_t{before} * unit_bytes);
  }

  // Does nothing.
  GPUHEAP_FN void free(void*) const {}

  // As malloc(), but aligned to `alignment` bytes, a power of two.
  [[nodiscard]] GPUHEAP_FN void* aligned_malloc(simt::size_t bytes, simt::size_t alignment) const {
    if (alignment < unit_bytes) alignment = unit_bytes;
    if (bytes > most_bytes_) return nullptr;
    auto const p = reinterpret_cast<simt::uintptr_t>(malloc(bytes + (alignment - unit_bytes)));
    return reinterpret_cast<void*>(simt::round_up_pow2(p, alignment));  // nullptr stays nullptr
  }

  [[nodiscard]] GPUHEAP_FN released_memory release_warp() const { return release<false>(); }
  [[nodiscard]] GPUHEAP_FN released_memory tidy_up_warp() const { return release<true>(); }

  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t rounded_size(simt::size_t bytes) {
    return simt::round_up_or_same(bytes, unit_bytes);
  }

  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const requires has_owns<Backing> { return backing_.owns(p); }

  // The number of records: only warps with a lower number can have memory. Host and device.
  [[nodiscard]] GPUHEAP_HD unsigned num_warps() const { return num_warps_; }

#if GPUHEAP_HAS_HOST
  // The fewest bytes that hold a table, a superblock and a list.
  [[nodiscard]] static simt::size_t min_region_bytes() {
    return own_bytes(0) + Backing::min_region_bytes() + Config.superblock_bytes + sizeof(list) + 256;
  }
  // The bytes of the table of records.
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

  // Held bytes are those of the backing: whole superblocks, dedicated blocks and lists. Waits for the stream.
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const requires has_footprint<Backing> {
    allocator_footprint f = backing_.footprint(stream);
    f.metadata_bytes += simt::round_up_pow2(simt::size_t{num_warps_} * sizeof(record), 256);
    return f;
  }

  // Checks every record and every block in its lists. Waits for the stream; no kernel may be running on the heap.
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
    simt::uint32_t lock;         // guards the members below, and the address in the area word
    list* newest;                // the newest list; the older ones are full
    simt::uint64_t block_bytes;  // bytes requested from the backing for the blocks in the lists
  };
  static_assert(sizeof(record) == 64);

  // The group of the lanes that call together on this heap for the same purpose. The purpose counts because a compiler may merge the code
  // of different calls.
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
  // Whether the area word can hold the address. CUDA's device addresses have 49 bits.
  [[nodiscard]] GPUHEAP_HD static constexpr bool is_addressable(simt::uint64_t address) { return address >> 52 == 0; }

  // Takes `units` units of the current area, and returns their address; 0 if the area has less room. One lane.
  [[nodiscard]] GPUHEAP_FN static simt::uint64_t take(record& r, simt::uint64_t units) {
    simt::global_ref<simt::uint64_t> const word{r.area};
    // relaxed: a guess, which the exchange confirms.
    simt::uint64_t area = word.load(simt::relaxed);
    // Ends: an exchange that fails has lost to a group with the same record that was served, or to a change of the area. Lock-free.
    GPUHEAP_NO_UNROLL
    while (room_in(area) >= units) {
      // consume: pairs with the release in keep(), through other groups' exchanges. All accesses of this memory's earlier users happen
      // before that release.
      // relaxed on failure: the next exchange confirms the value.
      if (word.compare_exchange(area, area + units, simt::consume, simt::relaxed)) return address_of(area) + units_used(area) * unit_bytes;
    }
    return 0;
  }

  // ---- requests that do not fit into the area

  // Serves the lanes of `mask`, which call together. Each needs `need` bytes, a multiple of 16. Returns the lane's block, or nullptr.
  GPUHEAP_COLD static void* malloc_slowly(Backing backing, record* r, simt::lane_mask mask, simt::uint64_t need) {
    structures::warp_group const group{mask};
    simt::uint64_t mine = 0;
    simt::uint64_t left = 0;                              // bytes of the lanes that have no answer yet
    simt::uint64_t ahead = group.sum_before(need, left);  // bytes of waiting lanes before this one; 2^63 or more once this lane is answered
    bool alone = false;                                   // the backing has no block for all that wait: each lane asks alone
    bool no_superblock = false;
    // Ends: a pass serves lanes, refuses one, sets one of the two flags, or has lost the area to a group that was served or to a release.
    // All lanes of the mask make the same passes.
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
          // This pass serves the lanes whose blocks fit. The end of the last of these blocks is `taken`.
          if (room < taken)
            taken = simt::shuffle(mask, ahead + need, simt::highest_bit(simt::ballot(mask, ends_within(ahead, need, room))));
          if (group.leads()) at = take(*r, taken / unit_bytes);
          simt::sync_warp(mask);  // all lanes acquire what the leader acquired
          at = group.from_leader(at);
          if (at == 0) continue;
        }
      }
      if (at == 0) {
        if (group.leads()) at = take_dedicated(backing, *r, taken);
        simt::sync_warp(mask);  // all lanes acquire what the leader acquired
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

  // `first`: the bytes that the first unanswered lane needs. If the current area has room for them, or `may_renew` is false, returns the
  // bytes of room in the current area. Otherwise takes a superblock, makes it the current area and returns its room. If another group has
  // meanwhile made an area with room for `first` bytes, gives the superblock back and returns `first`. Returns no_room if the backing has
  // no memory. One lane, the leader.
  [[nodiscard]] GPUHEAP_FN static simt::uint64_t find_room(Backing const& backing, record& r, simt::uint64_t first, bool may_renew) {
    // relaxed: a guess, which keep() and take() confirm.
    simt::uint64_t const room = room_in(simt::global_ref<simt::uint64_t>{r.area}.load(simt::relaxed)) * unit_bytes;
    if (room >= first || !may_renew) return room;
    void* const block = new_block(backing, Config.superblock_bytes);
    if (block == nullptr) return no_room;
    kept const what = keep(backing, r, block, Config.superblock_bytes, first);
    if (what == kept::yes) return area_units * unit_bytes;
    backing.free(block);
    return what == kept::needless ? first : no_room;
  }
  // Takes a dedicated block of `bytes` bytes, and returns its address, or 0. One lane, the leader.
  [[nodiscard]] GPUHEAP_FN static simt::uint64_t take_dedicated(Backing const& backing, record& r, simt::uint64_t bytes) {
    void* const block = new_block(backing, bytes);
    if (block == nullptr) return 0;
    if (keep(backing, r, block, bytes, 0) == kept::yes) return reinterpret_cast<simt::uintptr_t>(block);
    backing.free(block);
    return 0;
  }
  // Takes a block of the backing with an address that the area word can hold; nullptr if there is none.
  [[nodiscard]] GPUHEAP_FN static void* new_block(Backing const& backing, simt::uint64_t bytes) {
    void* const block = backing.malloc(bytes);
    if (is_addressable(reinterpret_cast<simt::uintptr_t>(block))) return block;
    backing.free(block);
    return nullptr;
  }

  enum class kept { yes, needless, no_list };

  // Puts `block` into the record's newest list. If that list is full, a new list becomes the newest one; returns no_list if the backing has
  // no memory for it. If `area_for` > 0, the block also becomes the current area, unless the current area has room for `area_for` bytes by
  // now; then nothing changes, and the result is `needless`. The thread does not hold the lock while it calls the backing: it gets a list
  // first, and then checks again under the lock whether the list is needed.
  [[nodiscard]] GPUHEAP_FN static kept keep(Backing const& backing, record& r, void* block, simt::uint64_t bytes, simt::uint64_t area_for) {
    simt::global_ref<simt::uint64_t> const area{r.area};
    list* spare = nullptr;
    kept result = kept::no_list;
    // The second pass has a spare list, so it finds a place.
    GPUHEAP_NO_UNROLL
    for (unsigned pass = 0; pass < 2; ++pass) {
      structures::spin_lock{&r.lock}.run([&] {
        // relaxed: the area's address changes only under the lock.
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
        // release: pairs with the exchange in take(), which may be another group's. The rest of the old area stays unused until the warp
        // releases it. The old area is in a list, so its blocks are released too.
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

  // Frees all memory of the warp's record. With `KeepList`, the record keeps one empty list. All lanes of the group call.
  template <bool KeepList>
  [[nodiscard]] GPUHEAP_FN released_memory release() const {
    structures::warp_group const group = together(KeepList ? purpose::tidy_up : purpose::release);
    unsigned const warp = simt::global_warp();
    if (warp >= num_warps_) return {};
    record& r = records_[warp];
    simt::sync_warp(group.mask);  // all lanes' accesses to the blocks happen before the frees
    list* detached = nullptr;
    released_memory released;
    if (group.leads()) {
      structures::spin_lock{&r.lock}.run([&] {
        detached = simt::plain_read(r.newest);
        simt::plain_write(r.newest, static_cast<list*>(nullptr));
        simt::plain_write(r.block_bytes, simt::uint64_t{0});
        // relaxed, both: they publish nothing. A group that takes from the area just before this store gets a block that this release
        // frees.
        simt::global_ref<simt::uint64_t>{r.area}.store(0, simt::relaxed);
        released.allocations = simt::global_ref<simt::uint64_t>{r.allocations}.exchange(0, simt::relaxed);
      });
    }
    simt::sync_warp(group.mask);  // all lanes acquire the lists' contents from the leader
    detached = group.from_leader(detached);
    list* spare = nullptr;
    // Ends: each list links to an older one, and no other thread has the detached lists.
    GPUHEAP_NO_UNROLL
    while (detached != nullptr) {
      simt::uint64_t const count = simt::plain_read(detached->count);
      list* const older = simt::plain_read(detached->older);
      GPUHEAP_NO_UNROLL
      for (simt::uint64_t i = group.rank(); i < count; i += group.size()) backing_.free(simt::plain_read(detached->pointers[i]));
      simt::sync_warp(group.mask);  // all lanes have read the list
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
    simt::uint64_t locked;      // records that are locked
    simt::uint64_t overfull;    // areas with more units used than they have, lists with more blocks than fit
    simt::uint64_t half_empty;  // older lists with free places
    simt::uint64_t strays;      // areas that are in no list
    simt::uint64_t dead;        // blocks or lists that the backing does not know as live
    simt::uint64_t short_of;    // records whose blocks have fewer bytes than were requested for them
    simt::uint64_t unbacked;    // records with allocations and no block
  };

  // Checks one record and adds the results to `t`.
  GPUHEAP_FN void look_at(record const& r, tallies& t) const {
    auto const count = [](simt::uint64_t& what, simt::uint64_t more) {
      // relaxed: the tallies are read after the kernel.
      if (more != 0) simt::global_ref<simt::uint64_t>{what}.fetch_add(more, simt::relaxed);
    };
    simt::uint64_t blocks = 0, lists = 0, overfull = units_used(r.area) > area_units, half_empty = 0, dead = 0, usable = 0;
    bool area_known = r.area == 0;
    // Ends: at the oldest list. If damaged lists form a cycle, the loop ends when it has counted more lists than the heap has room for.
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
  simt::uint64_t most_bytes_ = 0;  // the region's bytes: no block is larger
  unsigned num_warps_ = 0;
  Backing backing_{};
};

// With the paper's sizes, over the default backing.
using fdgmalloc = basic_fdgmalloc<>;

static_assert(device_allocator<fdgmalloc> && has_tidy_up_warp<fdgmalloc>);

#if GPUHEAP_HAS_HOST
namespace detail {
// Kernel: thread i checks record i.
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
  say(t.half_empty, "lists with free places are not the newest of their warp");
  say(t.strays, "areas are in no list");
  say(t.dead, "blocks or lists are not live in the backing");
  say(t.short_of, "warps hold less memory than they have requested");
  say(t.unbacked, "warps have allocations and no memory");
  return report;
}
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
