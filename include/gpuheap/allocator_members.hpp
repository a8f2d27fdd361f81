// The optional members of an allocator, as concepts. heap_ref and heap build on the members that an allocator has, and refuse at compile
// time a call that needs a missing member.
#pragma once

#include <gpuheap/allocator.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// free(p) returns a free_status.
template <class A>
concept answers_free = device_allocator<A> && requires(A const& a, void* p) {
  { a.free(p) } -> simt::same_as<free_status>;
};
// free(p, refused) calls refused(p, status) as soon as it knows that p is foreign or was freed already. So the caller need not keep p in a
// register for a report after the call.
template <class A>
concept reports_refused_frees = answers_free<A> && requires(A const& a, void* p, void (*refused)(void*, free_status)) {
  { a.free(p, refused) } -> simt::same_as<free_status>;
};
// free_neighbours(p, status, far): free(p) for a whole warp that frees neighbouring blocks, in code that is called rather than inlined.
// True: the call has handled the free, and `status` is its result. If the free needs more steps, free_neighbours() calls far(marked), and
// `status` is the result of that call. The caller's far() calls the allocator's finish_marked(lanes, p, marked, refused) out of line.
// False: the warp's frees are not of this kind, and nothing was done.
template <class A>
concept has_free_neighbours = reports_refused_frees<A> &&
    requires(A const& a, void* p, free_status& status, free_status (*far)(typename A::marked const&)) {
  { a.free_neighbours(p, status, far) } -> simt::same_as<bool>;
};
// usable_size(p): the number of bytes that a program may use at p, a pointer as malloc returned it. For any other pointer the result is 0
// if the allocator detects foreign frees.
template <class A>
concept has_usable_size = device_allocator<A> && requires(A const& a, void* p) {
  { a.usable_size(p) } -> simt::convertible_to<simt::size_t>;
};
// rounded_size(bytes): the size that malloc(bytes) reserves, computed without access to memory, at least `bytes`. usable_size() of the
// block may be larger, since a block may come from a larger class.
template <class A>
concept has_rounded_size = device_allocator<A> && requires(A const& a, simt::size_t bytes) {
  { a.rounded_size(bytes) } -> simt::convertible_to<simt::size_t>;
};
// `static constexpr bool rounded_size_is_exact = true;`: usable_size() of every block that malloc(bytes) returns is rounded_size(bytes).
// Statistics then need not read the size of a new block.
template <class A>
concept has_exact_rounded_size = has_rounded_size<A> && has_usable_size<A> && requires {
  requires A::rounded_size_is_exact;
};
// owns(p): whether p lies in the memory from which this allocator serves requests.
template <class A>
concept has_owns = device_allocator<A> && requires(A const& a, void const* p) {
  { a.owns(p) } -> simt::same_as<bool>;
};
// realloc(p, bytes) of the allocator's own, which resizes in place where it can.
template <class A>
concept has_realloc = device_allocator<A> && requires(A const& a, void* p, simt::size_t bytes) {
  { a.realloc(p, bytes) } -> simt::same_as<void*>;
};
// try_resize(p, bytes): true if the block at p holds `bytes` (> 0) from now on without being moved; usable_size(p) may have changed then.
// False if that is impossible; the block is then as it was. heap_ref::realloc() does the rest.
template <class A>
concept has_try_resize = has_usable_size<A> && requires(A const& a, void* p, simt::size_t bytes) {
  { a.try_resize(p, bytes) } -> simt::same_as<bool>;
};
// is_live(p): whether p is the start of a live block, so that free(p) would succeed. An allocator that detects foreign frees and lacks this
// member returns usable_size(p) = 0 for every pointer that is no live block.
template <class A>
concept has_is_live = device_allocator<A> && requires(A const& a, void* p) {
  { a.is_live(p) } -> simt::same_as<bool>;
};
// `static constexpr bool has_empty_view = true;`: a default-constructed view, which no create() made, handles calls itself: malloc returns
// nullptr and free returns `foreign`. For other allocators heap_ref first tests whether a heap made the view.
template <class A>
concept has_empty_view = device_allocator<A> && requires {
  requires A::has_empty_view;
};
// try_malloc(bytes): malloc() for a request that heap_ref makes by itself. Its refusal is no failure of the program's. Allocators that
// record requests have this member.
template <class A>
concept has_try_malloc = device_allocator<A> && requires(A const& a, simt::size_t bytes) {
  { a.try_malloc(bytes) } -> simt::same_as<void*>;
};
// blocks_begin(): an address before which no block of the heap lies. The part of the region before it has metadata only. The address is the
// same in all views.
template <class A>
concept has_blocks_begin = device_allocator<A> && requires(A const& a) {
  { a.blocks_begin() } -> simt::convertible_to<void const*>;
};
// aligned_malloc(bytes, alignment): blocks aligned to any power of two up to 2 MiB. free(p) frees them.
template <class A>
concept has_aligned_malloc = device_allocator<A> && requires(A const& a, simt::size_t bytes, simt::size_t alignment) {
  { a.aligned_malloc(bytes, alignment) } -> simt::same_as<void*>;
};
// Allocators whose frees are `collectively`:
//
//   released_memory release_warp()    frees every block that lanes of the calling warp have obtained, in this kernel or in earlier
//                                     ones. A warp is identified by simt::global_warp(). Any lanes may call; those that call together act
//                                     as one, and their accesses happen before the release. No lane of the warp uses a block or requests
//                                     one meanwhile. One of the lanes gets the totals of the freed blocks; the others get zeros.
//   released_memory tidy_up_warp()    the same, but keeps the allocator's own memory that the warp's next request needs. Optional
template <class A>
concept has_release_warp = device_allocator<A> && requires(A const& a) {
  { a.release_warp() } -> simt::same_as<released_memory>;
};
template <class A>
concept has_tidy_up_warp = has_release_warp<A> && requires(A const& a) {
  { a.tidy_up_warp() } -> simt::same_as<released_memory>;
};
// Adjacent blocks for threads that allocate together (heap_ref::malloc_coalesced). All threads of a group make the call with the same size,
// which may be 0. A group has rank(), size() and from_first(v) (collective.hpp). Each thread gets a block of its own, which it frees by
// itself, or nullptr.
//
//   void* malloc_by_warp(threads, bytes)     threads of one warp
//   void* malloc_by_block(threads, bytes)    threads of one block
template <class A, class Threads>
concept has_malloc_by_warp = device_allocator<A> && requires(A const& a, Threads const& threads, simt::size_t bytes) {
  { a.malloc_by_warp(threads, bytes) } -> simt::same_as<void*>;
};
template <class A, class Threads>
concept has_malloc_by_block = device_allocator<A> && requires(A const& a, Threads const& threads, simt::size_t bytes) {
  { a.malloc_by_block(threads, bytes) } -> simt::same_as<void*>;
};
// `static constexpr bool takes_census = true;`: the allocator's metadata tells the number and the bytes of live blocks, so no thread need
// count each malloc and free. Device code knows the constant too, since heap_ref's type depends on it (default_statistics). Host code also
// has
//
//   void take_census(live_total* into, stream_ref)     host; in stream order: a kernel writes the totals to device memory at `into`.
//                                                      They are exact when no kernel uses the heap. Beside running kernels the call is
//                                                      safe, and the totals are sums of several moments, perhaps below zero, modulo 2^64
template <class A>
concept has_census = device_allocator<A> && requires {
  requires A::takes_census;
};
// footprint(stream_ref): the bytes of the region that are bound. Host; waits for the stream.
template <class A>
concept has_footprint = device_allocator<A> && requires(A const& a, stream_ref stream) {
  { a.footprint(stream) } -> simt::same_as<allocator_footprint>;
};

#if GPUHEAP_HAS_HOST
// live_blocks(stream_ref): the live blocks, counted by a walk over the metadata: one entry for each size that has any, in ascending order.
// Host; waits for the stream. Exact when no kernel uses the heap, and safe beside kernels.
template <class A>
concept has_live_blocks = device_allocator<A> && requires(A const& a, stream_ref stream) {
  { a.live_blocks(stream) } -> simt::same_as<std::vector<live_size>>;
};
// blocks(stream_ref): every live block, in the order of addresses. Host; waits for the stream; no kernel uses the heap meanwhile.
template <class A>
concept has_blocks = device_allocator<A> && requires(A const& a, stream_ref stream) {
  { a.blocks(stream) } -> simt::same_as<std::vector<block_info>>;
};
// own_bytes(region_bytes) of a process_wide allocator that has metadata beside the process's heap: the bytes of the metadata, at most
// `region_bytes`.
template <class A>
concept has_own_bytes = device_allocator<A> && A::traits.process_wide&& requires(simt::size_t region_bytes) {
  { A::own_bytes(region_bytes) } -> simt::convertible_to<simt::size_t>;
};
// granted_bytes(): the size of the process's heap, at least the size that was requested.
template <class A>
concept has_granted_bytes = device_allocator<A> && requires {
  { A::granted_bytes() } -> simt::convertible_to<simt::size_t>;
};
// An allocator whose region gets its memory step by step. Host; no kernel may use the allocator during these calls.
//
//   static size_t min_initial_bytes(size_t whole_bytes)
//                        the smallest initial_bytes for a region of whole_bytes
//   static A create_growable(memory::region whole, size_t initial_bytes, memory::map_function const& map, stream_ref)
//                        like create(), for a region that has no memory at first. `map(offset, bytes)` puts memory behind a part of the
//                        region. Host code calls it for each part before anything accesses that part. The allocator uses up to
//                        initial_bytes of `whole`, metadata included, in any number of parts. The size of each part is rounded up, so the
//                        memory taken may exceed initial_bytes. Throws gpuheap::error if initial_bytes is too little for a region of this
//                        size. A heap is reset by the same call: map() then does nothing for parts that have memory.
//   void grow(size_t new_bytes, memory::map_function const& map, stream_ref)
//                        lets the allocator use new_bytes of `whole`, at least as many as before. Kernels launched later on the stream use
//                        them, for requests of up to traits.largest_bytes. If the call does not use map(), nothing was added. Blocks stay
//                        where they are, and views made before stay valid, since the new size is stored in the region. map() may throw
//                        out_of_memory: the exception passes through, and the allocator is as it was.
template <class A>
concept has_grow = device_allocator<A> &&
    requires(A& a, memory::region whole, simt::size_t bytes, memory::map_function const& map, stream_ref stream) {
  { A::min_initial_bytes(bytes) } -> simt::convertible_to<simt::size_t>;
  { A::create_growable(whole, bytes, map, stream) } -> simt::same_as<A>;
  a.grow(bytes, map, stream);
};
// largest_request(): the largest request that the heap can ever serve, however it grows and whatever is freed. A larger request is wrong
// and is not counted as exhaustion. Host. For an allocator without this member it is the size of the region.
template <class A>
concept has_largest_request = device_allocator<A> && requires(A const& a) {
  { a.largest_request() } -> simt::convertible_to<simt::size_t>;
};
// trim(stream) of an allocator made by create_growable(): the allocator stops using the free memory at its end, and returns the number of
// these bytes. These bytes lie directly below the end of the memory that the allocator used before. Until the allocator grows again, it may
// use that many bytes less. Host; the change is made in stream order, and the caller waits for the stream. If trim() throws, the allocator
// still uses all of its memory. No kernel may use the allocator meanwhile.
template <class A>
concept has_trim = has_grow<A> && requires(A& a, stream_ref stream) {
  { a.trim(stream) } -> simt::convertible_to<simt::size_t>;
};
// verify(stream_ref): walks the allocator's structures while no kernel uses them, and returns a report. Its `problem` says what is wrong,
// and is empty if nothing is. Host; waits for the stream.
template <class A>
concept has_verify = device_allocator<A> && requires(A const& a, stream_ref stream) {
  { a.verify(stream).problem } -> simt::convertible_to<std::string>;
};
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
