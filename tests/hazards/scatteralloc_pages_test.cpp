// The hazards of the published ScatterAlloc in how a page is counted into, emptied and given another size.
#include "scatteralloc_heaps.hpp"

namespace {

using namespace hazards;

// ---- 4, 5, 8: how a page changes its size

// The published steps of threads on one page. An addition raises the count, and a subtraction lowers it again if there was no room. A
// thread that then finds the count at 0 takes the size away, under a mark in the count that others may have changed meanwhile.
struct published_page {
  unsigned size = 0, fill = 0;
  static constexpr unsigned mark = 4096;

  bool enter(unsigned wanted, unsigned capacity) {
    simt::atomic_ref<unsigned> const chunk_size{size}, count{fill};
    unsigned found = 0;
    if (!chunk_size.compare_exchange(found, wanted, simt::acq_rel, simt::acquire) && found != wanted) return false;
    unsigned const before = count.fetch_add(1, simt::acq_rel);
    if (before < capacity && chunk_size.load(simt::acquire) == wanted) return true;
    count.fetch_sub(1, simt::acq_rel);
    return false;
  }
  void leave() {
    simt::atomic_ref<unsigned> const chunk_size{size}, count{fill};
    if (count.fetch_sub(1, simt::acq_rel) != 1) return;
    unsigned empty = 0;
    if (!count.compare_exchange(empty, mark, simt::acq_rel, simt::acquire)) return;
    chunk_size.store(0, simt::release);
    count.fetch_sub(mark, simt::acq_rel);
  }
};
// And here.
struct page_of_one_word {
  unsigned word = 0;

  bool enter(unsigned wanted, unsigned capacity) {
    gpuheap::structures::slab_state const state{&word};
    slab_word seen = state.look();
    // Ends: a pass that goes on lost the word to another thread.
    while (true) {
      if (seen.is_free()) {
        if (state.open(seen, wanted, 1, false)) return true;
      } else {
        if (seen.kind() != wanted || seen.fill() >= capacity) return false;
        if (state.reserve(seen, 1)) return true;
      }
    }
  }
  void leave() {
    simt::fence(simt::release);
    (void)gpuheap::structures::slab_state{&word}.release(1);
  }
};
// One request: when it began, when it was answered, and when its chunk was given back, in the order of one counter.
struct visit {
  unsigned size = 0, begin = 0, answer = 0, end = 0;  // end 0: refused
};
template <class Page>
struct visit_page {
  Page* page;
  unsigned* clock;
  visit* visits;
  unsigned rounds, capacity, sizes;
  GPUHEAP_FN unsigned now() const { return simt::atomic_ref<unsigned>{*clock}.fetch_add(1, simt::acq_rel) + 1; }
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      visit v{1 + random.below(sizes), now(), 0, 0};
      bool const in = page->enter(v.size, capacity);
      v.answer = now();
      if (in) {
        page->leave();
        v.end = now();
      }
      visits[i * rounds + round] = v;
    }
  }
};
template <class Page>
struct enter_alone {
  Page* page;
  unsigned* in;
  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned size = 1; size <= 2; ++size) {
      if (!page->enter(size, 2)) continue;
      ++*in;
      page->leave();
    }
  }
};
// A page that everybody has left serves every size.
template <class Page>
bool an_empty_page_serves_every_size() {
  test::device_array<Page> page(std::vector<Page>(1));
  test::device_array<unsigned> clock(1), in(1);
  test::device_array<visit> visits(4 * 3);
  gpuheap::launch(4, visit_page<Page>{page.data(), clock.data(), visits.data(), 3, 2, 2});
  gpuheap::launch(1, enter_alone<Page>{page.data(), in.data()});
  return in.first() == 2;
}
TEST(Hazard4, AnEmptyPageKeepsItsSize) {
  expect_right(num_seeds(3000), an_empty_page_serves_every_size<page_of_one_word>);
  expect_found(3000, an_empty_page_serves_every_size<published_page>);
}
// A refused thread found as many others in the page as the page has chunks, at one moment between its question and the answer.
template <class Page>
bool refusals_are_right() {
  constexpr unsigned threads = 4, rounds = 3, capacity = 1;
  test::device_array<Page> page(std::vector<Page>(1));
  test::device_array<unsigned> clock(1);
  test::device_array<visit> visits(threads * rounds);
  gpuheap::launch(threads, visit_page<Page>{page.data(), clock.data(), visits.data(), rounds, capacity, 1});
  auto const all = visits.read();
  for (visit const& refused : all) {
    if (refused.end != 0) continue;
    bool was_full = false;
    for (visit const& other : all) was_full |= other.end > refused.begin && other.begin < refused.answer;
    if (!was_full) return false;
  }
  return true;
}
TEST(Hazard8, AFailedRequestHidesAFreeChunkFromOthers) {
  expect_right(num_seeds(3000), refusals_are_right<page_of_one_word>);
  expect_found(5000, refusals_are_right<published_page>);
}

// Counts in by an addition and checks the size only: a page of another size, or a full one, may be what it has counted itself into.
struct slab_that_adds : gpuheap::structures::slab_state {
  bool reserve(slab_word&, unsigned n) const {
    ref().fetch_add(n, simt::acq_rel);
    return true;
  }
};
struct parts_that_add : scatter::parts {
  using slab = slab_that_adds;
};
// Kernel: threads that keep one block at a time, of a size that changes.
template <class Ref>
struct keep_one {
  Ref heap;
  unsigned* owners;  // one for each 16 bytes of the pages
  char* pages;
  unsigned* wrong;
  unsigned rounds;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const bytes = 16u << random.below(7);
      auto* const p = static_cast<char*>(heap.malloc(bytes));
      if (p == nullptr) continue;
      unsigned* const mine = owners + (p - pages) / 16;
      for (unsigned u = 0; u < bytes / 16; ++u) change(mine[u], 0, i + 1);
      for (unsigned u = 0; u < bytes / 16; ++u) change(mine[u], i + 1, 0);
      heap.free(p);
    }
  }
  // relaxed: the test counts threads that have a block at the same time.
  GPUHEAP_FN void change(unsigned& owner, unsigned from, unsigned to) const {
    if (simt::atomic_ref<unsigned>{owner}.exchange(to, simt::relaxed) != from) {
      simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
    }
  }
};
template <class Parts>
bool blocks_have_one_owner() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of_pages<heap_t>(4)};
  auto const at = heap.ref().allocator().geometry();
  test::device_array<unsigned> owners(at.max_pages * at.page_units), wrong(1);
  gpuheap::launch(40, keep_one<typename heap_t::ref_type>{heap.ref(), owners.data(), at.pages, wrong.data(), 6}, {.block_threads = 64});
  return wrong.first() == 0 && heap.verify().problem.empty() && heap.verify().held_pages == 0;
}
TEST(Hazard4, AResetPageHandsOutAChunkTwice) {
  expect_right(num_seeds(1500), blocks_have_one_owner<scatter::parts>);
  expect_found(1500, blocks_have_one_owner<parts_that_add>);
}

// A page that has had a size never gets another one.
struct slab_of_one_size : gpuheap::structures::slab_state {
  bool open(slab_word& seen, unsigned kind, unsigned n, bool prepares) const {
    if (seen.kind() != 0) {
      seen = slab_word::of(seen.kind(), slab_word::max_fill);
      return false;
    }
    return slab_state::open(seen, kind, n, prepares);
  }
};
struct parts_of_one_size : scatter::parts {
  using slab = slab_of_one_size;
};
template <class Parts>
bool pages_serve_one_size_after_another() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of_pages<heap_t>(30)};
  unsigned const pages = num_pages(heap);
  for (unsigned bytes : {16u, 1024u, 48u, 500u, 128u}) {
    unsigned const each = heap.ref().allocator().geometry().capacity((bytes + 15) / 16);
    if (served(heap, pages * each + 5, bytes) != pages * each) return false;
    if (served(heap, 1, simt::size_t{pages} * 1024) != 1) return false;
  }
  return true;
}
TEST(Hazard5, PagesKeepTheirFirstSize) {
  EXPECT_TRUE(pages_serve_one_size_after_another<scatter::parts>());
  EXPECT_FALSE(pages_serve_one_size_after_another<parts_of_one_size>()) << "the test does not see the published mistake";
}

// ---- 6: hints of segments

// As in an early form: the free that ends a full segment clears its hint, and nobody looks again after setting one.
struct chunks_without_second_look : gpuheap::structures::hinted_bits {
  unsigned claim(unsigned start) const {
    unsigned s = start / 32, bit = segment(s).claim(start % 32);
    unsigned const n = segments_for(count);
    // Ends: the caller has a reservation.
    for (; bit == gpuheap::structures::free_bits::none; bit = segment(s).claim(0)) {
      simt::atomic_ref<word>{*hints}.fetch_or(word{1} << s, simt::acq_rel);
      s = s + 1 == n ? 0 : s + 1;
    }
    return s * 32 + bit;
  }
};
struct parts_without_second_look : scatter::parts {
  using chunks = chunks_without_second_look;
};
// Kernel: blocks of 16 bytes come and go in a page or two that are nearly full.
template <class Ref>
struct come_and_go {
  Ref heap;
  unsigned rounds;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    void* held[2] = {};
    for (unsigned round = 0; round < rounds; ++round) {
      void*& slot = held[random.below(2)];
      heap.free(slot);
      slot = heap.malloc(16);
    }
    heap.free(held[0]);
    heap.free(held[1]);
  }
};
template <class Parts>
bool hints_are_of_full_segments() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of_pages<heap_t>(4)};
  blocks_of<heap_t> stay(heap.ref(), 50, 16);
  stay.malloc_all();
  gpuheap::launch(40, come_and_go<typename heap_t::ref_type>{heap.ref(), 5}, {.block_threads = 64});
  if (!heap.verify().problem.empty()) return false;
  stay.free_all();
  return heap.verify().problem.empty() && heap.verify().held_pages == 0;
}
TEST(Hazard6, ALateHintHidesASegmentForEver) {
  expect_right(num_seeds(2000), hints_are_of_full_segments<scatter::parts>);
  expect_found(4000, hints_are_of_full_segments<parts_without_second_look>);
}

}  // namespace
