// The queue in segments: alone, contended, under many schedules, in both forms.
#include "virtual_queue_checks.hpp"

namespace structures_test {

// Kernel, one thread: what fits, in which order it comes out, and when blocks go.
template <class Queue>
struct walk_through_segments {
  Queue queue;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned) const {
    simt::uint32_t v = 0;
    unsigned bad = queue.try_pop(v) || queue.queue.size() != 0 || queue.blocks_out() != 0 || queue.vacate();
    // Four places a segment, three blocks: twelve values.
    for (unsigned lap = 0; lap < 20; ++lap) {
      for (unsigned k = 0; k < 12; ++k) bad += !queue.try_push(100 * lap + k) || queue.queue.size() != k + 1;
      bad += queue.try_push(99) || queue.blocks_out() != 3;
      for (unsigned k = 0; k < 12; ++k) bad += queue.queue.peek(k, typename Queue::storage{queue.at}) != 100 * lap + k;
      for (unsigned k = 0; k < 12; ++k) bad += !queue.try_pop(v) || v != 100 * lap + k || (k < 11 && queue.vacate());
      bad += queue.try_pop(v) || queue.blocks_out() > 1;
      // A part of a segment is left, and given up.
      for (unsigned k = 0; k <= lap % 4; ++k) bad += !queue.try_push(k) || queue.vacate() || !queue.try_pop(v) || v != k;
      (void)queue.vacate();
      bad += queue.blocks_out() != 0;
    }
    *wrong = bad;
  }
};

// Kernel, one thread: a few values in the queue all the time, over more segments than a directory has places.
template <class Queue>
struct go_round {
  Queue queue;
  unsigned pushes, held;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned) const {
    unsigned bad = 0;
    for (unsigned k = 0; k < pushes; ++k) {
      simt::uint32_t v = 0;
      bad += !queue.try_push(k);
      if (k >= held) bad += !queue.try_pop(v) || v != k - held;
    }
    *wrong = bad;
  }
};

// Kernel, one thread: a queue that counts 2^31 entries more than it has. A heap of 64 GiB has nearly 2^32 pages of 16 bytes.
template <class Queue>
struct count_many_entries {
  Queue queue;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned) const {
    constexpr simt::uint64_t more = simt::uint64_t{1} << 31;
    // The number of entries lies 1024 bytes behind the queue's first word.
    simt::atomic_ref<simt::uint64_t> const items{*reinterpret_cast<simt::uint64_t*>(queue.at->queue + 1024)};
    simt::uint32_t v = 0;
    unsigned bad = !queue.try_push(5) || !queue.try_push(6) || items.load(simt::relaxed) != 2;
    items.fetch_add(more, simt::relaxed);
    bad += queue.queue.size() != more + 2;
    bad += !queue.try_pop(v) || v != 5 || queue.queue.size() != more + 1;
    bad += !queue.try_push(7) || queue.queue.size() != more + 2;
    items.fetch_sub(more, simt::relaxed);
    bad += !queue.try_pop(v) || v != 6 || !queue.try_pop(v) || v != 7 || queue.try_pop(v);
    *wrong = bad;
  }
};

namespace {

template <class Directory>
struct VirtualQueueIn : ::testing::Test {};
// The last one has few hints, so most searches follow the list.
using directories = ::testing::Types<array_directory, list_directory, gpuheap::structures::basic_list_directory<2>>;
TYPED_TEST_SUITE(VirtualQueueIn, directories);

TYPED_TEST(VirtualQueueIn, IsAQueueWhoseSegmentsComeAndGo) {
  queue_memory<pooled_queue<TypeParam, 4>> memory(4);
  test::device_array<unsigned> wrong(1);
  gpuheap::launch(1, walk_through_segments<pooled_queue<TypeParam, 4>>{memory.queue(), wrong.data()});
  EXPECT_EQ(wrong.first(), 0u);
}
TYPED_TEST(VirtualQueueIn, GoesRound) {
  for (unsigned held : {1u, 7u, 40u}) {
    queue_memory<pooled_queue<TypeParam, 2>> memory(44);
    test::device_array<unsigned> wrong(1);
    gpuheap::launch(1, go_round<pooled_queue<TypeParam, 2>>{memory.queue(), 5000, held, wrong.data()});
    EXPECT_EQ(wrong.first(), 0u) << held << " values held";
  }
}
TYPED_TEST(VirtualQueueIn, PopsEveryValueOnceAndLosesNoBlock) {
  EXPECT_EQ((segments_come_and_go<pooled_queue<TypeParam, 64>>(1024, 1024, 10)), "");
  expect_passes(1000, [] { return segments_come_and_go<pooled_queue<TypeParam, 4>>(explored_threads, 16, 4); });
  expect_passes(1000, [] { return segments_come_and_go<pooled_queue<TypeParam, 2>>(8, 4, 12); });
}
TYPED_TEST(VirtualQueueIn, KeepsFinishedSegments) {
  EXPECT_EQ((segments_come_and_go<pooled_queue<TypeParam, 64, 2, 4>>(1024, 1024, 10)), "");
  expect_passes(1000, [] { return segments_come_and_go<pooled_queue<TypeParam, 4, 2, 2>>(explored_threads, 16, 4); });
  expect_passes(1000, [] { return segments_come_and_go<pooled_queue<TypeParam, 2, 2, 3>>(8, 4, 12); });
  EXPECT_EQ((groups_lose_nothing<pooled_queue<TypeParam, 64, 2, 4>>(many_threads, 1024, 20)), "");
  expect_passes(1000, [] { return groups_lose_nothing<pooled_queue<TypeParam, 8, 2, 2>>(explored_threads, 40, 3); });
  queue_memory<pooled_queue<TypeParam, 2, 2, 3>> memory(44);
  test::device_array<unsigned> wrong(1);
  gpuheap::launch(1, go_round<pooled_queue<TypeParam, 2, 2, 3>>{memory.queue(), 5000, 7, wrong.data()});
  EXPECT_EQ(wrong.first(), 0u);
}
TYPED_TEST(VirtualQueueIn, SharesItsBlocksWithAnother) {
  EXPECT_EQ((segments_come_and_go<queues_with_one_pool<TypeParam, 64, 4, 4>>(1024, 1024, 10)), "");
  expect_passes(500, [] { return segments_come_and_go<queues_with_one_pool<TypeParam, 4>>(explored_threads, 16, 4); });
  expect_passes(1000, [] { return segments_come_and_go<queues_with_one_pool<TypeParam, 2, 4, 4>>(16, 12, 8); });
}
TYPED_TEST(VirtualQueueIn, CountsMoreThan2147483647Entries) {
  queue_memory<pooled_queue<TypeParam, 4>> memory(4);
  test::device_array<unsigned> wrong(1);
  gpuheap::launch(1, count_many_entries<pooled_queue<TypeParam, 4>>{memory.queue(), wrong.data()});
  EXPECT_EQ(wrong.first(), 0u);
}
TEST(VirtualQueue, WaitsForTheEarlierLapsOfItsRing) {
  expect_passes(2000, [] { return segments_come_and_go<queue_of_a_small_ring<array_directory, 2, 8, 0, 4>>(16, 8, 8); });
  expect_passes(1000, [] { return groups_lose_nothing<queue_of_a_small_ring<array_directory, 2, 8, 2, 8>>(explored_threads, 40, 3); });
  expect_passes(1000, [] { return segments_come_and_go<queue_of_a_small_ring<array_directory, 4, 8, 1, 2>>(16, 8, 8); });
}
// Of an array; in a list, segments go in order, and one value may keep all.
TEST(VirtualQueue, RefusesNobodyWhoNeedNotBeRefused) {
  // A block for each value that a thread may have in a segment of its own.
  using queue = pooled_queue<array_directory, 2, 14>;
  expect_passes(1000, [] { return nobody_is_refused_who_need_not_be<queue, simt::uint32_t>(24, 6); });
}
TYPED_TEST(VirtualQueueIn, KeepsTheOrderOfEachProducer) {
  EXPECT_EQ((values_of_a_producer_come_in_order<pooled_queue<TypeParam, 16>, simt::uint32_t>(512, 256, 60)), "");
  expect_passes(500, [] { return values_of_a_producer_come_in_order<pooled_queue<TypeParam, 2>, simt::uint32_t>(8, 8, 12); });
}
TYPED_TEST(VirtualQueueIn, ServesGroupsByOneClaim) {
  EXPECT_EQ((groups_lose_nothing<pooled_queue<TypeParam, 64>>(many_threads, 1024, 20)), "");
  expect_passes(1000, [] { return groups_lose_nothing<pooled_queue<TypeParam, 8>>(explored_threads, 40, 3); });
}

}  // namespace
}  // namespace structures_test
