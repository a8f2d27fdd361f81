// Which of the optional members an allocator has. heap_ref builds on these and refuses at compile time what is missing.
#pragma once

#include <gpuheap/allocator.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// free(p) says what became of it.
template <class A>
concept answers_free = device_allocator<A> && requires(A const& a, void* p) {
  { a.free(p) } -> ::cuda::std::same_as<free_status>;
};
// Bytes usable at p, as malloc returned it. 0 for any other pointer if the allocator detects foreign frees.
template <class A>
concept has_usable_size = device_allocator<A> && requires(A const& a, void* p) {
  { a.usable_size(p) } -> ::cuda::std::convertible_to<simt::size_t>;
};
// What a request of so many bytes takes, without asking memory. At most what usable_size() then says: a block may come from a larger class
// than the request's own.
template <class A>
concept has_rounded_size = device_allocator<A> && requires(A const& a, simt::size_t bytes) {
  { a.rounded_size(bytes) } -> ::cuda::std::convertible_to<simt::size_t>;
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
  { a.owns(p) } -> ::cuda::std::same_as<bool>;
};
// Its own realloc: in place where it can.
template <class A>
concept has_realloc = device_allocator<A> && requires(A const& a, void* p, simt::size_t bytes) {
  { a.realloc(p, bytes) } -> ::cuda::std::same_as<void*>;
};
// Results aligned to any power of two up to 2 MiB, given back by the same free.
template <class A>
concept has_aligned_malloc = device_allocator<A> && requires(A const& a, simt::size_t bytes, simt::size_t alignment) {
  { a.aligned_malloc(bytes, alignment) } -> ::cuda::std::same_as<void*>;
};
// How much of the region is bound. Host; waits for the stream.
template <class A>
concept has_footprint = device_allocator<A> && requires(A const& a, stream_ref stream) {
  { a.footprint(stream) } -> ::cuda::std::same_as<allocator_footprint>;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
