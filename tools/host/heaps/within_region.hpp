// The form of an allocator that lies entirely in its region: an allocator that needs another heap beneath it gets that memory from the
// region too, and not from the kernels' own malloc.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/backing_reference.hpp>

namespace gpuheap::interpose {

template <class Allocator>
struct within_region {
  using type = Allocator;
};
template <class Allocator>
requires requires { typename Allocator::template with_backing<backing_reference>; }
struct within_region<Allocator> {
  using type = typename Allocator::template with_backing<backing_reference>;
};
template <class Allocator>
requires requires { typename Allocator::template over<backing_reference>; }
struct within_region<Allocator> {
  using type = typename Allocator::template over<backing_reference>;
};

}  // namespace gpuheap::interpose
