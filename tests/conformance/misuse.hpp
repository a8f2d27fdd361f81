// Frees that must be refused if the traits promise it: a second free, and a free of a pointer that was never handed out. And the free of
// nullptr, which is always allowed.
#pragma once

#include <algorithm>

#include "suite.hpp"

namespace conformance {

template <class A>
struct ignores_the_free_of_null {
  static constexpr char const* name = "IgnoresTheFreeOfNull";
  static constexpr bool applies = true;
  static void run() {
    heap_under_test<A> heap;
    blocks_of<A> b(heap.ref(), 100, 32);
    for (auto const answer : b.free_all()) EXPECT_EQ(answer, gpuheap::free_status::null);  // nothing was allocated
    expect_all_freed(heap);
  }
};

// Kernel: threads 2k and 2k + 1 both free block k, at about the same time.
template <class Ref>
struct free_in_pairs {
  Ref heap;
  void* const* blocks;
  gpuheap::free_status* answers;
  GPUHEAP_FN void operator()(unsigned i) const { answers[i] = heap.free(blocks[i / 2]); }
};
template <class A>
struct refuses_double_frees {
  static constexpr char const* name = "RefusesDoubleFrees";
  static constexpr bool applies = A::traits.detects_double_free;
  static void run() {
    heap_under_test<A> heap;
    // Their neighbours stay, so that the freed blocks' memory is not given to other uses between the two frees.
    std::size_t const bytes = 64;
    blocks_of<A> b(heap.ref(), 1024, bytes);
    b.malloc_all();
    b.fill();
    auto const pointers = b.pointers().read();
    std::vector<void*> go;
    for (std::size_t i = 0; i < pointers.size(); i += 2) go.push_back(pointers[i]);
    test::device_array<void*> doomed(go);

    test::device_array<gpuheap::free_status> answers(2 * go.size());
    gpuheap::launch(static_cast<unsigned>(2 * go.size()),
                    free_in_pairs<typename heap_under_test<A>::ref_type>{heap.ref(), doomed.data(), answers.data()});
    auto const said = answers.read();
    for (std::size_t k = 0; k < go.size(); ++k) {
      bool const one = (said[2 * k] == gpuheap::free_status::done) != (said[2 * k + 1] == gpuheap::free_status::done);
      ASSERT_TRUE(one) << "two threads freed block " << k << ", and not exactly one was told that it did";
      auto const other = said[2 * k] == gpuheap::free_status::done ? said[2 * k + 1] : said[2 * k];
      ASSERT_EQ(other, gpuheap::free_status::double_free);
    }
    heap->free(go);  // once more, in a later kernel
    gpuheap::statistics const s = heap->stats();
    EXPECT_EQ(s.double_frees, 2 * go.size());
    EXPECT_EQ(s.foreign_frees, 0u);
    EXPECT_NE(std::find(go.begin(), go.end(), s.first_double_free), go.end());
    EXPECT_EQ(s.live_allocations, 1024u - go.size());

    // The heap is as it should be: what is served now is apart from what lives.
    std::vector<void*> kept = pointers;
    for (std::size_t i = 0; i < kept.size(); i += 2) kept[i] = nullptr;
    b.pointers().write(kept);
    blocks_of<A> more(heap.ref(), 2000, bytes);
    more.malloc_all();
    more.fill();
    b.expect_intact("after double frees");
    more.expect_intact("after double frees");
    more.expect_sound(A::traits.min_alignment, heap.where());
    more.free_all();
    b.free_all();
    EXPECT_EQ(heap->stats().live_allocations, 0u);
  }
};

// Kernel: realloc of blocks that are free, in two sizes, and of places within live ones.
template <class Ref>
struct realloc_wrongly {
  Ref heap;
  void* const* freed;
  void* const* live;
  void** answers;
  GPUHEAP_FN void operator()(unsigned i) const {
    if constexpr (gpuheap::has_usable_size<typename Ref::allocator_type>) {
      answers[3 * i] = heap.realloc(freed[i], 64);
      answers[3 * i + 1] = heap.realloc(freed[i], 3000);
      answers[3 * i + 2] = heap.realloc(static_cast<char*>(live[i]) + 16, 64);
    }
  }
};
template <class A>
struct refuses_reallocs_of_wrong_pointers {
  static constexpr char const* name = "RefusesReallocsOfWrongPointers";
  static constexpr bool applies =
      A::traits.detects_double_free && A::traits.detects_foreign_free && gpuheap::has_usable_size<A> && !gpuheap::has_realloc<A>;
  static void run() {
    heap_under_test<A> heap;
    blocks_of<A> b(heap.ref(), 512, 64);
    b.malloc_all();
    auto pointers = b.pointers().read();
    std::vector<void*> go, stay;
    for (std::size_t i = 0; i < pointers.size(); ++i) (i % 2 == 0 ? go : stay).push_back(pointers[i]);
    heap->free(go);
    test::device_array<void*> const freed(go), live(stay);
    test::device_array<void*> answers(3 * go.size());
    using ref = typename heap_under_test<A>::ref_type;
    gpuheap::launch(static_cast<unsigned>(go.size()), realloc_wrongly<ref>{heap.ref(), freed.data(), live.data(), answers.data()});
    for (void* p : answers.read()) EXPECT_EQ(p, nullptr);
    gpuheap::statistics const s = heap->stats();
    EXPECT_EQ(s.double_frees, 2 * go.size());
    EXPECT_EQ(s.foreign_frees, go.size());
    EXPECT_EQ(s.live_allocations, stay.size());
    heap->free(stay);
    EXPECT_EQ(heap->stats().live_allocations, 0u);
  }
};

template <class A>
struct refuses_foreign_frees {
  static constexpr char const* name = "RefusesForeignFrees";
  static constexpr bool applies = A::traits.detects_foreign_free;
  static void run() {
    heap_under_test<A> heap, other(8_MiB);
    blocks_of<A> b(heap.ref(), 512, 256), elsewhere(other.ref(), 4, 256);
    b.malloc_all();
    elsewhere.malloc_all();
    b.fill();
    auto const mine = b.pointers().read();
    auto const theirs = elsewhere.pointers().read();
    auto* const base = static_cast<char*>(heap.where().base);
    test::device_array<void*> not_of_a_heap(1);

    // Into the middle of blocks, aligned and not; into other memory; beside the heap; into its own bookkeeping; nowhere.
    std::vector<void*> foreign{static_cast<char*>(mine[0]) + 1,
                               static_cast<char*>(mine[1]) + 8,
                               static_cast<char*>(mine[2]) + 16,
                               static_cast<char*>(mine[3]) + 128,
                               theirs[0],
                               not_of_a_heap.data(),
                               base - 16,
                               base - 4096,
                               base + heap.where().bytes,
                               base + heap.where().bytes - 64,
                               base,
                               base + 64,
                               reinterpret_cast<void*>(std::uintptr_t{16}),
                               reinterpret_cast<void*>(~std::uintptr_t{15})};
    heap->free(foreign);
    gpuheap::statistics const s = heap->stats();
    EXPECT_EQ(s.foreign_frees, foreign.size());
    EXPECT_EQ(s.double_frees, 0u);
    EXPECT_EQ(s.live_allocations, 512u);
    EXPECT_NE(std::find(foreign.begin(), foreign.end(), s.first_foreign_free), foreign.end());
    b.expect_intact("after foreign frees");
    for (auto const answer : b.free_all()) ASSERT_EQ(answer, gpuheap::free_status::done);
    EXPECT_EQ(heap->stats().live_allocations, 0u);
    EXPECT_EQ(heap->stats().live_bytes, 0u);
  }
};

// A larger block, of whole segments where the allocator has such.
template <class A>
struct refuses_bad_frees_of_large_blocks {
  static constexpr char const* name = "RefusesBadFreesOfLargeBlocks";
  static constexpr bool applies = A::traits.detects_double_free && A::traits.detects_foreign_free && A::traits.largest_bytes == 0;
  static void run() {
    heap_under_test<A> heap;
    std::size_t const bytes = scale<A>::heap_bytes / 5;
    blocks_of<A> b(heap.ref(), 3, bytes);
    b.malloc_all();
    ASSERT_EQ(b.failed_requests(), 0u);
    auto const p = b.pointers().read();
    heap->free(std::vector<void*>{static_cast<char*>(p[0]) + 4096, static_cast<char*>(p[1]) + bytes / 2});
    EXPECT_EQ(heap->stats().foreign_frees, 2u);
    heap->free(std::vector<void*>{p[1]});
    heap->free(std::vector<void*>{p[1]});
    gpuheap::statistics const s = heap->stats();
    // Memory that has gone back entirely may be reported as never handed out.
    EXPECT_EQ(s.double_frees + s.foreign_frees, 3u);
    EXPECT_EQ(s.live_allocations, 2u);
    heap->free(std::vector<void*>{p[0], p[2]});
    EXPECT_EQ(heap->stats().live_allocations, 0u);
    b.malloc_all();
    EXPECT_EQ(b.failed_requests(), 0u);
    b.expect_sound(A::traits.min_alignment, heap.where());
  }
};

template <class A>
void register_misuse(char const* allocator) {
  register_cases<A, ignores_the_free_of_null, refuses_double_frees, refuses_reallocs_of_wrong_pointers, refuses_foreign_frees,
                 refuses_bad_frees_of_large_blocks>(allocator);
}

}  // namespace conformance
