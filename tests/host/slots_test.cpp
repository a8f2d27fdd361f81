// The promises of the slots of a pool: live blocks never share a byte, the smallest slot that suits is given, and constant-time sets agree
// with plain ones.

#include "tools/host/slots.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <set>

using namespace gpuheap::interpose;
using outcome = slot_table::outcome;

TEST(IndexSet, FindsTheFirstMemberAtOrAfterANumber) {
  for (std::size_t const limit : {1U, 64U, 65U, 4096U, 5000U, 262144U}) {
    std::mt19937 random{7};
    index_set members{limit};
    std::set<std::size_t> expected;
    for (int step = 0; step < 3000; ++step) {
      std::size_t const index = random() % limit;
      if (random() % 3 != 0) {
        members.insert(index);
        expected.insert(index);
      } else {
        members.erase(index);
        expected.erase(index);
      }
      std::size_t const from = random() % limit;
      auto const next = expected.lower_bound(from);
      auto const found = members.first_from(from);
      ASSERT_EQ(found.has_value(), next != expected.end()) << limit << ' ' << from;
      if (found) {
        ASSERT_EQ(*found, *next);
      }
      ASSERT_EQ(members.contains(from), expected.contains(from));
    }
  }
}

TEST(Slots, GiveTheSmallestThatSuits) {
  slot_table slots{{{0, 4096, 1}, {4096, 1024, 1}, {8192, 2048, 1}}};
  EXPECT_EQ(slots.allocate(1, 1000).offset, 4096U);
  EXPECT_EQ(slots.allocate(1, 1000).offset, 8192U);
  EXPECT_EQ(slots.allocate(1, 1000).offset, 0U);
  EXPECT_EQ(slots.allocate(1, 1000).how, outcome::busy);
  EXPECT_TRUE(slots.release(8192));
  EXPECT_EQ(slots.allocate(1, 2048).offset, 8192U);
}

TEST(Slots, TellUnknownPlacesFromLargeRequests) {
  slot_table slots{{{0, 512, 1}}};
  EXPECT_EQ(slots.allocate(2, 1).how, outcome::unprofiled);
  auto const large = slots.allocate(1, 513);
  EXPECT_EQ(large.how, outcome::too_large);
  EXPECT_EQ(large.bytes, 512U);
}

TEST(Slots, BlockWhatSharesTheirBytesWhileTheyLive) {
  // Site 1 has the whole, sites 2 and 3 a half each.
  slot_table slots{{{0, 2048, 1}, {0, 1024, 2}, {1024, 1024, 3}}};
  EXPECT_EQ(slots.allocate(2, 1024).how, outcome::served);
  EXPECT_EQ(slots.allocate(1, 2048).how, outcome::busy);
  EXPECT_EQ(slots.allocate(3, 1024).how, outcome::served);
  EXPECT_TRUE(slots.release(0));
  EXPECT_EQ(slots.allocate(1, 2048).how, outcome::busy);
  EXPECT_TRUE(slots.release(1024));
  EXPECT_EQ(slots.allocate(1, 2048).how, outcome::served);
  EXPECT_EQ(slots.allocate(2, 1).how, outcome::busy);
  EXPECT_EQ(slots.allocate(3, 1).how, outcome::busy);
}

TEST(Slots, FreeOnlyWhatBeginsALiveBlock) {
  slot_table slots{{{512, 1024, 1}}};
  EXPECT_FALSE(slots.release(512));
  EXPECT_EQ(slots.allocate(1, 700).offset, 512U);
  EXPECT_FALSE(slots.release(1024));
  EXPECT_EQ(slots.live_at(1000).bytes, 700U);
  EXPECT_EQ(slots.live_bytes(), 700U);
  EXPECT_TRUE(slots.release(512));
  EXPECT_FALSE(slots.release(512));
  EXPECT_EQ(slots.live_at(1000).bytes, 0U);
  EXPECT_EQ(slots.live_bytes(), 0U);
}

TEST(Slots, PinnedBlocksAreNeverGivenAgain) {
  slot_table slots{{{0, 512, 1}, {512, 512, 1}, {0, 1024, 2}}};
  EXPECT_EQ(slots.allocate(1, 512).offset, 0U);
  slots.pin(true);
  EXPECT_EQ(slots.allocate(1, 512).offset, 512U);
  slots.pin(false);
  EXPECT_TRUE(slots.release(0));
  EXPECT_TRUE(slots.release(512));
  EXPECT_EQ(slots.allocate(1, 512).how, outcome::busy);
  EXPECT_EQ(slots.allocate(2, 512).how, outcome::busy);
}

// Any requests in any order, over layouts that share bytes at random.
TEST(Slots, LiveBlocksNeverShareAByte) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random{seed};
    std::vector<planned_slot> planned;
    for (int i = 0; i < 40; ++i) planned.push_back({random() % 64 * 512, (1 + random() % 8) * 512, random() % 6});
    slot_table slots{planned};
    std::map<std::uint64_t, std::uint64_t> live;  // offset to the slot's end
    for (int step = 0; step < 400; ++step) {
      if (random() % 2 == 0 && !live.empty()) {
        auto const victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
        ASSERT_TRUE(slots.release(victim->first));
        live.erase(victim);
        continue;
      }
      auto const got = slots.allocate(random() % 7, 1 + random() % 4096);
      if (got.how != outcome::served) continue;
      for (auto const& [offset, end] : live) ASSERT_TRUE(got.offset + got.bytes <= offset || end <= got.offset) << "seed " << seed;
      live[got.offset] = got.offset + got.bytes;
    }
    for (auto const& [offset, end] : live) ASSERT_TRUE(slots.release(offset));
    ASSERT_EQ(slots.num_live(), 0U);
    // Nothing stays blocked: each slot can be had again, alone.
    for (planned_slot const& each : planned) {
      auto const got = slots.allocate(each.site, each.bytes);
      ASSERT_EQ(got.how, outcome::served) << "seed " << seed;
      ASSERT_TRUE(slots.release(got.offset));
    }
  }
}
