// Cases at the limits of a heap: requests that nothing fits, sizes that no heap has, requests for 0 bytes.
#pragma once

#include "suite.hpp"

namespace conformance {

// Kernel, one thread: which powers of two a heap serves now, one after the other.
template <class Ref>
struct try_every_size {
  Ref heap;
  unsigned* served;  // by log2
  unsigned count;
  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned k = 0; k < count; ++k) {
      void* const p = heap.malloc(simt::size_t{1} << k);
      served[k] = p != nullptr;
      free_or_release(heap, p);
    }
  }
};
template <class A>
std::vector<unsigned> sizes_served(heap_under_test<A>& heap) {
  test::device_array<unsigned> served(simt::ceil_log2(scale<A>::heap_bytes));
  gpuheap::launch(1,
                  try_every_size<typename heap_under_test<A>::ref_type>{heap.ref(), served.data(), static_cast<unsigned>(served.size())});
  return served.read();
}

// As many requests of one size as the heap cannot hold.
template <class A>
struct answers_null_when_full {
  static constexpr char const* name = "AnswersNullWhenFull";
  static constexpr bool applies = !A::traits.overwrites;
  static void run() {
    heap_under_test<A> heap;
    for (std::size_t const bytes : {scale<A>::heap_bytes / num_blocks(2048), scale<A>::heap_bytes / 100}) {
      blocks_of<A> b(heap.ref(), scale<A>::heap_bytes / bytes + 100, bytes);
      b.malloc_all();
      std::size_t const failed_requests = b.failed_requests();
      EXPECT_GE(failed_requests, 100u);
      EXPECT_LT(failed_requests, b.count()) << "not one block of " << bytes << " bytes fits into " << scale<A>::heap_bytes;
      b.expect_sound(A::traits.min_alignment, heap.where());
      gpuheap::statistics const s = heap->stats();
      EXPECT_EQ(s.failed_requests, failed_requests);
      EXPECT_EQ(s.first_failure.bytes, bytes);
      EXPECT_EQ(s.live_allocations, b.count() - failed_requests);
      b.fill();
      b.expect_intact("in a full heap");
      b.free_all();
      if constexpr (!can_reset<A>) break;
      if constexpr (can_reset<A>) heap->reset();
    }
  }
};

// Fill, free all, and every size is served again that a new heap serves, or at least the same one.
template <class A>
struct recovers_from_exhaustion {
  static constexpr char const* name = "RecoversFromExhaustion";
  static constexpr bool applies = gives_back<A>;
  static void run() {
    heap_under_test<A> heap;
    std::vector<unsigned> const served_new = sizes_served(heap);
    EXPECT_EQ(served_new[4], 1u) << "a new heap has no 16 bytes";
    for (std::size_t const bytes :
         {scale<A>::heap_bytes / num_blocks(8192), scale<A>::heap_bytes / num_blocks(1000), scale<A>::heap_bytes / 37}) {
      blocks_of<A> b(heap.ref(), scale<A>::heap_bytes / bytes + 50, bytes);
      b.malloc_all();
      EXPECT_GT(b.failed_requests(), 0u) << bytes << " bytes";
      for (auto const answer : b.free_all(11)) ASSERT_TRUE(answer == gpuheap::free_status::done || answer == gpuheap::free_status::null);
      expect_all_freed(heap);
      if constexpr (A::traits.full_reuse) {
        EXPECT_EQ(sizes_served(heap), served_new) << "after the heap was full of blocks of " << bytes << " bytes and all were freed";
      } else {
        // Small blocks need not join: the same sizes fit again.
        blocks_of<A> again(heap.ref(), b.count() - 50, bytes);
        again.malloc_all();
        EXPECT_LT(again.failed_requests(), again.count());
        again.free_all();
        if constexpr (!can_reset<A>) break;
        if constexpr (can_reset<A>) heap->reset();
      }
    }
  }
};

// In a full heap every freed block makes room for one of its size, whoever asks.
template <class A>
struct serves_from_a_full_heap_what_is_freed {
  static constexpr char const* name = "ServesFromAFullHeapWhatIsFreed";
  static constexpr bool applies = gives_back<A> && A::traits.reuses_singly && !A::traits.process_wide;
  static void run() {
    heap_under_test<A> heap;
    std::size_t const bytes = scale<A>::of_its_own(scale<A>::heap_bytes / num_blocks(4096));
    blocks_of<A> b(heap.ref(), scale<A>::heap_bytes / bytes + 10, bytes);
    b.malloc_all();
    ASSERT_GT(b.failed_requests(), 0u);
    // Every third block goes.
    auto const all = b.pointers().read();
    std::vector<void*> go;
    for (std::size_t i = 0; i < all.size(); i += 3) {
      if (all[i] != nullptr) go.push_back(all[i]);
    }
    heap->free(go);
    blocks_of<A> again(heap.ref(), go.size(), bytes);
    again.malloc_all();
    EXPECT_EQ(again.failed_requests(), 0u) << "of " << go.size() << " blocks";
    again.expect_sound(A::traits.min_alignment, heap.where());
    EXPECT_EQ(heap->stats().double_frees + heap->stats().foreign_frees, 0u);
  }
};

// Kernel: requests that no heap can serve.
template <class Ref>
struct ask_absurdly {
  Ref heap;
  simt::size_t heap_bytes;
  void** out;
  GPUHEAP_FN void operator()(unsigned i) const {
    simt::size_t const most = ~simt::size_t{0};
    // Near the top, where sums with a header or a rounding wrap around; powers of two; just beyond the heap.
    simt::size_t asked = most - ((simt::size_t{1} << i % 24) - 1);
    if (i % 4 == 1) asked = simt::size_t{1} << (63 - i % 16);
    if (i % 4 == 2) asked = most / (2 + i % 8);
    if (i % 4 == 3) asked = heap_bytes * (1 + i % 5) + 1;
    out[i] = heap.malloc(asked);
  }
};
template <class A>
struct refuses_absurd_sizes {
  static constexpr char const* name = "RefusesAbsurdSizes";
  static constexpr bool applies = true;
  static void run() {
    heap_under_test<A> heap;
    test::device_array<void*> out(64);
    gpuheap::launch(64, ask_absurdly<typename heap_under_test<A>::ref_type>{heap.ref(), heap->bytes(), out.data()});
    for (void* p : out.read()) EXPECT_EQ(p, nullptr);
    EXPECT_EQ(heap->stats().failed_requests, 64u);
    blocks_of<A> b(heap.ref(), 1000, 64);
    b.malloc_all();
    EXPECT_EQ(b.failed_requests(), 0u) << "the heap does not serve any more";
    b.expect_sound(A::traits.min_alignment, heap.where());
    b.free_all();
  }
};

template <class A>
struct answers_no_bytes_with_null {
  static constexpr char const* name = "AnswersNoBytesWithNull";
  static constexpr bool applies = true;
  static void run() {
    heap_under_test<A> heap;
    blocks_of<A> b(heap.ref(), 100, 0);
    b.malloc_all();
    EXPECT_EQ(b.failed_requests(), 100u);
    gpuheap::statistics const s = heap->stats();
    EXPECT_EQ(s.failed_requests, 0u) << "a request for nothing is no failure";
    EXPECT_EQ(s.live_allocations, 0u);
    for (auto const answer : b.free_all()) EXPECT_EQ(answer, gpuheap::free_status::null);
    expect_all_freed(heap);
  }
};

// Kernel: one thread asks for more than the heap has.
template <class Ref>
struct ask_once {
  Ref heap;
  unsigned who;
  simt::size_t bytes;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i == who) heap.free(heap.malloc(bytes));
  }
};
template <class A>
struct records_who_failed_first {
  static constexpr char const* name = "RecordsWhoFailedFirst";
  static constexpr bool applies = true;
  static void run() {
    heap_under_test<A> heap;
    using kernel = ask_once<typename heap_under_test<A>::ref_type>;
    simt::size_t const bytes = heap->bytes() + 12345;
    gpuheap::launch(1000, kernel{heap.ref(), 700, bytes}, {.block_threads = 128});
    gpuheap::launch(1000, kernel{heap.ref(), 5, bytes + 1}, {.block_threads = 128});
    gpuheap::statistics const s = heap->stats();
    EXPECT_EQ(s.failed_requests, 2u);
    EXPECT_EQ(s.first_failure.bytes, bytes);
    EXPECT_EQ(s.first_failure.block, 700u / 128);
    EXPECT_EQ(s.first_failure.thread, 700u % 128);
  }
};

// By design, a block may be handed out again one lap later; within a lap never.
template <class A>
struct does_not_overlap_within_a_lap {
  static constexpr char const* name = "DoesNotOverlapWithinALap";
  static constexpr bool applies = A::traits.overwrites;
  static void run() {
    heap_under_test<A> heap;
    for (unsigned lap = 0; lap < 6; ++lap) {
      // Three fifths of the heap: some of these sets cross the end.
      blocks_of<A> b(heap.ref(),
                     mixed_sizes(scale<A>::threads, static_cast<unsigned>(scale<A>::heap_bytes * 6 / 5 / scale<A>::threads) - 16, lap));
      b.malloc_all();
      EXPECT_EQ(b.failed_requests(), 0u);
      // At most one wrap happens in a set, and it must not reach the set's own start.
      auto const where = heap.where();
      b.expect_sound(A::traits.min_alignment, where);
    }
  }
};

template <class A>
void register_exhaustion(char const* allocator) {
  register_cases<A, answers_null_when_full, recovers_from_exhaustion, serves_from_a_full_heap_what_is_freed, refuses_absurd_sizes,
                 answers_no_bytes_with_null, records_who_failed_first, does_not_overlap_within_a_lap>(allocator);
}

}  // namespace conformance
