// A file of a CUDA program that g++ compiles: the host's side of heaps, of the default one and of one with the program's own allocator.
// Linking it is half of the test.
#include "own_allocator.hpp"

#include <gpuheap/heap.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace {

using namespace gpuheap::literals;

TEST(PlainUser, OwnsHeapsInAFileThatGxxCompiles) {
  gpuheap::heap<> ours{16_MiB};
  gpuheap::heap<own::slots> own{1_MiB};
  gpuheap::heap<own::slots, gpuheap::uncounted> bare{1_MiB};
  for (auto check : {0, 1}) {
    EXPECT_EQ(ours.stats().live_allocations, 0u) << check;
    EXPECT_EQ(own.stats().live_allocations, 0u) << check;
    ours.reset();
    own.reset();
    bare.reset();
  }
  ours.free(std::vector<void*>{nullptr, nullptr});
  own.free(std::vector<void*>{nullptr});
  EXPECT_NO_THROW(ours.check());
  EXPECT_NO_THROW(own.check());
}

}  // namespace
