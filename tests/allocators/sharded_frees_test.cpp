// Frees beside the reset of their span: those of any lanes of a warp, and those of two heaps in one warp.
#include "sharded_churn.hpp"

#include <algorithm>
#include <vector>

namespace sharded_test {
namespace {

using gpuheap::free_status;

template <class Allocator>
struct take_blocks {
  Allocator heap;
  void** blocks;
  unsigned bytes;
  GPUHEAP_FN void operator()(unsigned i) const { blocks[i] = heap.malloc(bytes); }
};
template <class Allocator>
struct free_blocks {
  Allocator heap;
  void* const* blocks;
  free_status* said;
  GPUHEAP_FN void operator()(unsigned i) const { said[i] = heap.free(blocks[i]); }
};

template <class Allocator>
std::vector<void*> take(Allocator const& heap, unsigned n, unsigned bytes) {
  std::vector<void*> blocks(n);
  gpuheap::launch(n, take_blocks<Allocator>{heap, blocks.data(), bytes}, {.block_threads = 32});
  return blocks;
}
template <class Allocator>
std::vector<free_status> give(Allocator const& heap, std::vector<void*> const& blocks, unsigned block_threads) {
  std::vector<free_status> said(blocks.size());
  gpuheap::launch(static_cast<unsigned>(blocks.size()), free_blocks<Allocator>{heap, blocks.data(), said.data()},
                  {.block_threads = block_threads});
  return said;
}

// Warps take blocks of one or two heaps, by some or all of their lanes, and free them in various orders.
template <class Allocator>
struct take_and_free_by_warps {
  Allocator a, b;
  simt::lane_mask second;  // lanes that use heap b
  unsigned rounds, *wrong, *served;
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const lane = i % 32, warp = i / 32;
    for (unsigned r = 0; r < rounds; ++r) {
      unsigned const kind = (warp * 7 + r * 3) % 8;
      simt::lane_mask const with = kind < 4    ? ~0u
                                   : kind == 4 ? 0x7fffffffu
                                   : kind == 5 ? 0xfffffff8u
                                   : kind == 6 ? 0x0ff0ff0fu
                                               : 1u << (r % 32);
      if ((with >> lane & 1) != 0) {
        Allocator const& mine = (second >> lane & 1) != 0 ? b : a;
        unsigned const bytes = r % 5 == 4 && lane % 2 == 0 ? 32 : 16;
        auto* const p = static_cast<unsigned*>(mine.malloc(bytes));
        if (p != nullptr) {
          count(*served);
          simt::atomic_ref<unsigned>{*p}.store(i * 64 + r, simt::relaxed);
          simt::atomic_ref<unsigned>{p[3]}.store(~(i * 64 + r), simt::relaxed);
        }
        simt::sync_warp(with);
        if (p != nullptr) {
          if (simt::atomic_ref<unsigned>{*p}.load(simt::relaxed) != i * 64 + r ||
              simt::atomic_ref<unsigned>{p[3]}.load(simt::relaxed) != ~(i * 64 + r))
            count(*wrong);
        }
        if (kind == 3 && lane == 5) simt::back_off{}.wait();
        if (p != nullptr && mine.free(p) != free_status::done) count(*wrong);
      }
      simt::sync_warp(simt::all_lanes);
    }
  }
};
template <unsigned LgSlots>
using warps_of = gpuheap::tuned_sharded_spans<gpuheap::sharded::tuning{
    .lg_span_slots = LgSlots, .span_free_divisor = 1, .partial_samples = 3, .lg_large_launch = 3, .wait_polls = 2}>;
template <class Allocator>
void right_frees(std::size_t bytes_a, std::size_t bytes_b, unsigned warps, unsigned rounds, unsigned seeds) {
  for (simt::lane_mask second : {0u, 0xffff0000u, 0x55555555u, 0x80000001u}) {
    unsigned total = 0;
    simt::exploration const result = simt::explore(test::num_seeds(seeds), [&] {
      fixed_heap<Allocator> a{bytes_a}, b{bytes_b};
      unsigned wrong = 0, served = 0;
      gpuheap::launch(warps * 32, take_and_free_by_warps<Allocator>{a.view, b.view, second, rounds, &wrong, &served},
                      {.block_threads = 32});
      total += served;
      EXPECT_EQ(wrong, 0u);
      for (auto const& found : {a.view.verify(), b.view.verify()}) {
        EXPECT_EQ(found.problem, "");
        EXPECT_EQ(found.live_slots, 0u);
      }
      return !::testing::Test::HasFailure();
    });
    EXPECT_TRUE(result) << result.what << " seed " << result.seed << " second " << second;
    EXPECT_GT(total, 0u);
  }
}
TEST(FreesOfWarps, InSmallSpans) { right_frees<warps_of<7>>(192 << 10, 1 << 20, 4, 8, 60); }
TEST(FreesOfWarps, InLongerSpans) { right_frees<warps_of<9>>(17 << 20, 256 << 10, 6, 8, 40); }
TEST(FreesOfWarps, InPlain) { right_frees<plain>(160 << 10, 64 << 20, 6, 8, 30); }
TEST(FreesOfWarps, InAFullHeap) { right_frees<eager>(136 << 10, 136 << 10, 3, 12, 100); }

// The lanes of `with` free the last blocks of two heaps, whose words lie at different distances, in one call. Both spans are reset.
struct free_last_of_two {
  plain a, b;
  void *last_a, *last_b;
  simt::lane_mask with;
  unsigned lane_a, lane_b, *refused;
  GPUHEAP_FN void operator()(unsigned i) const {
    if ((with >> i & 1) == 0) return;
    void* const p = i == lane_a ? last_a : i == lane_b ? last_b : nullptr;
    auto const said = (i == lane_b ? b : a).free(p);
    if (p != nullptr && said != free_status::done) count(*refused);
  }
};
unsigned spans_with_claims(plain const& heap) {
  auto const& at = heap.geometry();
  unsigned n = 0;
  for (unsigned k = 0; k < at.num_shards(); ++k) {
    gpuheap::structures::shard_word const w{at.shard(gpuheap::structures::size_classes::class_of(256), k).load(simt::relaxed)};
    n += w.has_span() && w.next() != 0;
  }
  return n;
}
// Takes blocks until a span of several groups is mostly claimed.
std::vector<void*> take_most_of_a_span(plain const& heap) {
  auto const& at = heap.geometry();
  std::vector<void*> all;
  for (unsigned n = 5000;; n = 500) {
    auto const more = take(heap, n, 256);
    all.insert(all.end(), more.begin(), more.end());
    for (unsigned k = 0; k < at.num_shards(); ++k) {
      gpuheap::structures::shard_word const w{at.shard(gpuheap::structures::size_classes::class_of(256), k).load(simt::relaxed)};
      if (w.has_span() && w.next() > 4500 && w.mostly_claimed(w.page(), false)) return all;
    }
    if (all.size() > 40000) return all;
  }
}
TEST(Resets, OfSpansOfTwoHeapsInOneCall) {
  for (simt::lane_mask const with : {~0u, 0x00010010u, 0x80010011u}) {
    for (bool const swapped : {false, true}) {
      fixed_heap<plain> a{16 << 20}, b{std::size_t{4} << 30};
      ASSERT_NE(a.view.geometry().group_stride, b.view.geometry().group_stride);
      auto const in_a = take_most_of_a_span(a.view), in_b = take_most_of_a_span(b.view);
      give(a.view, {in_a.begin(), in_a.end() - 1}, 96);
      give(b.view, {in_b.begin(), in_b.end() - 1}, 96);
      EXPECT_EQ(spans_with_claims(a.view), 1u);
      EXPECT_EQ(spans_with_claims(b.view), 1u);
      unsigned refused = 0;
      gpuheap::launch(32,
                      free_last_of_two{a.view, b.view, in_a.back(), in_b.back(), with, swapped ? 16u : 4u, swapped ? 4u : 16u, &refused},
                      {.block_threads = 32});
      EXPECT_EQ(refused, 0u);
      EXPECT_EQ(spans_with_claims(a.view), 0u);
      EXPECT_EQ(spans_with_claims(b.view), 0u);
      EXPECT_EQ(a.view.verify().problem, "");
      EXPECT_EQ(b.view.verify().problem, "");
    }
  }
}

// The free that leaves no slot of a span live resets it, whichever shard holds the span.
TEST(Resets, OfTheSpanOfEachShard) {
  using many = warps_of<9>;
  fixed_heap<many> heap{16 << 20};
  auto const& at = heap.view.geometry();
  unsigned const c = gpuheap::structures::size_classes::class_of(256);
  auto const word_of = [&](unsigned k) { return gpuheap::structures::shard_word{at.shard(c, k).load(simt::relaxed)}; };
  auto const blocks = take(heap.view, 64 * 32, 256);
  std::vector<gpuheap::structures::shard_word> before;
  for (unsigned k = 0; k < at.num_shards(); ++k) before.push_back(word_of(k));
  for (void* p : blocks) {
    EXPECT_EQ(give(heap.view, {p}, 1).front(), free_status::done);
  }
  unsigned reset = 0, others = 0;
  for (unsigned k = 0; k < at.num_shards(); ++k) {
    if (!before[k].mostly_claimed(before[k].page(), false)) continue;
    ++reset;
    others += k != 0;
    EXPECT_EQ(word_of(k).next(), 0u) << "shard " << k;
    EXPECT_EQ(word_of(k).page(), before[k].page()) << "shard " << k;
  }
  EXPECT_GT(reset, 1u);
  EXPECT_GT(others, 0u);
  EXPECT_EQ(heap.view.verify().problem, "");
}

// A warp's frees over the end of a word set bits of slots only. A flag `unlisted` in a span that was never partial would make every later
// free of the word list the span.
TEST(FreesOfWarps, SetNoBitThatHasNoSlot) {
  for (unsigned const already : {32u, 45u, 62u}) {
    fixed_heap<plain> heap{1 << 20};
    take(heap.view, already, 16);
    auto const blocks = take(heap.view, 32, 16);
    give(heap.view, blocks, 32);
    auto const& at = heap.view.geometry();
    unsigned flags = 0, freed = 0;
    for (unsigned w = 0; w < at.num_pages * at.words_per_page; ++w) flags += at.words[w] >> 63;
    for (unsigned k = 0; k < at.num_shards(); ++k) {
      gpuheap::structures::shard_word const word{at.shard(0, k).load(simt::relaxed)};
      if (!word.has_span()) continue;
      for (unsigned w = 0; w <= word.next() / 63; ++w)
        freed += simt::popcount(at.slots_of(word.page()).at(w).load(simt::relaxed) &
                                gpuheap::structures::slot_map::slots_in(w, word.num_slots()));
    }
    EXPECT_EQ(flags, 0u);
    EXPECT_EQ(freed, 32u);
  }
}

}  // namespace
}  // namespace sharded_test
