// A benchmark's checks are useful only if they find bad memory: each allocator here is broken in one way, and no case may report it as ok.
#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/runtime.hpp>

#include <gtest/gtest.h>

#include "baselines/scan_malloc.hpp"
#include "cases/all.hpp"

namespace gpuheap::bench {
namespace {

// A counter that hands out one piece of memory after another; `Fault` decides where a request really ends up. Frees are taken and
// forgotten.
template <class Fault>
struct broken_malloc {
  static constexpr allocator_traits traits{.name = "broken", .title = "broken", .reuse = "none"};
  simt::uint64_t* top;
  unsigned char* pool;
  simt::size_t pool_bytes;

  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    simt::uint64_t const need = simt::round_up_pow2(bytes, 16);
    // relaxed: the counter alone decides.
    simt::uint64_t const start = simt::atomic_ref<simt::uint64_t>{*top}.fetch_add(need, simt::relaxed);
    return start + need > pool_bytes ? nullptr : pool + Fault::place(start, need);
  }
  GPUHEAP_FN free_status free(void*) const { return Fault::answer; }

  [[nodiscard]] static simt::size_t min_region_bytes() { return 4096; }
  [[nodiscard]] static broken_malloc create(memory::region region, stream_ref stream) {
    simt::fill(region.base, 0, 256, stream);
    auto* const base = static_cast<unsigned char*>(region.base);
    return {static_cast<simt::uint64_t*>(region.base), base + 2048, region.bytes - 4096};
  }
};

struct no_fault {
  static constexpr free_status answer = free_status::done;
  GPUHEAP_FN static simt::uint64_t place(simt::uint64_t start, simt::uint64_t) { return start; }
};
// Gives every other request the block of the one before it.
struct given_twice : no_fault {
  GPUHEAP_FN static simt::uint64_t place(simt::uint64_t start, simt::uint64_t need) { return start - start % (2 * need); }
};
// The last 16 bytes of a block are the first of the next.
struct overlapping : no_fault {
  GPUHEAP_FN static simt::uint64_t place(simt::uint64_t start, simt::uint64_t need) { return start - start / need * 16; }
};
struct misaligned : no_fault {
  GPUHEAP_FN static simt::uint64_t place(simt::uint64_t start, simt::uint64_t) { return start + 8; }
};
// In front of the heap, by wrapping round.
struct outside : no_fault {
  GPUHEAP_FN static simt::uint64_t place(simt::uint64_t, simt::uint64_t) { return simt::uint64_t{0} - 65536; }
};
// Starts again after 4 KiB, whatever still lives there.
struct reused_while_live : no_fault {
  GPUHEAP_FN static simt::uint64_t place(simt::uint64_t start, simt::uint64_t need) {
    return start % 4096 + need <= 4096 ? start % 4096 : 0;
  }
};
struct refuses_frees : no_fault {
  static constexpr free_status answer = free_status::double_free;
};

session const small{.heap_bytes = 1 << 20, .runs = 1, .seed = 1, .graph_file = ""};

template <class Case, class Fault>
outcome run(char const* text) {
  return Case::template run<broken_malloc<Fault>>(small, point(text, Case::parameters));
}

constexpr char const* equal_sizes = "threads=64,bytes=64";
constexpr char const* with_lists = "threads=200,batches=1,scale=6,edge_factor=4";

}  // namespace

TEST(AllocCases, CallASoundAllocatorOk) {
  EXPECT_EQ((run<alloc_single, no_fault>(equal_sizes).status), outcome_status::ok);
  EXPECT_EQ((run<alloc_mixed, no_fault>("threads=64,bytes=64").status), outcome_status::ok);
}
TEST(AllocCases, FindABlockGivenTwice) {
  auto const found = run<alloc_single, given_twice>(equal_sizes);
  EXPECT_EQ(found.status, outcome_status::wrong);
  EXPECT_EQ(found.reason, "round 0: 512 words did not keep their contents: blocks overlap");
  EXPECT_TRUE(found.rows.empty());
}
TEST(AllocCases, FindBlocksThatOverlap) { EXPECT_EQ((run<alloc_single, overlapping>(equal_sizes).status), outcome_status::wrong); }
TEST(AllocCases, FindMisalignedBlocks) {
  EXPECT_EQ((run<alloc_warp, misaligned>("threads=64,bytes=64").reason), "round 0: 2 blocks are not aligned to 16 bytes");
}
TEST(AllocCases, FindBlocksOutsideTheHeapWithoutTouchingThem) {
  EXPECT_EQ((run<alloc_single, outside>(equal_sizes).reason), "round 0: 64 blocks do not lie within the heap");
}
TEST(AllocCases, FindRefusedFrees) {
  EXPECT_EQ((run<alloc_single, refuses_frees>(equal_sizes).reason), "256 frees of live blocks were refused");
}
TEST(AllocCases, DrawPowersOfTwoFrom16BytesUp) {
  EXPECT_EQ((run<alloc_mixed, no_fault>("threads=64,bytes=64,dist=pow2").status), outcome_status::ok);
  for (unsigned i = 0; i < 100; ++i) {
    auto const bytes = random_requests{100, 64, true, random_sequence{1}, smallest_power_drawn}.bytes(i);
    EXPECT_TRUE(bytes == 16 || bytes == 32 || bytes == 64);
  }
  EXPECT_THROW(alloc_mixed::description.check(small, point("bytes=8,dist=pow2", alloc_mixed::parameters)), usage_error);
}
TEST(AllocCases, CountNulls) {
  auto const result = run<alloc_single, no_fault>("threads=1000,bytes=1024");
  ASSERT_EQ(result.status, outcome_status::ok) << result.reason;
  EXPECT_EQ(result.rows.at(2).metric, std::string{"failed_requests"});
  EXPECT_EQ(result.rows.at(2).samples, std::vector<double>{1000});  // the warm-up rounds took everything, and this allocator forgets
}

TEST(Churn, CallsASoundAllocatorOk) { EXPECT_EQ((run<churn, no_fault>("threads=32,bytes=64").status), outcome_status::ok); }
TEST(Churn, FindsMemoryReusedWhileLive) {
  EXPECT_EQ((run<churn, reused_while_live>("threads=128,bytes=64").status), outcome_status::wrong);
}
TEST(Churn, FindsMisalignedBlocks) {
  EXPECT_EQ((run<churn, misaligned>("threads=32,bytes=64,rounds=1").reason), "32 blocks are misaligned");
}
TEST(Churn, FindsRefusedFrees) { EXPECT_EQ((run<churn, refuses_frees>("threads=32,bytes=64").status), outcome_status::wrong); }

TEST(ChurnLongLived, CallsASoundAllocatorOk) {
  auto const result = run<churn_long_lived, no_fault>("threads=32,bytes=64,rounds=20");
  ASSERT_EQ(result.status, outcome_status::ok) << result.reason;
  EXPECT_EQ(result.rows.at(0).samples.size(), 16u);  // rounds that also give back
  EXPECT_EQ(result.rows.at(1).metric, std::string{"slowdown"});
  EXPECT_EQ(result.rows.size(), 3u);  // no footprint: this allocator does not tell it
}
TEST(ChurnLongLived, FindsMemoryReusedWhileLive) {
  EXPECT_EQ((run<churn_long_lived, reused_while_live>("threads=128,bytes=64").status), outcome_status::wrong);
}
TEST(ChurnLongLived, FindsRefusedFrees) {
  EXPECT_EQ((run<churn_long_lived, refuses_frees>("threads=32,bytes=64,rounds=10").status), outcome_status::wrong);
}

TEST(Pressure, FindsOutWhenRequestsFail) {
  auto const result = run<pressure, no_fault>("threads=32,bytes=64,refills=2");
  ASSERT_EQ(result.status, outcome_status::ok) << result.reason;
  EXPECT_EQ(result.rows.at(0).metric, std::string{"utilisation"});
  EXPECT_LT(result.rows.at(0).samples.at(0), 0.8);  // it forgets what is given back
  EXPECT_GT(result.rows.at(1).samples.at(0), 0);    // early failed_requests
}
TEST(Pressure, AFillWithoutNullsReachesItsLimit) {
  auto const result = run<pressure, no_fault>("threads=32,bytes=64,refills=1,fill=10");
  ASSERT_EQ(result.status, outcome_status::ok) << result.reason;
  EXPECT_NEAR(result.rows.at(0).samples.at(0), 0.1, 1e-6);
  EXPECT_GE(result.rows.at(0).samples.at(0), 0.1);
  EXPECT_EQ(result.rows.at(1).samples.at(0), 0);
}
TEST(Pressure, FindsMemoryReusedWhileLive) {
  EXPECT_EQ((run<pressure, reused_while_live>("threads=64,bytes=64,refills=1").status), outcome_status::wrong);
}

TEST(Utilisation, CountsWhatIsInBlocksAtTheFirstNull) {
  auto const result = run<utilisation, no_fault>("threads=512,bytes=64");
  ASSERT_EQ(result.status, outcome_status::ok) << result.reason;
  EXPECT_NEAR(result.rows.at(0).samples.at(0), 1, 0.01);
}
TEST(Utilisation, FindsABlockGivenTwice) {
  EXPECT_EQ((run<utilisation, given_twice>("threads=512,bytes=64").status), outcome_status::wrong);
}
TEST(Utilisation, EndsThoughNothingIsEverRefused) {
  EXPECT_EQ((run<utilisation, reused_while_live>("threads=512,bytes=64").status), outcome_status::wrong);
}

TEST(Exhausted, FindsAHeapThatDoesNotServeAgain) {
  EXPECT_EQ((run<exhausted, no_fault>("threads=100,bytes=1024").reason), "100 of 100 requests failed after everything had been given back");
}
TEST(Exhausted, FindsABlockGivenTwice) { EXPECT_EQ((run<exhausted, given_twice>("threads=100,bytes=1024").status), outcome_status::wrong); }

TEST(Fragmentation, MeasuresTheRange) {
  auto const result = run<fragmentation, no_fault>("threads=100,bytes=64");
  ASSERT_EQ(result.status, outcome_status::ok) << result.reason;
  EXPECT_EQ(result.rows.at(0).samples, std::vector<double>{1});
}
TEST(Fragmentation, FindsBlocksThatOverlap) {
  EXPECT_EQ((run<fragmentation, overlapping>("threads=100,bytes=64").status), outcome_status::wrong);
}

TEST(MemoryAccess, CallsASoundAllocatorOk) { EXPECT_EQ((run<memory_access, no_fault>("threads=64,bytes=64").status), outcome_status::ok); }
TEST(MemoryAccess, FindsABlockGivenTwice) {
  EXPECT_EQ((run<memory_access, given_twice>("threads=64,bytes=64").status), outcome_status::wrong);
}

TEST(MemoryAccess, TakesMixedSizesAndWrites) {
  for (auto const* text : {"threads=64,bytes=64,dist=uniform,access=write", "threads=64,bytes=64,dist=uniform,access=read"}) {
    EXPECT_EQ((run<memory_access, no_fault>(text).status), outcome_status::ok);
    EXPECT_EQ((run<memory_access, given_twice>(text).status), outcome_status::wrong);
  }
  EXPECT_THROW(memory_access::description.check(small, point("bytes=8,dist=uniform", memory_access::parameters)), usage_error);
}

TEST(WorkGeneration, CallsASoundAllocatorOk) {
  EXPECT_EQ((run<work_generation, no_fault>("threads=64,bytes=64").status), outcome_status::ok);
}
TEST(WorkGeneration, FindsABlockGivenTwice) {
  EXPECT_EQ((run<work_generation, given_twice>("threads=64,bytes=64").status), outcome_status::wrong);
}
TEST(WorkGeneration, TakesMemoryOfTheHost) {
  for (auto const* text : {"threads=1,bytes=4", "threads=1000,bytes=4096"}) {
    auto const result = work_generation::run<scan_malloc>(small, point(text, work_generation::parameters));
    EXPECT_EQ(result.status, outcome_status::ok) << result.reason;
    EXPECT_EQ((work_generation::run<scan_malloc_async>(small, point(text, work_generation::parameters)).status), outcome_status::ok);
  }
}

TEST(Init, LooksWhetherWhatWasMadeServes) {
  EXPECT_EQ((run<init, no_fault>("").status), outcome_status::ok);
  EXPECT_EQ((run<init, given_twice>("").status), outcome_status::wrong);
}

TEST(Registers, AreThoseOfTheKernelWhereKernelsHaveThem) {
  auto const result = run<registers, no_fault>("which=pair");
  if (simt::query_device().backend == "simulator") {
    EXPECT_EQ(result.reason, "simulated kernels have no registers");
  } else {
    ASSERT_EQ(result.status, outcome_status::ok) << result.reason;
    EXPECT_EQ(result.rows.at(0).metric, std::string{"registers_pair"});
    EXPECT_GT(result.rows.at(0).samples.at(0), 0);
  }
}

TEST(GraphUpdate, CallsASoundAllocatorOk) { EXPECT_EQ((run<graph_update, no_fault>(with_lists).status), outcome_status::ok); }
TEST(GraphUpdate, FindsListsThatShareMemory) {
  EXPECT_EQ((run<graph_update, reused_while_live>("threads=200,batches=1,scale=8,edge_factor=8").status), outcome_status::wrong);
}
TEST(GraphUpdate, GoesOnWithoutTheEdgesThatFoundNoMemory) {
  session s = small;
  s.heap_bytes = 7000;
  auto const result = graph_update::run<broken_malloc<no_fault>>(s, point(with_lists, graph_update::parameters));
  ASSERT_EQ(result.status, outcome_status::ok) << result.reason;
  EXPECT_GT(result.rows.at(2).samples.at(0), 0);  // failed_requests
}

TEST(GraphCases, CallASoundAllocatorOk) {
  EXPECT_EQ((run<graph_init, no_fault>("scale=6,edge_factor=4").status), outcome_status::ok);
  for (auto const* phase : {"insert", "delete"}) {
    auto const text = std::string("threads=200,batches=3,scale=6,edge_factor=4,phase=") + phase;
    auto const result = run<graph_update, no_fault>(text.c_str());
    ASSERT_EQ(result.status, outcome_status::ok) << result.reason;
    EXPECT_EQ(result.rows.at(0).samples.size(), 3u);  // one for each batch of the run
    EXPECT_EQ((run<graph_update_focused, no_fault>((text + ",range=3").c_str()).status), outcome_status::ok);
  }
  EXPECT_EQ((run<graph_expansion, no_fault>("threads=200,batches=5,scale=6,edge_factor=4").status), outcome_status::ok);
  EXPECT_EQ((run<graph_skewed, no_fault>("hub=2000,scale=6,edge_factor=4").status), outcome_status::ok);
}
TEST(GraphCases, FindListsThatShareMemory) {
  EXPECT_EQ((run<graph_init, reused_while_live>("scale=8,edge_factor=8").status), outcome_status::wrong);
  EXPECT_EQ((run<graph_expansion, reused_while_live>("threads=500,batches=5,scale=4,edge_factor=4").status), outcome_status::wrong);
  EXPECT_EQ((run<graph_update_focused, reused_while_live>("threads=2000,batches=2,range=8,scale=4,edge_factor=4").status),
            outcome_status::wrong);
}
TEST(GraphCases, AHubThatFindsNoMemoryCannotBeDone) {
  session s = small;
  s.heap_bytes = 64 << 10;
  for (auto const* phase : {"init", "insert"}) {
    auto const text = std::string("hub=10000,batches=4,scale=6,edge_factor=4,phase=") + phase;
    auto const result = graph_skewed::run<broken_malloc<no_fault>>(s, point(text, graph_skewed::parameters));
    EXPECT_EQ(result.status, outcome_status::unsupported) << phase << ": " << result.reason;
  }
}

}  // namespace gpuheap::bench
