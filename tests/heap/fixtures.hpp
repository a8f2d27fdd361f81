// Small kernels that the heap's own tests launch.
#pragma once

#include "../support/device_array.hpp"

#include <gpuheap/allocators/atomic_malloc.hpp>
#include <gpuheap/allocators/backing_reference.hpp>
#include <gpuheap/heap.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace test {

namespace simt = gpuheap::simt;
using namespace gpuheap::literals;

// Thread i allocates `bytes` and keeps the pointer.
template <class Ref>
struct take {
  Ref heap;
  std::size_t bytes;
  void** out;
  GPUHEAP_FN void operator()(unsigned i) const { out[i] = heap.malloc(bytes); }
};
// Thread i frees pointer i.
template <class Ref>
struct give {
  Ref heap;
  void* const* pointers;
  GPUHEAP_FN void operator()(unsigned i) const { heap.free(pointers[i]); }
};

// `count` blocks of `bytes`, as the host knows them.
template <class Heap>
std::vector<void*> blocks_of(Heap& heap, unsigned count, std::size_t bytes, gpuheap::launch_config config = {}) {
  device_array<void*> pointers(count);
  gpuheap::launch(count, take<typename Heap::ref_type>{heap.ref(), bytes, pointers.data()}, config);
  return pointers.read();
}

template <class Body>
std::string text_of_error(Body body) {
  try {
    body();
  } catch (gpuheap::error const& e) {
    return e.what();
  }
  return {};
}
inline ::testing::AssertionResult says(std::string const& text, std::string const& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << part << "\" is not in \"" << text << "\"";
}

}  // namespace test
