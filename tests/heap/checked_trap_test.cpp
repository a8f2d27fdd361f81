// Misuse that stops a kernel. The test is a program of its own: on a GPU nothing runs after a trap.
#include <gpuheap/checked.hpp>

#include "misuse_trap.hpp"

namespace {

using namespace test;

TEST(CheckedTrap, StopsTheKernelAndSaysWhatWasMisused) {
  std::string const text = text_of_the_stop<gpuheap::heap<gpuheap::checked<>>>();
  EXPECT_TRUE(says(text,
                   "gpuheap: a kernel was stopped because a heap of 'checked sharded_spans' was misused: "
                   "double free: block 0, thread 5 at "));
  EXPECT_TRUE(says(text, "asked for by block 0, thread 5 at "));
  EXPECT_TRUE(says(text, "misuse_trap.hpp:12), freed by block 0, thread 5 at "));
  EXPECT_TRUE(says(text, "misuse_trap.hpp:13 before"));
  EXPECT_TRUE(says(text, "misuse_trap.hpp:14 freed the block of 24 bytes"));
}

}  // namespace
