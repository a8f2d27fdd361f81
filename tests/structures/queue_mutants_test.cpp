// Queues in segments, and semaphores of batches, with one mistake each. Exploration finds every one of them within the stated number of
// seeds, so the checks, which the real ones pass, can fail.
#include "batch_semaphore_checks.hpp"
#include "virtual_queue_checks.hpp"
#include "virtual_queue_mutants.hpp"

namespace structures_test {
namespace {

template <class Check>
void expect_found(std::uint64_t within_seeds, Check check) {
  simt::exploration const e = simt::explore(within_seeds, [&] { return check().empty(); });
  EXPECT_TRUE(e.failed) << "not found within " << within_seeds << " seeds";
  testing::Test::RecordProperty("seed", std::to_string(e.seed));
}

// ---- virtual_queue

template <class Directory>
using small_queue = pooled_queue<Directory, 2>;

TEST(VirtualQueueMutants, BlocksThatAreNotEmptiedAreFoundWithin20Seeds) {
  expect_found(20, [] { return segments_come_and_go<small_queue<array_of_old_blocks>>(8, 4, 12); });
}
TEST(VirtualQueueMutants, SegmentsWithoutNumbersAreFoundWithin2000Seeds) {
  expect_found(2000, [] { return segments_come_and_go<pooled_queue<array_without_numbers, 2>>(explored_threads, 48, 8); });
}
TEST(VirtualQueueMutants, SegmentsThatGoEarlyAreFoundWithin20Seeds) {
  expect_found(20, [] { return segments_come_and_go<small_queue<array_that_goes_early>>(8, 4, 12); });
}
TEST(VirtualQueueMutants, LaterLapsThatComeFirstAreFoundWithin2000Seeds) {
  expect_found(2000, [] { return groups_lose_nothing<queue_of_a_small_ring<array_without_laps, 2, 8, 0, 8>>(explored_threads, 40, 3); });
}
TEST(VirtualQueueMutants, OldRecordsAreFoundWithin2000Seeds) {
  expect_found(2000, [] { return segments_come_and_go<small_queue<list_of_old_records>>(16, 8, 12); });
}
TEST(VirtualQueueMutants, OldHintsAreFoundWithin20Seeds) {
  expect_found(20, [] { return segments_come_and_go<small_queue<list_of_old_hints>>(16, 8, 12); });
}
TEST(VirtualQueueMutants, APlaceInTwoWordsIsFoundWithin500Seeds) {
  expect_found(500, [] { return segments_come_and_go<small_queue<list_of_two_words>>(16, 8, 12); });
}
TEST(VirtualQueueMutants, ForgottenSegmentsAreFoundWithin100Seeds) {
  expect_found(100, [] { return segments_come_and_go<small_queue<list_that_forgets>>(16, 8, 12); });
}
TEST(VirtualQueueMutants, LeavingBeforeTheLastPopIsFoundWithin100Seeds) {
  expect_found(100, [] { return segments_come_and_go<small_queue<list_that_leaps>>(16, 8, 12); });
}
TEST(VirtualQueueMutants, LeavingWhileOthersPopIsFoundWithin500Seeds) {
  expect_found(500, [] { return groups_lose_nothing<pooled_queue<list_that_leaves, 8>>(explored_threads, 40, 3); });
}

// ---- batch_semaphore

// A claim that fails and gives back, and does not see what came meanwhile: a false refusal.
struct semaphore_that_does_not_look_again : batch_semaphore {
  unsigned try_acquire(unsigned wanted) const {
    simt::atomic_ref<word> const there{at->units};
    auto const before = static_cast<long long>(there.fetch_sub(wanted, simt::relaxed));
    if (before >= static_cast<long long>(wanted)) return wanted;
    there.fetch_add(wanted, simt::relaxed);
    return 0;
  }
};
// A claim in two steps.
struct semaphore_that_looks_first : batch_semaphore {
  unsigned try_acquire(unsigned wanted) const {
    simt::atomic_ref<word> const there{at->units};
    auto const seen = static_cast<long long>(there.load(simt::relaxed));
    if (seen < static_cast<long long>(wanted)) return 0;
    there.store(static_cast<word>(seen) - wanted, simt::relaxed);
    return wanted;
  }
};
// A maker that failed and is still expected to bring something.
struct semaphore_that_expects_for_ever : batch_semaphore {
  void made(unsigned batch) const {
    if (available() > 0) batch_semaphore::made(batch);
  }
};
// All in one word, as published: 25 bits of units, 25 expected.
struct semaphore_of_one_word : batch_semaphore {
  void release(unsigned n) const { simt::atomic_ref<word>{at->expected}.fetch_add(n, simt::relaxed); }
  long long available() const { return static_cast<long long>(simt::atomic_ref<word>{at->expected}.load(simt::relaxed) & 0x1ffffff); }
};

TEST(BatchSemaphoreMutants, AClaimInTwoStepsIsFoundWithin50Seeds) {
  expect_found(50, [] { return units_are_acquired_once<semaphore_that_looks_first>(explored_threads, 4, 500); });
}
TEST(BatchSemaphoreMutants, FalseRefusalsAreFound) { EXPECT_GT(mistakes_with_units<semaphore_that_does_not_look_again>(), 0u); }
TEST(BatchSemaphoreMutants, MakersThatFailedAreWaitedForWithin20Seeds) {
  expect_found(20, [] { return units_are_acquired_once<semaphore_that_expects_for_ever>(explored_threads, 4, 20); });
}
TEST(BatchSemaphoreMutants, FieldsThatOverflowAreFound) { EXPECT_GT(mistakes_with_units<semaphore_of_one_word>(), 0u); }

}  // namespace
}  // namespace structures_test
