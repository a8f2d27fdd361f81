// The device functions of gpuheap_device.h.
#include "capi/view.hpp"

using namespace gpuheap::c_interface;

namespace {

__device__ __forceinline__ void* allocate(gpuheap_handle heap, size_t bytes) {
  return with_heap(heap, [=](auto const& all) { return all.malloc(bytes); });
}
__device__ __forceinline__ int deallocate(gpuheap_handle heap, void* p) {
  return with_heap(heap, [=](auto const& all) { return static_cast<int>(all.free_when_called(p)); });
}
// The free of gpuheap_realloc, for the heaps of all kinds.
__device__ __noinline__ void deallocate_moved(gpuheap_handle heap, void* p) { (void)deallocate(heap, p); }

}  // namespace

GPUHEAP_DEFINE void* gpuheap_v1_malloc(gpuheap_handle heap, size_t bytes) { return allocate(heap, bytes); }
GPUHEAP_DEFINE void* gpuheap_v1_calloc(gpuheap_handle heap, size_t count, size_t bytes) {
  return with_heap(heap, [=](auto const& all) { return all.calloc(count, bytes); });
}
GPUHEAP_DEFINE void* gpuheap_v1_aligned_malloc(gpuheap_handle heap, size_t bytes, size_t alignment) {
  return with_heap(heap, [=](auto const& all) { return all.aligned_malloc(bytes, alignment); });
}
GPUHEAP_DEFINE void* gpuheap_v1_realloc(gpuheap_handle heap, void* p, size_t bytes) {
  return with_heap(heap, [=](auto const& all) { return all.realloc(p, bytes, [=](void* old) { deallocate_moved(heap, old); }); });
}
GPUHEAP_DEFINE int gpuheap_v1_free(gpuheap_handle heap, void* p) { return deallocate(heap, p); }
GPUHEAP_DEFINE size_t gpuheap_v1_usable_size(gpuheap_handle heap, void* p) {
  return with_heap(heap, [=](auto const& all) { return all.usable_size(p); });
}
GPUHEAP_DEFINE int gpuheap_v1_owns(gpuheap_handle heap, void const* p) {
  return with_heap(heap, [=](auto const& all) { return all.owns(p) ? 1 : 0; });
}

GPUHEAP_DEFINE void* gpuheap_v1_malloc_block(gpuheap_handle heap, size_t bytes) {
  return reinterpret_cast<void*>(from_first_thread([=] { return word_of(allocate(heap, bytes)); }));
}
GPUHEAP_DEFINE int gpuheap_v1_free_block(gpuheap_handle heap, void* p) {
  return static_cast<int>(from_first_thread([=] { return static_cast<word>(deallocate(heap, p)); }));
}
GPUHEAP_DEFINE unsigned gpuheap_v1_device_abi_version() { return 1; }

static_assert(static_cast<int>(gpuheap::free_status::done) == GPUHEAP_FREED &&
              static_cast<int>(gpuheap::free_status::null) == GPUHEAP_FREED_NULL &&
              static_cast<int>(gpuheap::free_status::foreign) == GPUHEAP_FOREIGN_FREE &&
              static_cast<int>(gpuheap::free_status::double_free) == GPUHEAP_DOUBLE_FREE);
