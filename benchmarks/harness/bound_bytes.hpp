// The bytes of a heap that a request takes, as the allocator tells; for an allocator that does not tell, the bytes of the request.
#pragma once

#include <gpuheap/allocator_members.hpp>

namespace gpuheap::bench {

// Whether bound_bytes() is more than the request repeated.
template <class A>
inline constexpr bool knows_bound_bytes = has_rounded_size<A> || has_usable_size<A>;

// The bytes of `block`, not nullptr, which malloc(bytes) returned. `heap`: a heap_ref.
template <class Ref>
[[nodiscard]] GPUHEAP_FN simt::size_t bound_bytes(Ref const& heap, [[maybe_unused]] void* block, simt::size_t bytes) {
  using A = typename Ref::allocator_type;
  if constexpr (has_rounded_size<A>) {
    return heap.allocator().rounded_size(bytes);
  } else if constexpr (has_usable_size<A>) {
    return heap.allocator().usable_size(block);
  } else {
    return bytes;
  }
}

}  // namespace gpuheap::bench
