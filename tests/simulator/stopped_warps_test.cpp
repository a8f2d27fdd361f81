// A warp that stops for long at each of its steps, in heaps of each kind over the default allocator: the progress of the other warps is
// that of docs/allocator.md. A free that stands still keeps no thread waiting, a malloc that stands still keeps at most other mallocs
// waiting, and a warp that stands still for a while only delays.
#include "../support/seeds.hpp"

#include <gpuheap/checked.hpp>
#include <gpuheap/hardened.hpp>
#include <gpuheap/heap.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap_simulator/launch.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace {

namespace simt = gpuheap::simt;
namespace simulator = gpuheap::simulator;
using heap_t = gpuheap::heap<>;

enum class doing { nothing, malloc, free };

// The steps at which the threads of warp 0 are, which stops; unseen by the simulated machine.
struct stage {
  doing at[32] = {};
};

// Warp 0 takes blocks and gives them back. The others do too (`both`), or only give back what they find (`frees`).
template <class Ref>
struct work {
  Ref heap;
  stage* seen;
  void** prepared;  // blocks for `frees`, four for each thread
  bool frees_only;
  std::size_t bytes;

  GPUHEAP_FN void operator()(unsigned i) const {
    bool const first_warp = i < 32;
    if (!first_warp && frees_only) {
      for (unsigned k = 0; k < 4; ++k) heap.free(prepared[4 * i + k]);
      return;
    }
    for (unsigned round = 0; round < 2; ++round) {
      void* held[4];
      for (void*& p : held) {
        note(first_warp, i, doing::malloc);
        p = heap.malloc(bytes);
      }
      for (void* p : held) {
        note(first_warp, i, doing::free);
        heap.free(p);
      }
    }
    note(first_warp, i, doing::nothing);
  }
  GPUHEAP_FN void note(bool first_warp, unsigned i, doing what) const {
    if (first_warp) seen->at[i] = what;
  }
};
template <class Ref>
struct prepare {
  Ref heap;
  void** out;
  std::size_t bytes;
  GPUHEAP_FN void operator()(unsigned i) const { out[i] = heap.malloc(bytes); }
};

struct verdict {
  bool stalled = false, livelocked = false;
  stage seen;
  std::string why;
};

constexpr unsigned num_threads = 128;

// One run in which warp 0 stops at its point `at`.
template <class Heap = heap_t>
verdict run(simulator::scheduler_kind kind, bool weak, std::uint64_t at, std::uint64_t points, bool frees_only, std::size_t bytes) {
  simulator::settings s;
  s.scheduler = kind;
  s.seed = at;
  s.weak = weak;
  s.step_budget = 1'000'000;
  s.num_sms = 1;  // all warps draw from one span
  s.blocks_per_sm = 8;
  using ref = typename Heap::ref_type;
  // The host's queries read the whole of a checked heap.
  Heap heap{gpuheap::heap_size{gpuheap::finds_misuse<typename Heap::allocator_type> ? 2u << 20 : 24u << 20}};
  std::vector<void*> prepared(4 * num_threads);
  gpuheap::launch(4 * num_threads, prepare<ref>{heap.ref(), prepared.data(), bytes});
  verdict what;
  {
    s.stopped = {0, at, points};
    simulator::scoped_settings const scope{s};
    try {
      gpuheap::launch(num_threads, work<ref>{heap.ref(), &what.seen, prepared.data(), frees_only, bytes}, {.block_threads = 32});
    } catch (simt::kernel_failure const& failed) {
      what.livelocked = failed.kind() == simulator::failure_kind::livelock;
      what.why = failed.what();
    }
    what.stalled = simulator::last_run().stalled;
  }
  if (what.why.empty()) {
    EXPECT_EQ(heap.verify().problem, "");
    EXPECT_EQ(heap.stats().failed_requests, 0u);
    EXPECT_EQ(heap.stats().live_allocations, frees_only ? 4u * 32 : 4u * num_threads) << "blocks were lost";
    EXPECT_NO_THROW(heap.check());
  }
  return what;
}

constexpr simulator::scheduler_kind schedulers[] = {simulator::scheduler_kind::round_robin, simulator::scheduler_kind::random,
                                                    simulator::scheduler_kind::pct};

// Calls f(at) for steps of warp 0, each so many apart, until it makes fewer.
template <class F>
void at_each_step(unsigned every_night, F f) {
  // ./test takes one step of four that --all-schedules takes, ./test --fast one of ten.
  auto const percent = static_cast<unsigned>(test::num_seeds(100));
  unsigned const stride = percent < 100 ? every_night * 100 / percent + 1 : every_night;
  for (std::uint64_t at = 0; f(at); at += stride) {
    ASSERT_LT(at, 1'000'000u);
    ASSERT_FALSE(testing::Test::HasFailure()) << "stopped at step " << at;
  }
}

TEST(StoppedWarps, AWhileOnlyDelays) {
  for (simulator::scheduler_kind kind : schedulers) {
    at_each_step(7, [&](std::uint64_t at) {
      verdict const what = run(kind, at % 2 != 0, at, 20'000, false, (at >> 1) % 2 == 0 ? 48 : 8192);
      EXPECT_EQ(what.why, "");
      return what.stalled;
    });
  }
}

TEST(StoppedWarps, KeepNobodyFromFreeing) {
  for (simulator::scheduler_kind kind : schedulers) {
    at_each_step(5, [&](std::uint64_t at) {
      verdict const what = run(kind, at % 2 != 0, at, simulator::stall::ever_after, true, (at >> 1) % 2 == 0 ? 48 : 8192);
      EXPECT_EQ(what.why, "");
      return what.stalled;
    });
  }
}

// The same for hardened and checked heaps: no thread waits for a stopped warp, and no right free is reported as a misuse.
template <class Heap>
class StoppedWarpsOfKinds : public ::testing::Test {};
using kinds = ::testing::Types<gpuheap::heap<gpuheap::hardened<>>, gpuheap::heap<gpuheap::checked<>>>;
TYPED_TEST_SUITE(StoppedWarpsOfKinds, kinds);

TYPED_TEST(StoppedWarpsOfKinds, OnlyDelayAndKeepNobodyFromFreeing) {
  constexpr bool is_checked = gpuheap::simt::is_same_v<typename TypeParam::allocator_type, gpuheap::checked<>>;
  for (simulator::scheduler_kind kind : schedulers) {
    for (bool const frees_only : {false, true}) {
      // A warp takes ten times as many steps in a checked heap, which writes and reads the words around each block.
      at_each_step(is_checked ? 601 : 61, [&](std::uint64_t at) {
        std::uint64_t const points = frees_only ? simulator::stall::ever_after : 20'000;
        verdict const what = run<TypeParam>(kind, at % 2 != 0, at, points, frees_only, (at >> 1) % 2 == 0 ? 48 : 400);
        EXPECT_EQ(what.why, "");
        return what.stalled;
      });
    }
  }
}

TEST(StoppedWarps, KeepOthersFromMallocOnlyInMallocItself) {
  unsigned steps = 0, blocking = 0;
  for (simulator::scheduler_kind kind : schedulers) {
    at_each_step(3, [&](std::uint64_t at) {
      verdict const what = run(kind, at % 2 != 0, at, simulator::stall::ever_after, false, (at >> 1) % 2 == 0 ? 48 : 8192);
      ++steps;
      if (!what.why.empty()) {
        ++blocking;
        EXPECT_TRUE(what.livelocked) << what.why;
        EXPECT_TRUE(std::find(what.seen.at, what.seen.at + 32, doing::malloc) != what.seen.at + 32)
            << "a free that stands still keeps others from their blocks: " << what.why;
      }
      return what.stalled;
    });
  }
  RecordProperty("steps", static_cast<int>(steps));
  RecordProperty("steps_that_keep_others_waiting", static_cast<int>(blocking));
  std::printf("of %u steps, %u keep others waiting\n", steps, blocking);
  // A warp that brings the next span keeps those waiting that find blocks nowhere else.
  EXPECT_LT(blocking, steps / 2);
}

// The first lane of each warp takes a block.
template <class Heap>
struct first_lanes_take {
  typename Heap::ref_type heap;
  std::size_t bytes;
  void** out;
  std::size_t* usable;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i % 32 != 0) return;
    out[i / 32] = heap.malloc(bytes);
    usable[i / 32] = heap.usable_size(out[i / 32]);
  }
};
// Warp 0 stops for so long at each of its steps while it brings the first span of a size. Returns how often another warp, which asks for
// this size meanwhile, got a slot of the next larger class, which has some.
template <class Heap>
unsigned times_borrowed(std::uint64_t points) {
  unsigned borrowed = 0;
  for (std::uint64_t at = 0; at < 150; ++at) {
    Heap heap{2 << 20};
    void* out[2] = {};
    std::size_t usable[2] = {};
    gpuheap::launch(1, first_lanes_take<Heap>{heap.ref(), 1280, out, usable});
    EXPECT_EQ(usable[0], 1280u);
    simulator::settings s;
    s.stopped = {0, at, points};
    {
      simulator::scoped_settings const scope{s};
      gpuheap::launch(64, first_lanes_take<Heap>{heap.ref(), 1024, out, usable}, {.block_threads = 32});
    }
    EXPECT_EQ(usable[0], 1024u);
    EXPECT_NE(out[1], nullptr);
    EXPECT_EQ(heap.verify().problem, "");
    borrowed += usable[1] == 1280 ? 1 : 0;
  }
  return borrowed;
}
TEST(StoppedWarps, KeepNobodyWaitingWhoFindsALargerSlot) {
  EXPECT_GE(times_borrowed<heap_t>(simulator::stall::ever_after), 10u);
  using patient = gpuheap::heap<gpuheap::tuned_sharded_spans<gpuheap::sharded::tuning{.borrows = false}>>;
  EXPECT_EQ(times_borrowed<patient>(3000), 0u);
}

}  // namespace
