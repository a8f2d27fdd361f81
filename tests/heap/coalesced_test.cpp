// malloc_coalesced of allocators that coalesce: every kind of group, blocks of which some threads have returned, frees by any thread.
#include "fixtures.hpp"
#include "groups.hpp"

#include "../support/pattern.hpp"

#include <gpuheap/allocators/coalesce.hpp>
#include <gpuheap/allocators/coalesce_dynamic.hpp>

#include <algorithm>
#include <cstdint>

namespace {

using namespace test;

template <class A>
class Coalesced : public ::testing::Test {};
using allocators =
    ::testing::Types<gpuheap::basic_coalesce_block_header<gpuheap::backing_reference>,
                     gpuheap::basic_coalesce_block_map<gpuheap::backing_reference>,
                     gpuheap::basic_coalesce_warp_header<gpuheap::sharded_spans>, gpuheap::basic_coalesce_warp_map<gpuheap::sharded_spans>,
                     gpuheap::coalesce_dynamic_over<gpuheap::sharded_spans>>;
TYPED_TEST_SUITE(Coalesced, allocators);

// Each thread's block is its own; it keeps the first one and frees the others.
template <class Ref, class Groups>
struct serve_groups {
  Ref heap;
  Groups groups;
  void** out;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned bad = 0;
    auto const group = groups(i);
    for (unsigned round = 0; round < 3; ++round) {
      unsigned const bytes = 40 + 24 * round;
      void* const p = heap.malloc_coalesced(group, bytes);
      if (p != nullptr) fill_pattern(p, bytes, i);
      bad += p == nullptr || wrong_words(p, bytes, i) != 0;
      if (round == 0) {
        out[i] = p;
      } else {
        heap.free(p);
      }
    }
    if (bad != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(bad, simt::relaxed);  // relaxed: a count
  }
};
template <class A, class Groups>
void expect_served(unsigned threads, unsigned block_threads) {
  gpuheap::heap<A> heap{64_MiB};
  device_array<gpuheap::block_scratch> scratch(threads / block_threads);
  device_array<unsigned> wrong(1);
  device_array<void*> out(threads);
  gpuheap::launch(
      threads,
      serve_groups<typename gpuheap::heap<A>::ref_type, Groups>{heap.ref(), Groups::make(scratch.data()), out.data(), wrong.data()},
      {.block_threads = block_threads});
  EXPECT_EQ(wrong.first(), 0u);
  EXPECT_EQ(heap.stats().live_allocations, threads);
  auto p = out.read();
  std::reverse(p.begin(), p.end());
  heap.free(p);
  EXPECT_EQ(heap.stats().live_allocations, 0u);
  EXPECT_NO_THROW(heap.check());
  std::sort(p.begin(), p.end());
  for (unsigned i = 1; i < threads; ++i) ASSERT_GE(static_cast<char*>(p[i]) - static_cast<char*>(p[i - 1]), 40);
}
TYPED_TEST(Coalesced, ServesEveryKindOfGroup) {
  for (unsigned const block_threads : {32u, 40u, 256u}) {
    unsigned const threads = 3 * block_threads;
    expect_served<TypeParam, whole_warps>(threads, block_threads);
    expect_served<TypeParam, odd_and_even>(threads, block_threads);
    expect_served<TypeParam, whoever_is_here>(threads, block_threads);
    expect_served<TypeParam, triples>(threads, block_threads);
    expect_served<TypeParam, blocks>(threads, block_threads);
    expect_served<TypeParam, live_blocks>(threads, block_threads);
    expect_served<TypeParam, own_tiles>(threads, block_threads);
  }
}

// The remaining threads of each block ask again and again; each thread frees the block that its neighbour in the launch got the round
// before.
template <class Ref>
struct pass_along {
  Ref heap;
  gpuheap::block_scratch* scratch;
  unsigned leave;  // threads with i % leave == 0 return at once
  void** held;     // by thread
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i % leave == 0) return;
    auto const block = gpuheap::live_block(scratch[simt::block_id()]);
    for (unsigned round = 0; round < 4; ++round) {
      simt::size_t const bytes = 24 + 100 * round;
      void* const p = heap.malloc_coalesced(block, bytes);
      if (p == nullptr) simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);  // relaxed, both: counts
      if (p != nullptr) {
        fill_pattern(p, bytes, i);
        if (wrong_words(p, bytes, i) != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
      }
      // acq_rel: publishes what was written there, and goes on with what the other wrote.
      heap.free(simt::atomic_ref<void*>{held[(i * 7 + round) % 64]}.exchange(p, simt::acq_rel));
    }
  }
};
TYPED_TEST(Coalesced, ServesWhatIsLeftOfABlock) {
  for (unsigned const leave : {2u, 3u, 64u, 1000u}) {
    gpuheap::heap<TypeParam> heap{64_MiB};
    device_array<gpuheap::block_scratch> scratch(5);
    device_array<void*> held(64);
    device_array<unsigned> wrong(1);
    unsigned const threads = 500;  // the last block is partial
    gpuheap::launch(threads,
                    pass_along<typename gpuheap::heap<TypeParam>::ref_type>{heap.ref(), scratch.data(), leave, held.data(), wrong.data()},
                    {.block_threads = 128});
    EXPECT_EQ(wrong.first(), 0u);
    heap.free(held.read());
    EXPECT_EQ(heap.stats().live_allocations, 0u) << leave;
    EXPECT_NO_THROW(heap.check());
  }
}

}  // namespace
