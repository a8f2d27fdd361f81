// Queues in segments, and semaphores of batches, with one mistake each. Exploration finds every one of them within the stated number of
// seeds, so the checks, which the real ones pass, can fail.
#include "batch_semaphore_checks.hpp"
#include "virtual_queue_checks.hpp"

#include <stdexcept>

namespace structures_test {
namespace {

using gpuheap::structures::segment_place;
using gpuheap::structures::segment_record;

template <class Check>
void expect_found(std::uint64_t within_seeds, Check check) {
  simt::exploration const e = simt::explore(within_seeds, [&] { return check().empty(); });
  EXPECT_TRUE(e.failed) << "not found within " << within_seeds << " seeds";
  testing::Test::RecordProperty("seed", std::to_string(e.seed));
}

// ---- virtual_queue

// A segment whose block still has what its last owner left there.
struct array_of_old_blocks : array_directory {
  using array_directory::array_directory;
  template <class Queue, class Storage>
  void add(Queue const& queue, simt::uint32_t segment, simt::uint32_t block, Storage const& storage) const {
    simt::atomic_ref<simt::uint32_t>{storage.places(block)[0]}.store(12345, simt::relaxed);
    array_directory::add(queue, segment, block, storage);
  }
};
// A directory whose words do not say of which segment they are.
struct array_without_numbers : array_directory {
  using array_directory::array_directory;
  template <class Storage>
  simt::uint32_t find(simt::uint32_t segment, bool, Storage const&) const {
    simt::back_off pause;
    while (true) {
      segment_place const at{simt::atomic_ref<simt::uint64_t>{ring[segment & (capacity - 1)]}.load(simt::relaxed)};
      if (!at.none()) return at.block();
      pause.wait();
    }
  }
};
// The last pop of a segment that does not come after the reads of the others.
struct array_that_goes_early : array_directory {
  using array_directory::array_directory;
  template <class Queue, class Storage>
  bool popped(Queue const& queue, simt::uint32_t segment, simt::uint32_t block, unsigned n, Storage const& storage) const {
    segment_record const before{ref{*storage.record(block)}.fetch_add(n, simt::acq_rel)};
    if (before.popped() + n != queue.places() - 1) return false;
    ref{ring[segment & (capacity - 1)]}.store(0, simt::relaxed);
    storage.give(block);
    return true;
  }
};
// The way to a segment, where a record is believed whatever segment it is of by now.
struct list_of_old_records : list_directory {
  using list_directory::list_directory;
  template <class Storage>
  simt::uint32_t find(simt::uint32_t segment, bool, Storage const& storage) const {
    simt::back_off pause;
    segment_place here{};
    while (here.none() || here.segment() != segment) {
      if (!here.none()) {
        segment_record const there{ref{*storage.record(here.block())}.load(simt::acquire)};
        if (there.has_next()) {
          here = segment_place::of(here.segment() + 1, there.next());
          continue;
        }
      }
      pause.wait();
      if (here.none()) here.bits = ref{at->first}.load(simt::acquire);
    }
    return here.block();
  }
};
// The first segment's number and block, read one after the other.
struct list_of_two_words : list_directory {
  using list_directory::list_directory;
  template <class Storage>
  simt::uint32_t find(simt::uint32_t segment, bool, Storage const& storage) const {
    simt::back_off pause;
    for (unsigned tries = 0; tries < 100000; ++tries) {
      segment_place const one{ref{at->first}.load(simt::acquire)}, two{ref{at->first}.load(simt::acquire)};
      if (!one.none() && !two.none()) {
        simt::uint32_t block = two.block();
        for (simt::uint32_t s = one.segment(); s != segment && block != no_block; ++s) {
          block = segment_record{ref{*storage.record(block)}.load(simt::acquire)}.next();
        }
        if (block != no_block) return block;
      }
      pause.wait();
    }
    throw std::runtime_error("a segment is not found");
  }
};
// Finished segments that only the last pop looks at.
struct list_that_forgets : list_directory {
  using list_directory::list_directory;
  template <class Queue, class Storage>
  void popped(Queue const& queue, simt::uint32_t segment, simt::uint32_t block, unsigned n, Storage const& storage) const {
    segment_record const before{ref{*storage.record(block)}.fetch_add(n, simt::acq_rel)};
    segment_place first{ref{at->first}.load(simt::acquire)};
    if (before.popped() + n != queue.places() || !before.has_next() || first.segment() != segment) return;
    ref{at->first}.store(segment_place::of(segment + 1, before.next()).bits, simt::release);
    storage.give(block);
  }
};
// A queue that is vacated without regard to who has claimed the places.
struct list_that_leaves : list_directory {
  using list_directory::list_directory;
  template <class Queue, class Storage>
  bool leave(Queue const&, simt::uint32_t, unsigned n, Storage const& storage) const {
    segment_place const last{ref{at->last}.load(simt::relaxed)};
    if (last.none()) return false;
    ref{*storage.record(last.block())}.fetch_add(n, simt::acq_rel);
    ref{at->first}.store(0, simt::relaxed);
    ref{at->last}.store(0, simt::relaxed);
    storage.give(last.block());
    return true;
  }
};

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
TEST(VirtualQueueMutants, OldRecordsAreFoundWithin2000Seeds) {
  expect_found(2000, [] { return segments_come_and_go<small_queue<list_of_old_records>>(16, 8, 12); });
}
TEST(VirtualQueueMutants, APlaceInTwoWordsIsFoundWithin500Seeds) {
  expect_found(500, [] { return segments_come_and_go<small_queue<list_of_two_words>>(16, 8, 12); });
}
TEST(VirtualQueueMutants, ForgottenSegmentsAreFoundWithin100Seeds) {
  expect_found(100, [] { return segments_come_and_go<small_queue<list_that_forgets>>(16, 8, 12); });
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
  void release(unsigned n) const { simt::atomic_ref<word>{at->demand}.fetch_add(n, simt::relaxed); }
  long long available() const { return static_cast<long long>(simt::atomic_ref<word>{at->demand}.load(simt::relaxed) & 0x1ffffff); }
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
