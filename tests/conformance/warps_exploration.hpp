// Collective frees under many schedules.
#pragma once

#include "exploration.hpp"
#include "warps.hpp"

namespace conformance {

// Groups of one warp fill a small heap at once: what is served is apart, the rest is null, and all of it comes back.
template <class A>
struct keeps_groups_of_a_warp_apart_under_many_schedules {
  static constexpr char const* name = "KeepsGroupsOfAWarpApartUnderManySchedules";
  static constexpr bool applies = gives_back_by_warp<A> && !A::traits.process_wide;
  static void run() {
    explore_case(800, [] {
      heap_under_test<A> heap(cramped_bytes<A>());
      std::size_t const held_new = held_bytes(heap);
      constexpr unsigned requests = 3;
      blocks_of<A> b(heap.ref(), mixed_sizes(explored_threads * requests, 600, 1));
      for (unsigned refill = 0; refill < 2; ++refill) {
        gpuheap::launch(explored_threads,
                        ask_in_groups<typename heap_under_test<A>::ref_type>{heap.ref(), b.device_sizes().data(), b.pointers().data(),
                                                                             explored_threads, requests},
                        {.block_threads = 64});
        b.expect_sound(A::traits.min_alignment, heap.where());
        b.fill();
        b.expect_intact("of groups that asked at once");
        EXPECT_LT(b.failed_requests(), b.count());
        release_warps(heap);
        expect_all_freed(heap);
        EXPECT_EQ(held_bytes(heap), held_new);
      }
    });
  }
};

// Warps come and go in a heap that is often full, each with all it has.
template <class A>
struct reuses_what_warps_release_under_many_schedules {
  static constexpr char const* name = "ReusesWhatWarpsReleaseUnderManySchedules";
  static constexpr bool applies = gives_back_by_warp<A>;
  static void run() {
    explore_case(600, [] {
      heap_under_test<A> heap(cramped_bytes<A>());
      std::size_t const held_new = held_bytes(heap);
      test::device_array<unsigned> failed_requests(1), wrong(1);
      for (bool const tidies_up : {false, true}) {
        gpuheap::launch(explored_threads,
                        release_in_rounds<typename heap_under_test<A>::ref_type>{heap.ref(), explored_threads, 3, 700, tidies_up,
                                                                                 failed_requests.data(), wrong.data()},
                        {.block_threads = 64});
      }
      EXPECT_EQ(wrong.first(), 0u) << "a block's contents changed";
      expect_all_freed(heap);
      EXPECT_EQ(held_bytes(heap), held_new);
    });
  }
};

template <class A>
void register_warps_exploration(char const* allocator) {
  register_cases<A, keeps_groups_of_a_warp_apart_under_many_schedules, reuses_what_warps_release_under_many_schedules>(allocator);
}

}  // namespace conformance
