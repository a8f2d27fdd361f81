// Which of the optional members an allocator has. heap_ref and heap build on these and refuse at compile time what is missing.
#pragma once

#include <gpuheap/allocator.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// free(p) says what became of it.
template <class A>
concept answers_free = device_allocator<A> && requires(A const& a, void* p) {
  { a.free(p) } -> simt::same_as<free_status>;
};
// free(p, refused) calls refused(p, status) when p is foreign or was freed already, as soon as it knows: no thread keeps p in registers for
// that.
template <class A>
concept reports_refused_frees = answers_free<A> && requires(A const& a, void* p, void (*refused)(void*, free_status)) {
  { a.free(p, refused) } -> simt::same_as<free_status>;
};
// Bytes usable at p, as malloc returned it. 0 for any other pointer if the allocator detects foreign frees.
template <class A>
concept has_usable_size = device_allocator<A> && requires(A const& a, void* p) {
  { a.usable_size(p) } -> simt::convertible_to<simt::size_t>;
};
// What a request of so many bytes takes, without asking memory: at least `bytes`, whatever they are. At most what usable_size() then says:
// a block may come from a larger class than the request's own.
template <class A>
concept has_rounded_size = device_allocator<A> && requires(A const& a, simt::size_t bytes) {
  { a.rounded_size(bytes) } -> simt::convertible_to<simt::size_t>;
};
// `static constexpr bool rounded_size_is_exact = true;`: usable_size() of every block that malloc(bytes) returns is rounded_size(bytes).
// Statistics then need not read a block's size when it is made.
template <class A>
concept has_exact_rounded_size = has_rounded_size<A> && has_usable_size<A> && requires {
  requires A::rounded_size_is_exact;
};
// Whether p lies in what this allocator hands out.
template <class A>
concept has_owns = device_allocator<A> && requires(A const& a, void const* p) {
  { a.owns(p) } -> simt::same_as<bool>;
};
// Its own realloc: in place where it can.
template <class A>
concept has_realloc = device_allocator<A> && requires(A const& a, void* p, simt::size_t bytes) {
  { a.realloc(p, bytes) } -> simt::same_as<void*>;
};
// Whether the block at p holds `bytes` (> 0) from now on, where it is; usable_size(p) may have changed then. False: it does not, and is as
// it was. The seam for a realloc in place: heap_ref does the rest.
template <class A>
concept has_try_resize = has_usable_size<A> && requires(A const& a, void* p, simt::size_t bytes) {
  { a.try_resize(p, bytes) } -> simt::same_as<bool>;
};
// Whether p is the start of a live block: what free(p) would find, without freeing. Where an allocator that detects foreign frees has none,
// usable_size(p) is 0 of all that is no live block.
template <class A>
concept has_is_live = device_allocator<A> && requires(A const& a, void* p) {
  { a.is_live(p) } -> simt::same_as<bool>;
};
// `static constexpr bool has_empty_view = true;`: a view made by default, which no create() made, answers by itself: malloc with nullptr,
// free as foreign. Before it asks any other, heap_ref looks whether a heap made it.
template <class A>
concept has_empty_view = device_allocator<A> && requires {
  requires A::has_empty_view;
};
// malloc() of a request that the program has not made: heap_ref's own, whose refusal is no failure. For allocators that note requests.
template <class A>
concept has_try_malloc = device_allocator<A> && requires(A const& a, simt::size_t bytes) {
  { a.try_malloc(bytes) } -> simt::same_as<void*>;
};
// An address before which no block of the heap lies: what comes before it in the region is the allocator's own. The same in all views.
template <class A>
concept has_blocks_begin = device_allocator<A> && requires(A const& a) {
  { a.blocks_begin() } -> simt::convertible_to<void const*>;
};
// Results aligned to any power of two up to 2 MiB, given back by the same free.
template <class A>
concept has_aligned_malloc = device_allocator<A> && requires(A const& a, simt::size_t bytes, simt::size_t alignment) {
  { a.aligned_malloc(bytes, alignment) } -> simt::same_as<void*>;
};
// Frees that are `collectively`:
//
//   released_memory release_warp()    gives back every block that lanes of the calling warp have obtained, in this kernel or in earlier
//                                     ones: a warp is known by simt::global_warp(). Any lanes; those that come together act as one, and
//                                     their accesses happen before. No lane of the warp uses a block or asks for one meanwhile. Answers
//                                     what was given back to one of these lanes, and nothing to the others.
//   released_memory tidy_up_warp()    the same, but keeps what the warp's next request needs of the allocator's own. Optional
template <class A>
concept has_release_warp = device_allocator<A> && requires(A const& a) {
  { a.release_warp() } -> simt::same_as<released_memory>;
};
template <class A>
concept has_tidy_up_warp = has_release_warp<A> && requires(A const& a) {
  { a.tidy_up_warp() } -> simt::same_as<released_memory>;
};
// Blocks side by side for threads that ask together (heap_ref::malloc_coalesced): all threads of a group call, which has rank(), size() and
// from_first(v) (collective.hpp), with the same size, which may be 0. Each gets a block of its own, which it frees by itself, or nullptr.
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
// `static constexpr bool takes_census = true;`: the allocator's own metadata tells how much lives, so no thread need count each malloc and
// free. Code of both sides knows it, since heap_ref's type depends on it (default_statistics); host code also has
//
//   void take_census(live_total* into, stream_ref)     host; in stream order: a kernel stores what lives in device memory at `into`. Exact
//                                                      when no kernel uses the heap; safe beside kernels: then sums of several moments,
//                                                      which may be below zero, modulo 2^64
template <class A>
concept has_census = device_allocator<A> && requires {
  requires A::takes_census;
};
// How much of the region is bound. Host; waits for the stream.
template <class A>
concept has_footprint = device_allocator<A> && requires(A const& a, stream_ref stream) {
  { a.footprint(stream) } -> simt::same_as<allocator_footprint>;
};

#if GPUHEAP_HAS_HOST
// The live blocks, counted by a walk over the metadata: one entry for each size that has any, small sizes first. Host; waits for the
// stream; exact when no kernel uses the heap, safe beside kernels.
template <class A>
concept has_live_blocks = device_allocator<A> && requires(A const& a, stream_ref stream) {
  { a.live_blocks(stream) } -> simt::same_as<std::vector<live_size>>;
};
// Every live block, by address. Host; waits for the stream; no kernel uses the heap meanwhile.
template <class A>
concept has_blocks = device_allocator<A> && requires(A const& a, stream_ref stream) {
  { a.blocks(stream) } -> simt::same_as<std::vector<block_info>>;
};
// A process_wide allocator with memory of its own beside the process's heap: how much of `region_bytes`, at most all.
template <class A>
concept has_own_bytes = device_allocator<A> && A::traits.process_wide&& requires(simt::size_t region_bytes) {
  { A::own_bytes(region_bytes) } -> simt::convertible_to<simt::size_t>;
};
// What the process's heap was granted, at least what was asked.
template <class A>
concept has_granted_bytes = device_allocator<A> && requires {
  { A::granted_bytes() } -> simt::convertible_to<simt::size_t>;
};
// A region whose memory comes later. Host; no kernel uses the allocator meanwhile.
//
//   static size_t min_initial_bytes(size_t whole_bytes)
//                        the least initial_bytes for a region of whole_bytes
//   static A create_growable(memory::region whole, size_t initial_bytes, memory::map_function const& map, stream_ref)
//                        like create(), in a region of which nothing can be touched at first. `map(offset, bytes)` makes a part of it
//                        usable, and is called for each part before anything touches it, from host code: a grow() that calls it for
//                        nothing has added nothing. Of `whole` the allocator uses up
//                        to initial_bytes, metadata included, in as many parts as it likes; the memory taken is this, rounded up part by
//                        part. Throws gpuheap::error if that is too little for a region of this size. Also how the heap is reset: map()
//                        then passes over what is there.
//   void grow(size_t new_bytes, memory::map_function const& map, stream_ref)
//                        the allocator may now use new_bytes of `whole`, at least what it could before; kernels launched later on the
//                        stream do, for requests of up to traits.largest_bytes. Blocks stay, and so do views made before: what has changed
//                        lies in the region. map() may throw out_of_memory: the exception passes through, and the allocator is as it was.
template <class A>
concept has_grow = device_allocator<A> &&
    requires(A& a, memory::region whole, simt::size_t bytes, memory::map_function const& map, stream_ref stream) {
  { A::min_initial_bytes(bytes) } -> simt::convertible_to<simt::size_t>;
  { A::create_growable(whole, bytes, map, stream) } -> simt::same_as<A>;
  a.grow(bytes, map, stream);
};
// The most bytes that one request of the heap may ever ask for, however it grows and whatever is freed: more is a wrong request, not an
// exhausted heap. At least the largest request that is served. Host; elsewhere it is the size of the region.
template <class A>
concept has_largest_request = device_allocator<A> && requires(A const& a) {
  { a.largest_request() } -> simt::convertible_to<simt::size_t>;
};
// Of an allocator made by create_growable(): stops using what is free at the end of its memory, and returns how many bytes that is: those
// right below the highest byte that it has had mapped and not given up since. It may use so many bytes less then, until it grows again.
// Host; waits for the stream; no kernel uses the allocator meanwhile.
template <class A>
concept has_trim = has_grow<A> && requires(A& a, stream_ref stream) {
  { a.trim(stream) } -> simt::convertible_to<simt::size_t>;
};
// Walks its own structures while no kernel uses them, and returns a report whose `problem` says what is wrong; empty: nothing is. Host;
// waits for the stream.
template <class A>
concept has_verify = device_allocator<A> && requires(A const& a, stream_ref stream) {
  { a.verify(stream).problem } -> simt::convertible_to<std::string>;
};
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
