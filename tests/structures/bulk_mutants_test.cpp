// Bulk semaphores, collective mutexes and read-copy-update with one mistake each. Exploration finds every one of them within the stated
// number of seeds, so the checks, which the real ones pass, can fail.
#include "bulk_mutants.hpp"

namespace structures_test {
namespace {

template <class Check>
void expect_found(std::uint64_t within_seeds, Check check) {
  simt::exploration const e = simt::explore(within_seeds, [&] { return check().empty(); });
  EXPECT_TRUE(e.failed) << "not found within " << within_seeds << " seeds";
  testing::Test::RecordProperty("seed", std::to_string(e.seed));
}

// ---- bulk_semaphore

// Units are taken by a subtraction that is taken back.
struct semaphore_that_subtracts : bulk_semaphore {
  bool try_wait(unsigned n) const { return try_wait_up_to(n, n) == n; }
  unsigned try_wait_up_to(unsigned n, unsigned) const {
    word const before = ref().fetch_sub(n, simt::acquire);
    if (count(before) >= n) return n;
    ref().fetch_add(n, simt::relaxed);
    return 0;
  }
};
// The base of mutants of asking. A thread whose addition comes too late takes it back.
template <class Mutant>
struct semaphore_that_adds : bulk_semaphore {
  template <class Grow>
  bool wait(unsigned n, unsigned batch, Grow grow) const {
    simt::back_off pause;
    for (unsigned waiting = 0;; pause.wait()) {
      answer const said = ask(n, batch, waiting);
      if (said == answer::served) return true;
      if (said != answer::grow) continue;
      bool const made = grow();
      made ? signal(batch - n, batch - n) : fail(batch - n);
      return made;
    }
  }
  answer ask(unsigned n, unsigned batch, unsigned& waiting) const {
    difference const needed = n, registered = waiting;
    auto const is_short = [&](word w) { return count(w) + surplus(w) + registered < needed; };
    word const seen = look();
    waiting = 0;
    if (is_short(seen)) {
      if (is_short(ref().fetch_add(plus(0, 0, registered + batch - needed), simt::acquire))) return answer::grow;
      Mutant::take_back_promise(*this, batch);
    } else if (count(seen) >= needed) {
      if (count(ref().fetch_add(plus(0, -needed, registered), simt::acquire)) >= needed) return answer::served;
      Mutant::make_good(*this, needed);
    } else if (registered == 0) {
      ref().fetch_add(plus(0, 0, -needed), simt::relaxed);
    }
    waiting = n;
    return answer::again;
  }
  static void take_back_promise(bulk_semaphore s, difference batch) { s.ref().fetch_add(plus(0, 0, -batch), simt::relaxed); }
  static void make_good(bulk_semaphore s, difference needed) { s.ref().fetch_add(plus(0, needed, -needed), simt::relaxed); }
};
// A thread that promised units which no thread needs leaves the promise: others wait for it.
struct semaphore_of_idle_promises : semaphore_that_adds<semaphore_of_idle_promises> {
  static void take_back_promise(bulk_semaphore, difference) {}
};
// A thread that claimed too late gives the units back, and is not counted among the waiting ones.
struct semaphore_that_forgets_waiters : semaphore_that_adds<semaphore_that_forgets_waiters> {
  static void make_good(bulk_semaphore s, difference needed) { s.ref().fetch_add(plus(0, needed, 0), simt::relaxed); }
};
// The count is looked at, and changed in a second step.
struct semaphore_that_looks_first : bulk_semaphore {
  template <class Grow>
  bool wait(unsigned n, unsigned batch, Grow grow) const {
    if (count(look()) < n) return bulk_semaphore::wait(n, batch, grow);
    ref().fetch_sub(n, simt::acquire);
    return true;
  }
};
// Waiters never leave: whose promise is withdrawn waits for ever.
struct semaphore_of_the_patient : semaphore_that_waits<semaphore_of_the_patient> {
  static bool gives_up(difference) { return false; }
};
// Growers do not promise: everyone grows.
struct semaphore_without_promises : semaphore_that_waits<semaphore_without_promises> {
  static difference promise(unsigned) { return 0; }
  void signal(unsigned n, unsigned = 0) const { bulk_semaphore::signal(n); }
  void fail(unsigned) const {}
};
// A promise that is not withdrawn when growth failed: as published.
struct semaphore_that_never_fails : semaphore_that_waits<semaphore_that_never_fails> {
  void fail(unsigned) const {}
};
// Being served does not acquire, or the signal does not release.
struct semaphore_with_relaxed_wait : semaphore_that_waits<semaphore_with_relaxed_wait> {
  static constexpr simt::memory_order order = simt::relaxed;
};
struct semaphore_with_relaxed_signal : semaphore_that_waits<semaphore_with_relaxed_signal> {
  void signal(unsigned n, unsigned promised = 0) const { ref().fetch_add(plus(0, n, -difference{promised}), simt::relaxed); }
};

TEST(BulkSemaphoreMutants, ASubtractionThatIsTakenBackIsFoundWithin20Seeds) {
  expect_found(20, [] { return tries_hide_no_units<semaphore_that_subtracts>(explored_threads); });
}
TEST(BulkSemaphoreMutants, APromiseThatIsNotTakenBackIsFoundWithin20Seeds) {
  expect_found(20, [] { return units_are_served_once<semaphore_of_idle_promises>(explored_threads, 1000, 7, 3); });
}
TEST(BulkSemaphoreMutants, AWaiterThatIsNotCountedIsFoundWithin20Seeds) {
  expect_found(20, [] { return units_are_served_once<semaphore_that_forgets_waiters>(explored_threads, 1000, 7, 3); });
}
TEST(BulkSemaphoreMutants, ALookApartFromTheTakingIsFoundWithin20Seeds) {
  expect_found(20, [] { return units_are_served_once<semaphore_that_looks_first>(explored_threads, 1000, 7, 3); });
}
TEST(BulkSemaphoreMutants, WaitersThatNeverLeaveAreFoundWithin100Seeds) {
  expect_found(100, [] { return units_are_served_once<semaphore_of_the_patient>(explored_threads, 6, 7, 3); });
}
TEST(BulkSemaphoreMutants, GrowersThatDoNotPromiseAreFoundWithin20Seeds) {
  expect_found(20, [] { return one_grower_serves_its_batch<semaphore_without_promises>(explored_threads); });
}
TEST(BulkSemaphoreMutants, AFailureThatIsNotSignalledIsFoundWithin20Seeds) {
  expect_found(20, [] { return units_are_served_once<semaphore_that_never_fails>(explored_threads, 6, 7, 3); });
}
TEST(BulkSemaphoreMutants, ARelaxedWaitIsFoundWithin100Seeds) {
  expect_found(100, [] { return one_grower_serves_its_batch<semaphore_with_relaxed_wait>(explored_threads); });
}
TEST(BulkSemaphoreMutants, ARelaxedSignalIsFoundWithin100Seeds) {
  expect_found(100, [] { return one_grower_serves_its_batch<semaphore_with_relaxed_signal>(explored_threads); });
}

TEST(BulkSemaphoreMutants, WaitersForExactlyWhatWasPromisedStayPut) {
  EXPECT_EQ(changes_while_waiting<bulk_semaphore>(), 0u);
  EXPECT_GT(changes_while_waiting<semaphore_with_strict_test>(), 100u) << "the test does not see the published mistake";
}

// ---- collective_mutex

// The base of mutants: both calls use the mutant's run().
template <class Mutant>
struct mutex_that_runs : collective_mutex {
  template <class F>
  void run_alone(F f) const {
    static_cast<Mutant const*>(this)->run(warp_group{simt::lane_mask{1} << simt::lane_id()}, f);
  }
};
// The states are swapped: as in a published re-implementation, nobody ever gets in.
struct mutex_with_swapped_states : mutex_that_runs<mutex_with_swapped_states> {
  template <class F>
  void run(warp_group group, F f) const {
    simt::global_ref<word> const lock{*at};
    simt::back_off pause;
    for (bool done = false; !done;) {
      word expected = 1;
      if (group.from_leader(group.leads() && lock.compare_exchange(expected, 0, simt::acquire, simt::relaxed) ? 1u : 0u) != 0) {
        simt::sync_warp(group.mask);
        f();
        simt::sync_warp(group.mask);
        if (group.leads()) lock.store(1, simt::release);
        done = true;
      } else {
        pause.wait();
      }
    }
  }
};
// Each lane competes by itself and then waits for its group: the second never comes.
struct mutex_of_lanes : mutex_that_runs<mutex_of_lanes> {
  template <class F>
  void run(warp_group group, F f) const {
    simt::global_ref<word> const lock{*at};
    simt::back_off pause;
    while (lock.exchange(1, simt::acquire) != 0) pause.wait();
    simt::sync_warp(group.mask);
    f();
    simt::sync_warp(group.mask);
    lock.store(0, simt::release);
  }
};
// Given back by the leader as soon as it is done itself.
struct mutex_left_early : mutex_that_runs<mutex_left_early> {
  template <class F>
  void run(warp_group group, F f) const {
    simt::global_ref<word> const lock{*at};
    simt::back_off pause;
    for (bool done = false; !done;) {
      if (group.from_leader(group.leads() ? lock.exchange(1, simt::acquire) : 1u) == 0) {
        simt::sync_warp(group.mask);
        f();
        if (group.leads()) lock.store(0, simt::release);
        done = true;
      } else {
        pause.wait();
      }
    }
  }
};
// The leader acquires, the others do not.
struct mutex_without_entry_barrier : mutex_that_runs<mutex_without_entry_barrier> {
  template <class F>
  void run(warp_group group, F f) const {
    simt::global_ref<word> const lock{*at};
    simt::back_off pause;
    for (bool done = false; !done;) {
      if (group.from_leader(group.leads() ? lock.exchange(1, simt::acquire) : 1u) == 0) {
        f();
        simt::sync_warp(group.mask);
        if (group.leads()) lock.store(0, simt::release);
        done = true;
      } else {
        pause.wait();
      }
    }
  }
};

TEST(CollectiveMutexMutants, SwappedStatesAreFoundWithin2Seeds) {
  expect_found(2, [] { return one_group_at_a_time<mutex_with_swapped_states>(5, 1); });
}
TEST(CollectiveMutexMutants, LanesThatCompeteAloneAreFoundWithin20Seeds) {
  expect_found(20, [] { return one_group_at_a_time<mutex_of_lanes>(explored_threads, 2); });
}
TEST(CollectiveMutexMutants, LeavingBeforeTheGroupIsFoundWithin100Seeds) {
  expect_found(100, [] { return one_group_at_a_time<mutex_left_early>(explored_threads, 2); });
}
TEST(CollectiveMutexMutants, EnteringBeforeTheLeaderIsFoundWithin200Seeds) {
  expect_found(200, [] { return one_group_at_a_time<mutex_without_entry_barrier>(explored_threads, 2); });
}

// ---- rcu

// The second look does not acquire: a reader of the new epoch may not see what was taken out before.
struct rcu_with_relaxed_look : rcu {
  unsigned enter() const {
    simt::global_ref<word> const epoch{at->epoch};
    for (word now = epoch.load(simt::relaxed);;) {
      unsigned const parity = now & 1;
      simt::global_ref<word>{at->readers[parity]}.fetch_add(1, simt::relaxed);
      simt::fence(simt::seq_cst);
      now = epoch.load(simt::relaxed);
      if ((now & 1) == parity) return parity;
      leave(parity);
    }
  }
};
// A reader that does not look again: as published. It may count itself into an epoch that is over.
struct rcu_that_looks_once : rcu {
  unsigned enter() const {
    unsigned const parity = simt::global_ref<word>{at->epoch}.load(simt::relaxed) & 1;
    simt::global_ref<word>{at->readers[parity]}.fetch_add(1, simt::relaxed);
    simt::fence(simt::seq_cst);
    return parity;
  }
};
// No fence between counting in and the second look.
struct rcu_without_fence : rcu {
  unsigned enter() const {
    simt::global_ref<word> const epoch{at->epoch};
    for (word now = epoch.load(simt::relaxed);;) {
      unsigned const parity = now & 1;
      simt::global_ref<word>{at->readers[parity]}.fetch_add(1, simt::relaxed);
      now = epoch.load(simt::relaxed);
      if ((now & 1) == parity) return parity;
      leave(parity);
    }
  }
};
struct rcu_with_relaxed_leave : rcu {
  void leave(unsigned parity) const { simt::global_ref<word>{at->readers[parity]}.fetch_sub(1, simt::relaxed); }
};
// The parts of which mutants of retiring are made.
struct rcu_in_parts : rcu {
  void put(rcu_link& link) const {
    simt::global_ref<simt::uint64_t> const queue{at->queue};
    simt::uint64_t head = queue.load(simt::relaxed);
    do {
      simt::global_ref<simt::uint64_t>{link.next}.store(head, simt::relaxed);
    } while (!queue.compare_exchange(head, reinterpret_cast<simt::uintptr_t>(&link), simt::acq_rel, simt::relaxed));
  }
  simt::uint64_t take_all() const { return simt::global_ref<simt::uint64_t>{at->queue}.exchange(0, simt::acq_rel); }
  template <class End>
  void end_all(simt::uint64_t taken, End end) const {
    while (taken != 0) {
      auto* const link = reinterpret_cast<rcu_link*>(taken);
      taken = simt::global_ref<simt::uint64_t>{link->next}.load(simt::relaxed);
      end(link);
    }
  }
};
// A thread that finds a runner leaves, and the runner leaves too when it is done: entries that were queued meanwhile stay behind.
struct rcu_that_leaves_things : rcu_in_parts {
  template <class End>
  void retire(rcu_link& link, End end) const {
    put(link);
    if (simt::global_ref<word>{at->runner}.exchange(1, simt::acq_rel) != 0) return;
    simt::uint64_t const taken = take_all();
    synchronize();
    end_all(taken, end);
    simt::global_ref<word>{at->runner}.store(0, simt::release);
  }
};
// Looks for a runner first, and queues afterwards.
struct rcu_that_queues_late : rcu_in_parts {
  template <class End>
  void retire(rcu_link& link, End end) const {
    simt::global_ref<word> const runner{at->runner};
    word const before = runner.exchange(2, simt::acq_rel);
    put(link);
    if (before != 0) return;
    word expected = 0;
    do {
      runner.exchange(1, simt::acq_rel);
      simt::uint64_t const taken = take_all();
      synchronize();
      end_all(taken, end);
      expected = 1;
    } while (!runner.compare_exchange(expected, 0, simt::acq_rel, simt::relaxed));
  }
};
// Takes the queue after the readers of the things in it may have come.
struct rcu_that_takes_late : rcu_in_parts {
  template <class End>
  void retire(rcu_link& link, End end) const {
    simt::global_ref<word> const runner{at->runner};
    put(link);
    if (runner.exchange(2, simt::acq_rel) != 0) return;
    word expected = 0;
    do {
      runner.exchange(1, simt::acq_rel);
      synchronize();
      end_all(take_all(), end);
      expected = 1;
    } while (!runner.compare_exchange(expected, 0, simt::acq_rel, simt::relaxed));
  }
};
// Waits for nobody.
struct rcu_that_does_not_wait : rcu_in_parts {
  void synchronize() const {}
  template <class End>
  void retire(rcu_link& link, End end) const {
    end(&link);
  }
};

TEST(RcuMutants, OneLookAtTheEpochIsFoundWithin400Seeds) {
  expect_found(400, [] { return readers_see_things_that_live<rcu_that_looks_once>(6, 3, 6, false); });
}
TEST(RcuMutants, AMissingFenceIsFoundWithin400Seeds) {
  expect_found(400, [] { return readers_see_things_that_live<rcu_without_fence>(6, 3, 6, false); });
}
TEST(RcuMutants, ARelaxedSecondLookIsFoundWithin8000Seeds) {
  expect_found(8000, [] { return readers_see_things_that_live<rcu_with_relaxed_look>(6, 3, 6, false); });
}
TEST(RcuMutants, ARelaxedLeaveIsFoundWithin100Seeds) {
  expect_found(100, [] { return readers_see_things_that_live<rcu_with_relaxed_leave>(6, 3, 6, false); });
}
TEST(RcuMutants, ThingsLeftBehindAreFoundWithin100Seeds) {
  expect_found(100, [] { return readers_see_things_that_live<rcu_that_leaves_things>(explored_threads, 6, 3, true); });
}
TEST(RcuMutants, QueueingAfterTheLookIsFoundWithin1000Seeds) {
  expect_found(1000, [] { return readers_see_things_that_live<rcu_that_queues_late>(explored_threads, 6, 3, true); });
}
TEST(RcuMutants, TakingTheQueueAfterTheWaitIsFoundWithin400Seeds) {
  expect_found(400, [] { return readers_see_things_that_live<rcu_that_takes_late>(explored_threads, 6, 3, true); });
}
TEST(RcuMutants, NotWaitingIsFoundWithin20Seeds) {
  expect_found(20, [] { return readers_see_things_that_live<rcu_that_does_not_wait>(explored_threads, 6, 3, false); });
  expect_found(20, [] { return readers_see_things_that_live<rcu_that_does_not_wait>(explored_threads, 6, 3, true); });
}

}  // namespace
}  // namespace structures_test
