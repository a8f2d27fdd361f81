// The walk through a table: first places that do not meet, walks that stay inside and part again.
#include <gpuheap/structures/hash_probe.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

namespace structures_test {
namespace {

using gpuheap::structures::hash_probe;

TEST(HashProbe, ConsecutiveTicketsHaveDifferentFirstPlaces) {
  for (unsigned slots : {8u, 128u, 1024u, 174760u, 262144u}) {
    for (unsigned together : {1u, 2u, 4u}) {
      std::vector<bool> hit(slots);
      for (unsigned ticket = 0; ticket < slots; ++ticket) {
        unsigned const at = hash_probe{slots}.first(ticket, together);
        ASSERT_LT(at, slots);
        ASSERT_FALSE(hit[at]) << slots << " slots, ticket " << ticket;
        hit[at] = true;
      }
    }
  }
}
TEST(HashProbe, GroupsOfTicketsHaveNeighbouringPlaces) {
  for (unsigned together : {2u, 4u}) {
    for (unsigned ticket = 0; ticket < 4096; ++ticket) {
      unsigned const in_group = ticket % together;
      EXPECT_EQ(hash_probe{8192}.first(ticket, together), hash_probe{8192}.first(ticket - in_group, together) + in_group);
    }
  }
}
TEST(HashProbe, WalksStayInsideAndStartAtTheFirstPlace) {
  for (unsigned slots = 1; slots < 600; ++slots) {
    for (unsigned first = 0; first < slots; first += 1 + slots / 7) {
      EXPECT_EQ(hash_probe{slots}.at(first, 0), first);
      for (unsigned i = 0; i < 256; ++i) ASSERT_LT(hash_probe{slots}.at(first, i), slots);
    }
  }
  for (std::uint32_t ticket : {0u, 1u, 0xfffffffeu, 0xffffffffu}) EXPECT_LT(hash_probe{1000}.first(ticket, 4), 1000u);
}
// 31 tries look at 31 places, or nearly, and at all places of a small table.
TEST(HashProbe, AWalkSeldomComesToAPlaceTwice) {
  for (unsigned slots : {1365u, 4096u, 21845u, 262144u}) {
    std::set<unsigned> places;
    for (unsigned i = 0; i < 31; ++i) places.insert(hash_probe{slots}.at(5, i));
    EXPECT_GE(places.size(), 27u) << slots;
  }
  for (unsigned slots = 1; slots <= 31; ++slots) {
    std::set<unsigned> places;
    for (unsigned i = 0; i < 31; ++i) places.insert(hash_probe{slots}.at(0, i));
    EXPECT_EQ(places.size(), slots);
  }
}
// Two walks that meet do not go on together.
TEST(HashProbe, WalksThatMeetPart) {
  constexpr hash_probe probe{262144};
  unsigned together = 0;
  for (unsigned other = 1; other < 2000; ++other) {
    for (unsigned i = 0; i + 1 < 31; ++i) {
      for (unsigned k = 0; k + 1 < 31; ++k) {
        together += probe.at(0, i) == probe.at(other, k) && probe.at(0, i + 1) == probe.at(other, k + 1);
      }
    }
  }
  EXPECT_EQ(together, 0u);
}

}  // namespace
}  // namespace structures_test
