// Free slots, and tree bits that follow them, with one mistake each. Exploration finds every one of them within the stated number of seeds,
// so the checks, which the real ones pass, can fail.
#include "free_slots_checks.hpp"

namespace structures_test {
namespace {

template <class Check>
void expect_found(std::uint64_t within_seeds, Check check) {
  simt::exploration const e = simt::explore(within_seeds, [&] { return check().empty(); });
  EXPECT_TRUE(e.failed) << "not found within " << within_seeds << " seeds";
  testing::Test::RecordProperty("seed", std::to_string(e.seed));
}

// A claim that believes it has all that it chose.
struct slots_that_believe_their_choice : free_slots {
  claimed claim(unsigned n, unsigned start) const {
    word const wanted = choose(ref().load(simt::relaxed), n, start);
    word const before = ref().fetch_and(~wanted, simt::acq_rel);
    return {wanted, before & ~wanted};
  }
};
TEST(FreeSlotsMutants, AClaimThatBelievesItsChoiceIsFoundWithin20Seeds) {
  expect_found(20, [] { return slots_change_hands<slots_that_believe_their_choice>(explored_threads, 64, 3); });
}

// A claim that does not acquire.
struct slots_with_relaxed_claim : free_slots {
  claimed claim(unsigned n, unsigned start) const {
    word const wanted = choose(ref().load(simt::relaxed), n, start);
    word const before = ref().fetch_and(~wanted, simt::relaxed);
    return {before & wanted, before & ~wanted};
  }
};
TEST(FreeSlotsMutants, ARelaxedClaimIsFoundWithin20Seeds) {
  expect_found(20, [] { return slots_change_hands<slots_with_relaxed_claim>(explored_threads, 64, 3); });
}

// A close that looks first and empties the word afterwards.
struct slots_closed_after_a_look : free_slots {
  bool close(word all) const {
    if (ref().load(simt::acquire) != all) return false;
    ref().store(0, simt::release);
    return true;
  }
};
TEST(FreeSlotsMutants, ACloseAfterALookIsFoundWithin50Seeds) {
  expect_found(50, [] { return slots_change_hands<slots_closed_after_a_look>(8, 6, 6); });
}

// As published: a close that takes what is there, and puts it back if that was not all.
struct slots_closed_by_an_exchange : free_slots {
  bool close(word all) const {
    word const before = ref().exchange(0, simt::acq_rel);
    if (before == all) return true;
    ref().fetch_or(before, simt::acq_rel);
    return false;
  }
};
TEST(FreeSlotsMutants, ACloseByAnExchangeIsFoundWithin50Seeds) {
  expect_found(50, [] { return a_free_slot_is_found<slots_closed_by_an_exchange>(explored_threads, 4); });
}

// Bits that are set or cleared once, as it was before.
struct tree_that_settles_once : bitmap_tree {
  template <class Look>
  void recompute(unsigned bit, Look is_there) const {
    if (is_there()) {
      set(bit);
    } else {
      take(bit);
    }
  }
};
TEST(BitmapTreeSettleMutants, ABitSettledOnceIsFoundWithin200Seeds) {
  expect_found(200, [] { return bits_follow_the_slots<tree_that_settles_once>(explored_threads, 3, 1, 4); });
  expect_found(200, [] { return no_bit_stays_over_nothing<tree_that_settles_once>(explored_threads, 12, 2); });
}

// Bits whose last look may come before the change.
struct tree_that_looks_early : bitmap_tree {
  template <class Look>
  void recompute(unsigned bit, Look is_there) const {
    word const mask = word{1} << (bit % 64);
    for (bool there = is_there();;) {
      if (there) {
        leaf(bit / 64).fetch_or(mask, simt::relaxed);
      } else {
        leaf(bit / 64).fetch_and(~mask, simt::relaxed);
      }
      bool const now = is_there();
      if (now == there) return;
      there = now;
    }
  }
};
TEST(BitmapTreeSettleMutants, ALookThatDoesNotAcquireIsFoundWithin1000Seeds) {
  expect_found(1000, [] { return bits_follow_the_slots<tree_that_looks_early>(explored_threads, 3, 1, 4); });
}

}  // namespace
}  // namespace structures_test
