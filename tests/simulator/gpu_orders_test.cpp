// The weak mode and the orders of a GPU: a consume does not empty an L1, and a relay carries only accesses that have reached the whole
// device. Outcomes that hardware may show are found within a stated number of seeds; other outcomes are not (docs/memory-orders.md).
#include <array>

#include "kernels.hpp"

namespace test {
namespace {

using simt::memory_order;
using word = simt::atomic_ref<unsigned>;

constexpr std::uint64_t find_within = 200;
constexpr std::uint64_t pass_all = affordable(1000);

template <class Body>
void expect_found(Body body) {
  simulator::exploration const e = simulator::explore(find_within, body);
  EXPECT_TRUE(e.failed) << "not seen within " << find_within << " seeds";
  EXPECT_EQ(e.seed % 2, 1u) << "seen in the strong mode";
}
template <class Body>
void expect_never(Body body) {
  simulator::exploration const e = simulator::explore(pass_all, body);
  EXPECT_FALSE(e.failed) << e.what;
}
void run_three(auto first, auto second, auto third) {
  run(
      3, [=](unsigned i) { i == 0   ? first()
                           : i == 1 ? second()
                                    : third(); }, 1);
}

enum class reader { atomic, cached, plain };

// One thread writes data and sets a flag by `publish`; another that saw the flag by a consume reads the data.
bool consume_message(memory_order publish, reader how, bool with_fence = false) {
  unsigned data = 0, flag = 0;
  bool lost = false;
  run_two(
      [&] {
        word(data).store(42, simt::relaxed);
        word(flag).exchange(1, publish);
      },
      [&] {
        if (how == reader::cached) (void)word(data).load(simt::relaxed);
        if (word(flag).load(simt::consume) != 1) return;
        if (with_fence) simt::fence(simt::acquire);
        unsigned const seen = how == reader::atomic   ? word(data).load(simt::relaxed)
                              : how == reader::cached ? simt::load_cached(data)
                                                      : simt::plain_read(data);
        lost = seen != 42;
      });
  return !lost;
}

TEST(Consume, OrdersAtomicLoads) {
  expect_never([] { return consume_message(simt::release, reader::atomic); });
  expect_never([] { return consume_message(simt::consume_release, reader::atomic); });
}
TEST(Consume, NeedsARelease) {
  expect_found([] { return consume_message(simt::relaxed, reader::atomic); });
  expect_found([] { return consume_message(simt::relay, reader::atomic); });
  expect_found([] { return consume_message(simt::consume, reader::atomic); });
}
TEST(Consume, LeavesOldLinesInTheL1) {
  expect_found([] { return consume_message(simt::release, reader::cached); });
  expect_never([] { return consume_message(simt::release, reader::cached, true); });
}
TEST(Consume, IsNoOrderForPlainReads) {
  expect_found([] { return consume_message(simt::release, reader::plain); });
  expect_never([] { return consume_message(simt::release, reader::plain, true); });
}

// A block of memory changes hands: the old owner wrote it and released it, the new one consumes that, writes all of it, and reads it.
bool change_hands(bool writes_all) {
  std::array<std::uint32_t, 2> block{};
  unsigned flag = 0;
  bool wrong = false;
  run_two(
      [&] {
        for (std::uint32_t& w : block) simt::plain_write(w, 1u);
        word(flag).exchange(1, simt::release);
      },
      [&] {
        if (word(flag).load(simt::consume) != 1) return;
        simt::plain_write(block[0], 2u);
        if (writes_all) simt::plain_write(block[1], 2u);
        wrong = simt::plain_read(block[0]) != 2 || (writes_all && simt::plain_read(block[1]) != 2);
        if (!writes_all) (void)simt::plain_read(block[1]);
      });
  return !wrong;
}

TEST(Consume, GivesMemoryToAnOwnerThatWritesItFirst) {
  expect_never([] { return change_hands(true); });
}
TEST(Consume, DoesNotGiveWhatTheLastOwnerWrote) {
  expect_found([] { return change_hands(false); });
}

// Data, then a first flag; a second thread passes on to a second flag what it learned; a third reads.
bool pass_on(memory_order in_the_middle, bool own_data, bool fence_after_own = false) {
  unsigned data = 0, first = 0, second = 0, own = 0;
  bool lost = false;
  run_three(
      [&] {
        word(data).store(42, simt::relaxed);
        word(first).exchange(1, simt::release);
      },
      [&] {
        if (word(first).fetch_add(1, simt::consume) == 0) return;
        word(own).store(7, simt::relaxed);
        if (fence_after_own) simt::fence(simt::release);
        word(second).fetch_add(1, in_the_middle);
      },
      [&] {
        if (word(second).load(simt::consume) == 0) return;
        lost = own_data ? word(own).load(simt::relaxed) != 7 : word(data).load(simt::relaxed) != 42;
      });
  return !lost;
}

TEST(Relay, CarriesWhatTheThreadConsumed) {
  expect_never([] { return pass_on(simt::relay, false); });
  expect_never([] { return pass_on(simt::consume_release, false); });
}
TEST(Relay, ARelaxedOperationCarriesNothing) {
  expect_found([] { return pass_on(simt::relaxed, false); });
}
TEST(Relay, CarriesNothingOfTheThreadsOwn) {
  expect_found([] { return pass_on(simt::relay, true); });
}
TEST(Relay, CarriesWhatAFenceReleased) {
  expect_never([] { return pass_on(simt::relay, true, true); });
}
TEST(Relay, AReleaseCarriesTheThreadsOwn) {
  expect_never([] { return pass_on(simt::consume_release, true); });
}

// The lanes of a warp write, meet, and one of them sets a flag.
bool meet_and_pass_on(memory_order publish) {
  std::array<unsigned, 2> data{};
  unsigned flag = 0;
  bool lost = false;
  run(
      4,
      [&](unsigned i) {
        if (i < 2) {
          word(data[i]).store(42, simt::relaxed);
          simt::sync_warp(0b11);
          if (i == 0) word(flag).exchange(1, publish);
        } else if (i == 2 && word(flag).load(simt::consume) == 1) {
          lost = word(data[1]).load(simt::relaxed) != 42;
        }
      },
      2);
  return !lost;
}

TEST(Relay, ABarrierOfAWarpReachesTheWarpOnly) {
  expect_found([] { return meet_and_pass_on(simt::relay); });
  expect_never([] { return meet_and_pass_on(simt::consume_release); });
}

// A lane consumes, meets its warp, and another lane reads.
bool consume_for_the_warp(reader how) {
  unsigned data = 0, flag = 0;
  bool lost = false;
  run(
      4,
      [&](unsigned i) {
        if (i == 0) {
          word(data).store(42, simt::relaxed);
          word(flag).exchange(1, simt::release);
        } else if (i >= 2) {
          bool const there = simt::shuffle(0b11, i == 2 ? word(flag).load(simt::consume) : 0u, 0) == 1;
          simt::sync_warp(0b11);
          if (there && i == 3) lost = (how == reader::atomic ? word(data).load(simt::relaxed) : simt::load_cached(data)) != 42;
        }
      },
      2);
  return !lost;
}

TEST(Consume, ReachesTheLanesThatMeet) {
  expect_never([] { return consume_for_the_warp(reader::atomic); });
  expect_found([] { return consume_for_the_warp(reader::cached); });
}

}  // namespace
}  // namespace test
