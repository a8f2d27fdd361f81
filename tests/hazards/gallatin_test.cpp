// The hazards of the published Gallatin, except for those of segments (gallatin_segments_test.cpp).
#include <algorithm>

#include "gallatin_heaps.hpp"

namespace {

using namespace hazards;

TEST(Gallatin, SurvivesWithAllEdgesNear) {
  expect_right(num_seeds(2500), [] { return survives<parts_of::parts>(12); });
  expect_right(num_seeds(500), [] { return survives<parts_of::parts>(30); });
}
TEST(Gallatin, SurvivesWithSeveralWordsToABlock) {
  expect_right(num_seeds(300), [] { return survives<parts_of::parts, wide>(9, 160, 12); });
}
TEST(Gallatin, SurvivesManyThreads) { EXPECT_TRUE((survives<parts_of::parts, wide>(70, 4000, 12))); }

// ---- 3, 4, 6: slots

// Replaces no block: that is the duty of the thread that got the last slice.
template <gallatin_config Config, class Parts>
struct duty_of_others : parts_of::heap_state<Config, Parts> {
  parts_of::grant refill(unsigned c, unsigned lg_k, unsigned n, unsigned i, slot_word seen) {
    if (seen.has_block()) return parts_of::grant::not_yet();
    return parts_of::heap_state<Config, Parts>::refill(c, lg_k, n, i, seen);
  }
};
struct parts_with_duty : parts_of::parts {
  template <gallatin_config Config, class Parts>
  using state = duty_of_others<Config, Parts>;
};
// Every slice of the blocks in all slots goes out, and the lanes that got the last ones are done. Then others come.
template <class Parts>
bool exhausted_blocks_are_replaced() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of_segments<heap_t>(24)};
  for (unsigned bytes : {16u, 32u, 64u}) {
    blocks_of<heap_t> exactly(heap.ref(), geometry(heap).num_slices(), bytes), more(heap.ref(), 60, bytes);
    exactly.malloc_all(geometry(heap).num_slices());
    more.malloc_all(10);
    if (exactly.failed_requests() + more.failed_requests() != 0) return false;
    exactly.free_all();
    more.free_all();
  }
  return is_as_new(heap);
}
TEST(Hazard3, AnExhaustedBlockStaysInItsSlot) {
  EXPECT_TRUE(exhausted_blocks_are_replaced<parts_of::parts>());
  expect_found(20, exhausted_blocks_are_replaced<parts_with_duty>);
}

// Only the block of the slot is compared, and not its generation.
struct bare_pointer : parts_of::slot_state {
  GPUHEAP_FN bool begin(slot_word seen, bool kept) const {
    slot_word now = look();
    if (now.block() != seen.block() || now.is_busy()) return false;
    slot_word const by = slot_word::of(kept ? seen.block() : parts_of::no_block, seen.generation() + 1, slot_word::busy_bit);
    return ref().compare_exchange(now.bits, by.bits, simt::acq_rel, simt::relaxed);
  }
};
struct parts_with_bare_pointer : parts_of::parts {
  using slot = bare_pointer;
};
// Classes of a single slot and blocks of four slices.
constexpr gallatin_config one_slot{.segment_bytes = 256, .largest_slice = 64, .most_slices = 1, .least_slots = 1, .least_segments = 8};

// Kernel: slices come and go at once, so that blocks come back to the slot soon.
template <class Ref>
struct come_back_soon {
  Ref heap;
  unsigned rounds;
  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned round = 0; round < rounds; ++round) heap.free(heap.malloc(64));
  }
};
template <class Parts>
bool blocks_come_back_soon() {
  using heap_t = small_heap<Parts, one_slot>;
  heap_t heap{bytes_of_segments<heap_t>(12)};
  gpuheap::launch(24, come_back_soon<typename heap_t::ref_type>{heap.ref(), 12}, {.block_threads = 4});
  return heap.stats().live_allocations == 0 && is_as_new(heap);
}
TEST(Hazard4, ABlockThatCameBackIsTakenForTheOldOne) {
  expect_right(num_seeds(1000), blocks_come_back_soon<parts_of::parts>);
  expect_found(4000, blocks_come_back_soon<parts_with_bare_pointer>);
}

// Nobody fetches a block for a slot whose last attempt failed.
struct dead_once_failed : parts_of::slot_state {
  GPUHEAP_FN bool begin(slot_word seen, bool kept) const { return !seen.has_failed() && parts_of::slot_state::begin(seen, kept); }
};
struct parts_with_dead_slots : parts_of::parts {
  using slot = dead_once_failed;
};
// A heap that was full, of each size in turn, serves all sizes when everything has been freed.
template <class Parts>
bool serves_after_it_was_full() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of_segments<heap_t>(16)};
  for (unsigned bytes : {64u, 16u, 128u, 32u, 256u}) {
    blocks_of<heap_t> all(heap.ref(), 300, bytes);
    all.malloc_all(64);
    if (all.failed_requests() == 0) return false;
    all.free_all(7);
    for (unsigned other : {16u, 32u, 64u, 100u, 200u, 600u}) {
      if (served(heap, 3, other) != 3) return false;
    }
    if (!is_as_new(heap)) return false;
  }
  return true;
}
TEST(Hazard6, ASlotIsDeadAfterAFailure) {
  expect_right(num_seeds(100), serves_after_it_was_full<parts_of::parts>);
  expect_found(20, serves_after_it_was_full<parts_with_dead_slots>);
}

// ---- 5, 14: slices that come back

// A thread that gives up slices does not learn whether they were the last.
struct given_up_unseen : parts_of::block_state {
  GPUHEAP_FN bool give_up(unsigned first, unsigned end) const {
    (void)parts_of::block_state::give_up(first, end);
    return false;
  }
  GPUHEAP_FN bool retire(unsigned& c) const {
    (void)parts_of::block_state::retire(c);
    return false;
  }
};
struct parts_given_up_unseen : parts_of::parts {
  using block = given_up_unseen;
};
TEST(Hazard5, SlicesGivenUpAreTheLastOfTheirBlock) {
  expect_found(20, [] { return survives<parts_given_up_unseen>(12); });
}

// Every free counts.
struct counted_twice : parts_of::block_state {
  GPUHEAP_FN uint64_t give(unsigned i, uint64_t mask) const { return parts_of::block_state::give(i, mask) & ~mask; }
};
struct parts_counted_twice : parts_of::parts {
  using block = counted_twice;
};
template <class Parts>
bool refuses_second_frees() {
  using heap_t = small_heap<Parts, wide>;
  heap_t heap{bytes_of_segments<heap_t>(16)};
  auto const before = heap.verify().free_segments;
  // Whole words of slices, whole blocks, several slices, runs.
  std::vector<std::size_t> sizes(130, 16);
  for (std::size_t bytes : {2500, 300, 120, 20000, 8000}) sizes.push_back(bytes);
  blocks_of<heap_t> b(heap.ref(), sizes), stay(heap.ref(), sizes);
  b.malloc_all(64);
  stay.malloc_all(64);
  if (b.failed_requests() + stay.failed_requests() != 0) return false;
  stay.fill();
  for (unsigned round = 0; round < 3; ++round) {
    auto const answers = b.free_all(3);
    auto const done = std::count(answers.begin(), answers.end(), gpuheap::free_status::done);
    if (done != (round == 0 ? 135 : 0) || !heap.verify().problem.empty()) return false;
  }
  // Twice by one warp, at the same time.
  auto const p = stay.pointers().read();
  std::vector<void*> pairs;
  for (void* one : p) pairs.insert(pairs.end(), 2, one);
  stay.expect_intact("after second frees of others");
  heap.free(pairs);
  auto const s = heap.stats();
  return s.live_allocations == 0 && s.double_frees + s.foreign_frees == 2 * 135 + 135 && before <= geometry(heap).num_segments &&
         is_as_new(heap);
}
TEST(Hazard14, ASecondFreeCounts) {
  EXPECT_TRUE(refuses_second_frees<parts_of::parts>());
  expect_right(num_seeds(300), refuses_second_frees<parts_of::parts>);
  expect_found(20, refuses_second_frees<parts_counted_twice>);
}
TEST(Hazard14, InteriorPointersAreForeign) {
  using heap_t = small_heap<parts_of::parts, wide>;
  heap_t heap{bytes_of_segments<heap_t>(16)};
  std::vector<std::size_t> const sizes{16, 30, 64, 100, 200, 500, 2500, 8000, 20000};
  blocks_of<heap_t> b(heap.ref(), sizes);
  b.malloc_all();
  b.fill();
  auto const p = b.pointers().read();
  std::vector<void*> inside;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    for (std::size_t offset = 8; offset < sizes[i]; offset *= 2) inside.push_back(static_cast<char*>(p[i]) + offset);
  }
  heap.free(inside);
  EXPECT_EQ(heap.stats().foreign_frees, inside.size());
  EXPECT_EQ(heap.stats().double_frees, 0u);
  b.expect_intact("after frees of pointers into them");
  for (auto const answer : b.free_all()) EXPECT_EQ(answer, gpuheap::free_status::done);
  EXPECT_TRUE(is_as_new(heap));
}

// ---- 9, 15: a full heap answers soon

// Kernel: how long a request takes that cannot be served.
template <class Ref>
struct time_a_failure {
  Ref heap;
  simt::size_t bytes;
  uint64_t* points;
  GPUHEAP_FN void operator()(unsigned i) const {
    uint64_t const before = simt::clock_cycles();
    void* const p = heap.malloc(bytes);
    points[i] = p == nullptr ? simt::clock_cycles() - before : ~uint64_t{0};
  }
};
// Tries again until there is a block.
template <gallatin_config Config, class Parts>
struct tries_for_ever : parts_of::heap_state<Config, Parts> {
  parts_of::block_claim obtain_or_flush(unsigned c, unsigned wanted, unsigned but) {
    while (true) {
      auto const got = parts_of::heap_state<Config, Parts>::obtain_or_flush(c, wanted, but);
      if (got.count != 0) return got;
    }
  }
};
struct parts_trying_for_ever : parts_of::parts {
  template <gallatin_config Config, class Parts>
  using state = tries_for_ever<Config, Parts>;
};
template <class Parts>
bool failures_end_soon() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of_segments<heap_t>(12)};
  blocks_of<heap_t> all(heap.ref(), 200, 64);
  all.malloc_all(64);
  for (unsigned bytes : {16u, 64u, 128u, 256u, 1000u}) {
    for (unsigned threads : {1u, 64u}) {
      test::device_array<uint64_t> points(threads);
      gpuheap::launch(threads, time_a_failure<typename heap_t::ref_type>{heap.ref(), bytes, points.data()}, {.block_threads = 32});
      // Of all lanes together.
      for (uint64_t n : points.read()) {
        if (n > 10000 * threads) return false;
      }
    }
  }
  return true;
}
TEST(Hazard9And15, AFullHeapAnswersSoon) {
  EXPECT_TRUE(failures_end_soon<parts_of::parts>());
  expect_right(num_seeds(200), failures_end_soon<parts_of::parts>);
  expect_found(4, failures_end_soon<parts_trying_for_ever>);
}

// ---- 13: the counter

// An exhausted block stays in its slot, and is counted on.
template <gallatin_config Config, class Parts>
struct counted_on : parts_of::heap_state<Config, Parts> {
  using base = parts_of::heap_state<Config, Parts>;
  parts_of::grant take_from_slot(slot_word seen, unsigned c, unsigned lg_k, unsigned n) {
    if (!seen.has_block()) return {};
    return base::settle(seen.block(), c, lg_k, n << lg_k, base::at.block(seen.block()).take(n << lg_k));
  }
  parts_of::grant refill(unsigned c, unsigned lg_k, unsigned n, unsigned i, slot_word seen) {
    auto const got = base::refill(c, lg_k, n, i, seen);
    slot_word const now = base::at.slot(c, i).look();
    // No block was to be had: the old one stays.
    if (got.none() && !now.has_block())
      base::at.slot(c, i).ref().store(slot_word::of(seen.block(), now.generation(), slot_word::failed_bit).bits, simt::release);
    return got;
  }
};
struct parts_counted_on : parts_of::parts {
  template <gallatin_config Config, class Parts>
  using state = counted_on<Config, Parts>;
};
template <class Parts>
bool counts_stay_small() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of_segments<heap_t>(12)};
  blocks_of<heap_t> all(heap.ref(), 200, 64), more(heap.ref(), 64, 64);
  all.malloc_all(64);
  for (unsigned round = 0; round < 50; ++round) more.malloc_all(64);
  auto const at = geometry(heap);
  std::vector<uint64_t> words(simt::size_t{at.num_segments} * at.blocks_of(0));
  simt::copy(words.data(), at.blocks, words.size() * sizeof(uint64_t));
  uint32_t most = 0;
  for (uint64_t word : words) most = std::max(most, parts_of::block_word{word}.count());
  return most <= at.num_slices() + 200;
}
TEST(Hazard13, FailuresCountWithoutEnd) {
  EXPECT_TRUE(counts_stay_small<parts_of::parts>());
  EXPECT_FALSE(counts_stay_small<parts_counted_on>()) << "the test does not see the published mistake";
}

// ---- not in the list of hazards

// A whole block is opened like any other, and then all of its slices are taken.
struct open_for_a_moment : parts_of::block_state {
  GPUHEAP_FN void open_whole(unsigned c) const {
    open(c, 0);
    (void)take(num_slices());
    ref().store(parts_of::block_word::of(c, mode::whole).bits, simt::release);
  }
};
struct parts_open_for_a_moment : parts_of::parts {
  using block = open_for_a_moment;
};
TEST(Gallatin, AWholeBlockIsNeverOpen) {
  expect_found(4000, [] { return survives<parts_open_for_a_moment>(12); });
}

// Several slices are asked of blocks that have less than that left, and of which nothing is in use: from the slot they are in, and another.
TEST(Gallatin, IdleBlocksServeWhatDoesNotFitTheirRest) {
  using heap_t = small_heap<parts_of::parts, wide>;
  for (unsigned block : {0u, 1u}) {
    heap_t heap{bytes_of_segments<heap_t>(10)};
    unsigned const others = geometry(heap).num_segments - 1;
    blocks_of<heap_t> whole(heap.ref(), others, 8192), singles(heap.ref(), 125, 64);
    whole.malloc_all();
    singles.malloc_all(125);
    EXPECT_EQ(whole.failed_requests() + singles.failed_requests(), 0u);
    EXPECT_EQ(served(heap, 1, 500), 0u);
    singles.free_all();
    std::vector<std::size_t> sizes(32 * block + 1);
    sizes.back() = 500;
    blocks_of<heap_t> several(heap.ref(), sizes);
    several.malloc_all(32);
    EXPECT_EQ(several.failed_requests(), 32 * block) << "asked by block " << block;
    several.free_all();
    whole.free_all();
    EXPECT_TRUE(is_as_new(heap));
  }
}

// The parts of heaps of all sizes: where they lie, and how long segments are.
TEST(Gallatin, SegmentsShrinkWithTheHeap) {
  using layout = gpuheap::gallatin::layout_type;
  struct known {
    simt::size_t bytes;
    unsigned lg_slices;
  };
  for (known k : {known{std::size_t{141} << 30, 12}, {8_GiB, 12}, {1100_MiB, 12}, {1_GiB, 11}, {64_MiB, 7}, {16_MiB, 5}, {200_KiB, 2}}) {
    auto const at = layout::over({reinterpret_cast<void*>(4096), k.bytes}, 132, 4096);
    EXPECT_EQ(at.lg_slices, k.lg_slices) << k.bytes;
    EXPECT_LE(reinterpret_cast<std::uintptr_t>(at.segment_at(at.num_segments)), 4096 + k.bytes);
    // All but a hundredth, of large heaps.
    if (k.bytes >= 64_MiB) {
      EXPECT_GT(at.num_segments * at.segment_bytes() + at.segment_bytes(), k.bytes / 100 * (k.bytes >= 1_GiB ? 99 : 95));
    }
  }
  auto const at = layout::over({reinterpret_cast<void*>(4096), std::size_t{100} << 30}, 132, 4096);
  EXPECT_EQ(at.num_slots(0), 132u);
  EXPECT_EQ(at.num_slots(3), 16u);
  EXPECT_EQ(at.num_slots(8), 4u);
  EXPECT_EQ(at.slice_at(layout::block_id(6000, 3), 1, 5) - at.base, (std::ptrdiff_t{6000} << 24) + 3 * (128 << 10) + 5 * 32);
}
// A heap of the paper's configuration: the requests that it serves, and the memory that it takes.
TEST(Gallatin, ServesSlicesBlocksAndRuns) {
  gpuheap::heap<gpuheap::gallatin> heap{256_MiB};
  using heap_t = gpuheap::heap<gpuheap::gallatin>;
  auto const at = geometry(heap);
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 1; bytes < 12_MiB; bytes += bytes / 3 + 1) sizes.push_back(bytes);
  blocks_of<heap_t> b(heap.ref(), sizes);
  b.malloc_all();
  EXPECT_EQ(b.failed_requests(), 0u);
  EXPECT_TRUE(are_apart(b));
  auto const p = b.pointers().read();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::size_t const aligned = std::min<std::size_t>(4096, heap.ref().allocator().rounded_size(sizes[i]));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p[i]) % aligned, 0u) << sizes[i];
  }
  auto const found = heap.verify();
  EXPECT_EQ(found.problem, "");
  EXPECT_EQ(found.live_slices + found.live_blocks + found.live_runs, sizes.size());
  EXPECT_GT(found.live_blocks, 0u);
  EXPECT_GT(found.live_runs, 0u);
  b.free_all(3);
  EXPECT_LE(heap.stats().held_bytes, at.num_segments * at.segment_bytes());
  EXPECT_EQ(served(heap, 1, at.num_segments * at.segment_bytes()), 1u);
}

}  // namespace
