// `coalesce_block_header`, `coalesce_block_map`, `coalesce_warp_header`, `coalesce_warp_map`: threads that allocate together get adjacent
// pieces of one size in one *superblock*. One of them takes the superblock from another allocator, the upstream allocator (the template
// parameter `Backing`).
//   N. Blach, M. Erhart, F. Memedi, A. Schaefer, "Coalescing memory allocations for GPU MPI", ETH Zurich (static coalescing)
//
// Layout of a superblock, at an address `base` that the upstream allocator gave; piece k begins at base + 16 + k * stride:
//   +0   {usable bytes of each piece : 48, pieces not yet freed : 16}
//   header      +8 base | piece 0 | padding, base | piece 1 | ...     8 bytes before each piece say where its superblock begins
//   map         +8 -    | piece 0 | piece 1 | ...                     pieces adjoin; a hash map (structures/address_map.hpp) has the
//                                                                     distance of each to its superblock
// Own bytes:   map variants use map_percent of the heap for the map. Header variants have none.
//
// Two calls:
//   together   malloc_by_block(threads, bytes), malloc_by_warp(threads, bytes): all threads of a group call, with one size. This is the
//              paper's call, for places in a program that all threads are known to reach. Rank 0 takes the superblock, and passes its
//              address to the others. Programs call heap.malloc_coalesced(gpuheap::live_block(scratch), bytes) or
//              heap.malloc_coalesced(gpuheap::this_warp(), bytes). live_block counts the threads of the block that have not returned, so
//              partial blocks and early exits are allowed. The warp variants have no malloc_by_block: their heaps make plain calls in its
//              place
//   plain      malloc(bytes), anywhere: the lanes of a warp that call at the same time with one size are a group
//
// malloc:    by one of the two calls above. A request of more than largest_piece_bytes is served alone. So is each thread of a group if the
//            upstream allocator refuses the superblock, and a thread whose size, rounded up, differs from that of rank 0. With headers, a
//            request that is served alone gets a superblock of one piece. With a map, it gets a block of the upstream allocator, which has
//            no entry in the map. A thread for whose piece the map has no room is also served alone.
// free:      any thread. The free finds the piece's superblock; lanes that free pieces of one superblock count down together. The thread
//            whose subtraction leaves no live piece gives the superblock back. With a map, a pointer that is not in it is passed to the
//            upstream allocator.
// Reuse:     that of the upstream allocator, once all pieces of a superblock are freed: one live piece keeps the whole superblock.
// Misuse:    with headers, a free of a pointer that is no live piece is undefined; with a map, the upstream allocator decides.
// Alignment: coalesce/alignment.hpp.
// Progress:  that of the upstream allocator for malloc and free. The additional steps are wait-free, except for the barriers of
//            malloc_by_block. No thread waits for another one outside its group.
//
// Different from the paper:
//   - the counter holds the number of threads that called, not the thread block's size, and the leader is rank 0 of these, not thread 0,
//     which may have returned;
//   - a plain call is coalesced too, by warp; in the paper it goes upstream alone, and the program has to tell free which kind of pointer
//     it frees;
//   - a key leaves the map before the counter falls. In the other order a superblock can be freed, allocated again and put into the map
//     again while the old entry is there, and the late removal removes the new entry;
//   - the map keeps no marks of removed keys, so it does not fill up with them, and a full map makes no request fail;
//   - different sizes in one group corrupt nothing; a size that would overflow is refused; the counter's word also holds a piece's usable
//     bytes.
// coalesce_warp_header is not in the paper: it completes the four combinations.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/allocators/backing.hpp>
#include <gpuheap/allocators/coalesce/alignment.hpp>
#include <gpuheap/allocators/coalesce/verify.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/address_map.hpp>
#include <gpuheap/structures/warp_group.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// The threads that share a superblock if all threads of a thread block call together.
enum class coalesce_group { block, warp };
// The way from a piece to its superblock.
enum class coalesce_link { header, map };

// With the defaults, the allocator is coalesce_block_header.
struct coalesce_config {
  coalesce_group group = coalesce_group::block;
  coalesce_link link = coalesce_link::header;
  coalesce_alignment alignment = coalesce_alignment::strict16;
  unsigned largest_piece_bytes = 4096;  // a larger request is served alone, since a live piece keeps its superblock. Below 32 KiB
  unsigned map_percent = 6;             // percent of the heap for the map: 12 bytes for each piece. Half of it should stay free
};

// The moment at which a free takes its piece out of the map.
enum class coalesce_removal { before_the_count, after_the_count };

// Coalescing over the allocator `Backing`. `Order` is for tests, which show what happens in the wrong order.
template <coalesce_config Config = coalesce_config{}, class Backing = default_backing,
          coalesce_removal Order = coalesce_removal::before_the_count>
class basic_coalesce {
  using map_type = structures::address_map;
  static constexpr bool maps = Config.link == coalesce_link::map;
  static constexpr bool of_block = Config.group == coalesce_group::block;
  static constexpr simt::size_t head_bytes = 16;
  static constexpr unsigned count_bits = 16;
  static constexpr simt::size_t largest_request = simt::size_t{1} << 47;  // no heap is so large
  // The bits of a size in a word that names a heap and a size.
  static constexpr unsigned size_bits = 15;
  static_assert(Backing::traits.min_alignment >= 16 && Config.largest_piece_bytes < (1u << size_bits) - 16 && Config.map_percent < 50);

 public:
  static constexpr allocator_traits traits{
      .name = of_block ? maps ? "coalesce_block_map" : "coalesce_block_header"
              : maps   ? "coalesce_warp_map"
                       : "coalesce_warp_header",
      .title = of_block ? maps ? "Coalesced by block, map" : "Coalesced by block, headers"
               : maps   ? "Coalesced by warp, map"
                        : "Coalesced by warp, headers",
      .paper = !of_block && !maps ? "" : "Blach, Erhart, Memedi, Schaefer: Coalescing memory allocations for GPU MPI, ETH Zurich",
      .year = !of_block && !maps ? 0 : 2022,
      .variant = maps ? "pieces adjoin, a hash map has their superblocks" : "a pointer to its superblock before each piece",
      .reuse = "as the upstream allocator says, once all pieces of a superblock are free",
      .min_alignment = Config.alignment == coalesce_alignment::strict16 ? 16 : 1,
      .process_wide = Backing::traits.process_wide,
      .reuses_singly = false,
      .full_reuse = Backing::traits.full_reuse,
  };
  // The same allocator over another upstream allocator.
  template <class Upstream>
  using over = basic_coalesce<Config, Upstream, Order>;

  // Returns a piece of `bytes` > 0 bytes; nullptr if the upstream allocator has no memory. Lanes of a warp that call together with one size
  // share a superblock.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    // The group: the lanes that call on this heap with this size. A request that is too large is served alone.
    bool const small = bytes <= Config.largest_piece_bytes;
    lanes const here{structures::warp_group::of_equal(simt::active_mask(), small ? home_ << size_bits | usable_for(bytes) : 0)};
    return malloc_by(here, bytes, small && here.size() > 1);
  }

  // Called by all threads of a group (collective.hpp), which wait for each other: they get adjacent pieces of one superblock, in the order
  // of the ranks. `bytes`, which may be 0, should be the same in all of them.
  template <class Threads>
  requires(of_block) [[nodiscard]] GPUHEAP_FN void* malloc_by_block(Threads const& threads, simt::size_t bytes) const {
    return malloc_by(threads, bytes, true);
  }
  template <class Threads>
  [[nodiscard]] GPUHEAP_FN void* malloc_by_warp(Threads const& threads, simt::size_t bytes) const {
    return malloc_by(threads, bytes, true);
  }

  GPUHEAP_FN free_status free(void* p) const {
    if (p == nullptr) return free_status::null;
    if constexpr (maps) {
      unsigned const at = map_.find(key_of(p));
      if (at == map_type::none) return detail::free_in(backing_, p);
      char* const base = static_cast<char*>(p) - distance_at(at);
      if constexpr (Order == coalesce_removal::before_the_count) {
        return map_.remove(at, key_of(p)) ? count_down(base) : free_status::double_free;
      } else {
        free_status const status = count_down(base);
        map_.remove(at, key_of(p));
        return status;
      }
    } else {
      return count_down(superblock_of(p));
    }
  }

  // Returns the bytes that the owner of the live block at p may use; 0 for nullptr.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void* p) const requires(!maps || has_usable_size<Backing>) {
    if (p == nullptr) return 0;
    if constexpr (maps) {
      unsigned const at = map_.find(key_of(p));
      return at == map_type::none ? backing_.usable_size(p) : usable_in(static_cast<char*>(p) - distance_at(at));
    } else {
      return usable_in(superblock_of(p));
    }
  }
  static constexpr bool rounded_size_is_exact = !maps;
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t rounded_size(simt::size_t bytes) requires(!maps) {
    return bytes > ~simt::size_t{0} - 16 ? bytes : usable_for(bytes);
  }

  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const requires has_owns<Backing> { return backing_.owns(p); }

#if GPUHEAP_HAS_HOST
  [[nodiscard]] static simt::size_t min_region_bytes() {
    simt::size_t const least = Backing::min_region_bytes();
    if constexpr (!maps) return least;
    return simt::round_up_pow2((least + 256) / (100 - Config.map_percent) * 100 + 512, 256);
  }
  [[nodiscard]] static simt::size_t own_bytes(simt::size_t region_bytes) requires(maps&& Backing::traits.process_wide) {
    return own_bytes_of(region_bytes);
  }
  [[nodiscard]] static simt::size_t granted_bytes() requires has_granted_bytes<Backing> { return Backing::granted_bytes(); }

  [[nodiscard]] static basic_coalesce create(memory::region region, stream_ref stream) {
    simt::size_t const own = own_bytes_of(region.bytes);
    char* const base = static_cast<char*>(region.base);
    basic_coalesce a;
    a.home_ = reinterpret_cast<simt::uintptr_t>(base) >> 8;  // a region is aligned to 256
    if constexpr (maps) {
      simt::size_t const buckets = own / map_type::bucket_bytes;
      a.map_.num_buckets = static_cast<unsigned>(buckets < largest_buckets ? buckets : largest_buckets);
      a.map_.keys = reinterpret_cast<map_type::key*>(base);
      simt::size_t const keys_bytes = simt::size_t{a.map_.num_buckets} * map_type::bucket_places * sizeof(map_type::key);
      a.map_.values = reinterpret_cast<map_type::value*>(base + keys_bytes);
      a.own_bytes_ = own;
      simt::fill(base, 0, keys_bytes, stream);
    }
    a.backing_ = Backing::create({Backing::traits.process_wide ? nullptr : base + own, region.bytes - own}, stream);
    return a;
  }

  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const requires has_footprint<Backing> {
    allocator_footprint all = backing_.footprint(stream);
    all.metadata_bytes += own_bytes_;
    return all;
  }
  // Checks the map, and the upstream allocator if it has verify(). Waits for the stream; no kernel may be running on the heap.
  [[nodiscard]] coalesce_parts::audit verify(stream_ref stream) const requires(maps || has_verify<Backing>) {
    coalesce_parts::audit found;
    if constexpr (maps) found = coalesce_parts::verify(map_, stream);
    if constexpr (has_verify<Backing>) {
      if (found.problem.empty()) found.problem = backing_.verify(stream).problem;
    }
    return found;
  }

 private:
  static constexpr simt::size_t largest_buckets = (simt::size_t{1} << 28) - 1;
  [[nodiscard]] static constexpr simt::size_t own_bytes_of(simt::size_t region_bytes) {
    if constexpr (!maps) return 0;
    simt::size_t const share = region_bytes / 100 * Config.map_percent;
    return simt::round_up_pow2(share < map_type::bucket_bytes ? map_type::bucket_bytes : share, 256);
  }
#endif

 private:
  using word = simt::global_ref<simt::uint64_t>;

  // ---- sizes. `bytes`: up to largest_request

  [[nodiscard]] GPUHEAP_HD static constexpr unsigned alignment_of(simt::size_t bytes) {
    // With headers, the paper aligns every piece to 16 bytes.
    bool const padded = !maps && Config.alignment == coalesce_alignment::paper;
    return padded ? 16 : coalesce_parts::alignment_of(Config.alignment, bytes);
  }
  // With any policy but strict16, a piece has no more usable bytes than were requested. A type that fits only into more bytes could need an
  // alignment that the piece does not have.
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t usable_for(simt::size_t bytes) {
    return Config.alignment == coalesce_alignment::strict16 ? simt::round_up_pow2(bytes, 16) : bytes;
  }
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t stride_for(simt::size_t usable) {
    unsigned const alignment = alignment_of(usable);
    if constexpr (maps) return simt::round_up_pow2(usable, alignment);
    return alignment == 16 ? simt::round_up_pow2(usable, 16) + 16 : simt::round_up_pow2(usable, 8) + 8;
  }

  // ---- words of a superblock

  [[nodiscard]] GPUHEAP_FN static simt::uint64_t& head_of(char* base) { return *reinterpret_cast<simt::uint64_t*>(base); }
  // relaxed: the leader stored the size before any thread got the superblock, and no thread changes it.
  [[nodiscard]] GPUHEAP_FN static simt::size_t usable_in(char* base) { return word{head_of(base)}.load(simt::relaxed) >> count_bits; }
  // relaxed, both: a thread reads the word before a piece only if it got the piece's address from the thread that allocated the piece.
  [[nodiscard]] GPUHEAP_FN static char* superblock_of(void* p) {
    return reinterpret_cast<char*>(word{static_cast<simt::uint64_t*>(p)[-1]}.load(simt::relaxed));
  }
  GPUHEAP_FN static void set_superblock_of(void* p, char* base) {
    word{static_cast<simt::uint64_t*>(p)[-1]}.store(reinterpret_cast<simt::uintptr_t>(base), simt::relaxed);
  }
  [[nodiscard]] GPUHEAP_FN static simt::uint64_t key_of(void* p) { return reinterpret_cast<simt::uintptr_t>(p); }
  [[nodiscard]] GPUHEAP_FN simt::size_t distance_at(unsigned at) const { return map_.value_at(at); }

  // ---- malloc

  // Returns piece k of a superblock for a request of `bytes`. If the superblock's pieces have another size, or the map has no room for the
  // piece, counts the piece as free and returns nullptr.
  [[nodiscard]] GPUHEAP_FN void* piece(char* base, unsigned k, simt::size_t bytes) const {
    simt::size_t const usable = usable_in(base);
    simt::size_t const distance = head_bytes + k * stride_for(usable);
    char* const p = base + distance;
    bool kept = bytes != 0 && usable_for(bytes) == usable;
    if constexpr (maps) {
      kept = kept && map_.insert(key_of(p), static_cast<map_type::value>(distance));
    } else {
      set_superblock_of(p, base);
    }
    if (kept) return p;
    (void)count_down(base);
    return nullptr;
  }
  // A group of lanes, with the members that malloc_by() uses of a group.
  struct lanes {
    structures::warp_group group;
    [[nodiscard]] GPUHEAP_FN unsigned size() const { return group.size(); }
    [[nodiscard]] GPUHEAP_FN unsigned rank() const { return group.rank(); }
    [[nodiscard]] GPUHEAP_FN void* from_first(void* p) const {
      simt::sync_warp(group.mask);  // a shuffle orders nothing
      return group.from_leader(p);
    }
  };
  // Serves a thread of a group, or the caller alone if not `together`; then no thread waits. `together` is the same in all threads of the
  // group.
  template <class Threads>
  [[nodiscard]] GPUHEAP_FN void* malloc_by(Threads const& threads, simt::size_t bytes, bool together) const {
    unsigned const rank = together ? threads.rank() : 0;
    void* p = nullptr;
    // Ends: two passes at most, of which the second serves the caller alone. The loop keeps one call site of the upstream allocator.
    GPUHEAP_NO_UNROLL
    while (true) {
      char* base = nullptr;
      bool const bare = maps && !together;  // the block gets no head
      if ((!together || rank == 0) && bytes != 0 && bytes <= (together ? Config.largest_piece_bytes : largest_request)) {
        unsigned const pieces = together ? static_cast<unsigned>(threads.size()) : 1;
        simt::size_t const usable = usable_for(bytes);
        base = static_cast<char*>(backing_.malloc(bare ? bytes : head_bytes + (pieces - 1) * stride_for(usable) + usable));
        // relaxed: published with the pieces.
        if (base != nullptr && !bare) word{head_of(base)}.store(usable << count_bits | pieces, simt::relaxed);
      }
      // All threads wait until the superblock's head is written.
      if (together) base = static_cast<char*>(threads.from_first(base));
      if (base != nullptr) p = bare ? base : piece(base, together ? rank : 0, bytes);
      if (p != nullptr || !together) break;
      together = false;
    }
    return p;
  }

  // ---- free

  // Counts a piece of the superblock as free. The caller accesses the piece no more. The lanes that call together for one superblock make
  // one subtraction. If no piece is live after it, the superblock goes back to the upstream allocator.
  GPUHEAP_FN free_status count_down(char* base) const {
    auto const group = structures::warp_group::of_equal(simt::active_mask(), reinterpret_cast<simt::uint64_t>(base));
    // The accesses of all lanes to their pieces happen before the leader's release.
    simt::sync_warp(group.mask);
    simt::uint32_t status = static_cast<simt::uint32_t>(free_status::done);
    if (group.leads()) {
      // consume_release: releases the accesses to these pieces, and orders the accesses to the other pieces before those of the memory's
      // next owner.
      simt::uint64_t const before = word{head_of(base)}.fetch_sub(group.size(), simt::consume_release);
      if ((before & simt::low_bits(count_bits)) == group.size()) status = static_cast<simt::uint32_t>(detail::free_in(backing_, base));
    }
    return static_cast<free_status>(group.from_leader(status));
  }

  simt::uint64_t home_ = 0;  // a number that is different in each heap
  map_type map_;             // used by the map variants
  Backing backing_;
  simt::size_t own_bytes_ = 0;
};

// The four variants over any allocator: `basic_coalesce_block_header<gpuheap::sharded_spans>`. Without an argument, the upstream allocator
// is the CUDA toolkit's heap, as published.
template <class Upstream = default_backing>
using basic_coalesce_block_header = basic_coalesce<coalesce_config{}, Upstream>;
template <class Upstream = default_backing>
using basic_coalesce_block_map = basic_coalesce<coalesce_config{.link = coalesce_link::map}, Upstream>;
template <class Upstream = default_backing>
using basic_coalesce_warp_header = basic_coalesce<coalesce_config{.group = coalesce_group::warp}, Upstream>;
template <class Upstream = default_backing>
using basic_coalesce_warp_map = basic_coalesce<coalesce_config{.group = coalesce_group::warp, .link = coalesce_link::map}, Upstream>;

using coalesce_block_header = basic_coalesce_block_header<>;
using coalesce_block_map = basic_coalesce_block_map<>;
using coalesce_warp_header = basic_coalesce_warp_header<>;
using coalesce_warp_map = basic_coalesce_warp_map<>;
static_assert(device_allocator<coalesce_block_header> && device_allocator<coalesce_warp_map> &&
              device_allocator<basic_coalesce_block_map<refusing_backing>>);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
