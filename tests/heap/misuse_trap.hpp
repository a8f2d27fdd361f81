// A kernel that is stopped because its heap was misused, for tests of each kind of heap that can stop one.
#pragma once

#include "fixtures.hpp"

namespace test {

template <class Ref>
struct free_twice {
  Ref heap;
  GPUHEAP_FN void operator()(unsigned i) const {
    void* const p = heap.malloc(24, gpuheap::here());
    heap.free(p, gpuheap::here());
    if (i == 5) heap.free(p, gpuheap::here());
  }
};

// The text of the error after thread 5 of a kernel has freed a block twice.
template <class Heap>
std::string text_of_the_stop() {
  Heap heap{4_MiB};
  heap.set_misuse_policy(gpuheap::when_misused::trap);
  heap.reset();  // the policy stays
  try {
    gpuheap::launch(32, free_twice<typename Heap::ref_type>{heap.ref()});
    heap.check();
  } catch (gpuheap::misuse_error const& e) {
    EXPECT_EQ(e.first().what, gpuheap::misuse::double_free);
    return e.what();  // the check waited for the kernel
  } catch (gpuheap::error const&) {
    return text_of_error([&] { heap.check(); });  // the launch did
  }
  return "";
}

}  // namespace test
