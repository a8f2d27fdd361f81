// The hazards of the published ScatterAlloc, but for those of single pages (scatteralloc_pages_test.cpp). Not here, as nothing in this form
// can show them: a mutex without fences (12: pages are claimed by compare-exchanges, and the lock protects no data; that it ends is
// tested), and slots for merging indexed by the hardware's number of a warp (9: there is no merging; that warps need not be whole is
// tested).
#include "scatteralloc_heaps.hpp"

#include <algorithm>
#include <set>

namespace {

using namespace hazards;

// ---- 1, 2, 3: runs

// The second scan for a run goes one page too far. That page's word is another part of the bookkeeping, or lies behind it.
template <scatteralloc_config Config, class Parts>
struct one_page_too_far : scatter::heap_state<Config, Parts> {
  using base = scatter::heap_state<Config, Parts>;
  void* take_run(scatter::uint64_t k) {
    auto const pages = static_cast<typename base::index>(base::there().pages());
    auto const first = base::search_runs(static_cast<typename base::index>(k), pages + 1);
    if (first < 0) return nullptr;
    simt::atomic_ref<unsigned>{base::at.masks[first]}.store(static_cast<unsigned>(k), simt::relaxed);
    base::at.state(static_cast<unsigned>(first)).ref().store(slab_word::of(scatter::run_head, 1).bits, simt::relaxed);
    return base::at.page_at(static_cast<unsigned>(first));
  }
};
struct parts_one_page_too_far : scatter::parts {
  template <scatteralloc_config Config, class Parts>
  using state = one_page_too_far<Config, Parts>;
};
// A heap full of runs: where they lie, and whether the bookkeeping is as before when all of them have been written.
template <class Parts>
bool runs_stay_inside() {
  for (unsigned pages : {16u, 17u, 31u, 64u}) {
    using heap_t = small_heap<Parts>;
    simt::size_t const bytes = bytes_of_pages<heap_t>(pages);
    gpuheap::memory::allocation const memory{gpuheap::memory::device, bytes};
    heap_t heap{memory.where()};
    auto const at = heap.ref().allocator().geometry();
    blocks_of<heap_t> b(heap.ref(), pages, 2048);
    b.malloc_all();
    std::vector<unsigned> before(at.max_pages), after(at.max_pages);
    simt::copy(before.data(), at.states, before.size() * 4);
    b.fill();
    simt::copy(after.data(), at.states, after.size() * 4);
    if (before != after || !are_apart(b) || b.count() - b.failed_requests() != at.max_pages / 2) return false;
    // The last two pages are free again, and three would be one too many.
    void* highest = nullptr;
    for (void* p : b.pointers().read()) {
      if (p != nullptr && (p < at.pages || static_cast<char*>(p) + 2048 > at.page_at(at.max_pages))) return false;
      if (p > highest) highest = p;
    }
    heap.free(std::vector<void*>{highest});
    blocks_of<heap_t> three(heap.ref(), 1, 3072);
    three.malloc_all();
    if (three.failed_requests() != 1) return false;
  }
  return true;
}
TEST(Hazard1, TheSecondScanForARunGoesOnePageTooFar) {
  EXPECT_TRUE(runs_stay_inside<scatter::parts>());
  EXPECT_FALSE(runs_stay_inside<parts_one_page_too_far>()) << "the test does not see the published mistake";
}

// The hint is the page before the last run, in 32 bits, and a free raises it.
template <scatteralloc_config Config, class Parts>
struct hint_that_underflows : scatter::heap_state<Config, Parts> {
  using base = scatter::heap_state<Config, Parts>;
  using index = typename base::index;
  unsigned top = ~0u;
  void* take_run(scatter::uint64_t k) {
    index const n = static_cast<index>(k), pages = base::there().pages();
    simt::atomic_ref<unsigned> const hint{top};
    index const from = hint.load(simt::relaxed) == ~0u && !ever ? pages - 1 : hint.load(simt::relaxed);
    ever = true;
    index first = from < pages ? base::search_between(n, 0, from + 1) : -1;
    if (first < 0 && from < pages) first = base::search_between(n, from + 1, pages);
    if (first < 0) return nullptr;
    hint.store(static_cast<unsigned>(first - 1), simt::relaxed);
    simt::atomic_ref<unsigned>{base::at.masks[first]}.store(static_cast<unsigned>(k), simt::relaxed);
    base::at.state(static_cast<unsigned>(first)).ref().store(slab_word::of(scatter::run_head, 1).bits, simt::relaxed);
    return base::at.page_at(static_cast<unsigned>(first));
  }
  bool give_run(unsigned head) {
    unsigned const k = base::length_of(head);
    bool const done = base::give_run(head);
    simt::atomic_ref<unsigned>{top}.fetch_max(head + k - 1, simt::relaxed);
    return done;
  }
  bool ever = false;
};
struct parts_with_hint_that_underflows : scatter::parts {
  template <scatteralloc_config Config, class Parts>
  using state = hint_that_underflows<Config, Parts>;
};
template <class Parts>
bool page_zero_can_begin_a_run() {
  small_heap<Parts> heap{bytes_of_pages<small_heap<Parts>>(20)};
  simt::size_t const all = simt::size_t{num_pages(heap)} * 1024;
  for (unsigned round = 0; round < 3; ++round) {
    if (served(heap, 1, all) != 1 || served(heap, 20, 2048) != 10) return false;
  }
  return heap.verify().problem.empty();
}
TEST(Hazard2, ARunAtPageZeroEndsAllRuns) {
  EXPECT_TRUE(page_zero_can_begin_a_run<scatter::parts>());
  EXPECT_FALSE(page_zero_can_begin_a_run<parts_with_hint_that_underflows>()) << "the test does not see the published mistake";
}

// A run is a page of chunks as long as the run, in which no chunk is counted.
template <scatteralloc_config Config, class Parts>
struct runs_that_are_chunks : scatter::heap_state<Config, Parts> {
  using base = scatter::heap_state<Config, Parts>;
  void* take_run(scatter::uint64_t k) {
    void* const p = base::take_run(k);
    if (p == nullptr) return p;
    auto const head = static_cast<unsigned>((static_cast<char*>(p) - base::at.pages) / Config.page_bytes);
    for (unsigned page = head; page != head + k; ++page) {
      base::at.state(page).ref().store(slab_word::of(base::at.page_units, 0).bits, simt::relaxed);
    }
    return p;
  }
};
struct parts_with_runs_that_are_chunks : scatter::parts {
  template <scatteralloc_config Config, class Parts>
  using state = runs_that_are_chunks<Config, Parts>;
};
// Runs, whole pages and chunks of more than half a page, among each other.
template <class Parts>
bool large_chunks_and_runs_are_apart() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of_pages<heap_t>(40)};
  std::vector<std::size_t> sizes;
  for (unsigned i = 0; i < 48; ++i) sizes.push_back(i % 4 == 0 ? 2048 : i % 4 == 1 ? 1024 : i % 4 == 2 ? 700 : 1040);
  for (unsigned round = 0; round < 2; ++round) {
    blocks_of<heap_t> b(heap.ref(), sizes);
    b.malloc_all(64);
    if (!are_apart(b)) return false;
    b.free_all(7);
    if (!heap.verify().problem.empty() || heap.verify().held_pages != 0) return false;
  }
  return true;
}
TEST(Hazard3, RunsPassForPagesOfChunks) {
  expect_right(num_seeds(300), large_chunks_and_runs_are_apart<scatter::parts>);
  expect_found(20, large_chunks_and_runs_are_apart<parts_with_runs_that_are_chunks>);
}
TEST(Hazard3, ARequestOfOnePageLeavesItFree) {
  gpuheap::heap<gpuheap::scatteralloc> heap{1_MiB};
  for (unsigned round = 0; round < 3; ++round) {
    EXPECT_EQ(served(heap, 100, 4096), 100u);
    EXPECT_EQ(served(heap, 100, 2100), 100u);
    EXPECT_EQ(heap.verify().held_pages, 0u);
    EXPECT_EQ(served(heap, 1, simt::size_t{num_pages(heap)} * 4096), 1u);
  }
}

// ---- 7: regions

// The number of regions that look full.
template <class Heap>
unsigned full_regions(Heap const& heap) {
  auto const at = heap.ref().allocator().geometry();
  std::vector<unsigned> visits(at.num_regions(at.max_pages));
  simt::copy(visits.data(), at.visits, visits.size() * 4);
  return static_cast<unsigned>(std::count(visits.begin(), visits.end(), small.region_full_visits));
}
TEST(Hazard7, RegionsOfLargeChunksLookFullForEver) {
  for (unsigned bytes : {16u, 128u, 400u, 513u, 700u, 1024u, 3000u}) {
    small_heap<> heap{bytes_of_pages<small_heap<>>(60)};
    blocks_of<small_heap<>> b(heap.ref(), 5000, bytes), one(heap.ref(), 64, 16);
    b.malloc_all();
    one.malloc_all();  // finds nothing, where the others are runs
    one.malloc_all();
    EXPECT_EQ(full_regions(heap), 20u) << bytes;
    EXPECT_EQ(heap.verify().problem, "") << bytes;
    b.free_all(7);
    EXPECT_EQ(full_regions(heap), 0u) << bytes;
    EXPECT_EQ(heap.verify().problem, "") << bytes;
  }
}

// ---- 9, 12: lanes

// Kernel: warps of which some lanes have left, some ask for runs and some for sizes of their own; more than there is.
template <class Ref>
struct ask_apart {
  Ref heap;
  void** out;
  std::size_t const* sizes;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i % 7 == 3) return;
    if (i % 5 == 2) {
      out[i] = heap.malloc(sizes[i]);
    } else {
      for (unsigned pass = 0; pass <= i % 3; ++pass) {
        heap.free(out[i]);
        out[i] = heap.malloc(sizes[i]);
      }
    }
  }
};
bool lanes_need_not_be_together() {
  using heap_t = small_heap<>;
  heap_t heap{bytes_of_pages<heap_t>(24)};
  std::vector<std::size_t> sizes;
  for (unsigned i = 0; i < 75; ++i) sizes.push_back(i % 3 == 0 ? 1025 + 100 * (i % 30) : 16 * (1 + i % 40));
  blocks_of<heap_t> b(heap.ref(), sizes);
  gpuheap::launch(75, ask_apart<heap_t::ref_type>{heap.ref(), b.pointers().data(), b.device_sizes().data()}, {.block_threads = 64});
  if (!are_apart(b) || !heap.verify().problem.empty()) return false;
  b.free_all(3);
  return heap.verify().problem.empty() && heap.verify().held_pages == 0;
}
TEST(Hazard9And12, LanesNeedNotBeTogetherAndTheLockIsLeft) { expect_right(num_seeds(2000), lanes_need_not_be_together); }

// As many runs as there are places, all at once.
bool every_place_for_a_run_is_found() {
  using heap_t = small_heap<>;
  heap_t heap{bytes_of_pages<heap_t>(30)};
  blocks_of<heap_t> all(heap.ref(), 10, 3072), again(heap.ref(), 5, 3072);
  all.malloc_all();
  if (all.failed_requests() != 0) return false;
  auto const p = all.pointers().read();
  std::vector<void*> go;
  for (unsigned i = 0; i < p.size(); i += 2) go.push_back(p[i]);
  heap.free(go);
  again.malloc_all(32);
  return again.failed_requests() == 0 && heap.verify().problem.empty();
}
TEST(Hazard12, ClaimsOfRunsDoNotFoilEachOther) { expect_right(num_seeds(2000), every_place_for_a_run_is_found); }

// ---- 10: the edges of the heap

// Steps over whole regions only.
template <scatteralloc_config Config, class Parts>
struct whole_regions_only : scatter::heap_state<Config, Parts> {
  using base = scatter::heap_state<Config, Parts>;
  scatter::grant search(unsigned units, unsigned wanted, unsigned) {
    unsigned const pages = base::there().pages() / Config.region_pages * Config.region_pages;
    return base::search_pages(0, pages, units, wanted, true);
  }
};
struct parts_of_whole_regions : scatter::parts {
  template <scatteralloc_config Config, class Parts>
  using state = whole_regions_only<Config, Parts>;
};
template <class Parts>
unsigned heaps_with_pages_left_over() {
  unsigned wrong = 0;
  for (unsigned pages = 4; pages < 60; ++pages) {
    using heap_t = small_heap<Parts>;
    heap_t heap{bytes_of_pages<heap_t>(pages)};
    wrong += num_pages(heap) < pages || served(heap, pages + 10, 1024) != num_pages(heap);
  }
  return wrong;
}
TEST(Hazard10, TheLastPagesAreNeverUsed) {
  EXPECT_EQ(heaps_with_pages_left_over<scatter::parts>(), 0u);
  EXPECT_GT(heaps_with_pages_left_over<parts_of_whole_regions>(), 0u) << "the test does not see the published mistake";
}
TEST(Hazard10, EverySuperBlockBecomesActive) {
  small_heap<> heap{bytes_of_pages<small_heap<>>(90)};
  std::set<unsigned> active;
  // A page each, one kernel after the other.
  for (unsigned i = 0; i < 200; ++i) {
    blocks_of<small_heap<>> one(heap.ref(), 1, 1024);
    one.malloc_all();
    scatter::extent there;
    simt::copy(&there, &heap.ref().allocator().state()->extent_bits, sizeof there);
    active.insert(there.active());
  }
  EXPECT_EQ(active, (std::set<unsigned>{0, 1, 2}));
}

// ---- 11, 13

TEST(Hazard11, APageOf32ChunksHas32) {
  gpuheap::heap<gpuheap::scatteralloc> heap{1_MiB};
  unsigned const pages = num_pages(heap);
  for (unsigned bytes : {128u, 1024u, 4096u}) {
    blocks_of<gpuheap::heap<gpuheap::scatteralloc>> b(heap.ref(), pages * (4096 / bytes) + 40, bytes);
    b.malloc_all();
    EXPECT_EQ(b.failed_requests(), 40u) << bytes;
    EXPECT_TRUE(are_apart(b));
    b.free_all();
  }
}

TEST(Hazard13, InteriorPointersAreTakenForPiecesOfABlock) {
  using heap_t = gpuheap::heap<gpuheap::scatteralloc>;
  heap_t heap{1_MiB};
  for (unsigned bytes : {32u, 112u, 200u, 4096u, 20000u}) {
    blocks_of<heap_t> b(heap.ref(), 4, bytes);
    b.malloc_all();
    b.fill();
    std::vector<void*> inside;
    for (void* p : b.pointers().read()) {
      for (unsigned offset = 16; offset < bytes; offset *= 2) inside.push_back(static_cast<char*>(p) + offset);
    }
    auto const before = heap.stats().foreign_frees;
    heap.free(inside);
    EXPECT_EQ(heap.stats().foreign_frees - before, inside.size());
    b.expect_intact("after frees of pointers into it");
    b.free_all();
    EXPECT_EQ(heap.verify().problem, "");
    EXPECT_EQ(heap.verify().held_pages, 0u);
  }
}

// ---- all of it

struct mixed_sizes {
  GPUHEAP_FN unsigned operator()(test::rng& random) const {
    unsigned const kind = random.below(8);
    return kind == 0 ? 1025 + random.below(3000) : kind < 3 ? 1 + random.below(1024) : 1 + random.below(60);
  }
};
bool a_small_heap_survives() {
  using heap_t = small_heap<>;
  heap_t heap{bytes_of_pages<heap_t>(17)};
  return lives_together(heap, 80, 5, mixed_sizes{}, [&] { return heap.verify().problem.empty() && heap.verify().held_pages == 0; }) &&
         served(heap, 1, num_pages(heap) * 1024) == 1;
}
TEST(Scatteralloc, SurvivesWithAllEdgesNear) { expect_right(num_seeds(2500), a_small_heap_survives); }

// ---- growth

TEST(ScatterallocGrowth, NewPagesServeWhatDidNotFitAndBlocksStay) {
  using heap_t = gpuheap::heap<gpuheap::scatteralloc>;
  heap_t heap{gpuheap::growth{.initial = 1_MiB, .at_most = 64_MiB}};
  auto const ref = heap.ref();
  blocks_of<heap_t> first{ref, 500, 1000};
  first.malloc_all();
  first.fill();
  EXPECT_EQ(first.failed_requests(), 0u);
  EXPECT_EQ(served(heap, 1, 4_MiB), 0u);
  std::size_t pages = 0;
  for (unsigned round = 0; round < 4; ++round) {
    heap.grow(6_MiB + 4096 * round);
    EXPECT_EQ(served(heap, 1, 4_MiB), 1u);
    blocks_of<heap_t> more{ref, 900, 4096};  // the view made before
    more.malloc_all();
    more.fill();
    EXPECT_EQ(more.failed_requests(), 0u);
    more.expect_intact("in a heap that has grown");
    auto const found = heap.verify();
    EXPECT_EQ(found.problem, "");
    EXPECT_GT(found.held_pages, pages);
    pages = found.held_pages;
    EXPECT_LE(heap.stats().held_bytes, heap.stats().usable_bytes);
  }
  first.expect_intact("as the heap grew");
}
TEST(ScatterallocGrowth, TrimGivesBackFreePagesAtTheEnd) {
  using heap_t = gpuheap::heap<gpuheap::scatteralloc>;
  heap_t heap{gpuheap::growth{.initial = 16_MiB, .at_most = 64_MiB}};
  auto const before = heap.bytes();
  blocks_of<heap_t> stay{heap.ref(), 10, 100};
  stay.malloc_all();
  stay.fill();
  std::size_t const back = heap.trim();
  EXPECT_EQ(heap.bytes(), before - back);
  EXPECT_EQ(heap.verify().problem, "");
  heap.grow(32_MiB);
  EXPECT_EQ(served(heap, 7000, 4096), 7000u);
  stay.expect_intact("as the heap was trimmed and grew");
  stay.free_all();
  EXPECT_GT(heap.trim(), 8_MiB);
  EXPECT_EQ(heap.trim(), 0u);
  heap.reset();
  EXPECT_EQ(served(heap, 1, 100), 1u);
  EXPECT_EQ(heap.verify().problem, "");
}
TEST(ScatterallocGrowth, TooLittleToBeginWithIsRefused) {
  using heap_t = gpuheap::heap<gpuheap::scatteralloc>;
  EXPECT_THROW((heap_t{gpuheap::growth{.initial = 1000, .at_most = 64_MiB}}), gpuheap::error);
  EXPECT_NO_THROW((heap_t{gpuheap::growth{.initial = 64_KiB, .at_most = 64_GiB}}));
}

TEST(Scatteralloc, CapacitiesAreThoseOfThePaper) {
  using layout = scatter::layout<scatteralloc_config{}, scatter::parts>;
  struct known {
    unsigned bytes, chunks;
  };
  for (known k : {known{16, 254},
                  {32, 127},
                  {48, 85},
                  {64, 63},
                  {80, 51},
                  {96, 42},
                  {112, 36},
                  {128, 32},
                  {256, 16},
                  {1024, 4},
                  {2048, 2},
                  {2064, 1},
                  {4096, 1}}) {
    EXPECT_EQ(layout::capacity(k.bytes / 16), k.chunks) << k.bytes;
  }
}
TEST(Scatteralloc, HeapsBeyond4GiBHaveTheirPages) {
  using layout = scatter::layout<scatteralloc_config{}, scatter::parts>;
  auto const at = layout::over({reinterpret_cast<void*>(4096), simt::size_t{100} << 30}, 4096);
  EXPECT_GT(at.max_pages, 26'000'000u);
  EXPECT_LE(reinterpret_cast<std::uintptr_t>(at.page_at(at.max_pages)), 4096 + (std::uintptr_t{100} << 30));
  EXPECT_LE(at.num_blocks(at.max_pages), 8u);
}

}  // namespace
