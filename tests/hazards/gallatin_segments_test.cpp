// The hazards of the published Gallatin that concern segments: their owners, the trees by which they are found, and runs of them. One is
// not here: searches that take an inner node for a leaf (11) concern the bitmap tree alone (tests/structures/mutants_test.cpp).
#include "gallatin_heaps.hpp"

namespace {

using namespace hazards;

// ---- 1, 2, 7: a segment's class and its count

// The count is decremented whatever the word says, and restored.
struct decremented_first : parts_of::segment_state {
  GPUHEAP_FN unsigned take(unsigned c, unsigned, unsigned& left) const {
    if (!look().is_of_class(c)) return 0;
    segment_word const before{ref().fetch_sub(1, simt::acq_rel)};
    left = before.count() - 1;
    if (before.is_of_class(c) && before.count() != 0) return 1;
    ref().fetch_add(1, simt::acq_rel);
    return 0;
  }
};
// It never falls below 0, but the class is looked at afterwards.
struct restored_unseen : parts_of::segment_state {
  GPUHEAP_FN unsigned take(unsigned c, unsigned, unsigned& left) const {
    segment_word seen = look();
    while (seen.kind() >= segment_word::first_class && seen.count() != 0) {
      if (!ref().compare_exchange(seen.bits, seen.bits - 1, simt::acq_rel, simt::relaxed)) continue;
      left = seen.count() - 1;
      if (seen.is_of_class(c)) return 1;
      ref().fetch_add(1, simt::acq_rel);
      return 0;
    }
    return 0;
  }
};
// The class is what the SM's L1 says.
struct stale_owner : parts_of::segment_state {
  GPUHEAP_FN unsigned take(unsigned c, unsigned, unsigned& left) const {
    if (!segment_word{simt::load_cached(*word)}.is_of_class(c)) return 0;
    segment_word seen = look();
    while (seen.kind() >= segment_word::first_class && seen.count() != 0) {
      left = seen.count() - 1;
      if (ref().compare_exchange(seen.bits, seen.bits - 1, simt::acq_rel, simt::relaxed)) return 1;
    }
    return 0;
  }
};
template <class Segment>
struct parts_with_segment : parts_of::parts {
  using segment = Segment;
};

// Blocks of 64 slices: requests of 1024, 2048 and 4096 bytes are whole blocks of the three classes.
constexpr gallatin_config coarse{.segment_bytes = 4096, .largest_slice = 64, .most_slices = 1, .least_slots = 1, .least_segments = 8};

// Kernel: whole blocks come and go at once, so that segments change their class all the time.
template <class Ref>
struct change_classes {
  Ref heap;
  unsigned rounds;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      void* const p = heap.malloc(random.below(3) == 0 ? 2048 : 1024);
      if (p == nullptr) continue;
      test::fill_pattern(p, 16, i);
      if (test::wrong_words(p, 16, i) != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
      heap.free(p);
    }
  }
};
template <class Parts>
bool segments_change_classes() {
  using heap_t = small_heap<Parts, coarse>;
  heap_t heap{bytes_of_segments<heap_t>(8)};
  test::device_array<unsigned> wrong(1);
  gpuheap::launch(40, change_classes<typename heap_t::ref_type>{heap.ref(), 6, wrong.data()}, {.block_threads = 8});
  return wrong.first() == 0 && heap.stats().live_allocations == 0 && heap.stats().double_frees == 0 && is_as_new(heap);
}
TEST(Gallatin, SegmentsChangeTheirClass) { expect_right(num_seeds(2000), segments_change_classes<parts_of::parts>); }
TEST(Hazard1, ADecrementThatIsTakenBackMakesABlockTooMany) {
  expect_found(500, segments_change_classes<parts_with_segment<decremented_first>>);
}
TEST(Hazard2, AStaleClassAcceptsAnothersSegment) { expect_found(2000, segments_change_classes<parts_with_segment<stale_owner>>); }

// Kernel: threads of two classes take a block of one segment and give it back, and make the segment theirs when it is free.
template <class Segment>
struct share_a_segment {
  uint64_t* word;
  unsigned rounds;
  GPUHEAP_FN void operator()(unsigned i) const {
    Segment const segment{word};
    unsigned const c = i % 2, n = 2;
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned left = 0;
      uint64_t free = 0;
      bool const mine = segment.take(c, 1, left) != 0 ||
                        segment.ref().compare_exchange(free, segment_word::of_class(c, n - 1).bits, simt::acq_rel, simt::relaxed);
      if (mine && segment.give().count() + 1 == n) (void)segment.release(c, n);
    }
  }
};
template <class Segment>
bool a_segment_becomes_free() {
  test::device_array<uint64_t> word(1);
  gpuheap::launch(12, share_a_segment<Segment>{word.data(), 8}, {.block_threads = 4});
  return word.first() == 0;
}
TEST(Hazard7, ADecrementThatIsTakenBackHidesThatAllBlocksAreHome) {
  expect_right(num_seeds(2000), a_segment_becomes_free<parts_of::segment_state>);
  expect_found(200, a_segment_becomes_free<restored_unseen>);
}

// ---- 8: segments out of reach

// A segment that had no blocks is listed when half of them are home.
template <gallatin_config Config, class Parts>
struct listed_late : parts_of::heap_state<Config, Parts> {
  using base = parts_of::heap_state<Config, Parts>;
  bool put_back(uint32_t id, unsigned c) {
    uint32_t const s = base::at.segment_of(id);
    bool const listed = base::at.segments_with_blocks(c).contains(s);
    bool const freed = base::put_back(id, c);
    if (!listed && base::at.segment(s).look().count() < (base::at.blocks_of(c) + 1) / 2) base::at.segments_with_blocks(c).erase(s);
    return freed;
  }
};
struct parts_listed_late : parts_of::parts {
  template <gallatin_config Config, class Parts>
  using state = listed_late<Config, Parts>;
};
// In a heap full of whole blocks, one of each segment is freed.
template <class Parts>
bool single_blocks_are_found() {
  using heap_t = small_heap<Parts, wide>;
  heap_t heap{bytes_of_segments<heap_t>(10)};
  unsigned const bytes = static_cast<unsigned>(geometry(heap).block_bytes(0));
  blocks_of<heap_t> all(heap.ref(), 60, bytes);
  all.malloc_all(64);
  auto const p = all.pointers().read();
  std::vector<void*> go;
  for (void* one : p) {
    auto const offset = static_cast<simt::size_t>(static_cast<char*>(one) - geometry(heap).base);
    if (one != nullptr && offset % geometry(heap).segment_bytes() == 0) go.push_back(one);
  }
  heap.free(go);
  return go.size() == geometry(heap).num_segments && served(heap, 60, bytes) == go.size() && heap.verify().problem.empty();
}
TEST(Hazard8, FreeBlocksOfASegmentAreOutOfReach) {
  EXPECT_TRUE(single_blocks_are_found<parts_of::parts>());
  EXPECT_FALSE(single_blocks_are_found<parts_listed_late>()) << "the test does not see the published mistake";
}
// The thread that took the last block clears the bit without looking, however late.
template <gallatin_config Config, class Parts>
struct unlisted_blindly : parts_of::heap_state<Config, Parts> {
  void unlist(unsigned c, uint32_t s) { (void)parts_of::heap_state<Config, Parts>::at.segments_with_blocks(c).take(s); }
};
struct parts_unlisted_blindly : parts_of::parts {
  template <gallatin_config Config, class Parts>
  using state = unlisted_blindly<Config, Parts>;
};
TEST(Hazard8, ALateClearErasesABlockThatCameHome) {
  expect_found(2000, [] { return survives<parts_unlisted_blindly>(12); });
}

// ---- 10: the trees

// A removal that does not look again when it has cleared the parent's bit.
struct tree_without_second_look : gpuheap::structures::bitmap_tree {
  GPUHEAP_FN bool take(unsigned bit) const {
    word const before = leaf(bit / 64).fetch_and(~(word{1} << (bit % 64)), simt::acq_rel);
    if ((before & ~(word{1} << (bit % 64))) == 0) mid(0).fetch_and(~(word{1} << (bit / 64)), simt::acq_rel);
    return (before >> (bit % 64) & 1) != 0;
  }
  GPUHEAP_FN unsigned claim(unsigned from) const {
    unsigned bit = successor(from);
    while (bit != none && !take(bit)) bit = successor(bit);
    return bit;
  }
};
struct parts_without_second_look : parts_of::parts {
  using tree = tree_without_second_look;
};
TEST(Hazard10, AParentsBitIsLost) {
  expect_found(2000, [] { return survives<parts_without_second_look>(12); });
}

// ---- 12: runs

// Runs begin with a word, and there are none in the first.
struct whole_words_only : gpuheap::structures::bitmap_tree {
  GPUHEAP_FN unsigned find_run(unsigned n, unsigned end) const {
    for (unsigned i = num_leaves; i-- > 1;) {
      if (i * 64 + n <= end && leaf(i).load(simt::relaxed) == simt::low_bits(n)) return i * 64;
    }
    return none;
  }
};
struct parts_whole_words_only : parts_of::parts {
  using tree = whole_words_only;
};
// Runs of every length, in heaps of up to three words of segments, each as many as there can be; and the segments serve others when some
// of them are freed.
template <class Parts>
bool every_run_is_served() {
  for (unsigned segments : {9u, 64u, 65u, 150u}) {
    using heap_t = small_heap<Parts>;
    heap_t heap{bytes_of_segments<heap_t>(segments)};
    unsigned const n = geometry(heap).num_segments;
    for (unsigned k : {2u, 3u, 63u, 64u, 65u, 100u, n}) {
      if (k > n) continue;
      blocks_of<heap_t> runs(heap.ref(), n / k + 2, 256 * k - 3);
      runs.malloc_all(32);
      if (runs.count() - runs.failed_requests() != n / k || !are_apart(runs) || !heap.verify().problem.empty()) return false;
      // The first that there is goes, and single segments take its place.
      void* go = nullptr;
      for (void* p : runs.pointers().read()) go = go == nullptr ? p : go;
      heap.free(std::vector<void*>{go});
      blocks_of<heap_t> singles(heap.ref(), n + 5, 256);
      singles.malloc_all(64);
      if (singles.count() - singles.failed_requests() != n - k * (n / k - 1)) return false;
      singles.free_all(5);
      runs.free_all(3);  // one of them for the second time
      if (!is_as_new(heap)) return false;
    }
  }
  return true;
}
TEST(Hazard12, RunsAreFoundInWholeWordsOnly) {
  EXPECT_TRUE(every_run_is_served<parts_of::parts>());
  EXPECT_FALSE(every_run_is_served<parts_whole_words_only>()) << "the test does not see the published mistake";
}
// The tree shows the segments before their words say that they are free.
template <gallatin_config Config, class Parts>
struct shown_too_early : parts_of::heap_state<Config, Parts> {
  using base = parts_of::heap_state<Config, Parts>;
  bool give_run(uint32_t first, segment_word seen) {
    if (!base::at.segment(first).ref().compare_exchange(seen.bits, 0, simt::acq_rel, simt::relaxed)) return false;
    base::at.free_segments().set_run(first, seen.count());
    for (uint32_t s = first + 1; s != first + seen.count(); ++s) base::at.segment(s).ref().store(0, simt::release);
    return true;
  }
};
struct parts_shown_too_early : parts_of::parts {
  template <gallatin_config Config, class Parts>
  using state = shown_too_early<Config, Parts>;
};
TEST(Hazard12, SegmentsAreShownBeforeTheyAreFree) {
  expect_found(2000, [] { return survives<parts_shown_too_early>(12); });
}

}  // namespace
