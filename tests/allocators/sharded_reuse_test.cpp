// The default allocator's ideas at work: resets of spans, the range that a launch begins in, the order of new and reused memory, spans that
// another size class takes over, and the spans that a launch reuses.
#include "sharded_churn.hpp"

#include "../../benchmarks/ablation/ideas.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace sharded_test {
namespace {

namespace bench = gpuheap::bench;

// ---- resets, with rare steps all the time

template <bool Resets>
using eager_resets = gpuheap::tuned_sharded_spans<gpuheap::sharded::tuning{
    .lg_span_slots = 7, .span_free_divisor = 1, .partial_samples = 3, .lg_large_launch = 1, .wait_polls = 2, .resets = Resets}>;
template <bool Resets>
using shipped = gpuheap::tuned_sharded_spans<gpuheap::sharded::tuning{.resets = Resets}>;

TEST(ShardedReset, BesideClaimsAndReuse) { explore_mix<eager_resets<true>>({"resetting", 192 << 10, 128, 12, 4, 200, 4000}); }
TEST(ShardedReset, OneClass) { explore_mix<eager_resets<true>>({"resetting one class", 160 << 10, 96, 16, 2, 512, 512}); }
TEST(ShardedReset, SmallSlots) { explore_mix<eager_resets<true>>({"resetting small slots", 256 << 10, 160, 12, 2, 16, 64}); }

template <class Allocator>
struct take_all {
  Allocator heap;
  void** blocks;
  unsigned bytes = 16;
  GPUHEAP_FN void operator()(unsigned i) const { blocks[i] = heap.malloc(bytes); }
};
// Gives back what the threads from `from` on have.
template <class Allocator>
struct deallocate_from {
  Allocator heap;
  void** blocks;
  unsigned from;
  unsigned* refused;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i >= from && heap.free(blocks[i]) != gpuheap::free_status::done) count(*refused);
  }
};

// Takes all and gives back those from `from` on, a few times over, in spans of several groups. Returns how far the second launch's lowest
// block lies behind the first's.
template <class Allocator>
std::ptrdiff_t second_after_first(unsigned from) {
  constexpr unsigned num_threads = 6000;
  fixed_heap<Allocator> heap{4 << 20};
  std::ptrdiff_t behind = 0;
  void* lowest = nullptr;
  unsigned refused = 0;
  for (unsigned round = 0; round < 6; ++round) {
    std::vector<void*> blocks(num_threads);
    gpuheap::launch(num_threads, take_all<Allocator>{heap.view, blocks.data()}, {.block_threads = 96});
    EXPECT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0);
    EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), blocks.size());
    void* const here = *std::min_element(blocks.begin(), blocks.end());
    if (round == 0) lowest = here;
    if (round == 1) behind = static_cast<char*>(here) - static_cast<char*>(lowest);
    gpuheap::launch(num_threads, deallocate_from<Allocator>{heap.view, blocks.data(), from, &refused}, {.block_threads = 96});
    auto const found = heap.view.verify();
    EXPECT_EQ(found.problem, "");
    EXPECT_EQ(found.live_slots, (round + 1) * from);
  }
  EXPECT_EQ(refused, 0u);
  return behind;
}

TEST(ShardedReset, TheNextLaunchBeginsWhereTheFirstDid) {
  EXPECT_EQ(second_after_first<shipped<true>>(0), 0);
  EXPECT_NE(second_after_first<shipped<false>>(0), 0);
}
TEST(ShardedReset, NotWhileABlockIsLive) { EXPECT_NE(second_after_first<shipped<true>>(1), 0); }

// Every third lane asks for another class.
template <class Allocator>
struct take_two_classes {
  Allocator heap;
  void** blocks;
  GPUHEAP_FN void operator()(unsigned i) const { blocks[i] = heap.malloc(i % 3 == 0 ? 32 : 16); }
};

TEST(ShardedReset, TwoSpansOfAWarpSideBySide) {
  using allocator = gpuheap::tuned_sharded_spans<gpuheap::sharded::tuning{.span_free_divisor = 16}>;
  constexpr unsigned num_threads = 4200;
  fixed_heap<allocator> heap{4 << 20};
  std::vector<void*> first(num_threads), blocks(num_threads);
  unsigned refused = 0;
  for (unsigned round = 0; round < 4; ++round) {
    gpuheap::launch(num_threads, take_two_classes<allocator>{heap.view, blocks.data()}, {.block_threads = 96});
    if (round == 0) first = blocks;
    EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()), std::set<void*>(first.begin(), first.end()));
    gpuheap::launch(num_threads, deallocate_from<allocator>{heap.view, blocks.data(), 0, &refused}, {.block_threads = 96});
    EXPECT_EQ(heap.view.verify().problem, "");
  }
  EXPECT_EQ(refused, 0u);
}

// Each thread, a block of its own, takes one block or two, and gives them back: spans of four slots are empty all the time.
template <class Allocator>
struct take_one_or_two {
  Allocator heap;
  unsigned* wrong;
  GPUHEAP_FN static void write(unsigned* p, unsigned i) { simt::atomic_ref<unsigned>{*p}.store(i, simt::relaxed); }
  GPUHEAP_FN void deallocate(unsigned* p, unsigned i) const {
    if (simt::atomic_ref<unsigned>{*p}.load(simt::relaxed) != i || heap.free(p) != gpuheap::free_status::done) count(*wrong);
  }
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned round = 0; round < 6; ++round) {
      auto* const p = static_cast<unsigned*>(heap.malloc(2048));
      if (p == nullptr) continue;
      write(p, i);
      auto* const q = round % 2 == 0 ? static_cast<unsigned*>(heap.malloc(2048)) : nullptr;
      if (q != nullptr) write(q, i);
      deallocate(p, i);
      if (q != nullptr) deallocate(q, i);
    }
  }
};

// Another free resets a span between a free's look at it and its exchange, and the span is claimed to the same slot: live blocks stay.
TEST(ShardedReset, ASpanThatAnotherFreeHasResetMeanwhile) {
  using allocator = gpuheap::tuned_sharded_spans<gpuheap::sharded::tuning{
      .lg_span_slots = 2, .span_free_divisor = 1, .lg_large_launch = 31, .wait_polls = 2}>;
  // Without the second look one schedule in a thousand gives a block twice.
  simt::exploration const result = simt::explore(test::num_seeds(6000), [] {
    fixed_heap<allocator> heap{160 << 10};
    unsigned wrong = 0;
    gpuheap::launch(4, take_one_or_two<allocator>{heap.view, &wrong}, {.block_threads = 1});
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(heap.view.verify().problem, "");
    return !::testing::Test::HasFailure();
  });
  EXPECT_TRUE(result) << result.what << "\nafter " << result.num_runs << " runs, seed " << result.seed;
}

// Thread 0 gives back the last block of a span that has all of the heap, and most of it never handed out; thread 1 wants another class.
template <class Allocator>
struct last_free_beside_another_class {
  Allocator heap;
  void** blocks;
  void** other;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i == 0) {
      (void)heap.free(blocks[0]);
    } else {
      *other = heap.malloc(4000);
    }
  }
};

// The unclaimed slots of a span can be drained before and after a reset. So no request is refused in between.
TEST(ShardedReset, NobodyIsRefusedMeanwhile) {
  using allocator = gpuheap::tuned_sharded_spans<gpuheap::sharded::tuning{.span_free_divisor = 1, .wait_polls = 2, .ample_eighths = 0}>;
  constexpr unsigned num_threads = 40;
  simt::exploration const result = simt::explore(test::num_seeds(2000), [&] {
    fixed_heap<allocator> heap{160 << 10};
    std::vector<void*> blocks(num_threads);
    unsigned refused = 0;
    gpuheap::launch(num_threads, take_all<allocator>{heap.view, blocks.data(), 2048}, {.block_threads = 96});
    gpuheap::launch(num_threads, deallocate_from<allocator>{heap.view, blocks.data(), 1, &refused}, {.block_threads = 96});
    void* other = nullptr;
    gpuheap::launch(2, last_free_beside_another_class<allocator>{heap.view, blocks.data(), &other}, {.block_threads = 1});
    EXPECT_NE(other, nullptr);
    EXPECT_EQ(refused, 0u);
    auto const found = heap.view.verify();
    EXPECT_EQ(found.problem, "");
    EXPECT_EQ(found.live_slots, 1u);
    return !::testing::Test::HasFailure();
  });
  EXPECT_TRUE(result) << result.what << "\nafter " << result.num_runs << " runs, seed " << result.seed;
}

// ---- small launches that free and ask steadily

// A launch that needs a span and a half: its second span is not much longer than what it uses of it, so that no round has much of a span
// unused between its blocks.
TEST(ShardedRange, OfALaunchThatNeedsMoreThanASpan) {
  for (unsigned bytes : {3000u, 4096u, 8192u}) {
    constexpr unsigned num_threads = 3125;
    fixed_heap<plain> heap{256 << 20};
    unsigned refused = 0;
    for (unsigned round = 0; round < 10; ++round) {
      std::vector<void*> blocks(num_threads);
      gpuheap::launch(num_threads, take_all<plain>{heap.view, blocks.data(), bytes}, {.block_threads = 256});
      ASSERT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0);
      auto const [lowest, highest] = std::minmax_element(blocks.begin(), blocks.end());
      auto const range = static_cast<std::size_t>(static_cast<char*>(*highest) - static_cast<char*>(*lowest)) + bytes;
      EXPECT_LE(range * 100, std::size_t{num_threads} * bytes * 125) << bytes << " bytes, round " << round;
      gpuheap::launch(num_threads, deallocate_from<plain>{heap.view, blocks.data(), 0, &refused}, {.block_threads = 256});
    }
    EXPECT_EQ(refused, 0u);
  }
}

// Every second round asks; the others give back all but each fourth block.
template <class Allocator>
struct keep_a_quarter {
  Allocator heap;
  void** blocks;
  bool takes;
  unsigned* refused;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (takes) {
      blocks[i] = heap.malloc(64);
    } else if (i % 4 != 0 && heap.free(blocks[i]) != gpuheap::free_status::done) {
      count(*refused);
    }
  }
};

struct rounds_outcome {
  std::size_t held = 0;  // bytes
  bool repeats = false;  // a block was where an earlier round's had been
};
// Rounds that ask for a 16th of the heap each, of which a quarter stays.
template <class Allocator>
rounds_outcome rounds_that_leave_a_quarter(std::size_t heap_bytes, unsigned rounds) {
  unsigned const num_threads = static_cast<unsigned>(heap_bytes / 1024);
  fixed_heap<Allocator> heap{heap_bytes};
  rounds_outcome result;
  std::set<void*> seen;
  unsigned refused = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    std::vector<void*> blocks(num_threads);
    gpuheap::launch(num_threads, keep_a_quarter<Allocator>{heap.view, blocks.data(), true, &refused}, {.block_threads = 96});
    EXPECT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0);
    for (void* p : blocks) result.repeats |= !seen.insert(p).second;
    gpuheap::launch(num_threads, keep_a_quarter<Allocator>{heap.view, blocks.data(), false, &refused}, {.block_threads = 96});
    auto const found = heap.view.verify();
    EXPECT_EQ(found.problem, "");
    EXPECT_EQ(found.live_slots, (round + 1) * ((num_threads + 3) / 4));
  }
  EXPECT_EQ(refused, 0u);
  result.held = heap.view.footprint({}).held_bytes;
  return result;
}

constexpr std::size_t steady_bytes = 4 << 20;
using prefers_new = gpuheap::tuned_sharded_spans<gpuheap::sharded::tuning{
    .lg_span_slots = 6, .span_free_divisor = 1, .partial_samples = 3, .wait_polls = 2, .held_divisor = 4, .ample_eighths = 6}>;

TEST(ShardedAmpleMemory, SegmentsFirstThenReuse) { explore_mix<prefers_new>({"prefers_new", 192 << 10, 128, 12, 4, 200, 4000}); }

TEST(ShardedAmpleMemory, MemoryThatNobodyUsedComesBeforeWhatEarlierLaunchesLeft) {
  EXPECT_FALSE(rounds_that_leave_a_quarter<plain>(steady_bytes, 3).repeats);
  EXPECT_TRUE(rounds_that_leave_a_quarter<bench::without_unused_first>(steady_bytes, 3).repeats);
}
TEST(ShardedAmpleMemory, PartialSpansAreReusedOnceHalfIsHeld) {
  using a_quarter = gpuheap::tuned_sharded_spans<gpuheap::sharded::tuning{.ample_eighths = 2}>;
  auto const half = rounds_that_leave_a_quarter<plain>(steady_bytes, 12);
  EXPECT_TRUE(half.repeats);
  EXPECT_LE(half.held, steady_bytes * 65 / 100);
  EXPECT_LT(rounds_that_leave_a_quarter<a_quarter>(steady_bytes, 12).held, half.held);
}

// ---- idle spans of other classes

// Six sizes fill an eighth of the heap each, one after the other, and give all of it back: their idle spans stay. Blocks of 8192 B then
// take what is free, but for an eighth of the heap, and stay. Then another size asks for a 16th of the heap. Returns how many shards of the
// six sizes lost their spans to it.
template <class Allocator>
unsigned taken_by_another_size() {
  fixed_heap<Allocator> heap{64 << 20};
  auto const& at = heap.view.geometry();
  unsigned refused = 0, held = 0;
  auto const take = [&](unsigned num, unsigned bytes) {
    std::vector<void*> blocks(num);
    gpuheap::launch(num, take_all<Allocator>{heap.view, blocks.data(), bytes}, {.block_threads = 256});
    EXPECT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0);
    EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), blocks.size());
    EXPECT_EQ(heap.view.verify().problem, "");
    return blocks;
  };
  auto const take_and_give_back = [&](unsigned bytes, std::size_t part) {
    auto blocks = take(static_cast<unsigned>(at.heap_bytes() / part / bytes), bytes);
    gpuheap::launch(static_cast<unsigned>(blocks.size()), deallocate_from<Allocator>{heap.view, blocks.data(), 0, &refused},
                    {.block_threads = 256});
    auto const found = heap.view.verify();
    EXPECT_EQ(found.problem, "");
    EXPECT_EQ(found.live_slots, held);
  };
  auto const shards_with_spans = [&] {
    unsigned num = 0;
    unsigned const own = gpuheap::structures::size_classes::class_of(512);
    for (unsigned c = 0; c < at.num_classes; ++c) {
      for (unsigned k = 0; k < at.num_shards() && c != own; ++k)
        num += gpuheap::structures::shard_word{at.shard(c, k).load(simt::relaxed)}.has_span();
    }
    return num;
  };
  for (unsigned bytes : {1024u, 1280u, 1536u, 2048u, 3072u, 4096u}) take_and_give_back(bytes, 8);
  std::size_t const free = heap.view.verify().free_bytes, left = at.heap_bytes() / 8;
  EXPECT_GT(free, left);
  held = static_cast<unsigned>((free - left) / 8192);
  take(held, 8192);
  unsigned const before = shards_with_spans();
  take_and_give_back(512, 16);
  EXPECT_EQ(refused, 0u);
  return before - shards_with_spans();
}

TEST(ShardedIdleSpans, AreTakenOverWhileMemoryIsShort) {
  EXPECT_GE(taken_by_another_size<plain>(), 1u);
  EXPECT_EQ(taken_by_another_size<bench::without_take_over>(), 0u);
  // In a few schedules the refills find enough free memory after all.
  unsigned schedules = 0, takes = 0;
  simt::exploration const result = simt::explore(test::num_seeds(40), [&] {
    ++schedules;
    takes += taken_by_another_size<plain>() >= 1;
    return true;
  });
  EXPECT_TRUE(result) << result.what;
  EXPECT_GE(takes * 4, schedules * 3);
}

// ---- which span is reused

// One thread takes blocks of a size until it is refused.
struct take_all_of {
  plain heap;
  std::size_t bytes;
  void** out;
  unsigned* num;
  GPUHEAP_FN void operator()(unsigned) const {
    for (void* p; (p = heap.malloc(bytes)) != nullptr;) out[(*num)++] = p;
  }
};
template <class Allocator>
struct free_each {
  Allocator heap;
  void** blocks;
  GPUHEAP_FN void operator()(unsigned i) const { (void)heap.free(blocks[i]); }
};
// Kernel of one warp, of which one lane is to get a partial span of class c, as memory is short or not. *found is what it got.
struct acquire_one {
  plain heap;
  unsigned c, owner;
  bool memory_is_low;
  simt::uint64_t* found;
  GPUHEAP_FN void operator()(unsigned i) const {
    using gpuheap::sharded::refill_result;
    auto const offered =
        i == owner ? refill_result::on_slow_path(1, true, memory_is_low, false, heap.control_block()->cursor[c], false) : refill_result{};
    auto const got =
        heap.control_block()->acquire_best_partial(simt::active_mask(), gpuheap::sharded::demand::of(c, 0, 1, 1, 0, 0, false), offered);
    if (i == owner) *found = got;
  }
};

constexpr unsigned no_span = ~0u;
// The span that a warp of so many lanes reuses, after half of the blocks of span `emptiest` of class c were freed and a few of each other.
// Spans are counted from the lowest address on; `of` receives that one's first page.
// no_span if none is taken.
unsigned reused_span(std::size_t bytes, unsigned lanes, unsigned emptiest, unsigned& of, unsigned first = 2, bool memory_is_low = true) {
  namespace sharded = gpuheap::sharded;
  fixed_heap<plain> heap{1 << 20};
  auto const& at = heap.view.geometry();
  std::vector<void*> blocks(at.heap_bytes() / bytes);
  unsigned num = 0;
  gpuheap::launch(1, take_all_of{heap.view, bytes, blocks.data(), &num});
  std::vector<unsigned> span_at(num), spans;
  for (unsigned i = 0; i < num; ++i) {
    unsigned const page = static_cast<unsigned>(at.page_of(blocks[i]));
    span_at[i] = at.locate(blocks[i], page, at.tag_of(page)).page;
    if (std::find(spans.begin(), spans.end(), span_at[i]) == spans.end()) spans.push_back(span_at[i]);
  }
  std::sort(spans.begin(), spans.end());
  of = spans.at(emptiest);
  // Of each other span a sixteenth is freed, and at most half as many blocks as of this one.
  auto const half = static_cast<unsigned>(std::count(span_at.begin(), span_at.end(), of)) / 2;
  std::map<unsigned, unsigned> freed_of;
  std::vector<void*> freed;
  for (unsigned i = 0; i < num; ++i) {
    bool const is_of = span_at[i] == of;
    if (i % (is_of ? 2 : 16) == 0 && (is_of || freed_of[span_at[i]]++ < half / 2)) freed.push_back(blocks[i]);
  }
  gpuheap::launch(static_cast<unsigned>(freed.size()), free_each{heap.view, freed.data()}, {.block_threads = 64});
  EXPECT_EQ(heap.view.verify().problem, "");
  unsigned const c = sharded::size_classes::class_of(static_cast<unsigned>(bytes));
  // The samples begin so many spans before.
  heap.view.control_block()->cursor[c] = spans.at(emptiest - first);
  simt::uint64_t found = 0;
  gpuheap::launch(lanes, acquire_one{heap.view, c, lanes / 2, memory_is_low, &found}, {.block_threads = 32});
  return found == 0 ? no_span : sharded::refill_result{found}.span().page();
}

TEST(ShardedReuse, TheSpanWithMostFreeSlotsIsTakenOfAllThatTheLanesSample) {
  for (unsigned const emptiest : {2u, 5u, 7u}) {
    unsigned of = 0;
    EXPECT_EQ(reused_span(112, 32, emptiest, of), of) << "span " << emptiest;
    EXPECT_EQ(reused_span(112, 20, emptiest, of), of) << "span " << emptiest;
  }
}
// One thread takes so many blocks at once and frees all but each eighth of them, several times over.
struct keep_each_eighth {
  bench::without_unused_first heap;
  std::size_t bytes;
  void** blocks;
  unsigned num, rounds;
  unsigned* failed_requests;
  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned round = 0; round < rounds; ++round) {
      for (unsigned i = 0; i < num; ++i) {
        blocks[i] = heap.malloc(bytes);
        if (blocks[i] == nullptr) ++*failed_requests;
      }
      for (unsigned i = 0; i < num; ++i) {
        if (i % 8 != 0) (void)heap.free(blocks[i]);
      }
    }
  }
};
TEST(ShardedReuse, WhatALaunchReusedAndFreedServesItAgain) {
  constexpr std::size_t bytes = 112;
  fixed_heap<bench::without_unused_first> heap{1 << 20};
  unsigned failed_requests = 0;
  // A quarter of the heap; then, in one launch, eight times half as many.
  std::vector<void*> blocks(heap.view.geometry().heap_bytes() / 4 / bytes);
  auto const num = static_cast<unsigned>(blocks.size());
  gpuheap::launch(1, keep_each_eighth{heap.view, bytes, blocks.data(), num, 1, &failed_requests});
  gpuheap::launch(1, keep_each_eighth{heap.view, bytes, blocks.data(), num / 2, 8, &failed_requests});
  EXPECT_EQ(failed_requests, 0u);
  EXPECT_EQ(heap.view.verify().problem, "");
  EXPECT_LE(heap.view.footprint({}).held_bytes, heap.view.geometry().heap_bytes() / 3);
}
// One thread takes so many blocks.
struct take_some {
  bench::without_unused_first heap;
  std::size_t bytes;
  void** blocks;
  unsigned num;
  unsigned* failed_requests;
  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned i = 0; i < num; ++i) {
      blocks[i] = heap.malloc(bytes);
      if (blocks[i] == nullptr) ++*failed_requests;
    }
  }
};
TEST(ShardedReuse, AClaimThatFindsTooLittleTakesFromEarlierWords) {
  constexpr std::size_t bytes = 16;
  fixed_heap<bench::without_unused_first> heap{1 << 20};
  auto const& at = heap.view.geometry();
  unsigned failed_requests = 0;
  std::vector<void*> blocks(at.heap_bytes() / 4 / bytes);
  gpuheap::launch(1, take_some{heap.view, bytes, blocks.data(), static_cast<unsigned>(blocks.size()), &failed_requests});
  // Of each third word nearly all is freed, of the others nothing.
  std::vector<void*> freed;
  for (void* p : blocks) {
    auto const page = static_cast<unsigned>(at.page_of(p));
    unsigned const slot = at.locate(p, page, at.tag_of(page)).slot;
    if (slot / 63 % 3 == 0 && slot % 63 < 60) freed.push_back(p);
  }
  auto const num = static_cast<unsigned>(freed.size());
  gpuheap::launch(num, free_each{heap.view, freed.data()}, {.block_threads = 64});
  std::size_t const held = heap.view.footprint({}).held_bytes;
  gpuheap::launch(1, take_some{heap.view, bytes, blocks.data(), num, &failed_requests});
  EXPECT_EQ(failed_requests, 0u);
  EXPECT_EQ(heap.view.verify().problem, "");
  EXPECT_EQ(heap.view.footprint({}).held_bytes, held);
}
// A warp of which the first lane gets a shard of class c, which has no span, a listed one.
struct refill_from_list {
  plain heap;
  unsigned c;
  simt::uint64_t* found;
  GPUHEAP_FN void operator()(unsigned i) const {
    using namespace gpuheap::sharded;
    auto const d = demand::of(c, 0, 0, 1, 0, 0, false);
    auto const how = i == 0 ? refill_result::on_slow_path(1, true, true, false, 0, false) : refill_result{};
    refill_result const reused{heap.control_block()->acquire_best_partial(simt::active_mask(), d, how)};
    if (i == 0) *found = heap.control_block()->refill_slowly(d, {}, how, reused);
  }
};
TEST(ShardedReuse, StaleSummaryBitsOfTheListAreCleared) {
  constexpr std::size_t bytes = 112;
  constexpr unsigned c = gpuheap::structures::size_classes::class_of(bytes);
  for (unsigned const lanes : {1u, 32u}) {
    fixed_heap<plain> heap{1 << 20};
    auto const& at = heap.view.geometry();
    std::vector<void*> blocks(at.heap_bytes() / bytes);
    unsigned num = 0;
    gpuheap::launch(1, take_all_of{heap.view, bytes, blocks.data(), &num});
    // Of one span half is left, of the others nothing.
    auto const span_at = [&](void* p) {
      auto const page = static_cast<unsigned>(at.page_of(p));
      return at.locate(p, page, at.tag_of(page)).page;
    };
    unsigned const kept = span_at(blocks[num / 8]);
    std::vector<void*> freed;
    for (unsigned i = 0; i < num; ++i) {
      if (i % 2 == 0 || span_at(blocks[i]) != kept) freed.push_back(blocks[i]);
    }
    gpuheap::launch(static_cast<unsigned>(freed.size()), free_each{heap.view, freed.data()}, {.block_threads = 64});
    auto const listed = at.partial_tree(c);
    simt::uint64_t const its_leaf = simt::uint64_t{1} << (kept / 64);
    ASSERT_EQ(listed.leaves[std::size_t{kept / 64} * listed.leaf_stride], simt::uint64_t{1} << (kept % 64)) << "it shares the leaf";
    ASSERT_GT(simt::popcount(listed.mids[0]), 1u) << "spans that ended leave no mark any more";
    simt::uint64_t found = 0;
    gpuheap::launch(lanes, refill_from_list{heap.view, c, &found}, {.block_threads = 32});
    EXPECT_EQ(gpuheap::sharded::shard_word{found}.page(), kept);
    EXPECT_EQ(listed.mids[0] & its_leaf, 0u) << "the refill took the last span of a leaf";
    EXPECT_EQ(lanes == 32 ? listed.mids[0] : 0, 0u) << "most samples were in vain";
    EXPECT_EQ(heap.view.verify().problem, "");
  }
}
TEST(ShardedReuse, ALoneLaneTakesASpanToo) {
  unsigned of = 0;
  EXPECT_NE(reused_span(112, 1, 3, of), no_span);
}
TEST(ShardedReuse, FewLanesSampleFewSpans) {
  // While memory is not short, too little is free of the others.
  unsigned of = 0;
  EXPECT_EQ(reused_span(112, 1, 12, of, 4, false), of);
  EXPECT_EQ(reused_span(112, 1, 12, of, 10, false), no_span);
  EXPECT_EQ(reused_span(112, 2, 12, of, 10, false), of);
}

}  // namespace
}  // namespace sharded_test
