// The host's calls that are safe while kernels of another stream use the heap, for each kind of heap: a row of docs/misuse.md that needs a
// GPU, since the simulator's host waits for each kernel.
#include "../../support/rng.hpp"
#include "../fixtures.hpp"

#include <gpuheap/checked.hpp>
#include <gpuheap/hardened.hpp>

#include <cuda_runtime.h>

namespace {

using namespace test;

// Kernel: each thread asks, fills, verifies and frees a few times.
template <class Ref>
struct use_busily {
  Ref heap;
  unsigned seed;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{seed * 1'000'003ull + i};
    GPUHEAP_NO_UNROLL
    for (unsigned round = 0; round < 8; ++round) {
      unsigned const bytes = 8 + random.below(500);
      void* const p = heap.malloc(bytes);
      simt::uint64_t const key = simt::uint64_t{seed} << 40 | simt::uint64_t{i} << 8 | round;
      if (p != nullptr) test::fill_pattern(p, bytes, key);
      unsigned const bad = p == nullptr ? 1 : test::wrong_words(p, bytes, key);
      if (bad != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(bad, simt::relaxed);  // relaxed: a count
      heap.free(p);
    }
  }
};

template <class Allocator>
class Misuse : public ::testing::Test {};
using kinds = ::testing::Types<gpuheap::sharded_spans, gpuheap::hardened<>, gpuheap::checked<>>;
TYPED_TEST_SUITE(Misuse, kinds);

TYPED_TEST(Misuse, HostCallsBesideRunningKernels) {
  using heap_type = gpuheap::heap<TypeParam>;
  constexpr bool checked = gpuheap::simt::is_same_v<TypeParam, gpuheap::checked<>>;
  heap_type heap{512_MiB};
  simt::synchronize({});
  device_array<unsigned> wrong(1);
  gpuheap::stream_ref const busy = simt::make_stream(), other = simt::make_stream();
  for (unsigned round = 0; round < 10; ++round) {
    auto const mine = blocks_of(heap, 1000, 100, {.stream = other});  // which waits for the device
    for (unsigned n = 0; n < 5; ++n) {
      gpuheap::launch(1 << 16, use_busily<typename heap_type::ref_type>{heap.ref(), 100 * round + n, wrong.data()}, {.stream = busy});
    }
    gpuheap::statistics const s = heap.stats(other);
    EXPECT_LE(s.live_bytes, heap.at_most());
    EXPECT_LE(s.live_allocations, heap.at_most() / 16);
    std::vector<char> bytes(100, static_cast<char>(round));
    heap.copy_from_host(mine[7], bytes.data(), bytes.size(), other);
    bytes.assign(100, 0);
    heap.copy_to_host(bytes.data(), mine[7], bytes.size(), other);
    EXPECT_EQ(bytes, std::vector<char>(100, static_cast<char>(round)));
    heap.set_policy(gpuheap::exhaustion_policy::null, other);
    if constexpr (!checked) EXPECT_EQ(heap.check(other), 0u);
    heap.free(mine, other);
    simt::synchronize(other);
    simt::synchronize(busy);
    EXPECT_EQ(heap.stats(busy).live_allocations, 0u);
  }
  EXPECT_EQ(wrong.first(), 0u);
  EXPECT_EQ(text_of_error([&] { heap.check(); }), "");
  EXPECT_EQ(heap.verify().problem, "");
  simt::destroy_stream(busy);
  simt::destroy_stream(other);
}

}  // namespace
