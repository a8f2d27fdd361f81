// Tests of the events that a recording heap records, and of the text of a recording.
#include "fixtures.hpp"

#include <gpuheap/recorded.hpp>

#include <set>
#include <sstream>

namespace {

using namespace test;
using gpuheap::trace_event;

using recorder = gpuheap::recorded<gpuheap::backing_reference, 4096>;
static_assert(gpuheap::device_allocator<recorder>);
static_assert(std::string_view{recorder::traits.name} == gpuheap::backing_reference::traits.name);

std::string text_of(gpuheap::recording const& what) {
  std::ostringstream out;
  out << gpuheap::trace_text{what};
  return out.str();
}

TEST(Recorded, EveryRequestAndFreeIsAnEventOfItsThread) {
  gpuheap::heap<recorder> heap{4_MiB};
  auto const blocks = blocks_of(heap, 100, 40);
  heap.ref().allocator().end_kernel();
  heap.free(blocks);
  auto const what = heap.ref().allocator().read();
  EXPECT_EQ(what.dropped, 0u);
  ASSERT_EQ(what.events.size(), 201u);
  std::set<unsigned> asked, freed;
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(what.events[i].kind, trace_event::request);
    EXPECT_EQ(what.events[i].bytes, 40u);
    EXPECT_EQ(what.events[i].address, reinterpret_cast<std::uintptr_t>(blocks[what.events[i].thread]));
    asked.insert(what.events[i].thread);
    EXPECT_EQ(what.events[101 + i].kind, trace_event::release);
    freed.insert(what.events[101 + i].thread);
  }
  EXPECT_EQ(what.events[100].kind, trace_event::kernel_end);
  EXPECT_EQ(asked.size(), 100u);
  EXPECT_EQ(freed.size(), 100u);
  heap.reset();
  EXPECT_TRUE(heap.ref().allocator().read().events.empty());
}

// Takes and frees again and again: the same memory serves many.
template <class Ref>
struct take_and_give {
  Ref heap;
  GPUHEAP_FN void operator()(unsigned) const {
    for (int round = 0; round < 10; ++round) heap.free(heap.malloc(64));
  }
};

TEST(Recorded, TheOrderIsOneInWhichABlockHasOneOwnerAtATime) {
  gpuheap::heap<recorder> heap{1_MiB};
  gpuheap::launch(200, take_and_give<decltype(heap)::ref_type>{heap.ref()});
  auto const what = heap.ref().allocator().read();
  ASSERT_EQ(what.events.size(), 4000u);
  std::set<std::uint64_t> live;
  for (auto const& e : what.events) {
    if (e.kind == trace_event::request) {
      ASSERT_TRUE(e.address == 0 || live.insert(e.address).second) << "asked for while it was live";
    } else {
      ASSERT_EQ(live.erase(e.address), 1u) << "freed while it was not";
    }
  }
}

TEST(Recorded, WhatComesWhenTheBufferIsFullIsCounted) {
  gpuheap::heap<gpuheap::recorded<gpuheap::backing_reference, 64>> heap{4_MiB};
  auto const blocks = blocks_of(heap, 100, 16);
  heap.ref().allocator().end_kernel();
  auto const what = heap.ref().allocator().read();
  EXPECT_EQ(what.events.size(), 64u);
  EXPECT_EQ(what.dropped, 37u);
  EXPECT_NE(text_of(what).find("\nevents 64\ndropped 37\n"), std::string::npos);
  heap.free(blocks);
}

TEST(Recorded, FailedRequestsAreRequestsWithoutABlock) {
  gpuheap::heap<recorder> heap{1_MiB};
  auto const blocks = blocks_of(heap, 1, 2_MiB);
  auto const what = heap.ref().allocator().read();
  ASSERT_EQ(what.events.size(), 1u);
  EXPECT_EQ(what.events[0].address, 0u);
  EXPECT_EQ(text_of(what), "gpuheap-trace 1\nthreads 1\nevents 1\ndropped 0\nm 0 2097152\n");
}

TEST(TraceText, NumbersAllocationsInTheOrderOfTheirLines) {
  gpuheap::recording what;
  what.events = {{0x100, 64, 17, trace_event::request}, {0x200, 8, 3, trace_event::request},  {0x100, 0, 3, trace_event::release},
                 {0, 0, 0, trace_event::kernel_end},    {0x100, 16, 0, trace_event::request}, {0x900, 0, 1, trace_event::release},
                 {0x100, 0, 1, trace_event::release}};
  EXPECT_EQ(text_of(what), "gpuheap-trace 1\nthreads 18\nevents 6\ndropped 0\nm 17 64\nm 3 8\nf 3 0\nk\nm 0 16\nf 1 2\n");
}

// Kernel: fills the heap behind one large block, then makes that much smaller.
template <class Ref>
struct shrink_in_a_full_heap {
  Ref heap;
  void** out;
  GPUHEAP_FN void operator()(unsigned) const {
    out[0] = heap.malloc(4096);
    // Ends: the heap becomes full.
    while (heap.malloc(64) != nullptr) continue;
    out[1] = heap.realloc(out[0], 100);
  }
};
TEST(Recorded, AShrinkThatStaysIsNoFailedRequest) {
  gpuheap::heap<recorder> heap{recorder::min_region_bytes() + 64_KiB};
  device_array<void*> out(2);
  gpuheap::launch(1, shrink_in_a_full_heap<decltype(heap)::ref_type>{heap.ref(), out.data()});
  auto const blocks = out.read();
  ASSERT_NE(blocks[0], nullptr);
  EXPECT_EQ(blocks[0], blocks[1]) << "there is no other";
  EXPECT_EQ(heap.stats().failed_requests, 1u) << "the loop's last";
  auto const what = heap.ref().allocator().read();
  unsigned refused = 0, released = 0;
  for (auto const& e : what.events) {
    refused += e.kind == trace_event::request && e.address == 0;
    released += e.kind == trace_event::release;
  }
  EXPECT_EQ(refused, 1u);
  EXPECT_EQ(released, 0u);
}

}  // namespace
