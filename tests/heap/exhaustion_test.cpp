// What the host learns when a kernel's request found no memory, or a free was refused.
#include "fixtures.hpp"

namespace {

using namespace test;
using heap_t = gpuheap::heap<gpuheap::backing_reference>;

TEST(Exhaustion, NothingWrongPassesTheCheck) {
  heap_t heap{1_MiB};
  heap.free(blocks_of(heap, 100, 100));
  EXPECT_NO_THROW(heap.check());
}

TEST(Exhaustion, TheCheckThrowsWhatFailedAndWhere) {
  heap_t heap{1_MiB};
  blocks_of(heap, 3, 5_MiB, {.block_threads = 64});
  EXPECT_THROW(heap.check(), gpuheap::out_of_memory);
  blocks_of(heap, 1, 5_MiB);
  std::string const text = text_of_error([&] { heap.check(); });
  EXPECT_TRUE(says(text, "1 requests in kernels found no memory in a heap of 1.0 MiB"));
  EXPECT_TRUE(says(text, "the first asked for 5242880 bytes (block 0, thread 0)"));
}

TEST(Exhaustion, IsReportedOnce) {
  heap_t heap{1_MiB};
  blocks_of(heap, 10, 5_MiB);
  EXPECT_THROW(heap.check(), gpuheap::out_of_memory);
  EXPECT_NO_THROW(heap.check());
  EXPECT_EQ(heap.stats().failed_requests, 10u) << "the statistics keep the total";
}

TEST(Exhaustion, ACallbackReplacesTheException) {
  heap_t heap{1_MiB};
  unsigned calls = 0;
  gpuheap::exhaustion last;
  heap.on_exhausted([&](gpuheap::exhaustion const& what) {
    ++calls;
    last = what;
  });
  EXPECT_NO_THROW(heap.check());
  EXPECT_EQ(calls, 0u);
  blocks_of(heap, 10, 3_MiB);
  EXPECT_NO_THROW(heap.check());
  EXPECT_EQ(calls, 1u);
  EXPECT_EQ(last.failed_requests, 10u);
  EXPECT_EQ(last.first.bytes, 3_MiB);
  EXPECT_EQ(last.stats.heap_bytes, 1_MiB);
  blocks_of(heap, 4, 3_MiB);
  heap.check();
  EXPECT_EQ(calls, 2u);
  EXPECT_EQ(last.failed_requests, 4u) << "since the last check";
  EXPECT_EQ(last.stats.failed_requests, 14u);
  heap.on_exhausted({});
  blocks_of(heap, 1, 3_MiB);
  EXPECT_THROW(heap.check(), gpuheap::out_of_memory);
}

TEST(Exhaustion, ACallbackMayThrow) {
  heap_t heap{1_MiB};
  heap.on_exhausted([](gpuheap::exhaustion const&) { throw std::runtime_error("mine"); });
  blocks_of(heap, 1, 3_MiB);
  EXPECT_THROW(heap.check(), std::runtime_error);
  EXPECT_NO_THROW(heap.check());
}

// One thread: a request that fails, and a block freed twice.
struct fail_and_free_twice {
  heap_t::ref_type heap;
  GPUHEAP_FN void operator()(unsigned) const {
    void* const p = heap.malloc(64);
    heap.free(p);
    heap.free(p);
    (void)heap.malloc(3 << 20);
  }
};
TEST(Exhaustion, EachKindIsReportedOnce) {
  heap_t heap{1_MiB};
  gpuheap::launch(1, fail_and_free_twice{heap.ref()});
  std::string const first = text_of_error([&] { heap.check(); });
  EXPECT_TRUE(says(first, "found no memory"));
  EXPECT_TRUE(says(first, "Frees were refused as well: the next check() says which"));
  EXPECT_TRUE(says(text_of_error([&] { heap.check(); }), "1 of blocks that were free already"));
  EXPECT_NO_THROW(heap.check());
  EXPECT_EQ(heap.stats().double_frees, 1u) << "the statistics keep the total";
}
TEST(Exhaustion, ACallbackHidesNoRefusedFree) {
  heap_t heap{1_MiB};
  unsigned calls = 0;
  heap.on_exhausted([&](gpuheap::exhaustion const&) { ++calls; });
  gpuheap::launch(1, fail_and_free_twice{heap.ref()});
  EXPECT_TRUE(says(text_of_error([&] { heap.check(); }), "1 of blocks that were free already"));
  EXPECT_EQ(calls, 1u);
  EXPECT_NO_THROW(heap.check());
  EXPECT_EQ(calls, 1u);
}
TEST(Exhaustion, ACallbackThatThrowsHidesNoRefusedFree) {
  heap_t heap{1_MiB};
  unsigned calls = 0;
  heap.on_exhausted([&](gpuheap::exhaustion const&) {
    ++calls;
    throw std::runtime_error("mine");
  });
  gpuheap::launch(1, fail_and_free_twice{heap.ref()});
  EXPECT_THROW(heap.check(), std::runtime_error);
  EXPECT_TRUE(says(text_of_error([&] { heap.check(); }), "1 of blocks that were free already"));
  EXPECT_NO_THROW(heap.check());
  EXPECT_EQ(calls, 1u);
}

TEST(Exhaustion, ResetForgetsIt) {
  heap_t heap{1_MiB};
  blocks_of(heap, 10, 3_MiB);
  heap.reset();
  EXPECT_NO_THROW(heap.check());
  EXPECT_EQ(heap.stats().failed_requests, 0u);
  blocks_of(heap, 1, 2_MiB);
  EXPECT_EQ(heap.stats().first_failure.bytes, 2_MiB);
  EXPECT_THROW(heap.check(), gpuheap::out_of_memory);
}

TEST(Exhaustion, TheCheckThrowsForRefusedFrees) {
  heap_t heap{1_MiB};
  auto const blocks = blocks_of(heap, 2, 100);
  heap.free(blocks);
  heap.free(blocks);
  int host_variable = 0;
  heap.free(std::vector<void*>{&host_variable});
  std::string const text = text_of_error([&] { heap.check(); });
  EXPECT_TRUE(says(text, "frees refused by a heap of 'backing_reference'"));
  EXPECT_TRUE(says(text, "2 of blocks that were free already"));
  EXPECT_TRUE(says(text, "1 of pointers that it never handed out"));
  EXPECT_NO_THROW(heap.check());
}

}  // namespace
