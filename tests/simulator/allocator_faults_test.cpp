// Heaps of every allocator with each call of the simulated runtime failing in turn. Their kernels run, so that blocks that lived before the
// failure live after it.
#include "../support/blocks.hpp"

#include <gpuheap/heap.hpp>

#include <gtest/gtest.h>
#include <gpuheap_simulator/faults.hpp>
#include <gpuheap_simulator/memory.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "all_allocators.hpp"

namespace {

using namespace gpuheap::literals;
using gpuheap::simulator::scoped_fault;
namespace simt = gpuheap::simt;

template <class A>
class SimulatedFaults : public testing::Test {};
TYPED_TEST_SUITE(SimulatedFaults, faults::all_allocators);

// Steps over a heap, in order; and what the heap is like afterwards. The steps are cases of one function, since this is compiled for every
// allocator. A life is made anew for each call that fails.
struct life {
  virtual ~life() = default;
  virtual void step(unsigned k) = 0;
  [[nodiscard]] virtual bool has_heap() const = 0;
  [[nodiscard]] virtual std::string facts() = 0;
  unsigned num_steps = 0;
  unsigned fill = 0;  // the number of the step that launches the program's kernels
};

constexpr simt::size_t heap_bytes = 4_MiB, block_bytes = 48;

template <class A>
struct fixed_heap : life {
  using heap_type = gpuheap::heap<A>;
  std::optional<heap_type> heap;
  std::optional<test::blocks<typename heap_type::ref_type>> held;

  fixed_heap() { num_steps = 12, fill = 3; }
  void step(unsigned k) override {
    switch (k) {
      case 0:
        heap.emplace(heap_bytes);
        break;
      case 1:
        (void)heap->stats();
        break;
      case 2:
        heap->reset();
        break;
      case 3: {
        scoped_fault const none{scoped_fault::none};  // the program's own launches do not fail
        held.emplace(heap->ref(), std::size_t{64}, block_bytes);
        held->malloc_all();
        held->fill();
        break;
      }
      case 4:
        (void)heap->check();
        break;
      case 5:
        heap->set_policy(gpuheap::exhaustion_policy::trap);
        break;
      case 6:
        (void)heap->stats();
        break;
      case 7:
        if constexpr (gpuheap::has_verify<A>) (void)heap->verify();
        break;
      case 8:
        if constexpr (gpuheap::has_live_blocks<A>) (void)heap->live_blocks();
        break;
      case 9:
        heap->free(std::vector<void*>{nullptr});
        break;
      case 10:
        heap->set_policy(gpuheap::exhaustion_policy::null);
        break;
      case 11: {
        auto moved = std::move(*heap);
        *heap = std::move(moved);
        break;
      }
    }
  }
  [[nodiscard]] bool has_heap() const override { return heap.has_value(); }
  [[nodiscard]] std::string facts() override {
    held->expect_intact("after a call failed");
    gpuheap::statistics const s = heap->stats();
    std::string text = std::to_string(heap->bytes()) + " " + std::to_string(s.live_allocations) + " " + std::to_string(s.failed_requests);
    if constexpr (gpuheap::has_verify<A>) text += heap->verify().problem;
    return text;
  }
};

// A heap that fills up, grows by itself, by the host's call, and shrinks.
template <class A>
struct growing_heap : life {
  using heap_type = gpuheap::heap<A>;
  std::optional<heap_type> heap;
  std::optional<test::blocks<typename heap_type::ref_type>> held, more;

  growing_heap() { num_steps = 9, fill = 3; }
  void fill_up(std::optional<test::blocks<typename heap_type::ref_type>>& blocks) {
    scoped_fault const none{scoped_fault::none};
    blocks.emplace(heap->ref(), std::size_t{64}, std::size_t{60'000});
    blocks->malloc_all();
    blocks->fill();
  }
  void step(unsigned k) override {
    switch (k) {
      case 0:
        heap.emplace(gpuheap::growth{.initial = 2_MiB, .at_most = 64_MiB});
        break;
      case 1:
        heap->grow_when_exhausted({.bytes = 8_MiB});
        break;
      case 2:
        heap->on_exhausted([](gpuheap::exhaustion const&) {});
        break;
      case 3:
        fill_up(held);
        break;
      case 4:
        (void)heap->check();
        break;
      case 5:
        heap->grow(5_MiB);
        break;
      case 6:
        if (held) fill_up(more);
        break;
      case 7:
        (void)heap->check();
        break;
      case 8:
        (void)heap->trim();
        break;
    }
  }
  [[nodiscard]] bool has_heap() const override { return heap.has_value(); }
  [[nodiscard]] std::string facts() override {
    held->expect_intact("after a call failed");
    more->expect_intact("after a call failed");
    // The heap may or may not have grown: check() reports a step that the device refused, and a trim() that failed gives nothing up.
    std::size_t const served = held->count() + more->count() - held->failed_requests() - more->failed_requests();
    return heap->stats().live_allocations == served ? heap->verify().problem : "it counts other blocks than it has served";
  }
};

struct told {
  unsigned failures = 0;
  std::string facts, last;
  std::uint64_t num_calls = 0;
};
// `again`: a step that failed is made again, and must then succeed.
told run(life& of, scoped_fault& fault, bool again) {
  told what;
  for (unsigned k = 0; k < of.num_steps; ++k) {
    if (!again && what.failures != 0 && k == of.fill) continue;  // a lost device launches nothing
    for (int tries = 0; tries < (again ? 2 : 1); ++tries) {
      try {
        of.step(k);
        break;
      } catch (gpuheap::error const& e) {
        ++what.failures;
        what.last = e.what();
        EXPECT_EQ(what.last.rfind("gpuheap: ", 0), 0u) << what.last;
        EXPECT_EQ(tries, 0) << "the step failed twice, though one call failed: " << what.last;
      }
    }
    if (!of.has_heap()) return what;  // there is none to go on with
  }
  what.num_calls = fault.calls();
  scoped_fault const none{scoped_fault::none};
  if (again) what.facts = of.facts();
  return what;
}

template <class Life>
std::unique_ptr<life> made() {
  return std::make_unique<Life>();
}
void fail_every_call(std::unique_ptr<life> (*make)()) {
  auto const before = gpuheap::simulator::memory_held();
  told sound;
  {
    scoped_fault counting{scoped_fault::none};
    sound = run(*make(), counting, true);
  }
  ASSERT_EQ(gpuheap::simulator::memory_held(), before);
  ASSERT_GT(sound.num_calls, 10u);
  unsigned failures = 0;
  for (std::uint64_t nth = 0; nth < sound.num_calls; ++nth) {
    for (bool ever_after : {false, true}) {
      scoped_fault fault{nth, ever_after};
      told const what = run(*make(), fault, !ever_after);
      ASSERT_TRUE(fault.happened()) << "call " << nth;
      ASSERT_EQ(gpuheap::simulator::memory_held(), before) << "call " << nth << " failed: " << what.last;
      if (!ever_after) {
        ASSERT_EQ(what.facts, sound.facts) << "call " << nth << " failed: " << what.last;
      }
      failures += what.failures;
      ASSERT_FALSE(testing::Test::HasFailure()) << "call " << nth << " of " << sound.num_calls << " failed";
    }
  }
  EXPECT_GE(failures, sound.num_calls);
}

TYPED_TEST(SimulatedFaults, EachCallThatFailsIsToldAndNothingIsLost) {
  if constexpr (!TypeParam::traits.process_wide) fail_every_call(made<fixed_heap<TypeParam>>);
}
// After a failed trim() capacity() is right, whatever the trim gave up: once a second trim has ended, the heap is as if the first had.
TYPED_TEST(SimulatedFaults, CapacityIsTrueAfterATrimThatFailed) {
  if constexpr (gpuheap::has_trim<TypeParam>) {
    auto const trimmed = [](std::uint64_t nth, std::uint64_t& calls) {
      gpuheap::heap<TypeParam> heap{gpuheap::growth{.initial = 2_MiB, .at_most = 64_MiB}};
      heap.grow(20_MiB);
      try {
        scoped_fault fault{nth};
        (void)heap.trim();
        calls = fault.calls();
      } catch (gpuheap::error const&) {
        EXPECT_NE(nth, scoped_fault::none);
      }
      (void)heap.trim();
      return std::pair{heap.capacity(), heap.bytes()};
    };
    std::uint64_t calls = 0, of_failing = 0;
    auto const sound = trimmed(scoped_fault::none, calls);
    ASSERT_GT(calls, 2u);
    ASSERT_LT(sound.first, 22_MiB);
    for (std::uint64_t nth = 0; nth < calls; ++nth) EXPECT_EQ(trimmed(nth, of_failing), sound) << "call " << nth << " of trim() failed";
  }
}
TYPED_TEST(SimulatedFaults, EachCallThatFailsLeavesAGrowingHeapWhole) {
  if constexpr (gpuheap::has_trim<TypeParam>) fail_every_call(made<growing_heap<TypeParam>>);
}

}  // namespace
