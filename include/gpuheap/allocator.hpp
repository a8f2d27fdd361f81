// What an allocator is: the concept that every device allocator models, the traits by which it describes itself, and the answers of free.
#pragma once

#include <gpuheap/memory/region.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief How an allocator takes memory back.
enum class frees {
  individually,  // free(p) gives p back
  collectively,  // only all of a warp's allocations together
  never,         // free does nothing
};

// @brief The facts about an allocator by which a program or a reader chooses it. Plain data, usable in device code and at compile time.
struct allocator_traits {
  char const* name = "";            // what the command line and the results call it
  char const* title = "";           // what people call it
  char const* paper = "";           // where it was published; empty for none
  int year = 0;                     // of that paper
  char const* variant = "";         // what sets it apart from its siblings; empty for none
  char const* reuse = "";           // what freed memory can serve again, in words
  simt::size_t min_alignment = 16;  // of every result, bytes
  simt::size_t smallest_bytes = 1;  // request served without another allocator
  simt::size_t largest_bytes = 0;   // likewise; 0: bounded by the heap only
  frees free = frees::individually;
  bool warp_level = false;            // memory is a warp's: lanes that ask together are one request
  bool process_wide = false;          // one per context, its size fixed before the first kernel that uses it
  bool overwrites = false;            // hands out memory that may still be live, by design
  bool reuses_singly = true;          // in a full heap, each block that is freed makes room for one of its size
  bool full_reuse = true;             // once all blocks are freed, every request is served that a new heap serves
  bool detects_double_free = false;   // a second free of a pointer is refused and reported
  bool detects_foreign_free = false;  // so is the free of a pointer that malloc never returned
};

// @brief What became of a free: it is done, the pointer was null, the pointer is not the heap's, or its block was free already.
enum class free_status { done, null, foreign, double_free };

// @brief How many allocations a warp's release gave back. `bytes` is the sum of the blocks' usable sizes, or 0 if the allocator has no
// usable_size().
struct released_memory {
  simt::uint64_t allocations = 0;
  simt::uint64_t bytes = 0;
};

// @brief A trivially copyable device view of a heap's state. Kernels get it by value, and several heaps live side by side.
//
//   void* malloc(size_t bytes)      any thread, any divergence; nullptr in bounded time when nothing fits; aligned to traits.min_alignment
//   void | free_status free(void*)  any thread, any later time, any kernel; nullptr does nothing
//   static size_t min_region_bytes()                   host; the smallest region that create() takes
//   static A create(memory::region, stream_ref)        host; initialises the region in stream order (its kernels run on the stream) and
//   returns the view.
//                                                      Also how a heap is reset: create() on a used region forgets what was in it.
//
// Where frees are `collectively`, free() does nothing, and release_warp() (allocator_members.hpp) gives back what a warp has.
//
// A process_wide allocator's region is a limit without memory; one that also has metadata says by
//   static size_t own_bytes(size_t region_bytes)       host; how many of these bytes, from base on, it gets as memory (aligned to 256)
//
// Optional members, detected: usable_size(p) and owns(p) on the device, rounded_size(bytes) on either side, realloc(p, bytes)
// or try_resize(p, bytes), aligned_malloc(bytes, alignment); footprint(stream_ref), verify(stream_ref) and what lets it grow and shrink on
// the host. heap_ref and heap supply what can be supplied from these and refuse the rest at compile time. allocator_members.hpp has the
// members' meanings.
template <class A>
concept device_allocator = simt::is_trivially_copyable_v<A> && requires(A allocator, void* p, simt::size_t bytes) {
  { A::traits.name } -> simt::convertible_to<char const*>;
  { allocator.malloc(bytes) } -> simt::same_as<void*>;
  allocator.free(p);
#if GPUHEAP_HAS_HOST
  { A::min_region_bytes() } -> simt::convertible_to<simt::size_t>;
  { A::create(memory::region{}, stream_ref{}) } -> simt::same_as<A>;
#endif
};

// @brief How many bytes of its region an allocator has bound to size classes, blocks and metadata. The rest is free for any request.
struct allocator_footprint {
  simt::size_t held_bytes = 0;       // bound to a size class or a large allocation now
  simt::size_t metadata_bytes = 0;   // of the region, never handed out
  simt::size_t peak_held_bytes = 0;  // the largest held_bytes since create(); 0 if the allocator does not keep it
};

// @brief How much lives in a heap.
struct live_total {
  simt::uint64_t allocations = 0;
  simt::uint64_t bytes = 0;  // the sum of their usable sizes
};

// @brief How many blocks of one size are live.
struct live_size {
  simt::uint64_t block_bytes = 0;  // as the allocator rounds sizes
  simt::uint64_t blocks = 0;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
