// The bounded queue: alone, contended, under many schedules; one value at a time and many at once.
#include <algorithm>

#include "ring_queue_checks.hpp"

namespace structures_test {

// Kernel, one thread: a queue of four places against what is expected of it, over many laps.
template <class T>
struct walk_through {
  ring_queue<T> queue;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned) const {
    T v{};
    unsigned bad = queue.try_pop(v) || queue.size() != 0 || queue.room() != 4;
    for (unsigned lap = 0; lap < 50; ++lap) {
      for (unsigned k = 0; k < 4; ++k) bad += !queue.try_push(value_of<T>(lap, k)) || queue.size() != k + 1;
      bad += queue.try_push(value_of<T>(lap, 9)) || queue.room() != 0;
      for (unsigned k = 0; k < 4; ++k) bad += queue.peek(k) != value_of<T>(lap, k);
      // One out, one in.
      bad += !queue.try_pop(v) || v != value_of<T>(lap, 0);
      bad += !queue.try_push(value_of<T>(lap, 4));
      for (unsigned k = 1; k < 5; ++k) bad += !queue.try_pop(v) || v != value_of<T>(lap, k);
      bad += queue.try_pop(v) || queue.size() != 0;
    }
    *wrong = bad;
  }
};

// Kernel, one thread: claims of more than there is.
struct claim_too_much {
  ring_queue<simt::uint32_t> queue;
  unsigned* got;
  GPUHEAP_FN void operator()(unsigned) const {
    simt::uint32_t first = 0;
    got[0] = queue.claim_pops(3, first);
    got[1] = queue.claim_pushes(6, first);
    for (unsigned k = 0; k < 6; ++k) queue.put(first + k, 100 + k);
    queue.publish(6);
    got[2] = queue.claim_pushes(5, first);  // of two places
    for (unsigned k = 0; k < got[2]; ++k) queue.put(first + k, 106 + k);
    queue.publish(got[2]);
    got[3] = queue.claim_pushes(1, first);
    got[4] = queue.claim_pops(20, first);
    for (unsigned k = 0; k < got[4]; ++k) got[6 + k] = queue.take(first + k);
    queue.recycle(got[4]);
    got[5] = queue.claim_pops(1, first);
  }
};

// Kernel: warps push and pop for all their lanes by one claim; each lane moves its own value.
struct move_by_warps {
  ring_queue<simt::uint64_t> queue;
  unsigned rounds;
  unsigned* seen;  // by thread and round
  unsigned* pushed;
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const lane = simt::lane_id();
    for (unsigned round = 0; round < rounds; ++round) {
      simt::uint32_t first = 0;
      unsigned got = lane == 0 ? queue.claim_pushes(simt::warp_lanes, first) : 0;
      got = simt::shuffle(simt::all_lanes, got, 0);
      first = simt::shuffle(simt::all_lanes, first, 0);
      if (lane < got) queue.put(first + lane, simt::uint64_t{i * rounds + round} + 1);
      if (lane < got) count(&pushed[i * rounds + round]);
      simt::sync_warp(simt::all_lanes);
      if (lane == 0) queue.publish(got);
      got = lane == 0 ? queue.claim_pops(simt::warp_lanes, first) : 0;
      got = simt::shuffle(simt::all_lanes, got, 0);
      first = simt::shuffle(simt::all_lanes, first, 0);
      if (lane < got) count(&seen[queue.take(first + lane) - 1]);
      simt::sync_warp(simt::all_lanes);
      if (lane == 0) queue.recycle(got);
    }
  }
};
// Kernel, one thread.
struct see_the_rest {
  move_by_warps of;
  GPUHEAP_FN void operator()(unsigned) const {
    simt::uint64_t v = 0;
    while (of.queue.try_pop(v)) count(&of.seen[v - 1]);
  }
};
std::string warps_lose_nothing(unsigned warps, unsigned capacity, unsigned rounds) {
  queue_memory<ring_queue<simt::uint64_t>> memory(capacity);
  unsigned const threads = warps * simt::warp_lanes;
  test::device_array<unsigned> seen(threads * rounds), pushed(threads * rounds);
  move_by_warps const kernel{memory.queue(), rounds, seen.data(), pushed.data()};
  gpuheap::launch(threads, kernel, {.block_threads = 64});
  gpuheap::launch(1, see_the_rest{kernel});
  std::string problems;
  auto const in = pushed.read();
  require(problems, in == seen.read(), "not every value that was pushed was popped once");
  require(problems, std::count(in.begin(), in.end(), 1u) > 0, "no warp pushed anything");
  return problems;
}

namespace {

using narrow = simt::uint32_t;
using wide = simt::uint64_t;

template <class T>
unsigned mistakes_of_a_walk() {
  queue_memory<ring_queue<T>> memory(4);
  test::device_array<unsigned> wrong(1);
  gpuheap::launch(1, walk_through<T>{memory.queue(), wrong.data()});
  return wrong.first();
}
TEST(RingQueue, IsAQueueOfAsManyValuesAsItHasPlaces) {
  EXPECT_EQ(mistakes_of_a_walk<narrow>(), 0u);
  EXPECT_EQ(mistakes_of_a_walk<wide>(), 0u);
}

TEST(RingQueue, ClaimsGetWhatIsThereAndNoMore) {
  queue_memory<ring_queue<narrow>> memory(8);
  test::device_array<unsigned> got(14);
  gpuheap::launch(1, claim_too_much{memory.queue(), got.data()});
  EXPECT_EQ(got.read(), (std::vector<unsigned>{0, 6, 2, 0, 8, 0, 100, 101, 102, 103, 104, 105, 106, 107}));
}

// Kernels: a queue begins with `full` values, and is then emptied and filled, by one thread.
struct begin_with {
  ring_queue<narrow> queue;
  unsigned full;
  GPUHEAP_FN void operator()(unsigned i) const { queue.init(i, full, 100 + i); }
};
struct empty_and_fill {
  ring_queue<narrow> queue;
  unsigned full;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned) const {
    narrow v = 0;
    unsigned bad = queue.size() != full || queue.room() != queue.capacity() - full;
    for (unsigned k = 0; k < full; ++k) bad += queue.peek(k) != 100 + k;
    for (unsigned k = 0; k < full; ++k) bad += !queue.try_pop(v) || v != 100 + k;
    bad += queue.try_pop(v);
    for (unsigned k = 0; k < queue.capacity(); ++k) bad += !queue.try_push(k);
    bad += queue.try_push(0);
    for (unsigned k = 0; k < queue.capacity(); ++k) bad += !queue.try_pop(v) || v != k;
    *wrong = bad;
  }
};
TEST(RingQueue, CanBeginWithValues) {
  for (unsigned full : {0u, 1u, 5u, 8u}) {
    queue_memory<ring_queue<narrow>> memory(8);
    test::device_array<unsigned> wrong(1);
    gpuheap::launch(8, begin_with{memory.queue(), full});
    gpuheap::launch(1, empty_and_fill{memory.queue(), full, wrong.data()});
    EXPECT_EQ(wrong.first(), 0u) << full;
  }
}

TEST(RingQueue, PopsEveryValueOnce) {
  EXPECT_EQ((every_value_is_popped_once<ring_queue<narrow>, narrow>(many_threads, 256, 20)), "");
  EXPECT_EQ((every_value_is_popped_once<ring_queue<wide>, wide>(many_threads, 64, 20)), "");
  expect_passes(1000, [] { return every_value_is_popped_once<ring_queue<wide>, wide>(explored_threads, 4, 4); });
  expect_passes(1000, [] { return every_value_is_popped_once<ring_queue<narrow>, narrow>(6, 2, 12); });
}
TEST(RingQueue, RefusesNobodyWhoNeedNotBeRefused) {
  EXPECT_EQ((nobody_is_refused_who_need_not_be<ring_queue<wide>, wide>(many_threads, 10)), "");
  expect_passes(1000, [] { return nobody_is_refused_who_need_not_be<ring_queue<narrow>, narrow>(explored_threads, 4); });
}
TEST(RingQueue, LosesNoPlace) {
  EXPECT_EQ((no_place_is_lost<ring_queue<narrow>, narrow>(many_threads, 128, 10)), "");
  expect_passes(1000, [] { return no_place_is_lost<ring_queue<narrow>, narrow>(explored_threads, 4, 4); });
}
TEST(RingQueue, KeepsTheOrderOfEachProducer) {
  EXPECT_EQ((values_of_a_producer_come_in_order<ring_queue<wide>, wide>(512, 64, 60)), "");
  expect_passes(1000, [] { return values_of_a_producer_come_in_order<ring_queue<wide>, wide>(8, 4, 12); });
}
TEST(RingQueue, ServesWarpsByOneClaim) {
  EXPECT_EQ(warps_lose_nothing(64, 256, 20), "");
  expect_passes(500, [] { return warps_lose_nothing(3, 32, 3); });
  expect_passes(500, [] { return warps_lose_nothing(3, 16, 3); });
}

}  // namespace
}  // namespace structures_test
