// The policy that stops a kernel. The test is a program of its own: on a GPU nothing runs after a trap.
#include "fixtures.hpp"

namespace {

using namespace test;

TEST(Trap, StopsTheKernelAndSaysWhoAsked) {
  gpuheap::heap<gpuheap::backing_reference> heap{1_MiB};
  heap.set_policy(gpuheap::exhaustion_policy::trap);
  for (void* p : blocks_of(heap, 10, 100)) EXPECT_NE(p, nullptr) << "a kernel that finds memory runs as ever";
  EXPECT_NO_THROW(heap.check());
  heap.reset();  // the policy stays

  device_array<void*> out(1);
  using ref = gpuheap::heap<gpuheap::backing_reference>::ref_type;
  std::string text;
  try {
    gpuheap::launch(1, take<ref>{heap.ref(), 7_MiB, out.data()});
    heap.check();
  } catch (gpuheap::out_of_memory const& e) {
    text = e.what();  // the check waited for the kernel
  } catch (gpuheap::error const&) {
    text = text_of_error([&] { heap.check(); });  // the launch did
  }
  EXPECT_TRUE(says(text, "a kernel was stopped because a heap of 'backing_reference' had no room for 7340032 bytes (block 0, thread 0)"));
}

}  // namespace
