// Structures with one typical mistake each. Exploration finds every one of them within the stated number of seeds, so the checks, which the
// real structures pass, can fail.
#include "address_map_checks.hpp"
#include "bitmap_tree_checks.hpp"
#include "chunk_map_checks.hpp"
#include "relocation_count_checks.hpp"
#include "ring_queue_checks.hpp"
#include "segment_map_checks.hpp"
#include "slot_map_checks.hpp"
#include "spin_lock_checks.hpp"

namespace structures_test {
namespace {

template <class Check>
void expect_found(std::uint64_t within_seeds, Check check) {
  simt::exploration const e = simt::explore(within_seeds, [&] { return check().empty(); });
  EXPECT_TRUE(e.failed) << "not found within " << within_seeds << " seeds";
  testing::Test::RecordProperty("seed", std::to_string(e.seed));
}

// ---- bitmap_tree

// The base of mutants of setting: all setters use the mutant's sets().
template <class Mutant>
struct tree_that_sets : bitmap_tree {
  void set_mask(unsigned i, word mask) const { static_cast<Mutant const*>(this)->sets(i, mask); }
  void set(unsigned bit) const { set_mask(bit / 64, word{1} << (bit % 64)); }
  void mark_mid(unsigned i) const { mid(i / 64).fetch_or(word{1} << (i % 64), simt::acq_rel); }
  void mark_top(unsigned i) const {
    if (num_tops() != 0) top(i / 4096).fetch_or(word{1} << (i / 64 % 64), simt::acq_rel);
  }
};
// The base of mutants of clearing a stale bit.
template <class Mutant>
struct tree_that_clears : bitmap_tree {
  void clear_stale(unsigned i) const { static_cast<Mutant const*>(this)->clears(i); }
  word take_mask(unsigned i, word mask) const {
    word const before = leaf(i).fetch_and(~mask, simt::acq_rel);
    if ((before & ~mask) == 0) clear_stale(i);
    return before & mask;
  }
  bool take(unsigned bit) const { return take_mask(bit / 64, word{1} << (bit % 64)) != 0; }
};

// A clear_stale without the second look: it clears the summary bit that a set has just set.
struct tree_without_second_look : tree_that_clears<tree_without_second_look> {
  void clears(unsigned i) const { mid(i / 64).fetch_and(~(word{1} << (i % 64)), simt::acq_rel); }
};
// The same of the top word only.
struct tree_without_second_look_above : tree_that_clears<tree_without_second_look_above> {
  void clears(unsigned i) const {
    word const bit = word{1} << (i % 64);
    word const before = mid(i / 64).fetch_and(~bit, simt::acq_rel);
    if (leaf(i).load(simt::acquire) != 0) {
      mid(i / 64).fetch_or(bit, simt::acq_rel);
      top(i / 4096).fetch_or(word{1} << (i / 64 % 64), simt::acq_rel);
    } else if ((before & ~bit) == 0) {
      top(i / 4096).fetch_and(~(word{1} << (i / 64 % 64)), simt::acq_rel);
    }
  }
};
// A clear_stale that restores the middle bit and not the top bit, which another one has cleared because the middle word was empty
// meanwhile.
struct tree_that_restores_half : tree_that_clears<tree_that_restores_half> {
  void clears(unsigned i) const {
    word const bit = word{1} << (i % 64), top_bit = word{1} << (i / 64 % 64);
    word const before = mid(i / 64).fetch_and(~bit, simt::acq_rel);
    if (leaf(i).load(simt::acquire) != 0) {
      mid(i / 64).fetch_or(bit, simt::acq_rel);
    } else if ((before & ~bit) == 0) {
      top(i / 4096).fetch_and(~top_bit, simt::acq_rel);
      if (mid(i / 64).load(simt::acquire) != 0) top(i / 4096).fetch_or(top_bit, simt::acq_rel);
    }
  }
};
// A set that marks the summary before there is a bit to find: a clear_stale in between clears the mark for good.
struct tree_summary_first : tree_that_sets<tree_summary_first> {
  void sets(unsigned i, word mask) const {
    mark_mid(i);
    leaf(i).fetch_or(mask, simt::acq_rel);
  }
};
// The same of the top word.
struct tree_top_first : tree_that_sets<tree_top_first> {
  void sets(unsigned i, word mask) const {
    leaf(i).fetch_or(mask, simt::acq_rel);
    mark_top(i);
    mark_mid(i);
  }
};
// A set that leaves the summary to the thread that filled the empty leaf, and may be done first.
struct tree_that_trusts_others : tree_that_sets<tree_that_trusts_others> {
  void sets(unsigned i, word mask) const {
    if (leaf(i).fetch_or(mask, simt::acq_rel) != 0) return;
    mark_mid(i);
    mark_top(i);
  }
};
// The same of the top word, left to whoever marked the empty middle word.
struct tree_that_trusts_others_above : tree_that_sets<tree_that_trusts_others_above> {
  void sets(unsigned i, word mask) const {
    leaf(i).fetch_or(mask, simt::acq_rel);
    if (mid(i / 64).fetch_or(word{1} << (i % 64), simt::acq_rel) == 0) mark_top(i);
  }
};
// A search for anything that stops at the top words: a set that was overtaken on its way up leaves a bit there for ever.
struct tree_that_believes_its_tops : bitmap_tree {
  [[nodiscard]] bool maybe_any() const {
    for (unsigned t = 0; t < num_tops(); ++t) {
      if (top(t).load(simt::relaxed) != 0) return true;
    }
    return num_tops() == 0 && mid(0).load(simt::relaxed) != 0;
  }
};
// A set that does not release: what the owner of a bit wrote is not ordered before what the next one does.
struct tree_with_relaxed_set : tree_that_sets<tree_with_relaxed_set> {
  void sets(unsigned i, word mask) const {
    leaf(i).fetch_or(mask, simt::relaxed);
    mark_mid(i);
  }
};
// A summary that is marked without any order: a clear_stale that reads from the mark may still find the leaf empty.
struct tree_with_relaxed_mark : tree_that_sets<tree_with_relaxed_mark> {
  void sets(unsigned i, word mask) const {
    leaf(i).fetch_or(mask, simt::acq_rel);
    mid(i / 64).fetch_or(word{1} << (i % 64), simt::relaxed);
  }
};

constexpr leaves_in_play together{2}, apart{2, 128};

TEST(BitmapTreeMutants, TidyWithoutTheSecondLookIsFoundWithin400Seeds) {
  expect_found(400, [] { return bits_change_hands<tree_without_second_look>(explored_threads, together, 2, 5); });
}
TEST(BitmapTreeMutants, TidyWithoutTheSecondLookAboveIsFoundWithin400Seeds) {
  expect_found(400, [] { return bits_change_hands<tree_without_second_look_above>(explored_threads, apart, 2, 5); });
}
TEST(BitmapTreeMutants, HalfOfARestoredSummaryIsFoundWithin4000Seeds) {
  expect_found(4000, [] { return bits_change_hands<tree_that_restores_half>(explored_threads, {2, 64}, 1, 8); });
}
TEST(BitmapTreeMutants, SummaryBeforeLeafIsFoundWithin800Seeds) {
  expect_found(800, [] { return bits_change_hands<tree_summary_first>(explored_threads, together, 2, 5); });
}
TEST(BitmapTreeMutants, TopBeforeMiddleIsFoundWithin800Seeds) {
  expect_found(800, [] { return bits_change_hands<tree_top_first>(explored_threads, apart, 2, 5); });
}
TEST(BitmapTreeMutants, SummaryLeftToOthersIsFoundWithin20Seeds) {
  expect_found(20, [] { return finished_sets_are_seen<tree_that_trusts_others>(explored_threads, {3}); });
}
TEST(BitmapTreeMutants, TopLeftToOthersIsFoundWithin20Seeds) {
  expect_found(20, [] { return finished_sets_are_seen<tree_that_trusts_others_above>(explored_threads, {3, 64}); });
}
TEST(BitmapTreeMutants, TopsThatAreBelievedAreFoundWithin200Seeds) {
  expect_found(200, [] { return an_emptied_tree_has_nothing<tree_that_believes_its_tops>(4, {3, 64}, 3); });
}
TEST(BitmapTreeMutants, RelaxedSetIsFoundWithin50Seeds) {
  expect_found(50, [] { return bits_change_hands<tree_with_relaxed_set>(explored_threads, together, 2, 5); });
}
TEST(BitmapTreeMutants, RelaxedMarkIsFoundWithin4000Seeds) {
  expect_found(4000, [] { return bits_change_hands<tree_with_relaxed_mark>(explored_threads, together, 2, 5); });
}

// A claim that believes what the search found.
struct tree_that_believes : bitmap_tree {
  unsigned claim(unsigned from) const {
    unsigned const bit = successor(from);
    if (bit != none) (void)take(bit);
    return bit;
  }
};
// A search that takes a summary bit for a bit: what it found above may be gone below.
struct tree_of_wrong_levels : bitmap_tree {
  unsigned claim(unsigned from) const {
    unsigned found = none;
    for_each_leaf(from / 64, [&](unsigned i) {
      word const bits = leaf(i).load(simt::relaxed);
      found = i * 64 + (bits == 0 ? 0 : simt::lowest_bit(bits));
      return true;
    });
    if (found != none) erase(found);
    return found;
  }
};
// A claim of a run that leaves behind what it cannot use.
struct tree_that_keeps_halves : bitmap_tree {
  unsigned claim_run(unsigned n) const {
    for (unsigned end = num_leaves * 64, first; (first = find_run(n, end)) != none; end = first) {
      unsigned taken = 0;
      while (taken != n && take(first + taken)) ++taken;
      if (taken == n) return first;
    }
    return none;
  }
};
TEST(BitmapTreeMutants, AClaimThatBelievesASearchIsFoundWithin100Seeds) {
  expect_found(100, [] { return claims_are_apart<tree_that_believes>(explored_threads, 70, 9, 4); });
}
TEST(BitmapTreeMutants, ASearchOfTheWrongLevelIsFoundWithin100Seeds) {
  expect_found(100, [] { return claims_are_apart<tree_of_wrong_levels>(explored_threads, 70, 9, 4); });
}
TEST(BitmapTreeMutants, ARunThatIsHalfTakenIsFoundWithin100Seeds) {
  expect_found(100, [] { return claims_are_apart<tree_that_keeps_halves>(explored_threads, 70, 9, 4); });
}

// ---- relocation_count

// A search that looks once: what moves behind its back is missed.
struct one_look : two_looks {
  [[nodiscard]] static bool certain(relocation_count, relocation_count::word seen) { return relocation_count::quiet(seen); }
};
// A second look without a fence: it may return what the first did although moves began in between.
struct look_without_fence : two_looks {
  [[nodiscard]] static bool certain(relocation_count moves, relocation_count::word seen) {
    return relocation_count::quiet(seen) && moves.read_begin() == seen;
  }
};
// A first look that does not acquire: it sees that a move has ended, and the search does not see where it went.
struct relaxed_first_look : two_looks {
  [[nodiscard]] static relocation_count::word before(relocation_count moves) {
    return simt::atomic_ref<relocation_count::word>{*moves.state}.load(simt::relaxed);
  }
};
// Two equal looks, whether or not a move was under way.
struct two_looks_in_a_hurry : two_looks {
  [[nodiscard]] static bool certain(relocation_count moves, relocation_count::word seen) { return moves.read_end() == seen; }
};

TEST(RelocationCountMutants, OneLookIsFoundWithin300Seeds) {
  expect_found(300, [] { return certain_searches_find_the_token<one_look>(6, 2, 16); });
}
TEST(RelocationCountMutants, ASecondLookWithoutAFenceIsFoundWithin3000Seeds) {
  expect_found(3000, [] { return certain_searches_find_the_token<look_without_fence>(6, 2, 16); });
}
TEST(RelocationCountMutants, AFirstLookThatDoesNotAcquireIsFoundWithin3000Seeds) {
  expect_found(3000, [] { return certain_searches_find_the_token<relaxed_first_look>(6, 2, 16); });
}
TEST(RelocationCountMutants, LooksThatAreNotQuietAreFoundWithin100Seeds) {
  expect_found(100, [] { return certain_searches_find_the_token<two_looks_in_a_hurry>(6, 2, 16); });
}

// ---- segment_map

// Claims outside a relocation: what they take and put back, or leave over of a segment that they break up, is out of sight, and others are
// refused.
TEST(SegmentMapMutants, ClaimsOfSegmentsOutsideARelocationAreFoundWithin200Seeds) {
  expect_found(200, [] { return refusals_are_right(12, 8, false, untold::claims); });
}
TEST(SegmentMapMutants, ClaimsOfPagesOutsideARelocationAreFoundWithin200Seeds) {
  expect_found(200, [] { return refusals_are_right(12, 8, true, untold::claims); });
}
// A segment that becomes whole outside a relocation: searches may have looked for whole ones before and look for pages afterwards.
TEST(SegmentMapMutants, RejoiningOutsideARelocationIsFoundWithin2000Seeds) {
  expect_found(2000, [] { return refusals_are_right(2, 12, true, untold::rejoins, 4); });
}

// ---- slot_map

// A give that learns nothing of the frees before it: whoever ends the span races with those who freed its slots.
struct map_with_relaxed_give : slot_map {
  change give(unsigned w, word mask) const {
    word const before = at(w).fetch_or(mask, simt::relaxed);
    return {before, completes(before, mask) && count_full(w)};
  }
};
// A count of full words that does not carry the frees: whoever ends the span races with those who freed its slots.
struct map_with_relaxed_count : slot_map {
  change give(unsigned w, word mask) const {
    word const before = at(w).fetch_or(mask, simt::acq_rel);
    if (!completes(before, mask)) return {before, false};
    return {before, group(w / words_per_group).fetch_add(1, simt::relaxed) + 1 == words_per_group};
  }
};
// A take that breaks a full word and does not say so.
struct map_that_forgets_takes : slot_map {
  change take(unsigned w, unsigned num_slots, unsigned wanted, word& got) const {
    change c = slot_map::take(w, num_slots, wanted, got);
    c.group_crossed = false;
    return c;
  }
};
// A give that looks at the word apart from changing it: of two that complete a word together, both count it or none does.
struct map_that_looks_apart : slot_map {
  change give(unsigned w, word mask) const {
    word const before = at(w).load(simt::acquire);
    at(w).fetch_or(mask, simt::acq_rel);
    return {before, completes(before, mask) && count_full(w)};
  }
};
// A mark that looks at the slots first and sets the flag afterwards: a free in between is seen by neither side.
struct map_that_marks_late : slot_map {
  word mark_unlisted(unsigned w, unsigned num_slots) const {
    word const seen = at(w).load(simt::acquire) & slots_in(w, num_slots);
    at(w).fetch_or(unlisted, simt::acq_rel);
    return seen;
  }
};
// A span of a few words that is shortened as if nobody freed its slots meanwhile.
struct map_that_overwrites_frees : slot_map {
  unsigned split(unsigned from, unsigned to, unsigned drawn) const {
    unsigned crossed = count_full(0, words_for(from) - words_for(to));
    for (unsigned w = words_for(to); w < words_for(from); ++w) at(w).store(0, simt::relaxed);
    for (unsigned w = drawn / slots_per_word; w < words_for(to); ++w) {
      word const before = at(w).load(simt::acquire);
      word const live = drawn > w * slots_per_word ? simt::low_bits(drawn - w * slots_per_word) : 0;
      at(w).store(before | (all_slots & ~live), simt::release);
      crossed += completes(before, all_slots & ~live) && count_full(w);
    }
    return crossed;
  }
};
// A shortening that does not say which groups it completed: the span never ends.
struct map_that_shortens_in_silence : slot_map {
  unsigned split(unsigned from, unsigned to, unsigned drawn) const {
    (void)slot_map::split(from, to, drawn);
    return 0;
  }
};

TEST(SlotMapMutants, RelaxedGiveIsFoundWithin50Seeds) {
  expect_found(50, [] { return the_last_free_ends_the_span<map_with_relaxed_give>(5, 250, 3); });
}
TEST(SlotMapMutants, RelaxedCountIsFoundWithin50Seeds) {
  expect_found(50, [] { return the_last_free_ends_the_span<map_with_relaxed_count>(5, 250, 3); });
}
TEST(SlotMapMutants, ForgottenTakesAreFoundWithin100Seeds) {
  expect_found(100, [] { return the_last_free_ends_the_span<map_that_forgets_takes>(5, 250, 3); });
}
TEST(SlotMapMutants, ALookApartFromTheChangeIsFoundWithin100Seeds) {
  expect_found(100, [] { return slots_change_hands<map_that_looks_apart>(explored_threads, 100, 8); });
}
TEST(SlotMapMutants, AMarkAfterTheLookIsFoundWithin1500Seeds) {
  expect_found(1500, [] { return a_span_with_a_free_slot_is_listed<map_that_marks_late>(3, 100); });
}
TEST(SlotMapMutants, ASplitThatOverwritesFreesIsFoundWithin1000Seeds) {
  expect_found(1000, [] { return a_split_span_ends<map_that_overwrites_frees>(5, 100, 5, 2, 150); });
}
TEST(SlotMapMutants, ASplitInSilenceIsFoundWithin200Seeds) {
  expect_found(200, [] { return a_split_span_ends<map_that_shortens_in_silence>(5, 100, 5, 2, 150); });
}

// ---- ring_queue; the queues are in ring_queue_checks.hpp

TEST(RingQueueMutants, AFullTestByEqualityIsFoundWithin1000Seeds) {
  expect_passes(1000, [] { return every_value_is_popped_once<queue_by_distance<false>, simt::uint32_t>(explored_threads, 4, 4); });
  expect_found(1000, [] { return every_value_is_popped_once<queue_by_distance<true>, simt::uint32_t>(explored_threads, 4, 4); });
}
TEST(RingQueueMutants, TurnsThatOrderNothingAreFoundWithin50Seeds) {
  expect_found(50,
               [] { return every_value_is_popped_once<queue_with_relaxed_turns<simt::uint64_t>, simt::uint64_t>(explored_threads, 4, 4); });
}
TEST(RingQueueMutants, EntriesWithoutTurnsAreFoundWithin100Seeds) {
  expect_found(100, [] { return every_value_is_popped_once<queue_without_turns<simt::uint64_t>, simt::uint64_t>(explored_threads, 4, 4); });
}
TEST(RingQueueMutants, ClaimsThatAreKeptAreFoundWithin100Seeds) {
  expect_found(100, [] { return no_place_is_lost<queue_that_keeps_claims<simt::uint32_t>, simt::uint32_t>(explored_threads, 4, 4); });
}

// ---- spin_lock

// A lock taken in two steps: whoever looks between them takes it too.
struct lock_in_two_steps : spin_lock {
  template <class F>
  void run(F f) const {
    simt::atomic_ref<simt::uint32_t> const held{*word};
    simt::back_off pause;
    while (held.load(simt::acquire) != 0) pause.wait();
    held.store(1, simt::relaxed);
    f();
    held.store(0, simt::release);
  }
};
TEST(SpinLockMutants, ALockTakenInTwoStepsIsFoundWithin200Seeds) {
  expect_found(200, [] { return holders_are_alone<lock_in_two_steps>(explored_threads, 2); });
}
// One that is opened before the holder's work has reached the next one.
struct lock_opened_relaxed : spin_lock {
  template <class F>
  void run(F f) const {
    simt::atomic_ref<simt::uint32_t> const held{*word};
    simt::back_off pause;
    for (bool done = false; !done;) {
      if (held.exchange(1, simt::acquire) == 0) {
        f();
        held.store(0, simt::relaxed);
        done = true;
      } else {
        pause.wait();
      }
    }
  }
};
TEST(SpinLockMutants, ARelaxedOpeningIsFoundWithin200Seeds) {
  expect_found(200, [] { return holders_are_alone<lock_opened_relaxed>(explored_threads, 2); });
}

// ---- chunk_map

// Takes back all bits that it wanted, and with them those of another.
struct map_that_takes_back_all : chunk_map {
  bool claim(unsigned first, unsigned count) const {
    word const mask = simt::low_bits(count) << (first % 64);
    simt::atomic_ref<word> const bits{taken[first / 64]};
    if ((bits.fetch_or(mask, simt::acquire) & mask) == 0) return true;
    bits.fetch_and(~mask, simt::relaxed);
    return false;
  }
};
// Keeps what it has set of a place that is partly taken: nobody gives these chunks back.
struct map_that_takes_nothing_back : chunk_map {
  bool claim(unsigned first, unsigned count) const {
    word const mask = simt::low_bits(count) << (first % 64);
    return (simt::atomic_ref<word>{taken[first / 64]}.fetch_or(mask, simt::acquire) & mask) == 0;
  }
};
// Looks whether a place is free and takes it afterwards.
struct map_that_claims_by_looking : chunk_map {
  bool claim(unsigned first, unsigned count) const {
    word const mask = simt::low_bits(count) << (first % 64);
    simt::atomic_ref<word> const bits{taken[first / 64]};
    if ((bits.load(simt::acquire) & mask) != 0) return false;
    bits.fetch_or(mask, simt::acq_rel);
    return true;
  }
};
// Claims without acquiring what the last owners released.
struct map_with_relaxed_claim : chunk_map {
  bool claim(unsigned first, unsigned count) const {
    word const mask = simt::low_bits(count) << (first % 64);
    simt::atomic_ref<word> const bits{taken[first / 64]};
    word const ours = mask & ~bits.fetch_or(mask, simt::relaxed);
    if (ours != mask && ours != 0) bits.fetch_and(~ours, simt::relaxed);
    return ours == mask;
  }
};
// Reads a block's length and clears it afterwards.
struct map_that_unmarks_by_looking : chunk_map {
  start unmark(unsigned first) const {
    unsigned const length = count_at(first);
    (void)chunk_map::unmark(first);
    return {length, true};
  }
};

TEST(ChunkMapMutants, TakingBackTheBitsOfOthersIsFoundWithin20Seeds) {
  expect_found(20, [] { return blocks_are_apart<map_that_takes_back_all>(explored_threads, 24, 4); });
}
TEST(ChunkMapMutants, TakingNothingBackIsFoundWithin20Seeds) {
  expect_found(20, [] { return blocks_are_apart<map_that_takes_nothing_back>(explored_threads, 24, 4); });
}
TEST(ChunkMapMutants, AClaimByLookingIsFoundWithin20Seeds) {
  expect_found(20, [] { return blocks_are_apart<map_that_claims_by_looking>(explored_threads, 24, 4); });
}
TEST(ChunkMapMutants, ARelaxedClaimIsFoundWithin100Seeds) {
  expect_found(100, [] { return blocks_are_apart<map_with_relaxed_claim>(explored_threads, 24, 4); });
}
TEST(ChunkMapMutants, LengthsReadBeforeTheyAreClearedAreFoundWithin20Seeds) {
  expect_found(20, [] { return a_block_ends_once<map_that_unmarks_by_looking>(40); });
}

// Gives a key's place up before its value is read.
struct map_that_removes_first : address_map {
  unsigned find(key k) const {
    unsigned const at = address_map::find(k);
    if (at != none) (void)address_map::remove(at, k);
    return at;
  }
  bool remove(unsigned, key) const { return true; }
};
// Takes a place that it has seen free.
struct map_that_takes_by_looking : address_map {
  bool insert(key k, value v) const {
    for (unsigned at = 0; at < num_buckets * bucket_places; ++at) {
      if (simt::global_ref<key>{keys[at]}.load(simt::relaxed) != 0) continue;
      simt::global_ref<key>{keys[at]}.store(k, simt::release);
      simt::global_ref<value>{values[at]}.store(v, simt::relaxed);
      return true;
    }
    return false;
  }
};

TEST(AddressMapMutants, AValueReadTooLateIsFoundWithin300Seeds) {
  EXPECT_EQ(keys_come_and_go<map_that_removes_first>(1, 1, 6, 2, false), "") << "alone it is right";
  expect_found(300, [] { return keys_come_and_go<map_that_removes_first>(1, 6, 6, 2, false); });
}
TEST(AddressMapMutants, APlaceTakenByLookingIsFoundWithin100Seeds) {
  EXPECT_EQ(keys_come_and_go<map_that_takes_by_looking>(1, 1, 6, 2, false), "") << "alone it is right";
  expect_found(100, [] { return keys_come_and_go<map_that_takes_by_looking>(1, 6, 6, 2, false); });
}

}  // namespace
}  // namespace structures_test
