// `halloc`: a bitmap heap with hashed probing. One slab at a time, the head, serves all requests of a size class. A head that has become
// full is replaced. The other slabs wait in sets, according to how full they are, to become heads again.
//   A. V. Adinetz, D. Pleiter, "Halloc: a High-Throughput Dynamic Memory Allocator for GPGPU Architectures", GTC 2014; measurements of it
//   in M. Winter et al., PPoPP 2021
//
// Layout of a region:
// view | classes | sets of slabs | a word for each slab | bitmaps | starts of blocks | slabs, end to end | the backing's share
//   slab     has chunks of ONE size at a time: 16, 24, 256 or 384 bytes. A block is 1, 2, 4 or 8 adjacent chunks, aligned to its length:
//            16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072 bytes. Blocks of several classes may share a slab
//   The upper bits of an address are its slab's number. halloc/slab_use.hpp has the layout of the word, halloc/slabs.hpp the offsets.
//
// malloc:    requests of more than 3072 bytes go to the backing. Otherwise the lanes of a warp that want one class add their chunks to the
//            word of the class's head, by one atomic, which also gives each lane a ticket. Lanes for which the head has no room subtract
//            their chunks again. Each other lane hashes its ticket to a place (structures/hash_probe.hpp), and claims the place's bits with
//            an `or` (structures/chunk_map.hpp). After 31 places that were taken, it takes any free place. Then it writes the block's
//            length into the four bits of the block's first chunk. A head serves requests until 83.5 % of its chunks are in use. Then one
//            lane, under the class's lock, replaces it by another slab, which was fetched in advance if possible. After the lock is open
//            again, the lane files the old head in a set. The search for a slab goes through these sets in order: slabs of the class up to
//            60 % full (roomy); those of the chunk size up to 1.2 % full (sparse), whose class changes; free ones, whose class and chunk
//            size change; fuller ones of the class (busy). A busy slab that becomes a head serves requests until it has no room. If all
//            sets are empty, the old head stays, and also serves requests until it has no room. If no slab can become the head, the request
//            searches every slab, heads of other classes included.
// free:      the address gives the slab and, divided by the chunk size, the chunk. The free reads and clears the chunk's four bits, the
//            length, by one atomic. Then it clears the chunks' bits and subtracts the chunks from the slab's word. Lanes that free blocks
//            of one slab and one length subtract together. A thread that brings a slab down to a lower level files it there, unless the
//            slab is a head.
// Reuse:     a freed block serves its class when its slab is a head, or is one again. A slab up to 1.2 % full serves other classes of its
//            chunk size, and a free slab all classes. A request fails only after it has seen no room in any slab of its chunk size, and no
//            empty slab.
// Progress:  malloc is blocking: it may wait for the lock of its class, whose holder waits for nothing. free is lock-free. Requests and
//            blocks of the backing have the backing's progress.
// Alignment: 16. Blocks of 24 bytes cannot be aligned to 16. So their class is left out: such requests get 32 bytes.
//
// Different from the original (the numbers are those of the hazards in tests/hazards/halloc_test.cpp):
//   1  Warp operations name the lanes of one captured mask, without those that were served. The original votes over whole warps in loops.
//   2  The slabs lie in one pool, so a range check and a shift replace the original's table of addresses, which is too small for 64 GB.
//   3  Sets are trees with a bit for every slab (structures/bitmap_tree.hpp). The original's search skips the last 1 to 31 slabs, which may
//      be all slabs of a small heap.
//   4  A kernel makes the free set and writes each of its words once. The original overwrites one word with a count.
//   5  A retired head's level is computed for its class, and every level but full has a set. In the original, slabs that are retired above
//      the roomy level are in no set.
//   6  A thread that takes a slab's bit, but not the slab, puts the bit back if it belongs there. The original loses busy slabs that it
//      finds too full.
//   7  The level, the class and the head flag are fields of the slab's word, which compare-exchanges change. A bit in a set is a hint; the
//      word decides.
//   8  Chunks are counted before they are claimed. So a slab in which a thread is about to claim is not empty, and gets no other chunk size
//      meanwhile. The count is bounded, so no more threads search for places than there are places. The original claims first, and counts
//      later.
//   9  A block's length is four bits at its first chunk. Of several frees, the first clears them, and the others see them clear. Bit 3,
//      which says that a block was there before, tells a double free from a foreign one.
//  10  Near exhaustion a class does what malloc (above) says: the head is filled up, then all slabs are searched, other heads included.
//  11  The word's count has 24 bits, for up to 2^20 chunks of a slab. Slab numbers have 32 bits, and one number stands for no slab.
//  12  Words that change are read past the L1. A thread that has read a head's number gets everything else from its atomic on the slab's
//      word.
//  13  Nothing outside the region is initialised, and the region may hold anything before.
// Also: the ticket lies in the slab's word rather than in a counter of the class, which saves an atomic. Slabs are smaller in small heaps.
// Small heaps fetch no head in advance.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/backing.hpp>
#include <gpuheap/allocators/halloc/slabs.hpp>
#include <gpuheap/allocators/halloc/verify.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace detail {
// Kernel, a thread for each leaf of a set: stores the slabs object in the region, and makes the free set, which has all slabs.
template <class Slabs>
struct init_halloc {
  Slabs slabs;
  GPUHEAP_FN void operator()(unsigned leaf) const {
    structures::bitmap_tree const set = slabs.set(Slabs::set_of(halloc_parts::slab_role::unassigned, 0));
    unsigned const num_slabs = slabs.num_slabs();
    if (leaf == 0) *slabs.home() = slabs;
    // relaxed: only later kernels read these words.
    auto const full_below = [](unsigned units, unsigned i) { return simt::low_bits(units - i < 64 ? units - i : 64); };
    set.leaf(leaf).store(full_below(num_slabs, leaf * 64), simt::relaxed);
    if (leaf % 64 == 0) set.mid(leaf / 64).store(full_below(set.num_leaves, leaf), simt::relaxed);
    if (leaf % 4096 == 0 && set.num_tops() != 0) set.top(leaf / 4096).store(full_below(set.num_mids(), leaf / 64), simt::relaxed);
  }
};
}  // namespace detail

// `Backing` serves requests that are too large for slabs. `Rules`: the decisions about slabs (halloc/slab_use.hpp). Tests pass others.
template <halloc_config Config = halloc_config{}, class Backing = default_backing, class Rules = halloc_parts::rules>
class basic_halloc {
  using sizes = halloc_parts::classes<Config>;
  using layout = halloc_parts::layout<Config>;
  using slabs = halloc_parts::slabs<Config, Rules>;

 public:
  // The same allocator over another backing.
  template <class Other>
  using with_backing = basic_halloc<Config, Other, Rules>;

  static constexpr allocator_traits traits{
      .name = "halloc",
      .title = "Halloc",
      .paper = "Adinetz, Pleiter: Halloc: a High-Throughput Dynamic Memory Allocator for GPGPU Architectures, GTC 2014",
      .year = 2014,
      .variant = "",
      .reuse = "a block: its class; a slab nearly empty: its chunk size; an empty slab: any size; beyond 3 KiB as the backing says",
      .largest_bytes = sizes::largest_bytes,
      .process_wide = Backing::traits.process_wide,
      .full_reuse = Backing::traits.full_reuse,
      .detects_double_free = Backing::traits.detects_double_free,
      .detects_foreign_free = Backing::traits.detects_foreign_free,
  };

  // Returns memory of `bytes` > 0 bytes; nullptr if neither slabs nor backing have a place for it.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    return bytes <= sizes::largest_bytes ? slabs_.malloc(sizes::of_bytes(bytes)) : backing_.malloc(bytes);
  }
  GPUHEAP_FN free_status free(void* p) const { return slabs_.holds(p) ? slabs_.free(p) : detail::free_in(backing_, p); }

  // Returns the bytes that the owner of the block at p may use; 0 for a pointer into the slabs that is no live block's.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void* p) const requires has_usable_size<Backing> {
    return slabs_.holds(p) ? slabs_.block_bytes(p) : backing_.usable_size(p);
  }
  static constexpr bool rounded_size_is_exact = has_exact_rounded_size<Backing>;
  [[nodiscard]] GPUHEAP_HD constexpr simt::size_t rounded_size(simt::size_t bytes) const requires has_rounded_size<Backing> {
    return bytes <= sizes::largest_bytes ? sizes::bytes_of(sizes::of_bytes(bytes)) : backing_.rounded_size(bytes);
  }
  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const requires has_owns<Backing> { return slabs_.holds(p) || backing_.owns(p); }

#if GPUHEAP_HAS_HOST
  // The fewest bytes that hold one slab of the smallest size, and the bytes that the backing needs.
  [[nodiscard]] static simt::size_t min_region_bytes() {
    simt::size_t const own = simt::round_up_pow2(layout::of(1, layout::lg_smallest).end, 256);
    simt::size_t const least = Backing::min_region_bytes();
    simt::size_t const shared = simt::round_up_pow2(own * 100 / (100 - Config.backing_percent), 256) + 512;
    return least == 0 ? own : shared > own + least + 256 ? shared : own + least + 256;
  }
  [[nodiscard]] static simt::size_t own_bytes(simt::size_t region_bytes) requires(Backing::traits.process_wide) {
    return cut::own_bytes_of(region_bytes, Config.backing_percent);
  }
  [[nodiscard]] static simt::size_t granted_bytes() requires has_granted_bytes<Backing> { return Backing::granted_bytes(); }

  [[nodiscard]] static basic_halloc create(memory::region region, stream_ref stream) {
    cut const parts = cut::of(region, Config.backing_percent);
    layout const at = layout::in(parts.own_bytes);
    if (at.num_slabs == 0)
      throw plain_error("gpuheap: a region of " + std::to_string(region.bytes) + " bytes has no room for one slab of halloc: at least " +
                        std::to_string(min_region_bytes()) + " are needed");
    basic_halloc a;
    a.own_bytes_ = parts.own_bytes;
    a.slabs_ = slabs{region.base, at};
    a.backing_ = Backing::create(parts.rest, stream);
    simt::fill(region.base, 0, at.pool, stream);
    simt::launch(structures::bitmap_tree::leaves_for(at.num_slabs), detail::init_halloc<slabs>{a.slabs_}, {.stream = stream});
    return a;
  }

  // Held bytes are whole slabs, and those of the backing. The peak is not recorded. Waits for the stream.
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const requires has_footprint<Backing> {
    allocator_footprint of = backing_.footprint(stream);
    of.held_bytes += halloc_parts::count_held_slabs(slabs_, stream) << slabs_.where().lg_slab;
    of.metadata_bytes += own_bytes_ - slabs_.pool_bytes();
    of.peak_held_bytes = 0;
    return of;
  }
  // Checks the slabs (halloc/verify.hpp), and the backing if it has verify(). Waits for the stream; no kernel may be running on the heap.
  [[nodiscard]] halloc_parts::audit verify(stream_ref stream) const {
    halloc_parts::audit found = halloc_parts::verify(slabs_, stream);
    if constexpr (has_verify<Backing>) {
      if (found.problem.empty()) found.problem = backing_.verify(stream).problem;
    }
    return found;
  }

 private:
  using cut = detail::backing_cut<Backing>;
#endif

 private:
  slabs slabs_;
  Backing backing_;
  simt::size_t own_bytes_ = 0;
};

using halloc = basic_halloc<>;
static_assert(device_allocator<halloc> && device_allocator<basic_halloc<halloc_config{}, refusing_backing>>);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
