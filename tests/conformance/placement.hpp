// Cases of the places of blocks: aligned, inside the heap, apart, for any shape of call. Their contents stay.
#pragma once

#include <algorithm>

#include "suite.hpp"

namespace conformance {

template <class A>
struct aligns_and_separates_blocks {
  static constexpr char const* name = "AlignsAndSeparatesBlocks";
  static constexpr bool applies = true;
  static void run() {
    heap_under_test<A> heap;
    for (std::size_t bytes : {1, 8, 16, 24, 100, 256, 1000}) {
      blocks_of<A> b(heap.ref(), scale<A>::threads, bytes);
      b.malloc_all();
      EXPECT_EQ(b.failed_requests(), 0u) << bytes << " bytes";
      b.expect_sound(std::max<std::size_t>(16, A::traits.min_alignment), heap.where());
      b.fill();
      b.expect_intact("after they were filled");
      b.free_all();
      if constexpr (can_reset<A>) heap->reset();
    }
  }
};

template <class A>
struct serves_each_lane_its_own_size {
  static constexpr char const* name = "ServesEachLaneItsOwnSize";
  static constexpr bool applies = true;
  static void run() {
    heap_under_test<A> heap;
    blocks_of<A> b(heap.ref(), mixed_sizes(scale<A>::threads, scale<A>::mixed_bytes, 1));
    b.malloc_all();
    EXPECT_EQ(b.failed_requests(), 0u);
    b.expect_sound(A::traits.min_alignment, heap.where());
    b.fill();
    b.expect_intact("after they were filled");
    b.free_all();
  }
};

// Half of the blocks are freed and others take their place; the half that stays must not change.
template <class A>
struct keeps_contents_while_others_come_and_go {
  static constexpr char const* name = "KeepsContentsWhileOthersComeAndGo";
  static constexpr bool applies = gives_back<A>;
  static void run() {
    heap_under_test<A> heap;
    blocks_of<A> stay(heap.ref(), mixed_sizes(scale<A>::threads / 2, scale<A>::mixed_bytes, 2));
    std::vector<std::size_t> const sizes = mixed_sizes(scale<A>::threads / 2, scale<A>::mixed_bytes, 3);
    std::optional<blocks_of<A>> go;
    go.emplace(heap.ref(), sizes);
    stay.malloc_all();
    go->malloc_all();
    stay.fill();
    go->fill();
    for (unsigned round = 0; round < 4; ++round) {
      go->expect_intact("before they were freed");
      go->free_all(7 + round);
      go.emplace(heap.ref(), mixed_sizes(scale<A>::threads / 2, scale<A>::mixed_bytes, 4 + round));
      go->malloc_all();
      EXPECT_EQ(go->failed_requests(), 0u);
      go->expect_sound(A::traits.min_alignment, heap.where());
      go->fill();
      stay.expect_intact("while others came and went");
    }
    go->free_all();
    stay.free_all();
    expect_all_freed(heap);
  }
};

// Kernel: warps call in every state of divergence: one lane, some lanes with sizes of their own, after others have left, from both arms of
// a branch, from loops of different lengths.
template <class Ref>
struct call_divergently {
  Ref heap;
  void** out;          // by thread
  std::size_t* sizes;  // likewise: what was asked
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const lane = simt::lane_id();
    std::size_t asked = 0;
    void* p = nullptr;
    unsigned const kind = i / simt::warp_lanes % 5;
    if (kind == 0) {
      if (lane == i / 7 % simt::warp_lanes) asked = 48;
    } else if (kind == 1) {
      if (lane % 4 != 2) asked = lane % 4 == 0 ? 16 : lane % 4 == 1 ? 17 + lane : 8 * lane;
    } else if (kind == 2) {
      if (lane > 20) return;  // those leave before the others call
      asked = 64;
    }
    if (asked != 0) {
      p = heap.malloc(asked);
    } else if (kind == 3 && lane % 2 == 0) {
      p = heap.malloc(asked = 40);
    } else if (kind >= 3) {
      for (unsigned pass = 0; pass <= lane; ++pass) {
        heap.free(p);
        p = heap.malloc(asked = 32 + pass);
      }
    }
    out[i] = p;
    sizes[i] = asked;
  }
};
template <class A>
struct serves_divergent_warps {
  static constexpr char const* name = "ServesDivergentWarps";
  static constexpr bool applies = true;
  static void run() {
    heap_under_test<A> heap;
    // 77 threads per block: the last warp of each block is partial.
    unsigned const threads = scale<A>::threads / 2;
    blocks_of<A> b(heap.ref(), threads, 0);
    gpuheap::launch(threads,
                    call_divergently<typename heap_under_test<A>::ref_type>{heap.ref(), b.pointers().data(), b.device_sizes().data()},
                    {.block_threads = 77});
    auto const pointers = b.pointers().read();
    auto const sizes = b.device_sizes().read();
    for (unsigned i = 0; i < threads; ++i)
      ASSERT_EQ(pointers[i] == nullptr, sizes[i] == 0) << "thread " << i << ", " << sizes[i] << " bytes";
    blocks_of<A> made(heap.ref(), sizes);
    made.pointers().write(pointers);
    made.expect_sound(A::traits.min_alignment, heap.where());
    made.fill();
    made.expect_intact("after they were filled");
    made.free_all();
  }
};

template <class A>
struct serves_one_thread {
  static constexpr char const* name = "ServesOneThread";
  static constexpr bool applies = true;
  static void run() {
    heap_under_test<A> heap;
    for (std::size_t bytes = 1; bytes <= 64_KiB; bytes = bytes * 2 + 1) {
      blocks_of<A> b(heap.ref(), 1, bytes);
      b.malloc_all();
      EXPECT_EQ(b.failed_requests(), 0u) << bytes << " bytes";
      b.expect_sound(A::traits.min_alignment, heap.where());
      b.fill();
      b.expect_intact("after it was filled");
      b.free_all();
    }
  }
};

template <class A>
struct keeps_heaps_apart {
  static constexpr char const* name = "KeepsHeapsApart";
  static constexpr bool applies = !A::traits.process_wide;
  static void run() {
    heap_under_test<A> first(8_MiB), second(8_MiB);
    blocks_of<A> a(first.ref(), mixed_sizes(500, 2000, 5)), b(second.ref(), mixed_sizes(500, 2000, 6));
    a.malloc_all();
    b.malloc_all();
    EXPECT_EQ(a.failed_requests() + b.failed_requests(), 0u);
    a.expect_sound(A::traits.min_alignment, first.where());
    b.expect_sound(A::traits.min_alignment, second.where());
    a.fill();
    b.fill();
    a.expect_intact("in the first of two heaps");
    b.expect_intact("in the second of two heaps");
    EXPECT_EQ(first->stats().live_allocations, 500u);
    a.free_all();
    release_warps(first);
    EXPECT_EQ(first->stats().live_allocations, 0u);
    EXPECT_EQ(second->stats().live_allocations, 500u);
    b.expect_intact("after the other heap's blocks were freed");
  }
};

// Kernel: the lanes of each warp take turns between two heaps.
template <class Ref>
struct malloc_from_two {
  Ref even, odd;
  void** out;
  GPUHEAP_FN void operator()(unsigned i) const {
    Ref const mine = i % 2 == 0 ? even : odd;
    out[i] = mine.malloc(100);
  }
};
template <class Ref>
struct free_to_two {
  Ref even, odd;
  void* const* blocks;
  GPUHEAP_FN void operator()(unsigned i) const {
    Ref const mine = i % 2 == 0 ? even : odd;
    mine.free(blocks[i]);
  }
};
template <class A>
struct keeps_heaps_apart_within_a_warp {
  static constexpr char const* name = "KeepsHeapsApartWithinAWarp";
  static constexpr bool applies = !A::traits.process_wide;
  static void run() {
    using ref = typename heap_under_test<A>::ref_type;
    heap_under_test<A> even(8_MiB), odd(8_MiB);
    blocks_of<A> all(even.ref(), 1000, 100);
    gpuheap::launch(1000, malloc_from_two<ref>{even.ref(), odd.ref(), all.pointers().data()});
    auto const p = all.pointers().read();
    std::vector<void*> of_even(1000), of_odd(1000);
    for (std::size_t i = 0; i < p.size(); ++i) (i % 2 == 0 ? of_even : of_odd)[i] = p[i];
    all.pointers().write(of_even);
    all.expect_sound(A::traits.min_alignment, even.where());
    all.pointers().write(of_odd);
    all.expect_sound(A::traits.min_alignment, odd.where());
    all.pointers().write(p);
    EXPECT_EQ(all.failed_requests(), 0u);
    all.fill();
    all.expect_intact("in two heaps that one warp uses");
    EXPECT_EQ(even->stats().live_allocations, 500u);
    EXPECT_EQ(odd->stats().live_allocations, 500u);
    gpuheap::launch(1000, free_to_two<ref>{even.ref(), odd.ref(), all.pointers().data()});
    release_warps(even);
    release_warps(odd);
    expect_all_freed(even);
    expect_all_freed(odd);
  }
};

template <class A>
void register_placement(char const* allocator) {
  register_cases<A, aligns_and_separates_blocks, serves_each_lane_its_own_size, keeps_contents_while_others_come_and_go,
                 serves_divergent_warps, serves_one_thread, keeps_heaps_apart, keeps_heaps_apart_within_a_warp>(allocator);
}

}  // namespace conformance
