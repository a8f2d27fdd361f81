// Requests that a test makes fail: the n-th, or some of a size; and the heap's report about them.
#include "fixtures.hpp"

#include <gpuheap/checked.hpp>
#include <gpuheap/failing.hpp>
#include <gpuheap/hardened.hpp>

#include <algorithm>

namespace {

using namespace test;
using heap_t = gpuheap::heap<gpuheap::failing<>>;
static_assert(gpuheap::device_allocator<gpuheap::failing<>> && gpuheap::device_allocator<gpuheap::failing<gpuheap::atomic_malloc>>);

long refused_in(std::vector<void*> const& pointers) { return std::count(pointers.begin(), pointers.end(), nullptr); }

TEST(Failing, NothingFailsUntilItIsTold) {
  heap_t heap{64_MiB};
  EXPECT_EQ(refused_in(blocks_of(heap, 300, 40)), 0);
  EXPECT_NO_THROW(heap.check());
}

TEST(Failing, ExactlyTheNthRequestFailsAndTheHeapTellsOfIt) {
  heap_t heap{64_MiB};
  for (unsigned nth : {0u, 1u, 150u, 299u}) {
    heap.ref().allocator().fail({.first = nth});
    auto const pointers = blocks_of(heap, 300, 40);
    EXPECT_EQ(refused_in(pointers), 1) << nth;
    EXPECT_EQ(heap.stats().failed_requests, 1u);
    EXPECT_TRUE(says(text_of_error([&] { (void)heap.check(); }), "1 request"));
    heap.free(pointers);
    EXPECT_EQ(heap.stats().live_allocations, 0u);
    EXPECT_EQ(heap.verify().problem, "");
    heap.reset();
  }
  heap.ref().allocator().fail({.first = 300});
  EXPECT_EQ(refused_in(blocks_of(heap, 300, 40)), 0) << "the 301st request comes with the next kernel";
  EXPECT_EQ(refused_in(blocks_of(heap, 300, 40)), 1);
}

TEST(Failing, RequestsOfSizesFail) {
  heap_t heap{64_MiB};
  heap.ref().allocator().fail({.first = 10, .count = 5, .least_bytes = 100, .most_bytes = 200});
  EXPECT_EQ(refused_in(blocks_of(heap, 50, 99)), 0);
  EXPECT_EQ(refused_in(blocks_of(heap, 50, 100)), 5);
  EXPECT_EQ(refused_in(blocks_of(heap, 50, 201)), 0);
  heap.ref().allocator().fail({.count = ~simt::uint64_t{0}, .least_bytes = 4096});
  EXPECT_EQ(refused_in(blocks_of(heap, 50, 4096)), 50);
  EXPECT_EQ(refused_in(blocks_of(heap, 50, 4095)), 0);
  heap.ref().allocator().fail({.count = 0});
  EXPECT_EQ(refused_in(blocks_of(heap, 50, 4096)), 0);
}

// A thread that asks for three blocks, and gives back what it has when one of them fails.
template <class Ref>
struct take_three {
  Ref heap;
  GPUHEAP_FN void operator()(unsigned) const {
    void* held[3] = {};
    for (auto& p : held) {
      p = heap.malloc(64);
      if (p == nullptr) break;
    }
    for (void* p : held) heap.free(p);
  }
};
TEST(Failing, ShowsThatAProgramGivesBackWhatItHas) {
  for (unsigned nth = 0; nth < 96; ++nth) {
    heap_t heap{64_MiB};
    heap.ref().allocator().fail({.first = nth});
    gpuheap::launch(32, take_three<heap_t::ref_type>{heap.ref()});
    ASSERT_EQ(heap.stats().failed_requests, 1u) << nth;
    ASSERT_EQ(heap.stats().live_allocations, 0u) << nth;
  }
}

TEST(Failing, ServesForACheckedHeapAndForOtherAllocators) {
  gpuheap::heap<gpuheap::checked<gpuheap::failing<>>> checked{64_MiB};
  EXPECT_EQ(refused_in(blocks_of(checked, 100, 40)), 0);
  EXPECT_NO_THROW(checked.check());
  gpuheap::heap<gpuheap::failing<gpuheap::atomic_malloc>> atomic{1_MiB};
  atomic.ref().allocator().fail({.count = 7});
  EXPECT_EQ(refused_in(blocks_of(atomic, 100, 16)), 7);
}

// A thread that makes an object, which may fail, and a block that it frees twice.
template <class Ref>
struct free_twice {
  Ref heap;
  GPUHEAP_FN void operator()(unsigned) const {
    heap.destroy(heap.template create<unsigned>(1u));
    void* const p = heap.malloc(40, gpuheap::tag_number(7));
    heap.free(p);
    heap.free(p);
  }
};
template <class Allocator>
class FailingOver : public ::testing::Test {};
using that_find_misuse = ::testing::Types<gpuheap::checked<>, gpuheap::hardened<>>;
TYPED_TEST_SUITE(FailingOver, that_find_misuse);

TYPED_TEST(FailingOver, TheMisuseThatAnAllocatorFindsIsReported) {
  using heap_type = gpuheap::heap<gpuheap::failing<TypeParam>>;
  static_assert(gpuheap::finds_misuse<gpuheap::failing<TypeParam>> && !gpuheap::finds_misuse<gpuheap::failing<>>);
  heap_type heap{64_MiB};
  heap.ref().allocator().fail({.first = 0});
  gpuheap::launch(1, free_twice<typename heap_type::ref_type>{heap.ref()});
  EXPECT_EQ(heap.stats().failed_requests, 1u);
  EXPECT_EQ(heap.misuses(gpuheap::misuse::double_free) + heap.misuses(gpuheap::misuse::unknown_free), 1u);
  EXPECT_THROW(heap.check(), gpuheap::misuse_error);
}

TEST(FailingOverChecked, HasTheReportsOfTheCheckedHeap) {
  using heap_type = gpuheap::heap<gpuheap::failing<gpuheap::checked<>>>;
  heap_type heap{64_MiB};
  heap.ref().allocator().fail({.first = 3});
  auto const pointers = blocks_of(heap, 10, 40);
  EXPECT_EQ(refused_in(pointers), 1);
  EXPECT_EQ(heap.blocks().size(), 9u);
  ASSERT_EQ(heap.live_blocks().size(), 1u);
  EXPECT_EQ(heap.live_blocks().front().blocks, 9u);
}

}  // namespace
