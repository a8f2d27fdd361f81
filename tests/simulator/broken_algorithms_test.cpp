// Known-broken algorithms, each found within a stated number of seeds, beside their correct versions, which pass all of these.
#include <array>
#include <string>

#include "kernels.hpp"

namespace test {
namespace {

using simulator::explore;

template <class Body>
void expect_found(std::uint64_t within_seeds, Body body) {
  simulator::exploration const e = explore(within_seeds, body);
  EXPECT_TRUE(e.failed) << "not found within " << within_seeds << " seeds";
  testing::Test::RecordProperty("seed", std::to_string(e.seed));
}
template <class Body>
void expect_passes(std::uint64_t seeds, Body body) {
  simulator::exploration const e = explore(affordable(seeds), body);
  EXPECT_FALSE(e.failed) << e.what;
}

// ---- lost update: a counter incremented by load and store

bool count_up(bool broken) {
  unsigned count = 0;
  run(
      8,
      [&](unsigned) {
        simt::atomic_ref<unsigned> const c(count);
        if (broken) {
          c.store(c.load(simt::relaxed) + 1, simt::relaxed);
        } else {
          c.fetch_add(1, simt::relaxed);
        }
      },
      4);
  return count == 8;
}

TEST(LostUpdate, IsFoundWithin4Seeds) {
  expect_found(4, [] { return count_up(true); });
}
TEST(LostUpdate, AnAtomicAddHasNone) {
  expect_passes(400, [] { return count_up(false); });
}

// ---- a lost update that needs one switch at one place out of many: the window is open once in a long run

bool rare_window(bool broken) {
  unsigned balance = 100, noise = 0;
  run(
      2,
      [&](unsigned i) {
        simt::atomic_ref<unsigned> const b(balance);
        for (unsigned k = 0; k < 40; ++k) simt::atomic_ref<unsigned>(noise).fetch_add(1, simt::relaxed);
        if (i == 1) {
          b.fetch_add(10, simt::relaxed);
        } else {
          for (unsigned k = 0; k < 25; ++k) simt::atomic_ref<unsigned>(noise).fetch_add(1, simt::relaxed);
          unsigned seen = b.load(simt::relaxed);
          if (broken) {
            b.store(seen - 5, simt::relaxed);
          } else {
            while (!b.compare_exchange(seen, seen - 5, simt::relaxed, simt::relaxed)) {
            }
          }
        }
      },
      1);
  return balance == 105;
}

TEST(RareWindow, IsFoundWithin2000Seeds) {
  expect_found(2000, [] { return rare_window(true); });
}
TEST(RareWindow, CompareExchangeHasNone) {
  expect_passes(2000, [] { return rare_window(false); });
}

// ---- ABA: a stack whose head is a bare index, with nodes that come back

constexpr std::uint32_t nil = 0xffffffff;

struct stack_of_nodes {
  std::uint64_t head = 0;  // index in the low half; in the high half a count of changes, if tagged
  std::array<std::uint32_t, 4> next{};
  bool tagged = false;

  [[nodiscard]] std::uint64_t head_after(std::uint64_t before, std::uint32_t index) const {
    return (tagged ? ((before >> 32) + 1) << 32 : 0) | index;
  }
  void push(std::uint32_t node) {
    simt::atomic_ref<std::uint64_t> const h(head);
    std::uint64_t seen = h.load(simt::relaxed);
    do {
      simt::atomic_ref<std::uint32_t>(next[node]).store(static_cast<std::uint32_t>(seen), simt::relaxed);
    } while (!h.compare_exchange(seen, head_after(seen, node), simt::release, simt::relaxed));
  }
  std::uint32_t pop() {
    simt::atomic_ref<std::uint64_t> const h(head);
    std::uint64_t seen = h.load(simt::acquire);
    for (;;) {
      auto const node = static_cast<std::uint32_t>(seen);
      if (node == nil) return nil;
      std::uint32_t const after = simt::atomic_ref<std::uint32_t>(next[node]).load(simt::relaxed);
      if (h.compare_exchange(seen, head_after(seen, after), simt::acquire, simt::acquire)) return node;
    }
  }
};

// Each thread takes two nodes and gives back the first: at the end no node may be owned twice or lost.
bool recycle(bool broken) {
  stack_of_nodes s;
  s.tagged = !broken;
  s.next = {1, 2, 3, nil};
  std::array<unsigned, 4> owners{};
  run(
      2,
      [&](unsigned) {
        std::uint32_t const first = s.pop(), second = s.pop();
        if (first != nil) s.push(first);
        if (second != nil) simt::atomic_ref<unsigned>(owners[second]).fetch_add(1, simt::relaxed);
      },
      1);
  for (std::uint32_t node = static_cast<std::uint32_t>(s.head), steps = 0; node != nil; node = s.next[node]) {
    ++owners[node];
    if (++steps > 4) return false;
  }
  for (unsigned const n : owners) {
    if (n != 1) return false;
  }
  return true;
}

TEST(AbaStack, IsFoundWithin2000Seeds) {
  expect_found(2000, [] { return recycle(true); });
}
TEST(AbaStack, ATaggedHeadHasNone) {
  expect_passes(4000, [] { return recycle(false); });
}

// ---- a barrier under divergence: only some schedules send a thread past it

bool meet_if_needed(bool broken) {
  unsigned done = 0;
  run(
      64,
      [&](unsigned i) {
        simt::atomic_ref<unsigned> const d(done);
        if (broken && i != 63 && d.load(simt::relaxed) == 0) return;
        if (i == 63) d.store(1, simt::relaxed);
        simt::sync_block();
      },
      64);
  return true;
}

TEST(BarrierUnderDivergence, IsFoundWithin4Seeds) {
  expect_found(4, [] { return meet_if_needed(true); });
}
TEST(BarrierUnderDivergence, AnUnconditionalBarrierHasNone) {
  expect_passes(100, [] { return meet_if_needed(false); });
}

// ---- a warp that takes its convergence for granted: the leader of "the whole warp" allocates for all 32 lanes

bool allocate_for_the_warp(bool broken) {
  unsigned next = 0;
  std::array<unsigned, 64> taken{};
  run(64, [&](unsigned) {
    simt::lane_mask const here = simt::active_mask();
    unsigned const leader = simt::lowest_bit(here);
    unsigned const wanted = broken ? 32 : simt::popcount(here);
    unsigned base = 0;
    if (simt::lane_id() == leader) base = simt::atomic_ref<unsigned>(next).fetch_add(wanted, simt::relaxed);
    base = simt::shuffle(here, base, leader);
    unsigned const mine = base + simt::popcount(here & ((1u << simt::lane_id()) - 1));
    if (mine < 64) simt::atomic_ref<unsigned>(taken[mine]).fetch_add(1, simt::relaxed);
  });
  for (unsigned const n : taken) {
    if (n != 1) return false;
  }
  return next == 64;
}

TEST(AssumedConvergence, IsFoundWithin20Seeds) {
  expect_found(20, [] { return allocate_for_the_warp(true); });
}
TEST(AssumedConvergence, CountingTheActiveLanesHasNone) {
  expect_passes(300, [] { return allocate_for_the_warp(false); });
}

// ---- two active masks taken for one

bool two_masks(bool broken) {
  unsigned count = 0;
  run(32, [&](unsigned) {
    simt::lane_mask const first = simt::active_mask();
    simt::lane_mask const second = broken ? simt::active_mask() : first;
    simt::atomic_ref<unsigned>(count).fetch_add(simt::ballot(second, true) == first, simt::relaxed);
  });
  return count == 32;
}

TEST(MaskTakenTwice, IsFoundWithin20Seeds) {
  expect_found(20, [] { return two_masks(true); });
}
TEST(MaskTakenTwice, ACapturedMaskHasNone) {
  expect_passes(200, [] { return two_masks(false); });
}

// ---- waiting for a lane of the own warp that is blocked behind the waiter

bool wait_for_own_warp(bool broken) {
  unsigned flag = 0;
  run(32, [&](unsigned i) {
    simt::atomic_ref<unsigned> const f(flag);
    if (i == 0) {
      if (!broken) f.store(1, simt::release);
      simt::sync_warp(simt::all_lanes);
      if (broken) f.store(1, simt::release);
    } else {
      simt::back_off pause;
      while (f.load(simt::acquire) == 0) pause.wait();
      simt::sync_warp(simt::all_lanes);
    }
  });
  return true;
}

TEST(WaitForOwnWarp, IsFoundBySeed0) {
  simulator::settings s;
  s.step_budget = 100'000;
  simulator::exploration const e = explore(
      1, [] { return wait_for_own_warp(true); }, s);
  EXPECT_TRUE(e.failed);
  EXPECT_CONTAINS(e.what, "livelock");
}
TEST(WaitForOwnWarp, SignallingFirstIsSafe) {
  expect_passes(100, [] { return wait_for_own_warp(false); });
}

}  // namespace
}  // namespace test
