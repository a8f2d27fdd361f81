// Memory that warps give back together: the groups that release, and the heap's counts.
#include "fixtures.hpp"
#include "groups.hpp"

#include "../support/pattern.hpp"

#include <gpuheap/allocators/fdgmalloc.hpp>
#include <gpuheap/simt/explore.hpp>

#include <algorithm>

namespace {

using namespace test;
using fdgmalloc = gpuheap::basic_fdgmalloc<gpuheap::fdgmalloc_config{}, gpuheap::backing_reference>;
using heap_t = gpuheap::heap<fdgmalloc>;

// Kernel: threads ask, write, read, and give back as a group, in rounds.
template <class Groups>
struct ask_and_release {
  heap_t::ref_type heap;
  Groups groups;
  unsigned rounds;
  bool tidy;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const group = groups(i);
    unsigned bad = 0;
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const bytes = 8 + (i + round) % 90;
      void* const p = heap.malloc(bytes);
      if (p == nullptr) {
        ++bad;
      } else {
        fill_pattern(p, bytes, i);
        bad += wrong_words(p, bytes, i);
        if (heap.free(p) != gpuheap::free_status::done) ++bad;  // says nothing
        bad += wrong_words(p, bytes, i);
      }
      if (tidy) {
        heap.tidy_up_warp(group);
      } else {
        heap.release_warp(group);
      }
    }
    if (bad != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(bad, simt::relaxed);  // relaxed: a count
  }
};
template <class Groups>
std::string ask_and_release_in(unsigned threads, unsigned block_threads, unsigned rounds, bool tidy) {
  heap_t heap{2_MiB};
  device_array<gpuheap::block_scratch> scratch(threads / block_threads);
  device_array<unsigned> wrong(1);
  gpuheap::launch(threads, ask_and_release<Groups>{heap.ref(), Groups::make(scratch.data()), rounds, tidy, wrong.data()},
                  {.block_threads = block_threads});
  gpuheap::statistics const s = heap.stats();
  auto const report = heap.verify();
  if (wrong.first() != 0) return std::to_string(wrong.first()) + " requests failed, or words changed";
  if (s.live_allocations != 0) return std::to_string(s.live_allocations) + " allocations are counted as live";
  if (report.lists != (tidy ? threads / block_threads * ((block_threads + 31) / 32) : 0)) return std::to_string(report.lists) + " lists";
  return report.problem;
}

TEST(ReleaseWarp, WarpsAndBlocksAsGroups) {
  for (bool const tidy : {false, true}) {
    EXPECT_EQ(ask_and_release_in<whole_warps>(1040, 104, 5, tidy), "");
    EXPECT_EQ(ask_and_release_in<blocks>(1040, 104, 5, tidy), "");
  }
}
TEST(ReleaseWarp, WarpsAndBlocksAsGroupsUnderManySchedules) {
  simt::exploration const e = simt::explore(
      300, [] { return ask_and_release_in<whole_warps>(84, 42, 2, true).empty() && ask_and_release_in<blocks>(84, 42, 2, false).empty(); });
  EXPECT_TRUE(e) << e.what;
}

// Kernel: the lanes that come together give back together.
struct release_here {
  heap_t::ref_type heap;
  GPUHEAP_FN void operator()(unsigned) const { heap.release_warp(); }
};
TEST(ReleaseWarp, CountsWhatIsLiveUntilThen) {
  heap_t heap{8_MiB};
  auto const small = blocks_of(heap, 1000, 16), large = blocks_of(heap, 40, 20'000);
  EXPECT_EQ(heap.stats().live_allocations, 1040u);
  EXPECT_FALSE(heap.stats().counts_bytes);
  EXPECT_EQ(heap.stats().held_bytes > 800'000, true);
  heap.free(small);
  EXPECT_EQ(heap.stats().live_allocations, 1040u) << "a single free does nothing";
  gpuheap::launch(1, release_here{heap.ref()});  // the first warp: 32 of the small ones and of the large ones
  EXPECT_EQ(heap.stats().live_allocations, 1040u - 64);
  gpuheap::launch(1000, release_here{heap.ref()});
  EXPECT_EQ(heap.stats().live_allocations, 0u);
  EXPECT_EQ(heap.stats().held_bytes, 0u);
}

TEST(ReleaseWarp, ResetForgetsRecords) {
  heap_t heap{1_MiB};
  auto const ref = heap.ref();
  for (unsigned round = 0; round < 5; ++round) {
    auto const p = blocks_of(heap, 640, 900);  // more than half of the heap
    EXPECT_EQ(std::count(p.begin(), p.end(), nullptr), 0);
    heap.reset();
    EXPECT_EQ(heap.verify().warps, 0u);
    gpuheap::launch(640, release_here{ref});  // what is forgotten is not released
    EXPECT_EQ(heap.stats().held_bytes, 0u);
    EXPECT_EQ(heap.verify().problem, "");
  }
}

// The policy alone.
struct tell_together {
  gpuheap::counted of;
  GPUHEAP_FN void operator()(unsigned) const {
    of.allocated(100);
    if (simt::thread_in_block() == 0) of.freed_together(simt::threads_per_block(), 100u * simt::threads_per_block());
  }
};
TEST(ReleaseWarp, ManyAreCountedAtOnce) {
  device_array<std::uint64_t> counters(gpuheap::counted::counter_bytes / 8);
  gpuheap::counted const policy{counters.data(), 64_MiB};
  gpuheap::launch(640, tell_together{policy}, {.block_threads = 64});
  gpuheap::live_counts const live = policy.read(counters.read().data());
  EXPECT_EQ(live.allocations, 0u);
  EXPECT_EQ(live.bytes, 0u);
}

}  // namespace
