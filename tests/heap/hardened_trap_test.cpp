// Misuse that stops a kernel. The test is a program of its own: on a GPU nothing runs after a trap.
#include <gpuheap/hardened.hpp>

#include "misuse_trap.hpp"

namespace {

using namespace test;

TEST(HardenedTrap, StopsTheKernelAndSaysWhatWasMisused) {
  std::string const text = text_of_the_stop<gpuheap::heap<gpuheap::hardened<>>>();
  EXPECT_TRUE(says(text,
                   "gpuheap: a kernel was stopped because a heap of 'hardened sharded_spans' was misused: "
                   "double free: block 0, thread 5 freed"));
  EXPECT_TRUE(says(text, "the block of 32 bytes at 0x"));
}

}  // namespace
