// Calls of the simulated runtime that a test makes fail.
#include <gpuheap_simulator/faults.hpp>
#include <gpuheap_simulator/memory.hpp>

#include "kernels.hpp"

namespace test {
namespace {

TEST(Faults, OneCallFailsAndLaterOnesDoNot) {
  simulator::scoped_fault const fault{2};
  char a = 1, b = 2;
  simt::copy(&a, &b, 1);
  simt::synchronize({});
  EXPECT_THROW(simt::fill(&a, 0, 1), gpuheap::device_error);
  EXPECT_EQ(a, 2) << "a fill that fails fills nothing";
  EXPECT_TRUE(fault.happened());
  simt::fill(&a, 0, 1);
  EXPECT_EQ(a, 0);
  EXPECT_EQ(fault.calls(), 4u);
}

TEST(Faults, AllCallsFailOnceTheContextIsLost) {
  auto const before = simulator::memory_held();
  void* const p = simt::allocate(simt::memory_kind::device, 4096);
  {
    simulator::scoped_fault const fault{0, true};
    EXPECT_THROW((void)simt::allocate(simt::memory_kind::device, 1), gpuheap::out_of_memory);
    EXPECT_THROW(simt::synchronize_device(), gpuheap::device_error);
    EXPECT_THROW(run(1, [](unsigned) {}), gpuheap::device_error);
    simt::deallocate(simt::memory_kind::device, p);
  }
  EXPECT_EQ(simulator::memory_held(), before);
  run(1, [](unsigned) {});
}

TEST(Faults, AnInnerScopeTakesTheOuterOnesPlace) {
  simulator::scoped_fault const outer{0};
  {
    simulator::scoped_fault const inner{simulator::scoped_fault::none};
    simt::synchronize({});
    EXPECT_EQ(inner.calls(), 1u);
  }
  EXPECT_FALSE(outer.happened());
  EXPECT_THROW(simt::synchronize({}), gpuheap::device_error);
}

}  // namespace
}  // namespace test
