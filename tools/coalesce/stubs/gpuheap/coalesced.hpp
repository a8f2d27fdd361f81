// The calls of gpuheap/coalesced.hpp as the rewriter sees them: declarations without the library's definitions.
#pragma once

#define GPUHEAP_STUB_HD __attribute__((host)) __attribute__((device))

namespace gpuheap::coalesced {

using size_type = decltype(sizeof(0));

GPUHEAP_STUB_HD void* malloc(size_type bytes, bool together = false);
GPUHEAP_STUB_HD void* calloc(size_type count, size_type bytes, bool together = false);
GPUHEAP_STUB_HD void free(void* p);
enum class memory : bool {};  // takes the promise in braces, as the library's struct does
template <class T>
struct memory_of {};
template <class T>
GPUHEAP_STUB_HD void destroy(T* p);
template <class T>
GPUHEAP_STUB_HD void destroy_array(T* p);
template <class... Size>
void init(Size const&... size);
template <class... Size>
void init_dynamic(Size const&... size);
void clean();

namespace by_warp {
using coalesced::clean;
using coalesced::destroy;
using coalesced::destroy_array;
using coalesced::free;
using coalesced::init;
using coalesced::init_dynamic;
using coalesced::memory_of;
GPUHEAP_STUB_HD void* malloc(size_type bytes, bool together = false);
GPUHEAP_STUB_HD void* calloc(size_type count, size_type bytes, bool together = false);
enum class memory : bool {};  // takes the promise in braces, as the library's struct does
}  // namespace by_warp

}  // namespace gpuheap::coalesced

GPUHEAP_STUB_HD void* operator new(decltype(sizeof(0)) bytes, gpuheap::coalesced::memory) noexcept;
GPUHEAP_STUB_HD void* operator new[](decltype(sizeof(0)) bytes, gpuheap::coalesced::memory) noexcept;
GPUHEAP_STUB_HD void* operator new(decltype(sizeof(0)) bytes, gpuheap::coalesced::by_warp::memory) noexcept;
GPUHEAP_STUB_HD void* operator new[](decltype(sizeof(0)) bytes, gpuheap::coalesced::by_warp::memory) noexcept;
template <class T>
GPUHEAP_STUB_HD void* operator new(decltype(sizeof(0)) bytes, gpuheap::coalesced::memory_of<T>) noexcept;
template <class T>
GPUHEAP_STUB_HD void* operator new[](decltype(sizeof(0)) bytes, gpuheap::coalesced::memory_of<T>) noexcept;

#undef GPUHEAP_STUB_HD
