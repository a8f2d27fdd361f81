// The interface of an allocator: the concept that every device allocator models, the traits that describe it, and the status that free
// returns.
#pragma once

#include <gpuheap/memory/region.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief The ways in which an allocator frees memory.
enum class frees {
  individually,  // free(p) frees p
  collectively,  // a warp frees all of its allocations together
  never,         // free does nothing
};

// @brief Facts about an allocator, by which a program or a reader chooses one. Plain data, usable in device code and at compile time.
struct allocator_traits {
  char const* name = "";            // its name on the command line and in results
  char const* title = "";           // its name in text
  char const* paper = "";           // its publication; empty for none
  int year = 0;                     // of the publication
  char const* variant = "";         // the difference from its siblings; empty for none
  char const* reuse = "";           // the requests that freed memory can serve, in words
  simt::size_t min_alignment = 16;  // of every block, in bytes
  simt::size_t smallest_bytes = 1;  // the smallest request that it serves without a backing
  simt::size_t largest_bytes = 0;   // the largest request that it serves without a backing; 0: only the heap's size limits it
  frees free = frees::individually;
  bool warp_level = false;            // a warp owns memory: the lanes that call together make one request
  bool process_wide = false;          // one heap per context, whose size is fixed before the first kernel that uses it
  bool overwrites = false;            // it hands out memory that may still be live, by design
  bool reuses_singly = true;          // in a full heap, each freed block makes room for one of its size
  bool full_reuse = true;             // when all blocks are freed, the heap serves every request that a new heap serves
  bool detects_double_free = false;   // it refuses and reports a second free of a pointer
  bool detects_foreign_free = false;  // it refuses and reports the free of a pointer that malloc never returned
};

// @brief The result of a free: it is done, the pointer was null, the pointer is not of this heap, or its block was free already.
enum class free_status { done, null, foreign, double_free };

// @brief The number of allocations that a warp released. `bytes` is the sum of the blocks' usable sizes, or 0 if the allocator has no
// usable_size().
struct released_memory {
  simt::uint64_t allocations = 0;
  simt::uint64_t bytes = 0;
};

// @brief An allocator: a trivially copyable device view of a heap's state. Kernels get it by value, and a program may have several heaps.
//
//   void* malloc(size_t bytes)      any thread, any divergence; nullptr in bounded time when nothing fits; aligned to traits.min_alignment
//   void | free_status free(void*)  any thread, any later time, any kernel; nullptr does nothing
//   static size_t min_region_bytes()                   host; the smallest region that create() takes
//   static A create(memory::region, stream_ref)        host; initialises the region by kernels on the stream, and returns the view. The
//                                                      heap is reset in the same way: create() on a used region forgets its blocks.
//
// Where frees are `collectively`, free() does nothing, and release_warp() (allocator_members.hpp) frees all blocks of a warp.
//
// The region of a process_wide allocator has no memory for blocks; its size is a limit. If such an allocator has metadata, the start of the
// region is memory for the metadata, aligned to 256 bytes. The allocator states the size of this part by
//   static size_t own_bytes(size_t region_bytes)       host
//
// An allocator may have further members, which heap_ref and heap detect. On the device: usable_size(p), owns(p), realloc(p, bytes) or
// try_resize(p, bytes), and aligned_malloc(bytes, alignment). On either side: rounded_size(bytes). On the host: footprint(stream_ref),
// verify(stream_ref), and the members by which a heap grows and shrinks. heap_ref and heap supply the functions that these members allow,
// and refuse the others at compile time. allocator_members.hpp documents each member.
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

// @brief The bytes of a heap's region that the allocator has bound to size classes, blocks and metadata. The rest is free for any request.
struct allocator_footprint {
  simt::size_t held_bytes = 0;       // bound to a size class or a large block now
  simt::size_t metadata_bytes = 0;   // bytes of the region that are never handed out
  simt::size_t peak_held_bytes = 0;  // the largest held_bytes since create(); 0 if the allocator does not keep it
};

// @brief The live blocks of a heap.
struct live_total {
  simt::uint64_t allocations = 0;
  simt::uint64_t bytes = 0;  // the sum of the blocks' usable sizes
};

// @brief A live block.
struct block_info {
  simt::uint64_t address = 0;
  simt::uint64_t bytes = 0;                                // the requested size, where the heap knows it; else the usable size
  simt::uint64_t tag = 0;                                  // block_tag::word; 0 where there is none
  simt::uint32_t block = 0xffffffff, thread = 0xffffffff;  // the thread that asked for it, where the heap knows that
};

// @brief The number of live blocks of one size.
struct live_size {
  simt::uint64_t block_bytes = 0;  // the size to which the allocator rounds
  simt::uint64_t blocks = 0;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
