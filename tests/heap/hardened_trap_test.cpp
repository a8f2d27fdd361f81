// Misuse that stops a kernel. A program of its own: on a GPU nothing runs after a trap.
#include "fixtures.hpp"

#include <gpuheap/hardened.hpp>

namespace {

using namespace test;

template <class Ref>
struct free_twice {
  Ref heap;
  GPUHEAP_FN void operator()(unsigned i) const {
    void* const p = heap.malloc(24, gpuheap::here());
    heap.free(p);
    if (i == 5) heap.free(p);
  }
};

TEST(HardenedTrap, StopsTheKernelAndSaysWhatWasMisused) {
  using heap_t = gpuheap::heap<gpuheap::hardened<>>;
  heap_t heap{4_MiB};
  heap.set_misuse_policy(gpuheap::when_misused::trap);
  heap.reset();  // the policy stays
  std::string text;
  try {
    gpuheap::launch(32, free_twice<heap_t::ref_type>{heap.ref()});
    heap.check();
  } catch (gpuheap::misuse_error const& e) {
    text = e.what();  // the check waited for the kernel
    EXPECT_EQ(e.first().what, gpuheap::misuse::double_free);
  } catch (gpuheap::error const&) {
    text = text_of_error([&] { heap.check(); });  // the launch did
  }
  EXPECT_TRUE(
      says(text, "gpuheap: a kernel was stopped because a heap of 'hardened gpuheap' was misused: double free: block 0, thread 5 freed"));
  EXPECT_TRUE(says(text, "the block of 32 bytes at 0x"));
}

}  // namespace
