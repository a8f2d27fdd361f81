// Tests of the default allocator's census, which counts live blocks from the metadata: it equals a count of every malloc and free, whatever
// the states of the spans are.
#include "../support/rng.hpp"
#include "../support/seeds.hpp"
#include "fixtures.hpp"

#include <gpuheap/allocators/sharded_spans.hpp>
#include <gpuheap/leaks.hpp>
#include <gpuheap/recorded.hpp>
#include <gpuheap/simt/explore.hpp>

#include <map>
#include <numeric>

namespace {

using namespace test;
using heap_t = gpuheap::heap<>;
using ref_t = heap_t::ref_type;

static_assert(gpuheap::simt::is_same_v<heap_t, gpuheap::heap<gpuheap::sharded_spans, gpuheap::uncounted>>,
              "heap<> counts nothing while kernels run");
static_assert(
    gpuheap::simt::is_same_v<gpuheap::heap<gpuheap::backing_reference>, gpuheap::heap<gpuheap::backing_reference, gpuheap::counted>>,
    "who cannot tell what lives is counted for");
static_assert(gpuheap::has_census<gpuheap::recorded<gpuheap::sharded_spans, 16>>);

// Kernel: thread i allocates bytes[i].
struct take_each {
  ref_t heap;
  std::size_t const* bytes;
  void** out;
  GPUHEAP_FN void operator()(unsigned i) const { out[i] = heap.malloc(bytes[i]); }
};
// Kernel: what the heap says of each block.
struct ask_size {
  ref_t heap;
  void* const* blocks;
  std::size_t* out;
  GPUHEAP_FN void operator()(unsigned i) const { out[i] = heap.usable_size(blocks[i]); }
};

// The blocks that a test knows to be live, and the comparison of a heap with them.
class known_blocks {
 public:
  explicit known_blocks(heap_t& heap) : heap_{heap} {}

  // Requests of these sizes, by one launch. Returns how many found memory.
  std::size_t take(std::vector<std::size_t> const& sizes, unsigned block_threads = 256) {
    device_array<std::size_t> const bytes(sizes);
    device_array<void*> got(sizes.size());
    auto const count = static_cast<unsigned>(sizes.size());
    gpuheap::launch(count, take_each{heap_.ref(), bytes.data(), got.data()}, {.block_threads = block_threads});
    device_array<std::size_t> usable(sizes.size());
    gpuheap::launch(count, ask_size{heap_.ref(), got.data(), usable.data()});
    auto const blocks = got.read();
    auto const has = usable.read();
    std::size_t served = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i] == nullptr) continue;
      ++served;
      live_.push_back({blocks[i], has[i]});
    }
    return served;
  }
  // Frees a share of all, chosen by the seed.
  void free_some(std::uint64_t seed, unsigned percent) {
    rng random{seed};
    std::vector<void*> gone;
    std::erase_if(live_, [&](block const& b) {
      bool const goes = random.below(100) < percent;
      if (goes) gone.push_back(b.at);
      return goes;
    });
    heap_.free(gone);
  }
  void forget() { live_.clear(); }

  void expect_same(char const* when) const {
    std::map<std::size_t, std::uint64_t> by_size;
    std::size_t bytes = 0;
    for (block const& b : live_) ++by_size[b.bytes], bytes += b.bytes;
    gpuheap::statistics const s = heap_.stats();
    EXPECT_TRUE(s.counts_allocations && s.counts_bytes);
    EXPECT_FALSE(s.knows_peak);
    EXPECT_EQ(s.live_allocations, live_.size()) << when;
    EXPECT_EQ(s.live_bytes, bytes) << when;
    auto const sizes = heap_.live_blocks();
    std::map<std::size_t, std::uint64_t> told;
    for (gpuheap::live_size const& size : sizes) told[size.block_bytes] = size.blocks;
    EXPECT_EQ(told.size(), sizes.size()) << when << ": one entry a size";
    EXPECT_EQ(told, by_size) << when;
    std::map<std::uintptr_t, std::size_t> each;
    for (block const& b : live_) each[reinterpret_cast<std::uintptr_t>(b.at)] = b.bytes;
    std::map<std::uintptr_t, std::size_t> listed;
    auto const blocks = heap_.blocks();
    for (gpuheap::block_info const& b : blocks) listed[b.address] = b.bytes;
    EXPECT_EQ(listed.size(), blocks.size()) << when << ": each once";
    EXPECT_TRUE(listed == each) << when << ": " << listed.size() << " blocks are listed, " << each.size() << " live";
    auto const audit = heap_.verify();
    EXPECT_EQ(audit.problem, "") << when;
    EXPECT_EQ(audit.live_slots + audit.large_allocations, s.live_allocations) << when;
    EXPECT_EQ(audit.live_bytes, s.live_bytes) << when;
  }

 private:
  struct block {
    void* at;
    std::size_t bytes;
  };
  heap_t& heap_;
  std::vector<block> live_;
};

[[nodiscard]] std::vector<std::size_t> random_sizes(std::size_t count, std::size_t most, std::uint64_t seed) {
  rng random{seed};
  std::vector<std::size_t> sizes(count);
  // Each doubling as often as any other.
  for (auto& s : sizes) s = 1 + random.below(static_cast<unsigned>(std::max<std::size_t>(16, most >> random.below(12))));
  return sizes;
}

TEST(Census, ANewHeapHasNothing) {
  for (std::size_t const bytes : {256_KiB, 1_MiB, 8_MiB, 64_MiB}) {
    heap_t heap{bytes};
    known_blocks{heap}.expect_same("new");
  }
}

// Fresh runs, partly drawn; words that frees have touched; swept runs; runs begun anew; emptied ones. By day of every fourth class.
TEST(Census, OfEveryClassThroughTheLifeOfItsRuns) {
  heap_t heap{16_MiB};
  for (unsigned c = 0; c < gpuheap::structures::size_classes::count; c += in_full() ? 1 : 4) {
    std::size_t const bytes = gpuheap::structures::size_classes::slot_bytes(c);
    if (bytes > 512_KiB) break;
    auto const some = static_cast<std::size_t>(std::min<std::size_t>(400, 2_MiB / bytes));
    known_blocks blocks{heap};
    blocks.take(std::vector<std::size_t>(some, bytes));
    blocks.expect_same("drawn");
    blocks.free_some(c, 40);
    blocks.expect_same("freed in part");
    blocks.take(std::vector<std::size_t>(some / 2 + 1, bytes));
    blocks.expect_same("taken again");
    blocks.free_some(c + 100, 100);
    blocks.expect_same("all freed");
    blocks.take(std::vector<std::size_t>(some, bytes));
    blocks.expect_same("drawn from what began anew");
    blocks.free_some(c + 200, 100);
  }
}

TEST(Census, OfRandomTraffic) {
  for (std::size_t const heap_bytes : {1_MiB, 24_MiB}) {
    heap_t heap{heap_bytes};
    known_blocks blocks{heap};
    for (unsigned round = 0; round < (in_full() ? 12 : 6); ++round) {
      blocks.take(random_sizes(800, heap_bytes / 64, round), round % 2 == 0 ? 256 : 32);
      blocks.expect_same("after requests");
      blocks.free_some(round, 60);
      blocks.expect_same("after frees");
    }
    heap.reset();
    blocks.forget();
    blocks.expect_same("after a reset");
  }
}

TEST(Census, OfAFullHeap) {
  heap_t heap{2_MiB};
  known_blocks blocks{heap};
  while (blocks.take(std::vector<std::size_t>(2000, 200)) == 2000) continue;
  blocks.expect_same("full of 200 B");
  blocks.free_some(1, 50);
  blocks.take(std::vector<std::size_t>(10'000, 200));
  blocks.expect_same("swept until full");
}

TEST(Census, OfLargeAllocations) {
  heap_t heap{64_MiB};
  known_blocks blocks{heap};
  blocks.take({3_MiB, 3_MiB, 1_MiB + 1, 20_MiB, 5_MiB, 17, 100'000});
  blocks.expect_same("large");
  blocks.free_some(3, 50);
  blocks.expect_same("some of them");
}

TEST(Census, OfAHeapThatGrowsAndIsTrimmed) {
  heap_t heap{gpuheap::growth{.initial = 4_MiB, .at_most = 64_MiB}};
  known_blocks blocks{heap};
  blocks.take(random_sizes(600, 20'000, 1));
  blocks.expect_same("before");
  for (unsigned step = 0; step < 3; ++step) {
    heap.grow(8_MiB);
    blocks.take(random_sizes(900, 50'000, step + 2));
    blocks.expect_same("grown");
    blocks.free_some(step, 70);
    heap.trim();
    blocks.expect_same("trimmed");
  }
}

// The same traffic in a heap that counts: both ways of knowing agree.
TEST(Census, AgreesWithCountingEachCall) {
  gpuheap::heap<gpuheap::sharded_spans, gpuheap::counted> heap{16_MiB};
  device_array<gpuheap::live_total> census(1);
  auto const expect_agreement = [&] {
    heap.ref().allocator().take_census(census.data(), {});
    gpuheap::live_total const told = census.read()[0];
    gpuheap::statistics const s = heap.stats();
    EXPECT_TRUE(s.knows_peak);
    EXPECT_EQ(told.allocations, s.live_allocations);
    EXPECT_EQ(told.bytes, s.live_bytes);
    EXPECT_GE(s.peak_live_bytes + s.peak_error_bytes, s.live_bytes);
  };
  std::vector<void*> blocks;
  for (std::size_t const bytes : {16, 200, 3000, 9000, 100'000}) {
    auto const more = blocks_of(heap, 30, bytes);
    blocks.insert(blocks.end(), more.begin(), more.end());
    expect_agreement();
    heap.free(std::vector<void*>(more.begin(), more.begin() + 10));
    blocks.erase(blocks.end() - 30, blocks.end() - 20);
    expect_agreement();
  }
  heap.free(blocks);
  expect_agreement();
}

// One kernel whose last warp takes the census again and again while the others use the heap.
struct census_beside {
  ref_t heap;
  gpuheap::live_total* into;
  unsigned users, rounds;
  GPUHEAP_FN void operator()(unsigned i) const {
    using namespace gpuheap::sharded;
    if (i < users) {
      for (unsigned round = 0; round < rounds; ++round) heap.free(heap.malloc(16u << (i + round) % 12));
    } else {
      count_live<spans, total_tally> const census{heap.allocator().control_block(), {into}, simt::warp_lanes};
      for (unsigned round = 0; round < rounds; ++round) census(i - users);
    }
  }
};
// The counts then mix several moments, but the census touches only what has memory: the rest of the addresses would end the test.
TEST(Census, BesideOtherThreadsReadsOnlyWhatIsThere) {
  auto const result = gpuheap::simt::explore(20, [] {
    heap_t heap{gpuheap::growth{.initial = 1_MiB, .at_most = 64_MiB}};
    device_array<gpuheap::live_total> into(1);
    gpuheap::launch(160, census_beside{heap.ref(), into.data(), 128, 4}, {.block_threads = 32});
    return heap.stats().live_allocations == 0 && heap.verify().problem.empty();
  });
  EXPECT_TRUE(result) << result.what << ", seed " << result.seed;
}

}  // namespace
