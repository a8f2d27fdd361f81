// The bulk semaphore, the collective mutex and read-copy-update: one call at a time, contended, and under many schedules.
#include "bulk_checks.hpp"

namespace structures_test {

// Kernel, one thread: what a semaphore says to a sequence of calls. Answers: 1 served or true, 0 not.
struct call_in_order {
  bulk_semaphore units;
  simt::uint64_t* words;  // after each call
  unsigned* answers;

  GPUHEAP_FN void operator()(unsigned) const {
    unsigned n = 0;
    auto const note = [&](unsigned answer) {
      answers[n] = answer;
      words[n++] = units.look();
    };
    auto const ask = [&](unsigned n, unsigned batch, unsigned& waiting) { return static_cast<unsigned>(units.ask(n, batch, waiting)); };
    unsigned first = 0, second = 0, third = 0;
    note(units.try_wait(1));
    note(ask(2, 8, first));        // promises 6
    note(ask(4, 8, first));        // waits
    note(ask(3, 8, second));       // more than is left: promises 5
    note(ask(4, 8, first));        // waits on
    note(units.wait_promised(8));  // more than is promised
    units.signal(6, 6);
    note(ask(4, 8, first));  // served
    note(units.try_wait(3));
    note(units.try_wait_up_to(3, 1));
    note(ask(4, 4, third));  // waits
    units.fail(5);
    note(ask(4, 4, third));  // promises nothing
    units.signal(5);
    note(units.wait(1, 8, [] { return false; }));
    note(units.try_wait_up_to(8, 2));
    note(units.wait(3, 8, [] { return false; }));
    note(units.wait(3, 8, [] { return true; }));
  }
};
// Kernel: one lane of a warp makes what all others wait for.
struct wait_for_own_warp {
  bulk_semaphore units;
  unsigned* served;

  GPUHEAP_FN void operator()(unsigned) const {
    if (units.wait(1, 32, [] { return true; })) count(served);
  }
};
// Kernel, one thread: retires in every order, and with readers in between.
struct retire_in_order {
  rcu domain;
  thing* things;
  end_thing<rcu> end;
  unsigned* ended_then;

  GPUHEAP_FN void operator()(unsigned) const {
    unsigned const parity = domain.enter();
    domain.leave(parity);
    for (unsigned i = 0; i < 3; ++i) {
      simt::plain_write(things[i].alive, 1u);
      domain.retire(things[i].link, end);
      ended_then[i] = simt::atomic_ref<unsigned>{*end.ended}.load(simt::relaxed);
    }
    domain.synchronize();
  }
};

namespace {

TEST(BulkSemaphore, AnswersInOrder) {
  test::device_array<simt::uint64_t> word(1), words(15);
  test::device_array<unsigned> answers(15);
  gpuheap::launch(1, call_in_order{{word.data()}, words.data(), answers.data()});
  auto const w = words.read();
  std::vector<std::pair<long, long>> parts;
  for (auto const x : w) parts.emplace_back(bulk_semaphore::count(x), bulk_semaphore::surplus(x));
  // 0 served, 1 grow, 2 again, where it was asked; otherwise 1 true.
  EXPECT_EQ(answers.read(), (std::vector<unsigned>{0, 1, 2, 1, 2, 0, 0, 0, 2, 2, 1, 1, 4, 0, 1}));
  EXPECT_EQ(parts,
            (std::vector<std::pair<long, long>>{
                {0, 0}, {0, 6}, {0, 2}, {0, 7}, {0, 7}, {0, 7}, {2, 5}, {2, 5}, {0, 5}, {0, 1}, {0, 0}, {4, 0}, {0, 0}, {0, 0}, {5, 0}}));
}
TEST(BulkSemaphore, HoldsMoreUnitsThan32Bits) {
  auto const w = bulk_semaphore::plus(bulk_semaphore::of(simt::uint64_t{9} << 30), -1, -1000);
  EXPECT_EQ(bulk_semaphore::count(w), (long{9} << 30) - 1);
  EXPECT_EQ(bulk_semaphore::surplus(w), -1000);
}
TEST(BulkSemaphore, PartsMayBeNegative) {
  for (long const c : {-5L, 0L, 7L}) {
    for (long const p : {-3L, 0L, 2L}) {
      auto const w = bulk_semaphore::plus(0, c, p);
      EXPECT_EQ(bulk_semaphore::count(w), c);
      EXPECT_EQ(bulk_semaphore::surplus(w), p);
    }
  }
}
TEST(BulkSemaphore, AWarpWaitsForOneOfItsOwn) {
  for (unsigned threads : {32u, 64u, 1024u}) {
    test::device_array<simt::uint64_t> word(1);
    test::device_array<unsigned> served(1);
    gpuheap::launch(threads, wait_for_own_warp{{word.data()}, served.data()});
    EXPECT_EQ(served.first(), threads);
    EXPECT_EQ(word.first(), 0u);
  }
}
TEST(BulkSemaphore, UnitsAreServedOnce) {
  EXPECT_EQ(units_are_served_once<bulk_semaphore>(many_threads / 8, 1u << 20, 31, 6), "");
  EXPECT_EQ(units_are_served_once<bulk_semaphore>(many_threads / 8, 50, 31, 6), "");
  EXPECT_EQ(one_grower_serves_its_batch<bulk_semaphore>(many_threads / 4), "");
  EXPECT_EQ(tries_take_no_more_than_there_is<bulk_semaphore>(many_threads, 50, 8), "");
  EXPECT_EQ(tries_hide_no_units<bulk_semaphore>(many_threads / 16), "");
}
TEST(BulkSemaphore, LanesAreServedTogether) {
  for (unsigned const batch : {1u, 5u, 32u, 64u}) {
    EXPECT_EQ(lanes_are_served_together<bulk_semaphore>(many_threads / 4, 1u << 20, batch, 4), "") << batch;
    EXPECT_EQ(lanes_are_served_together<bulk_semaphore>(many_threads / 4, 20, batch, 4), "") << batch;
  }
}
TEST(BulkSemaphore, UnitsAreServedOnceUnderManySchedules) {
  expect_passes(1000, [] { return units_are_served_once<bulk_semaphore>(explored_threads, 1000, 7, 3); });
  expect_passes(1000, [] { return units_are_served_once<bulk_semaphore>(explored_threads, 6, 7, 3); });
  expect_passes(1000, [] { return units_are_served_once<bulk_semaphore>(7, 2, 2, 4); });
  expect_passes(1000, [] { return one_grower_serves_its_batch<bulk_semaphore>(explored_threads); });
  expect_passes(1000, [] { return units_are_served_once<bulk_semaphore>(explored_threads, 1000, 2, 2); });
  expect_passes(500, [] { return lanes_are_served_together<bulk_semaphore>(explored_threads, 8, 12, 3); });
  expect_passes(500, [] { return tries_take_no_more_than_there_is<bulk_semaphore>(explored_threads, 20, 4); });
  expect_passes(200, [] { return tries_hide_no_units<bulk_semaphore>(explored_threads); });
}

TEST(CollectiveMutex, OneGroupAtATime) {
  for (unsigned threads : {1u, 31u, 32u, 100u, 1000u}) EXPECT_EQ(one_group_at_a_time<collective_mutex>(threads, 4), "") << threads;
}
TEST(CollectiveMutex, OneGroupAtATimeUnderManySchedules) {
  expect_passes(600, [] { return one_group_at_a_time<collective_mutex>(explored_threads, 2); });
  expect_passes(600, [] { return one_group_at_a_time<collective_mutex>(5, 3); });
}

// Kernel: each thread adds to the word of one of three mutexes by a plain read and a plain write, and counts how often it meets others.
struct add_in_turn {
  collective_mutex::word* locks;
  unsigned* sums;
  unsigned rounds;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned r = 0; r < rounds; ++r) {
      unsigned const which = (i + r) % 3;
      collective_mutex{locks + which}.run_each([&] { simt::plain_write(sums[which], simt::plain_read(sums[which]) + 1); });
    }
  }
};
[[nodiscard]] bool additions_in_turn_are_kept(unsigned threads, unsigned rounds) {
  test::device_array<collective_mutex::word> locks(3);
  test::device_array<unsigned> sums(3);
  gpuheap::launch(threads, add_in_turn{locks.data(), sums.data(), rounds});
  auto const all = sums.read();
  auto const left = locks.read();
  return all[0] + all[1] + all[2] == threads * rounds && (left[0] | left[1] | left[2]) == 0;
}
TEST(CollectiveMutex, LanesThatMeetActOneAfterTheOther) {
  for (unsigned threads : {1u, 31u, 32u, 100u, 1000u}) EXPECT_TRUE(additions_in_turn_are_kept(threads, 5)) << threads;
  expect_passes(600, [] { return additions_in_turn_are_kept(explored_threads, 3) ? std::string{} : std::string{"additions are lost"}; });
}

TEST(Rcu, ALoneThreadEndsWhatItRetires) {
  test::device_array<rcu_state> state(1);
  test::device_array<thing> things(3);
  test::device_array<unsigned> ended(1), wrong(1), free_things(3), then(3);
  end_thing<rcu> const end{ended.data(), wrong.data(), things.data(), free_things.data()};
  gpuheap::launch(1, retire_in_order{{state.data()}, things.data(), end, then.data()});
  EXPECT_EQ(then.read(), (std::vector<unsigned>{1, 2, 3}));
  EXPECT_EQ(wrong.first(), 0u);
  EXPECT_EQ(state.read().front().epoch, 4u);
}
TEST(Rcu, ReadersSeeThingsThatLive) {
  for (bool const delegates : {false, true}) {
    EXPECT_EQ(readers_see_things_that_live<rcu>(1024, 20, 8, delegates), "");
    EXPECT_EQ(readers_see_things_that_live<rcu>(1024, 2, 8, delegates), "");
  }
}
TEST(Rcu, ReadersSeeThingsThatLiveUnderManySchedules) {
  for (bool const delegates : {false, true}) {
    expect_passes(800, [&] { return readers_see_things_that_live<rcu>(explored_threads, 6, 3, delegates); });
    expect_passes(2000, [&] { return readers_see_things_that_live<rcu>(6, 3, 6, delegates); });
  }
}

}  // namespace
}  // namespace structures_test
