// Allocators that take memory back from whole warps: all of it comes back, whichever lanes asked and whichever release, and not before.
#pragma once

#include "exhaustion.hpp"
#include "suite.hpp"

#include <algorithm>

namespace conformance {

// The lanes of a warp that take part in a test: one, seven, all but one, odd ones, all, the two at the ends.
[[nodiscard]] GPUHEAP_HD inline simt::lane_mask lanes_taking_part(unsigned warp) {
  constexpr simt::lane_mask masks[] = {1u << 13, 0x7f0u, 0x7fffffffu, 0xaaaaaaaau, simt::all_lanes, 0x80000001u};
  return masks[warp % 6];
}
// The lanes of a warp that a launch of `threads` threads has. `i`: the index of one of them; blocks are whole warps.
[[nodiscard]] GPUHEAP_HD inline simt::lane_mask lanes_launched(unsigned i, unsigned threads) {
  return static_cast<simt::lane_mask>(simt::low_bits(threads - i / simt::warp_lanes * simt::warp_lanes)) & simt::all_lanes;
}
[[nodiscard]] GPUHEAP_HD inline bool takes_part(unsigned i) {
  return (lanes_taking_part(i / simt::warp_lanes) >> i % simt::warp_lanes & 1) != 0;
}

// Kernel: the lanes that take part ask one time after the other; the others leave, or stay to the end.
template <class Ref>
struct ask_by_some_lanes {
  Ref heap;
  std::size_t const* sizes;  // of request k of thread i: k * threads + i; 0: none
  void** out;
  unsigned threads;
  unsigned requests;
  bool others_leave;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (!takes_part(i)) {
      if (others_leave) return;
    } else {
      for (unsigned k = 0; k < requests; ++k) out[k * threads + i] = heap.malloc(sizes[k * threads + i]);
    }
    simt::sync_warp(lanes_launched(i, threads) & (others_leave ? lanes_taking_part(i / simt::warp_lanes) : simt::all_lanes));
  }
};
// Kernel: all lanes of each warp release together.
template <class Ref>
struct release_by_all_lanes {
  Ref heap;
  unsigned threads;
  GPUHEAP_FN void operator()(unsigned i) const { heap.release_warp(gpuheap::this_warp(lanes_launched(i, threads))); }
};
// Kernel: the lanes that took part release; in a warp of which the launch has none of them, its first.
template <class Ref>
struct release_by_some_lanes {
  Ref heap;
  unsigned threads;
  GPUHEAP_FN void operator()(unsigned i) const {
    simt::lane_mask const mask = lanes_launched(i, threads) & lanes_taking_part(i / simt::warp_lanes);
    if (mask == 0 ? i % simt::warp_lanes == 0 : takes_part(i)) heap.release_warp(gpuheap::this_warp(mask == 0 ? 1u : mask));
  }
};

// The bytes that the allocator holds; 0 if it does not say.
template <class A>
[[nodiscard]] std::size_t held_bytes(heap_under_test<A>& heap) {
  return heap->stats().held_bytes;
}

template <class A>
struct takes_back_what_warps_have {
  static constexpr char const* name = "TakesBackWhatWarpsHave";
  static constexpr bool applies = gives_back_by_warp<A>;
  static void run() {
    using ref = typename heap_under_test<A>::ref_type;
    heap_under_test<A> heap;
    std::size_t const held_new = held_bytes(heap);
    std::vector<unsigned> const served_new = sizes_served(heap);
    EXPECT_EQ(held_bytes(heap), held_new);
    unsigned const threads = scale<A>::threads / 3;  // the last warp is partial
    constexpr unsigned requests = 6;
    for (unsigned round = 0; round < 4; ++round) {
      auto sizes = mixed_sizes(std::size_t{threads} * requests, scale<A>::mixed_bytes / 2, round);
      std::size_t asked = 0;
      for (std::size_t n = 0; n < sizes.size(); ++n) {
        if (!takes_part(static_cast<unsigned>(n % threads))) sizes[n] = 0;
        asked += sizes[n] != 0;
      }
      blocks_of<A> b(heap.ref(), sizes);
      ask_by_some_lanes<ref> const ask{heap.ref(), b.device_sizes().data(), b.pointers().data(), threads, requests, round % 2 == 0};
      gpuheap::launch(threads, ask);
      EXPECT_EQ(b.failed_requests(), b.count() - asked);
      b.expect_sound(A::traits.min_alignment, heap.where());
      b.fill();
      b.expect_intact("before their warps released them");
      b.free_all();
      b.expect_intact("after they were freed one by one, which says nothing");
      EXPECT_EQ(heap->stats().live_allocations, asked);
      if (round == 0) gpuheap::launch(threads, release_by_all_lanes<ref>{heap.ref(), threads});
      if (round == 1) gpuheap::launch(threads, release_by_some_lanes<ref>{heap.ref(), threads});
      if (round >= 2) release_warps(heap);
      expect_all_freed(heap);
      EXPECT_EQ(held_bytes(heap), held_new) << "round " << round;
      if constexpr (A::traits.full_reuse) {
        EXPECT_EQ(sizes_served(heap), served_new) << "round " << round;
      }
    }
    release_warps(heap);  // of nothing
    expect_all_freed(heap);
  }
};

// Every other warp releases; what the others have must not change.
template <class A>
struct takes_back_from_the_calling_warp_only {
  static constexpr char const* name = "TakesBackFromTheCallingWarpOnly";
  static constexpr bool applies = gives_back_by_warp<A>;
  // Kernel: the odd warps release.
  template <class Ref>
  struct release_odd_warps {
    Ref heap;
    unsigned threads;
    GPUHEAP_FN void operator()(unsigned i) const {
      if (i / simt::warp_lanes % 2 == 1) heap.release_warp(gpuheap::this_warp(lanes_launched(i, threads)));
    }
  };
  static void run() {
    heap_under_test<A> heap;
    unsigned const threads = scale<A>::threads / 2;
    auto const of_even_warps = [](std::size_t i) { return i / simt::warp_lanes % 2 == 0; };
    blocks_of<A> b(heap.ref(), mixed_sizes(threads, scale<A>::mixed_bytes / 2, 1));
    b.malloc_all();
    ASSERT_EQ(b.failed_requests(), 0u);
    b.fill();
    gpuheap::launch(threads, release_odd_warps<typename heap_under_test<A>::ref_type>{heap.ref(), threads});
    auto kept = b.pointers().read();
    unsigned stay = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (!of_even_warps(i)) kept[i] = nullptr;
      stay += kept[i] != nullptr;
    }
    b.pointers().write(kept);
    EXPECT_EQ(heap->stats().live_allocations, stay);
    for (unsigned round = 0; round < 3; ++round) {
      blocks_of<A> more(heap.ref(), mixed_sizes(threads, scale<A>::mixed_bytes / 4, 2 + round));
      more.malloc_all();
      EXPECT_EQ(more.failed_requests(), 0u);
      more.fill();
      more.expect_sound(A::traits.min_alignment, heap.where());
      b.expect_intact("when another warp released");
      more.expect_intact("beside blocks that stayed");
    }
    release_warps(heap);
    expect_all_freed(heap);
  }
};

// A full heap answers every lane, and serves again what a new one serves.
template <class A>
struct serves_again_after_releases {
  static constexpr char const* name = "ServesAgainAfterReleases";
  static constexpr bool applies = gives_back_by_warp<A>;
  static void run() {
    heap_under_test<A> heap;
    std::vector<unsigned> const served_new = sizes_served(heap);
    std::size_t const held_new = held_bytes(heap);
    EXPECT_EQ(served_new[4], 1u) << "a new heap has no 16 bytes";
    for (std::size_t const bytes : {scale<A>::heap_bytes / 8192, scale<A>::heap_bytes / 1000, scale<A>::heap_bytes / 37}) {
      blocks_of<A> b(heap.ref(), scale<A>::heap_bytes / bytes + 50, bytes), too_large(heap.ref(), 70, scale<A>::heap_bytes / 2);
      b.malloc_all();
      EXPECT_GT(b.failed_requests(), 0u) << bytes << " bytes";
      EXPECT_LT(b.failed_requests(), b.count());
      b.expect_sound(A::traits.min_alignment, heap.where());
      too_large.malloc_all();
      EXPECT_EQ(too_large.failed_requests(), too_large.count()) << "in a full heap";
      EXPECT_EQ(heap->stats().failed_requests, b.failed_requests() + too_large.count());
      b.fill();
      b.expect_intact("in a full heap");
      release_warps(heap);
      expect_all_freed(heap);
      EXPECT_EQ(held_bytes(heap), held_new);
      if constexpr (A::traits.full_reuse) {
        EXPECT_EQ(sizes_served(heap), served_new) << "after the heap was full of blocks of " << bytes << " bytes";
        heap->reset();
      } else {
        break;
      }
    }
  }
};

// Kernel: a warp fills what it gets, verifies it, and gives it back, again and again.
template <class Ref>
struct release_in_rounds {
  Ref heap;
  unsigned threads;
  unsigned rounds;
  unsigned most_bytes;
  bool tidies_up;  // where there is such a thing; the last time it releases
  unsigned* failed_requests;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const warp = gpuheap::this_warp(lanes_launched(i, threads));
    test::rng random{i};
    unsigned bad = 0, refused = 0;
    for (unsigned round = 0; round < rounds; ++round) {
      void* held[3] = {};
      unsigned sizes[3] = {};
      // Some lanes ask less often.
      for (unsigned k = 0; k < 3 && (k == 0 || (i + k + round) % 4 != 0); ++k) {
        sizes[k] = 1 + random.below(most_bytes);
        held[k] = heap.malloc(sizes[k]);
        refused += held[k] == nullptr;
        if (held[k] != nullptr) test::fill_pattern(held[k], sizes[k], key(i, round, k));
      }
      for (unsigned k = 0; k < 3; ++k) {
        if (held[k] != nullptr) bad += test::wrong_words(held[k], sizes[k], key(i, round, k));
      }
      deallocate_together(warp, round);
    }
    // relaxed, both: counts.
    if (bad != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(bad, simt::relaxed);
    if (refused != 0) simt::atomic_ref<unsigned>{*failed_requests}.fetch_add(refused, simt::relaxed);
  }
  GPUHEAP_FN static simt::uint64_t key(unsigned i, unsigned round, unsigned k) { return simt::uint64_t{i} << 32 | round << 8 | k; }
  template <class Warp>
  GPUHEAP_FN void deallocate_together(Warp const& warp, [[maybe_unused]] unsigned round) const {
    if constexpr (gpuheap::has_tidy_up_warp<typename Ref::allocator_type>) {
      if (tidies_up && round + 1 != rounds) return heap.tidy_up_warp(warp);
    }
    heap.release_warp(warp);
  }
};
template <class A>
struct reuses_what_warps_release {
  static constexpr char const* name = "ReusesWhatWarpsRelease";
  static constexpr bool applies = gives_back_by_warp<A>;
  static void run() {
    heap_under_test<A> heap;
    std::size_t const held_new = held_bytes(heap);
    test::device_array<unsigned> failed_requests(1), wrong(1);
    unsigned const threads = scale<A>::threads / 2;
    for (bool const tidies_up : {false, true}) {
      // Several times the heap in all.
      gpuheap::launch(threads, release_in_rounds<typename heap_under_test<A>::ref_type>{heap.ref(), threads, 40, scale<A>::mixed_bytes / 2,
                                                                                        tidies_up, failed_requests.data(), wrong.data()});
      EXPECT_EQ(failed_requests.first(), 0u) << "live blocks fill less than a quarter of the heap";
      EXPECT_EQ(wrong.first(), 0u);
      expect_all_freed(heap);
      EXPECT_EQ(held_bytes(heap), held_new);
    }
  }
};

// Kernel: the lanes of a warp part into groups that ask at their own pace, several times.
template <class Ref>
struct ask_in_groups {
  Ref heap;
  std::size_t const* sizes;  // of request k of thread i: k * threads + i
  void** out;
  unsigned threads;
  unsigned requests;
  GPUHEAP_FN void operator()(unsigned i) const {
    switch ((i * 7 + i / simt::warp_lanes) % 3) {
      case 0:
        ask(i, 0, requests);
        break;
      case 1:
        ask(i, 0, requests / 2);
        ask(i, requests / 2, requests);
        break;
      default:
        ask(i, 0, 1);
        ask(i, 1, requests);
        break;
    }
  }
  GPUHEAP_FN void ask(unsigned i, unsigned from, unsigned to) const {
    for (unsigned k = from; k < to; ++k) out[k * threads + i] = heap.malloc(sizes[k * threads + i]);
  }
};
template <class A>
struct keeps_groups_of_a_warp_apart {
  static constexpr char const* name = "KeepsGroupsOfAWarpApart";
  static constexpr bool applies = gives_back_by_warp<A>;
  static void run() {
    heap_under_test<A> heap;
    std::size_t const held_new = held_bytes(heap);
    unsigned const threads = scale<A>::threads / 3;
    constexpr unsigned requests = 6;
    blocks_of<A> b(heap.ref(), mixed_sizes(std::size_t{threads} * requests, scale<A>::mixed_bytes / 2, 8));
    gpuheap::launch(threads, ask_in_groups<typename heap_under_test<A>::ref_type>{heap.ref(), b.device_sizes().data(), b.pointers().data(),
                                                                                  threads, requests});
    EXPECT_EQ(b.failed_requests(), 0u);
    b.expect_sound(A::traits.min_alignment, heap.where());
    b.fill();
    b.expect_intact("that groups of one warp asked for");
    release_warps(heap);
    expect_all_freed(heap);
    EXPECT_EQ(held_bytes(heap), held_new);
  }
};

template <class A>
void register_warps(char const* allocator) {
  register_cases<A, takes_back_what_warps_have, takes_back_from_the_calling_warp_only, serves_again_after_releases,
                 reuses_what_warps_release, keeps_groups_of_a_warp_apart>(allocator);
}

}  // namespace conformance
