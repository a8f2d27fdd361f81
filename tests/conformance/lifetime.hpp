// Cases of the end of blocks: any thread frees them, at any later time, and their memory serves again.
#pragma once

#include <algorithm>

#include "suite.hpp"

namespace conformance {

// One kernel allocates, later ones verify and free in an order that sends each block to another warp.
template <class A>
struct frees_from_other_warps_and_kernels {
  static constexpr char const* name = "FreesFromOtherWarpsAndKernels";
  static constexpr bool applies = A::traits.free != gpuheap::frees::collectively;
  static void run() {
    heap_under_test<A> heap;
    for (unsigned stride : {1u, 2u, 33u, 101u}) {
      blocks_of<A> b(heap.ref(), mixed_sizes(scale<A>::threads, scale<A>::mixed_bytes / 4, stride));
      b.malloc_all();
      EXPECT_EQ(b.failed_requests(), 0u);
      b.fill();
      b.expect_intact("before a later kernel freed them");
      for (auto const answer : b.free_all(stride)) ASSERT_EQ(answer, gpuheap::free_status::done);
      expect_all_freed(heap);
      if constexpr (!gives_back<A> && can_reset<A>) heap->reset();
    }
  }
};

// In all, several times the heap's size is allocated.
template <class A>
struct reuses_freed_memory {
  static constexpr char const* name = "ReusesFreedMemory";
  static constexpr bool applies = gives_back<A>;
  static void run() {
    heap_under_test<A> heap;
    std::size_t const count = num_blocks(scale<A>::threads);
    std::size_t const bytes = scale<A>::of_its_own(scale<A>::heap_bytes / 3 / count);
    for (unsigned round = 0; round < 12; ++round) {
      blocks_of<A> b(heap.ref(), count, bytes);
      b.malloc_all();
      ASSERT_EQ(b.failed_requests(), 0u) << "round " << round;
      b.expect_sound(A::traits.min_alignment, heap.where());
      b.free_all(round + 1);
    }
    expect_all_freed(heap);
  }
};

// Memory that served one size serves every other when it is free.
template <class A>
struct serves_other_sizes_from_freed_memory {
  static constexpr char const* name = "ServesOtherSizesFromFreedMemory";
  static constexpr bool applies = gives_back<A> && A::traits.full_reuse && A::traits.largest_bytes == 0 && !A::traits.process_wide;
  static void run() {
    heap_under_test<A> heap;
    for (std::size_t bytes : {64, 4096, 16, 1024, 65536, 200}) {
      // A third of the heap, at most as many blocks as the machine runs in a moment.
      std::size_t const count = std::min<std::size_t>(scale<A>::heap_bytes / 3 / bytes, num_blocks(4 * scale<A>::threads));
      blocks_of<A> b(heap.ref(), count, bytes);
      b.malloc_all();
      EXPECT_EQ(b.failed_requests(), 0u) << bytes << " bytes";
      b.expect_sound(A::traits.min_alignment, heap.where());
      b.free_all(5);
    }
    expect_all_freed(heap);
  }
};

// Kernel: each thread keeps four live blocks of random sizes and replaces one at a time, verifying what it wrote.
template <class Ref>
struct churn {
  Ref heap;
  unsigned rounds;
  unsigned most_bytes;
  unsigned* failed_requests;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    void* live[4] = {};
    unsigned sizes[4] = {};
    unsigned bad = 0, refused = 0;
    for (unsigned round = 0; round < rounds + 4; ++round) {
      unsigned const slot = round % 4;
      if (live[slot] != nullptr) {
        bad += test::wrong_words(live[slot], sizes[slot], simt::uint64_t{i} << 32 | (round - 4));
        heap.free(live[slot]);
        live[slot] = nullptr;
      }
      if (round >= rounds) continue;
      sizes[slot] = 1 + random.below(most_bytes);
      live[slot] = heap.malloc(sizes[slot]);
      refused += live[slot] == nullptr;
      if (live[slot] != nullptr) test::fill_pattern(live[slot], sizes[slot], simt::uint64_t{i} << 32 | round);
    }
    // relaxed, both: counts.
    if (bad != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(bad, simt::relaxed);
    if (refused != 0) simt::atomic_ref<unsigned>{*failed_requests}.fetch_add(refused, simt::relaxed);
  }
};
template <class A>
struct survives_churn_within_a_kernel {
  static constexpr char const* name = "SurvivesChurnWithinAKernel";
  static constexpr bool applies = gives_back<A>;
  static void run() {
    heap_under_test<A> heap;
    test::device_array<unsigned> failed_requests(1), wrong(1);
    for (unsigned launch = 0; launch < 2; ++launch) {
      gpuheap::launch(scale<A>::threads,
                      churn<typename heap_under_test<A>::ref_type>{heap.ref(), on_gpu ? 16u : 8u, scale<A>::mixed_bytes / 4,
                                                                   failed_requests.data(), wrong.data()});
    }
    EXPECT_EQ(failed_requests.first(), 0u) << "live blocks fill less than a quarter of the heap";
    EXPECT_EQ(wrong.first(), 0u);
    expect_all_freed(heap);
  }
};

// The first words of a message.
struct letter {
  simt::uint64_t key;
  simt::uint64_t bytes;
};
// Kernel: threads exchange blocks through mailboxes; the receiver of a block verifies and frees it.
template <class Ref>
struct exchange_letters {
  Ref heap;
  void** mailboxes;
  unsigned num_mailboxes;
  unsigned rounds;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{simt::uint64_t{i} + 77};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const bytes = 16 + random.below(200);
      void* const mine = heap.malloc(bytes);
      if (mine != nullptr) {
        simt::uint64_t const key = simt::uint64_t{i} << 32 | round;
        simt::plain_write(*static_cast<letter*>(mine), letter{key, bytes});
        test::fill_pattern(static_cast<letter*>(mine) + 1, bytes - sizeof(letter), key);
      }
      // release: publishes the letter's contents. acquire: pairs with the release of the thread that put the other letter there.
      open(simt::atomic_ref<void*>{mailboxes[random.below(num_mailboxes)]}.exchange(mine, simt::acq_rel));
    }
  }
  GPUHEAP_FN void open(void* theirs) const {
    if (theirs == nullptr) return;
    letter const head = simt::plain_read(*static_cast<letter const*>(theirs));
    bool const sane = head.bytes >= sizeof(letter) && head.bytes < 216;
    unsigned const bad = sane ? test::wrong_words(static_cast<letter const*>(theirs) + 1, head.bytes - sizeof(letter), head.key) : 1;
    if (bad != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(bad, simt::relaxed);  // relaxed: a count
    heap.free(theirs);
  }
};
// Kernel: opens what is left in the mailboxes.
template <class Ref>
struct empty_mailboxes {
  exchange_letters<Ref> of;
  GPUHEAP_FN void operator()(unsigned i) const { of.open(of.mailboxes[i]); }
};
template <class A>
struct frees_blocks_of_other_threads_at_once {
  static constexpr char const* name = "FreesBlocksOfOtherThreadsAtOnce";
  static constexpr bool applies = gives_back<A>;
  static void run() {
    using ref = typename heap_under_test<A>::ref_type;
    heap_under_test<A> heap;
    test::device_array<void*> mailboxes(97);
    test::device_array<unsigned> wrong(1);
    exchange_letters<ref> const kernel{heap.ref(), mailboxes.data(), 97, on_gpu ? 16u : 6u, wrong.data()};
    gpuheap::launch(scale<A>::threads, kernel);
    gpuheap::launch(97, empty_mailboxes<ref>{kernel});
    EXPECT_EQ(wrong.first(), 0u);
    EXPECT_EQ(heap->stats().failed_requests, 0u);
    expect_all_freed(heap);
  }
};

template <class A>
struct forgets_everything_on_reset {
  static constexpr char const* name = "ForgetsEverythingOnReset";
  static constexpr bool applies = can_reset<A>;
  static void run() {
    heap_under_test<A> heap;
    auto const ref = heap.ref();  // taken once: reset() must not invalidate it
    for (unsigned round = 0; round < 5; ++round) {
      std::size_t const count = num_blocks(scale<A>::threads);
      blocks_of<A> b(ref, count, scale<A>::of_its_own(scale<A>::heap_bytes / 3 / count));
      b.malloc_all();
      ASSERT_EQ(b.failed_requests(), 0u) << "round " << round;
      b.expect_sound(A::traits.min_alignment, heap.where());
      EXPECT_EQ(heap->stats().live_allocations, count);
      heap->reset();
      expect_all_freed(heap);
    }
  }
};

template <class A>
void register_lifetime(char const* allocator) {
  register_cases<A, frees_from_other_warps_and_kernels, reuses_freed_memory, serves_other_sizes_from_freed_memory,
                 survives_churn_within_a_kernel, frees_blocks_of_other_threads_at_once, forgets_everything_on_reset>(allocator);
}

}  // namespace conformance
