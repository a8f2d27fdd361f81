// A program that chooses its own allocator deletes polymorphic objects where it made them. In the simulator only: on a GPU kernels of plain
// CUDA fail too when they call virtual functions (tests/hazards/cuda_virtual.cu).
#include "program_objects.hpp"

namespace {

using namespace test;

struct has_virtual {
  GPUHEAP_FN virtual ~has_virtual() {}
};

TEST(ProgramAllocator, DeletesPolymorphicObjectsWhereItMadeThem) { expect_clean<make_and_destroy<has_virtual>>(); }

}  // namespace
