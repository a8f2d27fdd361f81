// Structures with one typical mistake each. Exploration finds every one of them within the stated number of seeds, so the checks, which the
// real structures pass, can fail.
#include "bitmap_tree_checks.hpp"
#include "segment_map_checks.hpp"
#include "slot_map_checks.hpp"
#include "transit_count_checks.hpp"

namespace structures_test {
namespace {

template <class Check>
void expect_found(std::uint64_t within_seeds, Check check) {
  simt::exploration const e = simt::explore(within_seeds, [&] { return check().empty(); });
  EXPECT_TRUE(e.failed) << "not found within " << within_seeds << " seeds";
  testing::Test::RecordProperty("seed", std::to_string(e.seed));
}

// ---- bitmap_tree

// A tidy without the second look: it drops the summary bit that a set has just put there.
struct tree_without_second_look : bitmap_tree {
  void tidy(unsigned i) const { summary_word(i / 64).fetch_and(~(word{1} << (i % 64)), simt::acq_rel); }
  word take_mask(unsigned i, word mask) const {
    word const before = leaf(i).fetch_and(~mask, simt::acq_rel);
    if ((before & ~mask) == 0) tidy(i);
    return before & mask;
  }
  bool take(unsigned bit) const { return take_mask(bit / 64, word{1} << (bit % 64)) != 0; }
};
// A set that marks the summary before there is a bit to find: a tidy in between drops the mark for good.
struct tree_summary_first : bitmap_tree {
  void set_mask(unsigned i, word mask) const {
    summary_word(i / 64).fetch_or(word{1} << (i % 64), simt::acq_rel);
    leaf(i).fetch_or(mask, simt::acq_rel);
  }
  void set(unsigned bit) const { set_mask(bit / 64, word{1} << (bit % 64)); }
};
// A set that leaves the summary to whoever filled the empty leaf, and may be done first.
struct tree_that_trusts_others : bitmap_tree {
  void set_mask(unsigned i, word mask) const {
    if (leaf(i).fetch_or(mask, simt::acq_rel) == 0) summary_word(i / 64).fetch_or(word{1} << (i % 64), simt::acq_rel);
  }
  void set(unsigned bit) const { set_mask(bit / 64, word{1} << (bit % 64)); }
};
// A set that does not release: what the owner of a bit wrote is not ordered before what the next one does.
struct tree_with_relaxed_set : bitmap_tree {
  void set_mask(unsigned i, word mask) const {
    leaf(i).fetch_or(mask, simt::relaxed);
    summary_word(i / 64).fetch_or(word{1} << (i % 64), simt::acq_rel);
  }
  void set(unsigned bit) const { set_mask(bit / 64, word{1} << (bit % 64)); }
};

TEST(BitmapTreeMutants, TidyWithoutTheSecondLookIsFoundWithin400Seeds) {
  expect_found(400, [] { return bits_change_hands<tree_without_second_look>(explored_threads, 2, 2, 5); });
}
TEST(BitmapTreeMutants, SummaryBeforeLeafIsFoundWithin800Seeds) {
  expect_found(800, [] { return bits_change_hands<tree_summary_first>(explored_threads, 2, 2, 5); });
}
TEST(BitmapTreeMutants, SummaryLeftToOthersIsFoundWithin20Seeds) {
  expect_found(20, [] { return finished_sets_are_seen<tree_that_trusts_others>(explored_threads, 3); });
}
TEST(BitmapTreeMutants, RelaxedSetIsFoundWithin50Seeds) {
  expect_found(50, [] { return bits_change_hands<tree_with_relaxed_set>(explored_threads, 2, 2, 5); });
}

// ---- transit_count

// A search that looks once: what moves behind its back is missed.
struct one_look : two_looks {
  [[nodiscard]] static bool certain(transit_count, transit_count::word seen) { return transit_count::quiet(seen); }
};
// Looks that only load: the second may return what the first did although moves began in between.
struct two_loads {
  [[nodiscard]] static transit_count::word before(transit_count moves) {
    return simt::atomic_ref<transit_count::word>{*moves.state}.load(simt::acquire);
  }
  [[nodiscard]] static bool certain(transit_count moves, transit_count::word seen) {
    return transit_count::quiet(seen) && before(moves) == seen;
  }
};
// Two equal looks, whether or not a move was under way.
struct two_looks_in_a_hurry : two_looks {
  [[nodiscard]] static bool certain(transit_count moves, transit_count::word seen) { return moves.look() == seen; }
};

TEST(TransitCountMutants, OneLookIsFoundWithin300Seeds) {
  expect_found(300, [] { return certain_searches_find_the_token<one_look>(6, 2, 16); });
}
TEST(TransitCountMutants, LooksThatOnlyLoadAreFoundWithin3000Seeds) {
  expect_found(3000, [] { return certain_searches_find_the_token<two_loads>(6, 2, 16); });
}
TEST(TransitCountMutants, LooksThatAreNotQuietAreFoundWithin100Seeds) {
  expect_found(100, [] { return certain_searches_find_the_token<two_looks_in_a_hurry>(6, 2, 16); });
}

// ---- segment_map

// Claims outside a transit: what they take and put back is out of sight, and others are refused.
TEST(SegmentMapMutants, ClaimsOutsideATransitAreFoundWithin200Seeds) {
  expect_found(200, [] { return refusals_are_right(12, 8, false); });
}

// ---- slot_map

// A give that does not release: the next owner of a slot races with the last one.
struct map_with_relaxed_give : slot_map {
  change give(unsigned w, word mask) const {
    word const before = at(w).fetch_or(mask, simt::relaxed);
    return {before, completes(w, before, mask) && count_full(w)};
  }
};
// A count of full words that does not carry the frees: whoever ends the run races with those who freed its slots.
struct map_with_relaxed_count : slot_map {
  change give(unsigned w, word mask) const {
    word const before = at(w).fetch_or(mask, simt::acq_rel);
    unsigned const g = w / words_per_group;
    return {before, completes(w, before, mask) && group(g).fetch_add(1, simt::relaxed) + 1 == group_words(g)};
  }
};
// A take that breaks a full word and does not say so.
struct map_that_forgets_takes : slot_map {
  change take(unsigned w, unsigned wanted, word& got) const {
    change c = slot_map::take(w, wanted, got);
    c.group_crossed = false;
    return c;
  }
};
// A give that looks at the word apart from changing it: of two that complete a word together, both count it or none does.
struct map_that_looks_apart : slot_map {
  change give(unsigned w, word mask) const {
    word const before = at(w).load(simt::acquire);
    at(w).fetch_or(mask, simt::acq_rel);
    return {before, completes(w, before, mask) && count_full(w)};
  }
};
// A mark that looks at the slots first and sets the flag afterwards: a free in between is seen by neither side.
struct map_that_marks_late : slot_map {
  word mark_unlisted(unsigned w) const {
    word const seen = at(w).load(simt::acquire) & all_slots;
    at(w).fetch_or(unlisted, simt::acq_rel);
    return seen;
  }
};

TEST(SlotMapMutants, RelaxedGiveIsFoundWithin20Seeds) {
  expect_found(20, [] { return slots_change_hands<map_with_relaxed_give>(explored_threads, 100, 8); });
}
TEST(SlotMapMutants, RelaxedCountIsFoundWithin50Seeds) {
  expect_found(50, [] { return the_last_free_ends_the_run<map_with_relaxed_count>(5, 250, 3); });
}
TEST(SlotMapMutants, ForgottenTakesAreFoundWithin100Seeds) {
  expect_found(100, [] { return the_last_free_ends_the_run<map_that_forgets_takes>(5, 250, 3); });
}
TEST(SlotMapMutants, ALookApartFromTheChangeIsFoundWithin100Seeds) {
  expect_found(100, [] { return slots_change_hands<map_that_looks_apart>(explored_threads, 100, 8); });
}
TEST(SlotMapMutants, AMarkAfterTheLookIsFoundWithin1500Seeds) {
  expect_found(1500, [] { return a_run_with_a_free_slot_is_listed<map_that_marks_late>(3, 100); });
}

}  // namespace
}  // namespace structures_test
