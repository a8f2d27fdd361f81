// Members of heap_ref in a lambda for host and device, as Kokkos makes them: they compile without a warning, and are neutral on the host.
// Needs no GPU.
#include <gtest/gtest.h>
#include <gpuheap/allocators/kma.hpp>
#include <gpuheap/failing.hpp>
#include <gpuheap/heap.hpp>
#include <gpuheap/recorded.hpp>

namespace {

struct node {
  int value;
  node* next;
};

template <class F>
__global__ void run_on_device(F f, unsigned* answers) {
  answers[threadIdx.x] = f(threadIdx.x);
}

// The number of answers that are not neutral.
template <class F>
unsigned run(F f, bool has_device) {
  if (has_device) run_on_device<<<1, 32>>>(f, nullptr);
  return f(7);
}

template <class Ref>
unsigned use(Ref heap) {
  int here = 0;
  void* const mine = &here;
  return run(
      [heap, mine] __host__ __device__(unsigned bytes) -> unsigned {
        unsigned answers = 0;
        void* const p = heap.malloc(bytes);
        answers += p != nullptr;
        answers += heap.calloc(bytes, 2) != nullptr;
        answers += heap.template create<node>(1, nullptr) != nullptr;
        answers += heap.free(mine) != gpuheap::free_status::null;
        answers += heap.destroy(static_cast<node*>(p)) != gpuheap::free_status::null;
        if constexpr (gpuheap::has_usable_size<typename Ref::allocator_type>) {
          answers += heap.realloc(mine, bytes) != nullptr;
          answers += heap.aligned_malloc(bytes, 64) != nullptr;
          answers += heap.usable_size(mine) != 0;
          answers += heap.owns(mine);
        }
        return answers;
      },
      false);
}

TEST(BothSides, MembersAreNeutralOnTheHost) {
  EXPECT_EQ(use(gpuheap::heap_ref<>{}), 0u);
  EXPECT_EQ((use(gpuheap::heap_ref<gpuheap::sharded_spans, gpuheap::uncounted>{})), 0u);
}

// allocator.hpp promises rounded_size() on either side, so the wrappers have it there too. nvcc refuses these calls of a function that is
// for the device alone; in a template it would not.
TEST(BothSides, WrappersRoundSizesOnTheHost) {
  gpuheap::kma const own;
  gpuheap::failing<gpuheap::kma> const failing;
  gpuheap::recorded<gpuheap::kma, 16> const recorded;
  EXPECT_GE(own.rounded_size(100), 100u);
  EXPECT_EQ(failing.rounded_size(100), own.rounded_size(100));
  EXPECT_EQ(recorded.rounded_size(100), own.rounded_size(100));
}

}  // namespace
