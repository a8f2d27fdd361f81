// The slot map, one call at a time: sizes, what each call returns and counts against brute force, samples, marks.
#include "slot_map_checks.hpp"

namespace structures_test {

// Kernel: one thread calls a map as told and writes down the answers.
enum class map_call { give, take, mark };
struct map_order {
  map_call what;
  unsigned w;
  slot_map::word mask;  // of give
  unsigned wanted;      // of take
};
struct map_answer {
  slot_map::word before, got;
  unsigned crossed;
};
struct call_map {
  slot_map map;
  map_order const* orders;
  map_answer* answers;
  unsigned num_orders;

  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned k = 0; k < num_orders; ++k) {
      map_order const& order = orders[k];
      slot_map::word got = 0;
      slot_map::change change{};
      if (order.what == map_call::give) change = map.give(order.w, order.mask);
      if (order.what == map_call::take) change = map.take(order.w, order.wanted, got);
      if (order.what == map_call::mark) got = map.mark_unlisted(order.w);
      answers[k] = {change.before, got, change.group_crossed};
    }
  }
};
// Kernel: samples with seeds 0, 1, 2, ...
struct sample_map {
  slot_map map;
  unsigned* found;
  unsigned* sampled;

  GPUHEAP_FN void operator()(unsigned i) const { found[i] = map.sample(i * 0x9e3779b9u >> 7, sampled[i]); }
};
struct clear_map {
  slot_map map;
  unsigned lanes;

  GPUHEAP_FN void operator()(unsigned i) const { map.clear(i, lanes); }
};

namespace {

std::vector<map_answer> call(run_memory<>& run, std::vector<map_order> const& orders) {
  test::device_array<map_order> told(orders);
  test::device_array<map_answer> answers(orders.size());
  gpuheap::launch(1, call_map{run.map(), told.data(), answers.data(), static_cast<unsigned>(orders.size())});
  return answers.read();
}

constexpr unsigned sizes[] = {1, 2, 62, 63, 64, 126, 127, 500, 2015, 2016, 2017, 2079, 2080, 4032, 4095, 131072};

TEST(SlotMap, EverySlotHasABitAndEveryWordAGroup) {
  for (unsigned num_slots : sizes) {
    run_memory<> run(num_slots);
    slot_map const map = run.map();
    std::vector<slot_map::word> expected;
    for (unsigned slot = 0; slot < num_slots; ++slot) {
      if (slot % 63 == 0) expected.push_back(0);
      expected.back() |= slot_map::word{1} << slot % 63;
    }
    ASSERT_EQ(map.num_words(), expected.size()) << num_slots;
    for (unsigned w = 0; w < map.num_words(); ++w) ASSERT_EQ(map.full(w), expected[w]) << num_slots << " slots, word " << w;
    unsigned words = 0;
    for (unsigned g = 0; g < map.num_groups(); ++g) {
      ASSERT_GE(map.group_words(g), 1u);
      ASSERT_LE(map.group_words(g), slot_map::words_per_group);
      ASSERT_TRUE(map.group_words(g) == slot_map::words_per_group || g + 1 == map.num_groups()) << "only the last may be short";
      words += map.group_words(g);
    }
    ASSERT_EQ(words, map.num_words());
  }
}

// What the calls must answer, from a word's bits alone.
class model {
 public:
  explicit model(run_memory<> const& run) : map_{run.map()}, words_(map_.num_words()) {}

  [[nodiscard]] map_answer answer(map_order const& order) {
    slot_map::word& word = words_[order.w];
    slot_map::word const before = word;
    bool const was_full = group_is_full(order.w);
    slot_map::word got = 0;
    if (order.what == map_call::give) word |= order.mask;
    if (order.what == map_call::take) {
      for (unsigned bit = 0, left = order.wanted; bit < 63 && left != 0; ++bit) {
        if ((before >> bit & 1) == 0) continue;
        got |= slot_map::word{1} << bit;
        --left;
      }
      if (got != 0) word &= ~(got | slot_map::unlisted);
    }
    if (order.what == map_call::mark) {
      got = before & slot_map::all_slots;
      word |= slot_map::unlisted;
      return {0, got, false};
    }
    // A take that finds nothing does not tell the mark.
    bool const idle = order.what == map_call::take && got == 0;
    return {idle ? before & slot_map::all_slots : before, got, was_full != group_is_full(order.w)};
  }
  [[nodiscard]] std::vector<slot_map::word> const& words() const { return words_; }

 private:
  [[nodiscard]] bool group_is_full(unsigned w) const {
    unsigned const first = w / 32 * 32;
    for (unsigned i = first; i < first + 32 && i < words_.size(); ++i) {
      if ((words_[i] & map_.full(i)) != map_.full(i)) return false;
    }
    return true;
  }
  slot_map map_;
  std::vector<slot_map::word> words_;
};

TEST(SlotMap, AnswersAndCountsAsBruteForceDoes) {
  test::rng random{1};
  for (unsigned num_slots : {1u, 63u, 64u, 500u, 2016u, 2017u, 2200u}) {
    run_memory<> run(num_slots, true, num_slots % 2 == 0 ? 8 : 1);
    slot_map const map = run.map();
    unsigned const n = map.num_words();
    std::vector<map_order> orders;
    for (unsigned w = 0; w < n; ++w) orders.push_back({map_call::give, w, map.full(w), 0});
    for (unsigned k = 0; k < 3000; ++k) {
      unsigned const w = random.below(n);
      slot_map::word const some = test::mix(random.below(1u << 31)) & map.full(w);
      switch (random.below(4)) {
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
          orders.push_back({map_call::give, w, map.full(w), 0});
          break;
      }
      if (k % 200 == 0) {
        for (unsigned v = 0; v < n; ++v) orders.push_back({map_call::give, v, map.full(v), 0});
      }
    }
    auto const answers = call(run, orders);
    model expected(run);
    unsigned crossings[2] = {};
    for (unsigned k = 0; k < orders.size(); ++k) {
      map_answer const e = expected.answer(orders[k]);
      ASSERT_EQ(answers[k].before, e.before) << num_slots << " slots, call " << k;
      ASSERT_EQ(answers[k].got, e.got) << num_slots << " slots, call " << k;
      ASSERT_EQ(answers[k].crossed != 0, e.crossed != 0) << num_slots << " slots, call " << k;
      if (e.crossed != 0) ++crossings[orders[k].what == map_call::give];
    }
    EXPECT_EQ(run.words(), expected.words());
    EXPECT_EQ(run.problem(false), "") << num_slots;
    EXPECT_GT(crossings[0], 10u) << num_slots;
    EXPECT_GT(crossings[1], 10u) << num_slots;
  }
}

TEST(SlotMap, AGiveSeesTheMarkUntilATakeDropsIt) {
  run_memory<> run(100);
  auto const a = call(run, {
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

TEST(SlotMap, TheMarkIsNoSlot) {
  run_memory<> run(63);
  auto const a = call(run, {{map_call::mark, 0, 0, 0}, {map_call::give, 0, slot_map::all_slots, 0}, {map_call::take, 0, 0, 32}});
  EXPECT_TRUE(a[1].crossed) << "full though marked";
  EXPECT_EQ(a[2].got, simt::low_bits(32));
  EXPECT_TRUE(a[2].crossed);
  EXPECT_EQ(run.words()[0], slot_map::all_slots & ~simt::low_bits(32));
}

TEST(SlotMap, SamplesStayInBoundsAndCountWhatIsThere) {
  constexpr unsigned looks = 200;
  test::rng random{2};
  for (unsigned num_slots : sizes) {
    run_memory<> run(num_slots);
    slot_map const map = run.map();
    test::device_array<unsigned> found(looks), sampled(looks);
    for (unsigned fill : {0u, 1u, 2u}) {  // none free, some, all; marked words among them
      std::vector<slot_map::word> words(map.num_words());
      for (unsigned w = 0; w < words.size(); ++w) {
        words[w] = fill == 0 ? 0 : fill == 2 ? map.full(w) : test::mix(random.below(1u << 31)) & map.full(w);
        if (w % 3 == 0) words[w] |= slot_map::unlisted;
      }
      run.write_words(words);
      gpuheap::launch(looks, sample_map{map, found.data(), sampled.data()});
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
        if (map.num_words() <= 4) {
          ASSERT_EQ(s[i], num_slots) << "a small run is seen entirely";
        }
      }
    }
  }
}

TEST(SlotMap, ClearLeavesNothingBehind) {
  for (unsigned num_slots : {1u, 64u, 2017u, 131072u}) {
    for (unsigned lanes : {1u, 7u, 32u}) {
      run_memory<> run(num_slots, true, 4);
      slot_map const map = run.map();
      std::vector<map_order> orders;
      for (unsigned w = 0; w < map.num_words(); ++w) {
        orders.push_back({map_call::give, w, map.full(w), 0});
        orders.push_back({map_call::mark, w, 0, 0});
      }
      call(run, orders);
      EXPECT_EQ(run.problem(false), "");
      gpuheap::launch(lanes, clear_map{map, lanes});
      EXPECT_EQ(run.words(), std::vector<slot_map::word>(map.num_words()));
      EXPECT_EQ(run.groups(), std::vector<unsigned>(map.num_groups() * 4));
    }
  }
}

}  // namespace
}  // namespace structures_test
