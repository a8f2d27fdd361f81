// free_when_called(), the free of code that is called rather than inlined: a whole warp that frees neighbours in their order, and all other
// frees.
#include "../support/rng.hpp"
#include "fixtures.hpp"

#include <algorithm>
#include <numeric>

namespace {

using namespace test;
using heap_t = gpuheap::heap<>;
using ref_t = heap_t::ref_type;

// Thread i frees pointer i, if `first` <= its lane, by the view in the device's memory.
struct give_called {
  ref_t const* heap;
  void* const* pointers;
  unsigned first;
  gpuheap::free_status* out;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i % simt::warp_lanes >= first) out[i] = heap->free_when_called(pointers[i]);
  }
};

// Thread i frees pointer i of one of two heaps: of the second if bit i of `second` is set.
struct give_called_in_two {
  ref_t const* heaps;  // 2
  void* const* pointers;
  simt::lane_mask second;
  gpuheap::free_status* out;
  GPUHEAP_FN void operator()(unsigned i) const { out[i] = heaps[second >> i & 1].free_when_called(pointers[i]); }
};

class called_frees {
 public:
  explicit called_frees(heap_t& heap) : view_(std::vector<ref_t>{heap.ref()}) {}
  // The status that each thread got; free_status::null for a thread that does not call.
  std::vector<gpuheap::free_status> give(std::vector<void*> const& blocks, unsigned first = 0) {
    device_array<void*> const pointers(blocks);
    device_array<gpuheap::free_status> out(std::vector<gpuheap::free_status>(blocks.size(), gpuheap::free_status::null));
    gpuheap::launch(static_cast<unsigned>(blocks.size()), give_called{view_.data(), pointers.data(), first, out.data()});
    return out.read();
  }

 private:
  device_array<ref_t> view_;
};

std::size_t how_many(std::vector<gpuheap::free_status> const& all, gpuheap::free_status what) {
  return static_cast<std::size_t>(std::count(all.begin(), all.end(), what));
}

// 63 slots to a word and 32 lanes: most warps cross a word, and the last free of all resets spans.
TEST(CalledFree, FreesNeighboursOfEachSize) {
  for (std::size_t const bytes : {16, 48, 256, 4096}) {
    heap_t heap{32_MiB};
    called_frees frees{heap};
    for (unsigned round = 0; round < 4; ++round) {
      auto const blocks = blocks_of(heap, 2048, bytes);
      EXPECT_EQ(how_many(frees.give(blocks), gpuheap::free_status::done), blocks.size()) << bytes << " B";
      EXPECT_EQ(heap.stats().live_allocations, 0u) << bytes << " B";
      heap.check();
      EXPECT_EQ(heap.verify().problem, "") << bytes << " B";
    }
  }
}

TEST(CalledFree, FreesInAnyOrderAndInPartOfAWarp) {
  heap_t heap{32_MiB};
  called_frees frees{heap};
  rng random{1};
  for (unsigned const first : {0u, 1u, 17u, 31u}) {
    auto blocks = blocks_of(heap, 1024, 64);
    for (std::size_t i = blocks.size() - 1; i > 0; --i) std::swap(blocks[i], blocks[random.below(static_cast<unsigned>(i + 1))]);
    std::size_t const callers = blocks.size() / simt::warp_lanes * (simt::warp_lanes - first);
    EXPECT_EQ(how_many(frees.give(blocks, first), gpuheap::free_status::done), callers);
    EXPECT_EQ(heap.stats().live_allocations, blocks.size() - callers);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (i % simt::warp_lanes >= first) blocks[i] = nullptr;
    }
    frees.give(blocks);
    EXPECT_EQ(heap.stats().live_allocations, 0u);
    heap.check();
    EXPECT_EQ(heap.verify().problem, "");
  }
}

// Heaps of one size and history have their blocks at equal places.
TEST(CalledFree, FreesOfTwoHeapsInOneWarp) {
  for (simt::lane_mask const second : {0xffff0000u, 0x55555555u, 0x80000000u}) {
    heap_t a{32_MiB}, b{32_MiB};
    device_array<ref_t> const views(std::vector<ref_t>{a.ref(), b.ref()});
    auto const in_a = blocks_of(a, 32, 64), in_b = blocks_of(b, 32, 64);
    std::vector<void*> mixed = in_a;
    for (unsigned i = 0; i < 32; ++i) {
      if ((second >> i & 1) != 0) mixed[i] = in_b[i];
    }
    device_array<void*> const pointers(mixed);
    device_array<gpuheap::free_status> out(32);
    gpuheap::launch(32, give_called_in_two{views.data(), pointers.data(), second, out.data()}, {.block_threads = 32});
    EXPECT_EQ(how_many(out.read(), gpuheap::free_status::done), 32u);
    EXPECT_EQ(a.stats().live_allocations, static_cast<unsigned>(simt::popcount(second)));
    EXPECT_EQ(b.stats().live_allocations, 32u - static_cast<unsigned>(simt::popcount(second)));
    EXPECT_EQ(a.verify().problem, "");
    EXPECT_EQ(b.verify().problem, "");
  }
}

TEST(CalledFree, RefusesWhatFreeRefuses) {
  heap_t heap{32_MiB};
  called_frees frees{heap};
  auto const blocks = blocks_of(heap, 64, 32);
  auto const others = blocks_of(heap, 64, 32);
  EXPECT_EQ(how_many(frees.give(blocks), gpuheap::free_status::done), 64u);
  auto const again = frees.give(blocks);
  EXPECT_EQ(how_many(again, gpuheap::free_status::done), 0u) << "a second free changes nothing";
  EXPECT_EQ(heap.stats().live_allocations, 64u);
  std::vector<void*> inside = others;
  for (void*& p : inside) p = static_cast<char*>(p) + 8;
  EXPECT_EQ(how_many(frees.give(inside), gpuheap::free_status::done), 0u);
  std::vector<void*> const none(64, nullptr);
  EXPECT_EQ(how_many(frees.give(none), gpuheap::free_status::null), 64u);
  EXPECT_EQ(heap.stats().live_allocations, 64u);
  EXPECT_THROW(heap.check(), std::exception);
  EXPECT_EQ(how_many(frees.give(others), gpuheap::free_status::done), 64u);
  EXPECT_EQ(heap.verify().problem, "");
}

}  // namespace
