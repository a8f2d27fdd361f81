// The allocator under many schedules, half of them with stale loads as the C++ memory model allows. The kernels are small and contended, on
// a heap so small that it runs full; the simulator also checks that the accesses of one owner are ordered before those of the next.
// GPUHEAP_SIMULATOR_REPLAY=<seed> replays a failing seed. GPUHEAP_SEEDS sets the number of seeds of each case.
#pragma once

#include "../support/seeds.hpp"
#include "lifetime.hpp"
#include "misuse.hpp"

#include <gpuheap/simt/explore.hpp>

#include <algorithm>

namespace conformance {

using test::num_seeds;

template <class A>
[[nodiscard]] simt::size_t cramped_bytes() {
  return gpuheap::heap<A>::min_bytes() + 48_KiB;
}

inline constexpr unsigned explored_threads = 80;  // two blocks, the second of a partial warp

// Runs `body` for each seed; it has failed when an expectation has.
template <class Body>
void explore_case(std::uint64_t seeds, Body body) {
  simt::exploration const result = simt::explore(num_seeds(seeds), [&] {
    body();
    return !::testing::Test::HasFailure();
  });
  EXPECT_TRUE(result) << result.what << "\nafter " << result.num_runs << " runs, seed " << result.seed;
}

// Kernel: sizes small and large, blocks freed by whoever meets them, requests that find the heap full.
template <class Ref>
struct contend {
  exchange_letters<Ref> letters;
  unsigned large_bytes;
  GPUHEAP_FN void operator()(unsigned i) const {
    Ref const heap = letters.heap;
    test::rng random{simt::uint64_t{i} + 1};
    void* held = nullptr;
    for (unsigned round = 0; round < letters.rounds; ++round) {
      unsigned const bytes = random.below(12) == 0 ? large_bytes : sizeof(letter) + random.below(random.below(3) == 0 ? 1500 : 120);
      void* const p = heap.malloc(bytes);
      if (p == nullptr) continue;
      simt::uint64_t const key = simt::uint64_t{i} << 32 | round;
      // The first words suffice for an overlap to be seen, and keep the runs short.
      unsigned const written = bytes < 64 ? bytes : 64;
      simt::plain_write(*static_cast<letter*>(p), letter{key, written});
      test::fill_pattern(static_cast<letter*>(p) + 1, written - sizeof(letter), key);
      if (random.below(2) == 0) {
        // release: publishes the letter. acquire: pairs with the release of the thread that put the other one there.
        letters.open(simt::atomic_ref<void*>{letters.mailboxes[random.below(letters.num_mailboxes)]}.exchange(p, simt::acq_rel));
      } else {
        letters.open(held);
        held = p;
      }
    }
    letters.open(held);
  }
};
template <class A>
struct survives_contention_under_many_schedules {
  static constexpr char const* name = "SurvivesContentionUnderManySchedules";
  static constexpr bool applies = gives_back<A>;
  static void run() {
    using ref = typename heap_under_test<A>::ref_type;
    explore_case(600, [] {
      heap_under_test<A> heap(cramped_bytes<A>());
      test::device_array<void*> mailboxes(5);
      test::device_array<unsigned> wrong(1);
      exchange_letters<ref> const letters{heap.ref(), mailboxes.data(), 5, 5, wrong.data()};
      for (unsigned launch = 0; launch < 2; ++launch) {
        gpuheap::launch(explored_threads, contend<ref>{letters, static_cast<unsigned>(heap->bytes() / 6)}, {.block_threads = 64});
      }
      gpuheap::launch(5, empty_mailboxes<ref>{letters});
      EXPECT_EQ(wrong.first(), 0u) << "a block's contents changed";
      expect_all_freed(heap);
    });
  }
};

// All requests at once, of mixed sizes, twice as much as fits: what is served is apart, the rest is null, and all can be freed.
template <class A>
struct fills_up_under_many_schedules {
  static constexpr char const* name = "FillsUpUnderManySchedules";
  static constexpr bool applies = !A::traits.overwrites && !A::traits.process_wide;
  static void run() {
    explore_case(800, [] {
      heap_under_test<A> heap(cramped_bytes<A>());
      // On average a fortieth of the heap each.
      blocks_of<A> b(heap.ref(), mixed_sizes(explored_threads, static_cast<unsigned>(heap->bytes() / 20), 1));
      for (unsigned refill = 0; refill < 2; ++refill) {
        b.malloc_all(64);
        b.expect_sound(A::traits.min_alignment, heap.where());
        b.fill();
        b.expect_intact("of blocks served at once");
        EXPECT_LT(b.failed_requests(), b.count());
        EXPECT_EQ(b.failed_requests(), heap->stats().failed_requests);
        b.free_all(17);
        release_warps(heap);
        expect_all_freed(heap);
        heap->reset();
      }
    });
  }
};

template <class A>
struct refuses_double_frees_under_many_schedules {
  static constexpr char const* name = "RefusesDoubleFreesUnderManySchedules";
  static constexpr bool applies = A::traits.detects_double_free;
  static void run() {
    using ref = typename heap_under_test<A>::ref_type;
    explore_case(800, [] {
      heap_under_test<A> heap(cramped_bytes<A>());
      // Neighbours that stay keep the memory from other uses.
      blocks_of<A> b(heap.ref(), explored_threads, 40);
      b.malloc_all(64);
      auto pointers = b.pointers().read();
      std::vector<void*> go;
      for (std::size_t i = 0; i < pointers.size(); i += 2) {
        go.push_back(pointers[i]);
        pointers[i] = nullptr;
      }
      test::device_array<void*> doomed(go);
      test::device_array<gpuheap::free_status> answers(2 * go.size());
      gpuheap::launch(static_cast<unsigned>(2 * go.size()), free_in_pairs<ref>{heap.ref(), doomed.data(), answers.data()},
                      {.block_threads = 64});
      auto const said = answers.read();
      EXPECT_EQ(std::count(said.begin(), said.end(), gpuheap::free_status::done), static_cast<long>(go.size()));
      EXPECT_EQ(std::count(said.begin(), said.end(), gpuheap::free_status::double_free), static_cast<long>(go.size()));
      b.pointers().write(pointers);
      b.free_all(3);
      gpuheap::statistics const s = heap->stats();
      EXPECT_EQ(s.live_allocations, 0u);
      EXPECT_EQ(s.live_bytes, 0u);
      EXPECT_EQ(s.foreign_frees, 0u);
    });
  }
};

// Within one lap no two blocks overlap.
template <class A>
struct separates_a_lap_under_many_schedules {
  static constexpr char const* name = "SeparatesALapUnderManySchedules";
  static constexpr bool applies = A::traits.overwrites;
  static void run() {
    explore_case(1000, [] {
      heap_under_test<A> heap(cramped_bytes<A>());
      for (unsigned lap = 0; lap < 4; ++lap) {
        blocks_of<A> b(heap.ref(), mixed_sizes(explored_threads, static_cast<unsigned>(48_KiB / explored_threads), lap));
        b.malloc_all(64);
        EXPECT_EQ(b.failed_requests(), 0u);
        b.expect_sound(A::traits.min_alignment, heap.where());
      }
    });
  }
};

template <class A>
void register_exploration(char const* allocator) {
  register_cases<A, survives_contention_under_many_schedules, fills_up_under_many_schedules, refuses_double_frees_under_many_schedules,
                 separates_a_lap_under_many_schedules>(allocator);
}

}  // namespace conformance
