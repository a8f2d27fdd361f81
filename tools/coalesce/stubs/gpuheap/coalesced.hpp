// The calls of gpuheap/coalesced.hpp as the rewriter sees them: declarations without the library behind them.
#pragma once

namespace gpuheap::coalesced {

using size_type = decltype(sizeof(0));

__attribute__((host)) __attribute__((device)) void* malloc(size_type bytes, bool together = false);
__attribute__((host)) __attribute__((device)) void* calloc(size_type count, size_type bytes, bool together = false);
__attribute__((host)) __attribute__((device)) void free(void* p);
struct memory {
  bool together = false;
};
template <class T>
__attribute__((host)) __attribute__((device)) void destroy(T* p);
template <class T>
__attribute__((host)) __attribute__((device)) void destroy_array(T* p);
template <class... Size>
void init(Size const&... size);
void clean();

}  // namespace gpuheap::coalesced

__attribute__((host)) __attribute__((device)) void* operator new(decltype(sizeof(0)) bytes, gpuheap::coalesced::memory) noexcept;
__attribute__((host)) __attribute__((device)) void* operator new[](decltype(sizeof(0)) bytes, gpuheap::coalesced::memory) noexcept;
