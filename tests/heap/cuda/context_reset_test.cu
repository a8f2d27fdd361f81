// Tests of heaps of each kind whose CUDA context is reset: the row of docs/misuse.md that needs a GPU, since the simulator has no contexts.
// They are a program of their own, since a reset takes the memory of the whole process.
#include "../fixtures.hpp"

#include <gpuheap/checked.hpp>
#include <gpuheap/hardened.hpp>

#include <optional>

namespace {

using namespace test;

template <class Allocator>
class Misuse : public ::testing::Test {};
using kinds = ::testing::Types<gpuheap::sharded_spans, gpuheap::hardened<>, gpuheap::checked<>>;
TYPED_TEST_SUITE(Misuse, kinds);

TYPED_TEST(Misuse, ContextReset) {
  using heap_type = gpuheap::heap<TypeParam>;
  std::optional<heap_type> before{8_MiB}, growing;
  if constexpr (gpuheap::has_grow<TypeParam>) growing.emplace(gpuheap::growth{.initial = 8_MiB, .at_most = 1_GiB});
  EXPECT_NE(blocks_of(*before, 1, 64)[0], nullptr);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  before.reset();
  growing.reset();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the end of a heap left an error behind";
  heap_type after{8_MiB};
  EXPECT_NE(blocks_of(after, 1, 64)[0], nullptr);
  EXPECT_EQ(text_of_error([&] { after.check(); }), "");
  EXPECT_EQ(after.stats().live_allocations, 1u);
}

}  // namespace
