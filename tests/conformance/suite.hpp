// Common parts of the cases of the conformance suite: sizes for this machine, a heap in memory whose bounds are known, and the registration
// of cases that apply.
//
// A case is a template over the allocator:
//
//   template <class A>
//   struct keeps_a_promise {
//     static constexpr char const* name = "KeepsAPromise";
//     static constexpr bool applies = A::traits...;   // false: the traits do not promise it, and there is not a test of the suite
//     static void run();                              // EXPECT_... as in any test
//   };
#pragma once

#include "../support/blocks.hpp"
#include "../support/rng.hpp"
#include "../support/seeds.hpp"

#include <gpuheap/heap.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace conformance {

namespace simt = gpuheap::simt;
using namespace gpuheap::literals;

// The suite runs the same kernels on both machines, on fewer threads in the simulator.
inline constexpr bool on_gpu = simt::has_builtin_heap;

// Whether the allocator looks for a free chunk in a list of all chunks: in the simulator, its time grows with the square of the number of
// blocks.
#ifdef CONFORMANCE_WALKS_LISTS
inline constexpr bool walks_lists = true;
#else
inline constexpr bool walks_lists = false;
#endif

// The number of blocks of a case that fills much of a heap: a quarter of `count` for allocators that walk lists, unless tests run in full.
[[nodiscard]] inline simt::size_t num_blocks(simt::size_t count) { return walks_lists && !test::in_full() ? count / 4 : count; }

// Sizes for an allocator. A process-wide heap has one size for the whole program, and the toolkit's is slow: less of everything.
template <class A>
struct scale {
  static constexpr simt::size_t heap_bytes = !on_gpu ? 16_MiB : A::traits.process_wide ? 64_MiB : 256_MiB;
  static constexpr unsigned threads = !on_gpu ? 1500 : A::traits.process_wide ? 4000 : 40'000;
  // Largest size of random requests: all threads together ask for at most a quarter of the heap.
  static constexpr unsigned mixed_bytes = static_cast<unsigned>(heap_bytes / 4 / threads);
  // For cases that use up much of the heap: what is larger than the allocator serves itself has only the backing's part of it.
  [[nodiscard]] static constexpr simt::size_t of_its_own(simt::size_t bytes) {
    constexpr simt::size_t most = A::traits.largest_bytes;
    return most != 0 && bytes > most ? most : bytes;
  }
};

template <class A>
inline constexpr bool supported = on_gpu || !A::traits.process_wide;
template <class A>
inline constexpr bool gives_back = A::traits.free == gpuheap::frees::individually && !A::traits.overwrites;
template <class A>
inline constexpr bool gives_back_by_warp = A::traits.free == gpuheap::frees::collectively;
template <class A>
inline constexpr bool can_reset = !A::traits.process_wide;

// A heap, in a region of ours where the allocator can live in one.
template <class A>
class heap_under_test {
 public:
  using heap_type = gpuheap::heap<A>;
  using ref_type = typename heap_type::ref_type;

  explicit heap_under_test(simt::size_t bytes = scale<A>::heap_bytes) {
    if constexpr (A::traits.process_wide) {
      heap_.emplace(scale<A>::heap_bytes);
    } else {
      memory_.emplace(gpuheap::memory::device, bytes);
      heap_.emplace(memory_->where());
    }
  }
  heap_type* operator->() { return &*heap_; }
  heap_type& operator*() { return *heap_; }
  [[nodiscard]] ref_type ref() const { return heap_->ref(); }
  // No bytes where the bounds are not known.
  [[nodiscard]] gpuheap::memory::region where() const { return memory_ ? memory_->where() : gpuheap::memory::region{}; }

 private:
  std::optional<gpuheap::memory::allocation> memory_;
  std::optional<heap_type> heap_;
};

template <class A>
using blocks_of = test::blocks<typename gpuheap::heap<A>::ref_type>;

// Sizes from 1 to `most` bytes, each lane of a warp another one.
[[nodiscard]] inline std::vector<std::size_t> mixed_sizes(std::size_t count, unsigned most, std::uint64_t seed) {
  test::rng random{seed};
  std::vector<std::size_t> sizes(count);
  for (auto& s : sizes) s = 1 + random.below(most);
  return sizes;
}

// A kernel's own way to give a block back: alone, or with all that its warp has. Then no other lane of the warp uses the heap.
template <class Ref>
GPUHEAP_FN void free_or_release(Ref const& heap, void* p) {
  if constexpr (gives_back_by_warp<typename Ref::allocator_type>) {
    heap.release_warp();
  } else {
    heap.free(p);
  }
}

// Kernel of one lane a warp: the warp of that number gives back what it has.
template <class Ref>
struct release_each {
  Ref heap;
  GPUHEAP_FN void operator()(unsigned) const { heap.release_warp(); }
};
// If frees are collective: releases the blocks that free() did not give back, of the warps of any launch of the suite.
template <class A>
void release_warps([[maybe_unused]] heap_under_test<A>& heap) {
  if constexpr (gives_back_by_warp<A>) {
    gpuheap::launch(scale<A>::threads, release_each<typename heap_under_test<A>::ref_type>{heap.ref()}, {.block_threads = 1});
  }
}

template <class A>
void expect_all_freed(heap_under_test<A>& heap) {
  gpuheap::statistics const s = heap->stats();
  EXPECT_EQ(s.live_allocations, 0u);
  EXPECT_EQ(s.live_bytes, 0u);
  EXPECT_EQ(s.double_frees, 0u);
  EXPECT_EQ(s.foreign_frees, 0u);
}

template <class Case>
class case_fixture : public ::testing::Test {
 public:
  void TestBody() override { Case::run(); }
};

// Registers the cases that apply, as <allocator>.<Case>.
template <class A, template <class> class... Cases>
void register_cases(char const* allocator) {
  auto const add = [&]<class Case>(Case*) {
    if constexpr (Case::applies) {
      ::testing::RegisterTest(allocator, Case::name, nullptr, nullptr, __FILE__, __LINE__,
                              []() -> ::testing::Test* { return new case_fixture<Case>; });
    }
  };
  (add(static_cast<Cases<A>*>(nullptr)), ...);
}

}  // namespace conformance
