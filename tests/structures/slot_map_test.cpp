// The slot map, one call at a time: sizes, what each call returns and counts against brute force, samples, marks, shorter spans,
// spans that are reset.
#include "slot_map_checks.hpp"

#include <algorithm>

namespace structures_test {

// Kernel: one thread calls a map as told and writes down the answers.
enum class map_call { give, take, take_mask, mark };
struct map_order {
  map_call what;
  unsigned w;
  slot_map::word mask;  // of give and take_mask
  unsigned wanted;      // of take
};
struct map_answer {
  slot_map::word before, got;
  unsigned crossed;
};
struct call_map {
  slot_map map;
  unsigned num_slots;
  map_order const* orders;
  map_answer* answers;
  unsigned num_orders;

  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned k = 0; k < num_orders; ++k) {
      map_order const& order = orders[k];
      slot_map::word got = 0;
      slot_map::change change{};
      if (order.what == map_call::give) change = map.give(order.w, order.mask);
      if (order.what == map_call::take) change = map.take(order.w, num_slots, order.wanted, got);
      if (order.what == map_call::take_mask) change = map.take_mask(order.w, order.mask, got);
      if (order.what == map_call::mark) got = map.mark_unlisted(order.w, num_slots);
      answers[k] = {change.before, got, change.group_crossed};
    }
  }
};
// Kernel: samples with seeds 0, 1, 2, ...
struct sample_map {
  slot_map map;
  unsigned num_slots;
  unsigned* found;
  unsigned* sampled;

  GPUHEAP_FN void operator()(unsigned i) const { found[i] = map.sample(num_slots, i * 0x9e3779b9u >> 7, sampled[i]); }
};
struct clear_map {
  slot_map map;
  unsigned num_slots, lanes;

  GPUHEAP_FN void operator()(unsigned i) const { map.clear(num_slots, i, lanes); }
};
struct split_map {
  slot_map map;
  unsigned from, to, claimed;
  unsigned* crossed;

  GPUHEAP_FN void operator()(unsigned) const { *crossed = map.split(from, to, claimed); }
};
struct reset_map {
  slot_map map;
  unsigned num_slots, claimed, lanes;

  GPUHEAP_FN void operator()(unsigned i) const { map.reset(num_slots, claimed, i, lanes); }
};

namespace {

std::vector<map_answer> call(span_memory<>& span, std::vector<map_order> const& orders) {
  test::device_array<map_order> told(orders);
  test::device_array<map_answer> answers(orders.size());
  gpuheap::launch(1, call_map{span.map(), span.num_slots(), told.data(), answers.data(), static_cast<unsigned>(orders.size())});
  return answers.read();
}
// The bits of word w that have a slot.
slot_map::word whole(span_memory<> const& span, unsigned w) { return slot_map::slots_in(w, span.num_slots()); }
map_order give_whole(span_memory<> const& span, unsigned w) { return {map_call::give, w, whole(span, w), 0}; }
unsigned full_groups(span_memory<> const& span) {
  auto const counts = span.groups();
  return static_cast<unsigned>(std::count(counts.begin(), counts.end(), 64u));
}

constexpr unsigned sizes[] = {1, 2, 62, 63, 64, 126, 127, 500, 4031, 4032, 4033, 4095, 4096, 8064, 8127, 131072};

TEST(SlotMap, EverySlotHasABitAndEveryWordAGroup) {
  for (unsigned num_slots : sizes) {
    std::vector<slot_map::word> expected;
    for (unsigned slot = 0; slot < num_slots; ++slot) {
      if (slot % 63 == 0) expected.push_back(0);
      expected.back() |= slot_map::word{1} << slot % 63;
    }
    ASSERT_EQ(slot_map::words_for(num_slots), expected.size()) << num_slots;
    for (unsigned w = 0; w < expected.size(); ++w) {
      ASSERT_EQ(slot_map::slots_in(w, num_slots), expected[w]) << num_slots << " slots, word " << w;
    }
    ASSERT_EQ(slot_map::slots_in(slot_map::words_for(num_slots), num_slots), 0u);
    ASSERT_EQ(slot_map::groups_for(slot_map::words_for(num_slots)), (num_slots + 4031) / 4032) << num_slots;
  }
}

TEST(SlotMap, APreparedMapHasNoFreeSlotAndNothingMissing) {
  for (unsigned num_slots : sizes) {
    span_memory<> span(num_slots, 1, true, 3);
    EXPECT_EQ(span.problem(true), "") << num_slots;
    auto const free = span.free();
    EXPECT_EQ(std::count(free.begin(), free.end(), true), 0) << num_slots;
  }
}

// Bits without a slot are set from the start, so a free completes words and groups without knowing the span's length.
TEST(SlotMap, AFreeNeedsNoLengthToCompleteWordsAndGroups) {
  for (unsigned num_slots : sizes) {
    span_memory<> span(num_slots);
    unsigned const n = slot_map::words_for(num_slots);
    std::vector<map_order> orders;
    for (unsigned w = 0; w < n; ++w) orders.push_back(give_whole(span, w));
    auto const answers = call(span, orders);
    for (unsigned w = 0; w < n; ++w) {
      ASSERT_EQ(answers[w].crossed != 0, w % 64 == 63 || w + 1 == n) << num_slots << " slots, word " << w;
    }
    EXPECT_EQ(span.problem(false), "");
    EXPECT_EQ(full_groups(span), (num_slots + 4031) / 4032);
  }
}

// The answers that the calls must give, computed from a word's bits alone.
class model {
 public:
  explicit model(span_memory<> const& span) : num_slots_{span.num_slots()}, words_(span.words()) {}

  [[nodiscard]] map_answer answer(map_order const& order) {
    slot_map::word& word = words_[order.w];
    slot_map::word const before = word, slots = slot_map::slots_in(order.w, num_slots_);
    bool const was_full = group_is_full(order.w);
    slot_map::word got = 0;
    if (order.what == map_call::give) word |= order.mask;
    if (order.what == map_call::take) {
      for (unsigned bit = 0, left = order.wanted; bit < 63 && left != 0; ++bit) {
        if (((before & slots) >> bit & 1) == 0) continue;
        got |= slot_map::word{1} << bit;
        --left;
      }
      // A take that finds nothing leaves the mark and does not tell of it.
      if (got == 0) return {before & slots, 0, false};
      word &= ~(got | slot_map::unlisted);
    }
    if (order.what == map_call::take_mask) {
      got = before & order.mask;
      word &= ~(order.mask | slot_map::unlisted);
    }
    if (order.what == map_call::mark) {
      word |= slot_map::unlisted;
      return {0, before & slots, false};
    }
    return {before, got, was_full != group_is_full(order.w)};
  }
  [[nodiscard]] std::vector<slot_map::word> const& words() const { return words_; }

 private:
  [[nodiscard]] bool group_is_full(unsigned w) const {
    unsigned const first = w / 64 * 64;
    for (unsigned i = first; i < first + 64 && i < words_.size(); ++i) {
      if ((words_[i] & slot_map::all_slots) != slot_map::all_slots) return false;
    }
    return true;
  }
  unsigned num_slots_;
  std::vector<slot_map::word> words_;
};

TEST(SlotMap, AnswersAndCountsAsBruteForceDoes) {
  test::rng random{1};
  for (unsigned num_slots : {1u, 63u, 64u, 500u, 4032u, 4033u, 4400u}) {
    span_memory<> span(num_slots, 1, true, num_slots % 2 == 0 ? 8 : 1);
    model expected(span);
    unsigned const n = slot_map::words_for(num_slots);
    std::vector<map_order> orders;
    for (unsigned w = 0; w < n; ++w) orders.push_back(give_whole(span, w));
    for (unsigned k = 0; k < 3000; ++k) {
      unsigned const w = random.below(n);
      slot_map::word const some = test::mix(random.below(1u << 31)) & whole(span, w);
      switch (random.below(5)) {
        case 0:
          orders.push_back({map_call::take, w, 0, 1 + random.below(32)});
          break;
        case 1:
          orders.push_back({map_call::give, w, some, 0});
          break;
        case 2:
          orders.push_back({map_call::mark, w, 0, 0});
          break;
        case 3:  // away and back: the group ceases to be full and becomes it again, if it was
          orders.push_back({map_call::take, w, 0, 1 + random.below(32)});
          orders.push_back(give_whole(span, w));
          break;
        case 4:
          orders.push_back({map_call::take_mask, w, some, 0});
          break;
      }
      if (k % 200 == 0) {
        for (unsigned v = 0; v < n; ++v) orders.push_back(give_whole(span, v));
      }
    }
    auto const answers = call(span, orders);
    unsigned crossings[2] = {};
    for (unsigned k = 0; k < orders.size(); ++k) {
      map_answer const e = expected.answer(orders[k]);
      ASSERT_EQ(answers[k].before, e.before) << num_slots << " slots, call " << k;
      ASSERT_EQ(answers[k].got, e.got) << num_slots << " slots, call " << k;
      ASSERT_EQ(answers[k].crossed != 0, e.crossed != 0) << num_slots << " slots, call " << k;
      if (e.crossed != 0) ++crossings[orders[k].what == map_call::give];
    }
    EXPECT_EQ(span.words(), expected.words());
    EXPECT_EQ(span.problem(false), "") << num_slots;
    EXPECT_GT(crossings[0], 10u) << num_slots;
    EXPECT_GT(crossings[1], 10u) << num_slots;
  }
}

TEST(SlotMap, AGiveSeesTheMarkUntilATakeClearsIt) {
  span_memory<> span(126);
  auto const a = call(span, {
                                {map_call::give, 0, 0b0011, 0},
                                {map_call::mark, 0, 0, 0},
                                {map_call::give, 0, 0b0100, 0},
                                {map_call::give, 0, 0b1000, 0},
                                {map_call::take, 0, 0, 1},
                                {map_call::give, 0, 0b0001, 0},
                                {map_call::mark, 1, 0, 0},
                                {map_call::take, 1, 0, 5},  // nothing to take
                                {map_call::give, 1, 1, 0},
                            });
  EXPECT_EQ(a[0].before, 0u);
  EXPECT_EQ(a[1].got, 0b0011u);
  EXPECT_EQ(a[2].before, slot_map::unlisted | 0b0011);
  EXPECT_EQ(a[3].before, slot_map::unlisted | 0b0111);
  EXPECT_EQ(a[4].got, 0b0001u);
  EXPECT_EQ(a[5].before, 0b1110u);
  EXPECT_EQ(a[6].got, 0u);
  EXPECT_EQ(a[7].got, 0u);
  EXPECT_EQ(a[8].before, slot_map::unlisted) << "a take that got nothing leaves the mark";
}

// Claims that come to a word at the same time see the same slots. Their numbers keep them apart, as long as there are slots.
TEST(SlotMap, LanesThatSeeTheSameWordPickDifferentSlots) {
  for (unsigned there = 1; there <= slot_map::slots_per_word; ++there) {
    for (unsigned wanted = 1; wanted <= simt::warp_lanes; ++wanted) {
      for (unsigned others = 0; others <= there; others += wanted) {
        unsigned const first = slot_map::first_pick(there, wanted, others);
        if (others + wanted <= there) {
          ASSERT_EQ(first, others) << there << " slots, " << wanted << " wanted";
        } else {
          ASSERT_LE(first + std::min(wanted, there), there) << there << " slots, " << wanted << " wanted after " << others;
        }
      }
    }
  }
  EXPECT_EQ(slot_map::first_pick(0, 5, 40), 0u);
  EXPECT_EQ(slot_map::first_pick(20, 1, 20), 0u) << "more claims than slots: the late ones begin at the first again";
  EXPECT_EQ(slot_map::first_pick(20, 1, 30), 10u);
  EXPECT_EQ(slot_map::first_pick(3, 1, 60), 0u) << "many more";
}

TEST(SlotMap, TheMarkIsNoSlot) {
  span_memory<> span(63);
  auto const a = call(span, {{map_call::mark, 0, 0, 0}, {map_call::give, 0, slot_map::all_slots, 0}, {map_call::take, 0, 0, 32}});
  EXPECT_TRUE(a[1].crossed) << "full though marked";
  EXPECT_EQ(a[2].got, simt::low_bits(32));
  EXPECT_TRUE(a[2].crossed);
  EXPECT_EQ(span.words()[0], slot_map::all_slots & ~simt::low_bits(32));
}

TEST(SlotMap, WhatHasNoSlotIsNeitherTakenNorFound) {
  span_memory<> span(70);
  auto const a =
      call(span, {{map_call::take, 1, 0, 32}, {map_call::mark, 1, 0, 0}, {map_call::give, 1, 0b100, 0}, {map_call::take, 1, 0, 32}});
  EXPECT_EQ(a[0].got, 0u);
  EXPECT_EQ(a[1].got, 0u);
  EXPECT_EQ(a[3].got, 0b100u);
  EXPECT_EQ(span.problem(true), "");
}

TEST(SlotMap, SamplesStayInBoundsAndCountWhatIsThere) {
  constexpr unsigned looks = 200;
  test::rng random{2};
  for (unsigned num_slots : sizes) {
    span_memory<> span(num_slots);
    auto const prepared = span.words();
    test::device_array<unsigned> found(looks), sampled(looks);
    for (unsigned fill : {0u, 1u, 2u}) {  // none free, some, all; marked words among them
      std::vector<slot_map::word> words = prepared;
      for (unsigned w = 0; w < words.size(); ++w) {
        words[w] |= fill == 0 ? 0 : fill == 2 ? whole(span, w) : test::mix(random.below(1u << 31)) & whole(span, w);
        if (w % 3 == 0) words[w] |= slot_map::unlisted;
      }
      span.write_words(words);
      gpuheap::launch(looks, sample_map{span.map(), num_slots, found.data(), sampled.data()});
      auto const f = found.read(), s = sampled.read();
      for (unsigned i = 0; i < looks; ++i) {
        ASSERT_GE(s[i], 1u) << num_slots;
        ASSERT_LE(s[i], num_slots < 4 * 63 ? num_slots : 4 * 63) << num_slots;
        ASSERT_LE(f[i], s[i]) << num_slots;
        if (fill == 0) {
          ASSERT_EQ(f[i], 0u) << num_slots;
        }
        if (fill == 2) {
          ASSERT_EQ(f[i], s[i]) << num_slots;
        }
        if (words.size() <= 4) {
          ASSERT_EQ(s[i], num_slots) << "a small span is seen entirely";
        }
      }
    }
  }
}

TEST(SlotMap, ClearLeavesNothingBehind) {
  for (unsigned num_slots : {1u, 64u, 4033u, 131072u}) {
    for (unsigned lanes : {1u, 7u, 32u}) {
      span_memory<> span(num_slots, 1, true, 4);
      std::vector<map_order> orders;
      for (unsigned w = 0; w < slot_map::words_for(num_slots); ++w) {
        orders.push_back(give_whole(span, w));
        orders.push_back({map_call::mark, w, 0, 0});
      }
      call(span, orders);
      EXPECT_EQ(span.problem(false), "");
      gpuheap::launch(lanes, clear_map{span.map(), num_slots, lanes});
      EXPECT_EQ(span.words(), std::vector<slot_map::word>(span.words().size()));
      EXPECT_EQ(span.groups(), std::vector<unsigned>(span.groups().size()));
    }
  }
}

// ---- shorten

// Of the slots that were handed out, one in `freed_one_in` is free (0: none is).
void expect_shortens(test::rng& random, unsigned from, unsigned to, unsigned claimed, unsigned freed_one_in) {
  SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to) + " slots, " + std::to_string(claimed) + " handed out, one in " +
               std::to_string(freed_one_in) + " of them free");
  span_memory<> span(from, 1, true, 1 + claimed % 3);
  std::vector<bool> expected(from);
  std::vector<slot_map::word> masks(span.words().size());
  for (unsigned i = 0; i < to; ++i) {
    expected[i] = i >= claimed || (freed_one_in != 0 && random.below(freed_one_in) == 0);
    if (i < claimed && expected[i]) masks[i / 63] |= slot_map::word{1} << (i % 63);
  }
  std::vector<map_order> frees;
  for (unsigned w = 0; w < masks.size(); ++w) frees.push_back({map_call::give, w, masks[w], 0});
  call(span, frees);
  unsigned const full_before = full_groups(span);

  test::device_array<unsigned> crossed(1);
  gpuheap::launch(1, split_map{span.map(), from, to, claimed, crossed.data()});
  ASSERT_EQ(span.problem(false, to), "");
  auto free = span.free();
  free.resize(to);
  expected.resize(to);
  ASSERT_EQ(free, expected);
  ASSERT_EQ(crossed.first(), full_groups(span) - full_before);

  // The rest is freed: every group becomes full.
  std::vector<map_order> rest;
  for (unsigned w = 0; w < slot_map::words_for(to); ++w) rest.push_back({map_call::give, w, slot_map::slots_in(w, to), 0});
  unsigned now_crossed = crossed.first() + full_before;
  for (auto const& answer : call(span, rest)) now_crossed += answer.crossed;
  ASSERT_EQ(now_crossed, (to + 4031) / 4032);
  ASSERT_EQ(span.problem(false, to), "");
}

TEST(Shorten, LeavesAMapOfTheNewLengthWithTheRestFree) {
  struct {
    unsigned from, to, claimed;
  } const table[] = {
      {50, 20, 10},         // within a word
      {50, 20, 20},         //
      {63, 40, 0},          //
      {63, 63, 5},          // nothing goes, what was never handed out becomes free
      {100, 100, 30},       //
      {100, 100, 100},      // nothing changes
      {4032, 4032, 64},     //
      {4033, 4033, 4032},   //
      {9000, 9000, 4500},   //
      {2000, 500, 300},     // within a group
      {2000, 63, 63},       //
      {2000, 64, 1},        //
      {2000, 62, 62},       //
      {4032, 630, 100},     //
      {4032, 4031, 4031},   // the same word, at a group's end
      {4100, 4040, 4032},   // within the last group
      {4100, 4033, 4033},   //
      {12096, 4032, 4000},  // to another group
      {12096, 4032, 4032},  //
      {12196, 4037, 4037},  //
      {8065, 1, 1},         //
      {8064, 4033, 10},     //
      {8100, 4032, 0},      //
      {131072, 5000, 4999}, {131072, 63, 63},
  };
  test::rng random{6};
  for (auto const& row : table) {
    for (unsigned freed_one_in : {0u, 1u, 2u}) expect_shortens(random, row.from, row.to, row.claimed, freed_one_in);
  }
}
TEST(Shorten, LeavesAMapOfAnyNewLength) {
  test::rng random{7};
  for (unsigned i = 0; i < 1500; ++i) {
    unsigned const from = 1 + random.below(i % 3 == 0 ? 200 : i % 3 == 1 ? 5000 : 14000);
    unsigned const to = 1 + random.below(from), claimed = i % 5 == 0 ? to : random.below(to + 1);
    expect_shortens(random, from, to, claimed, random.below(3));
  }
}

// ---- spans that are reset

// Resets a span whose first `claimed` slots are free again, and whose words and counts lie among others, which nobody may change.
void expect_resets(unsigned num_slots, unsigned claimed, unsigned lanes, unsigned stride) {
  constexpr unsigned before = 40, after = 600;
  span_memory<> const fresh(num_slots, 1, true, stride);
  auto const place_among_others = [](auto const& own, auto pattern) {
    std::vector all(before + own.size() + after, pattern);
    std::copy(own.begin(), own.end(), all.begin() + before);
    return all;
  };
  auto const expected_words = place_among_others(fresh.words(), slot_map::word{0x5555});
  auto const expected_groups = place_among_others(fresh.groups(), 77u);
  auto words = expected_words;
  auto groups = expected_groups;
  for (unsigned slot = 0; slot < claimed; ++slot) words[before + slot / 63] |= slot_map::word{1} << slot % 63;
  for (unsigned g = 0; g < claimed / 4032; ++g) groups[before + g * stride] = 64;
  groups[before + claimed / 4032 * stride] += claimed / 63 % 64;

  test::device_array<slot_map::word> word_memory(words);
  test::device_array<unsigned> group_memory(groups);
  slot_map map;
  map.words = word_memory.data() + before;
  map.groups = group_memory.data() + before;
  map.group_stride = stride;
  gpuheap::launch(lanes, reset_map{map, num_slots, claimed, lanes});
  ASSERT_EQ(word_memory.read(), expected_words) << claimed << " of " << num_slots << " slots, " << lanes << " lanes";
  ASSERT_EQ(group_memory.read(), expected_groups) << claimed << " of " << num_slots << " slots, " << lanes << " lanes";
}

TEST(Reset, MakesTheSpanAsIfItHadNeverBeenHandedOut) {
  for (unsigned lanes = 1; lanes <= 32; ++lanes) {
    for (unsigned num_slots : {1u, 64u, 500u, 4032u, 4033u, 5 * 4032u, 9 * 4032u + 500}) {
      for (unsigned claimed :
           {0u, 1u, 62u, 63u, num_slots / 2, 4031u, 4032u, 8 * 32 * 63u, 8 * 32 * 63u + 62, num_slots - 64, num_slots - 1}) {
        if (claimed < num_slots) expect_resets(num_slots, claimed, lanes, 1 + lanes % 3);
      }
    }
  }
}
// Of every number of words, so that the last pass of the lanes stores any part of its words.
TEST(Reset, StoresTheWordsOfClaimedSlotsAndNoOther) {
  constexpr unsigned num_slots = 20 * 4032 + 17;
  for (unsigned lanes : {1u, 7u, 31u, 32u}) {
    for (unsigned w = 0; w < 560; ++w) expect_resets(num_slots, w * 63 + w % 63, lanes, 1);
  }
}

}  // namespace
}  // namespace structures_test
