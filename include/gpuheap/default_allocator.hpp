// Names the default allocator, that of `heap<>` and `heap_ref<>`, in one place. Compiles under NVRTC.
//
// A source that names the allocator of each of its heaps may define GPUHEAP_NO_DEFAULT_ALLOCATOR. It then does not include the default
// allocator, and is not compiled again when that allocator changes.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/statistics.hpp>

#if !defined(GPUHEAP_NO_DEFAULT_ALLOCATOR)
#include <gpuheap/allocators/sharded_spans.hpp>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

#if defined(GPUHEAP_NO_DEFAULT_ALLOCATOR)
template <device_allocator Allocator, class Statistics = default_statistics<Allocator>>
class heap_ref;
template <device_allocator Allocator, class Statistics = default_statistics<Allocator>>
class heap;
#else
template <device_allocator Allocator = sharded_spans, class Statistics = default_statistics<Allocator>>
class heap_ref;
template <device_allocator Allocator = sharded_spans, class Statistics = default_statistics<Allocator>>
class heap;
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
