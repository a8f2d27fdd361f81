// Runs that our allocator parks beside its shards before they are needed: moved over in time, never in the way of anyone, and not to be
// freed into.
#include "sharded_churn.hpp"

#include <algorithm>
#include <vector>

namespace sharded_test {
namespace {

using gpuheap::free_status;

TEST(ShardedStandby, AMixUnderManySchedules) { EXPECT_GT(explore_mix<foresighted>({"ample", 2 << 20, 160, 10, 4, 200, 2000}), 0u); }
TEST(ShardedStandby, AMixInLittleMemory) { EXPECT_GT(explore_mix<foresighted>({"little", 192 << 10, 128, 12, 4, 200, 4000}), 0u); }
TEST(ShardedStandby, OneClassUntilFull) { EXPECT_GT(explore_mix<foresighted>({"one class", 256 << 10, 256, 8, 4, 512, 512}), 0u); }
TEST(ShardedStandby, LargeAndSmallTogether) { EXPECT_GT(explore_mix<foresighted>({"large", 512 << 10, 64, 10, 3, 400, 60000}), 0u); }
TEST(ShardedStandby, SeveralShards) { EXPECT_GT(explore_mix<foresighted>({"shards", 4 << 20, 320, 8, 4, 3000, 8000}), 0u); }

// Every thread takes a block.
template <class Allocator>
struct take {
  Allocator heap;
  void** out;
  std::size_t bytes;
  GPUHEAP_FN void operator()(unsigned i) const { out[i] = heap.malloc(bytes); }
};
// A heap with a parked run of each of these classes, and what was taken to get there.
struct parked_heap : fixed_heap<foresighted> {
  explicit parked_heap(std::size_t bytes, std::vector<std::size_t> const& sizes) : fixed_heap{bytes} {
    for (std::size_t const size : sizes) {
      std::size_t const before = view.verify().standbys;
      // Until a run of the class has passed its mark and not reached its end.
      for (unsigned tries = 0; tries < 64 && view.verify().standbys == before; ++tries) {
        std::vector<void*> some(32);
        gpuheap::launch(32, take<foresighted>{view, some.data(), size});
        live.insert(live.end(), some.begin(), some.end());
      }
      EXPECT_EQ(view.verify().standbys, before + 1) << size;
    }
    EXPECT_EQ(view.verify().problem, "");
  }
  std::vector<void*> live;
};

TEST(ShardedStandby, MemoryThatIsParkedServesEveryoneBeforeARefusal) {
  std::vector<std::size_t> const sizes{600, 1000, 2000};
  for (std::size_t bytes : {16u, 600u, 1000u, 1900u, 2000u, 8192u, 16384u, 40000u}) {
    for (unsigned threads : {1u, 77u}) {
      parked_heap heap{1 << 20, sizes};
      auto const& at = heap.view.geometry();
      std::vector<void*> p(at.heap_bytes() / 16);
      unsigned num = 0, refused = 0;
      gpuheap::launch(threads, take_all<foresighted>{heap.view, p.data(), &num, bytes});
      auto const full = heap.view.verify();
      EXPECT_EQ(full.problem, "");
      EXPECT_EQ(full.standbys, 0u) << bytes;
      EXPECT_LT(full.free_bytes, bytes <= at.largest_slot() ? at.page_bytes() : heap.view.rounded_size(bytes) * 3) << bytes;
      p.resize(num);
      p.insert(p.end(), heap.live.begin(), heap.live.end());
      gpuheap::launch(static_cast<unsigned>(p.size()), free_all<foresighted>{heap.view, p.data(), &refused});
      EXPECT_EQ(refused, 0u);
      auto const empty = heap.view.verify();
      EXPECT_EQ(empty.problem, "");
      EXPECT_EQ(empty.live_slots + empty.large_allocations, 0u);
      // And after all that, all of the heap in one piece.
      void* whole = nullptr;
      gpuheap::launch(1, take<foresighted>{heap.view, &whole, at.heap_bytes()});
      EXPECT_NE(whole, nullptr) << bytes;
    }
  }
}

// The same for large launches only, as it is shipped: here, those of two warps and more.
using foresighted_when_large = gpuheap::basic_sharded_runs<gpuheap::sharded::tuning{
    .lg_run_slots = 6, .guide = 4, .ahead = 1, .scarce = 1u << 20, .lg_warps_per_shard = 0, .looks = 2, .standby_from = 1}>;

// One thread closes what shards of class c hold, and leaves their standbys.
template <class Allocator>
struct close_shards {
  Allocator heap;
  unsigned c;
  GPUHEAP_FN void operator()(unsigned) const {
    auto* const words = heap.control_block();
    for (unsigned k = 0; k < heap.geometry().num_shards(); ++k) (void)words->give_up({words->close(c, k)}, c);
  }
};

// As after another class has closed the shard and before it looks at the standby, or after a standby that came late. The thread that finds
// it is of a launch that makes none.
TEST(ShardedStandby, ARunParkedBesideAnIdleShardServesItsClass) {
  constexpr std::size_t bytes = 4000;
  fixed_heap<foresighted_when_large> heap{4 << 20};
  ASSERT_GT(heap.view.geometry().lg_shards, 0u);
  unsigned const c = gpuheap::sharded::size_classes::class_of(bytes);
  // A warp a shard takes most of its run.
  std::vector<void*> live(64);
  unsigned refused = 0, num = 0;
  gpuheap::launch(64, take<foresighted_when_large>{heap.view, live.data(), bytes});
  ASSERT_EQ(heap.view.verify().standbys, 2u);
  gpuheap::launch(64, free_all<foresighted_when_large>{heap.view, live.data(), &refused});
  EXPECT_EQ(refused, 0u);
  gpuheap::launch(1, close_shards<foresighted_when_large>{heap.view, c});
  // All that is left is taken, in whole segments.
  std::size_t const segment = heap.view.geometry().segment_bytes();
  live.resize(heap.view.verify().free_bytes / segment);
  for (void*& p : live) gpuheap::launch(1, take<foresighted_when_large>{heap.view, &p, segment});
  auto const before = heap.view.verify();
  EXPECT_EQ(before.problem, "");
  ASSERT_EQ(before.standbys, 2u);
  ASSERT_EQ(before.runs, 2u) << "nothing but what is parked";
  ASSERT_EQ(before.free_bytes, 0u);
  live.resize(1000);
  gpuheap::launch(1, take_all<foresighted_when_large>{heap.view, live.data(), &num, bytes});
  auto const full = heap.view.verify();
  EXPECT_EQ(full.problem, "");
  EXPECT_EQ(full.standbys, 0u);
  EXPECT_LT(full.free_bytes, heap.view.geometry().page_bytes());
  EXPECT_EQ(full.live_slots, num);
}

// Frees and asks about slots of a run that is parked.
struct misuse {
  foresighted heap;
  char* const* p;
  unsigned* accepted;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (heap.owns(p[i]) || heap.free(p[i]) != free_status::foreign) count(*accepted);
  }
};

TEST(ShardedStandby, SlotsOfAParkedRunAreNobodys) {
  constexpr std::size_t bytes = 600;
  parked_heap heap{1 << 20, {bytes}};
  auto const& at = heap.view.geometry();
  unsigned const c = gpuheap::sharded::size_classes::class_of(bytes);
  gpuheap::structures::shard_word const parked{at.standbys[c << at.lg_shards]};
  ASSERT_TRUE(parked.has_run());
  std::vector<char*> wrong;
  for (unsigned slot = 0; slot < parked.num_slots(); slot += 1 + slot / 4)
    wrong.push_back(static_cast<char*>(at.address(parked.page(), slot, c)));
  unsigned accepted = 0, refused = 0;
  gpuheap::launch(static_cast<unsigned>(wrong.size()), misuse{heap.view, wrong.data(), &accepted});
  EXPECT_EQ(accepted, 0u);
  EXPECT_EQ(heap.view.verify().problem, "");
  EXPECT_EQ(heap.view.verify().standbys, 1u);
  // All the same they are handed out later, once each.
  std::vector<void*> some(64);
  while (std::find(heap.live.begin(), heap.live.end(), wrong.back()) == heap.live.end()) {
    gpuheap::launch(64, take<foresighted>{heap.view, some.data(), bytes});
    ASSERT_NE(some[0], nullptr);
    heap.live.insert(heap.live.end(), some.begin(), some.end());
  }
  gpuheap::launch(static_cast<unsigned>(heap.live.size()), free_all<foresighted>{heap.view, heap.live.data(), &refused});
  EXPECT_EQ(refused, 0u);
  EXPECT_EQ(heap.view.verify().problem, "");
  EXPECT_EQ(heap.view.verify().live_slots, 0u);
}

// Threads of one class use up runs while others ask for whole segments, most of which they get only from what is parked or closed.
struct contended {
  foresighted heap;
  verdict* out;
  unsigned rounds;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned r = 0; r < rounds; ++r) {
      std::size_t const bytes = (i / 32 + r) % 4 == 3 ? 16384 * (1 + i % 5) : 500 + i % 3 * 400;
      auto* const p = static_cast<unsigned*>(heap.malloc(bytes));
      if (p == nullptr) {
        count(out->nulls);
        continue;
      }
      count(out->served);
      simt::plain_write(p[0], i);
      simt::plain_write(p[bytes / 4 - 1], r);
      if (simt::plain_read(p[0]) != i || simt::plain_read(p[bytes / 4 - 1]) != r) count(out->overwritten);
      if (heap.free(p) != free_status::done) count(out->refused_free);
    }
  }
};

TEST(ShardedStandby, WhatIsParkedIsTakenBackWhileOthersPark) {
  explore("contended", [] {
    fixed_heap<foresighted> heap{512 << 10};
    verdict v;
    gpuheap::launch(160, contended{heap.view, &v, 8}, {.block_threads = 96});
    EXPECT_EQ(v.overwritten + v.refused_free, 0u);
    EXPECT_GT(v.served, 0u);
    auto const found = heap.view.verify();
    EXPECT_EQ(found.problem, "");
    EXPECT_EQ(found.live_slots + found.large_allocations, 0u);
  });
}

}  // namespace
}  // namespace sharded_test
