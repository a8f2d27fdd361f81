// The hazards of superblocks that threads share by agreement (coalesce_block_*, coalesce_warp_*): the threads that are counted, the map and
// its times, and superblocks that cannot be had. Each mistake is restored in a group or an order of steps of the tests alone.
#include <algorithm>

#include "coalesce_checks.hpp"

namespace {

using namespace hazards;

template <coalesce_group Group, coalesce_link Link, coalesce_alignment Alignment = coalesce_alignment::strict16,
          class Upstream = backing_reference>
using variant = gpuheap::basic_coalesce<coalesce_config{.group = Group, .link = Link, .alignment = Alignment, .map_percent = 20}, Upstream>;
using block_header = variant<coalesce_group::block, coalesce_link::header>;
using block_map = variant<coalesce_group::block, coalesce_link::map>;
using warp_header = variant<coalesce_group::warp, coalesce_link::header>;
using warp_map = variant<coalesce_group::warp, coalesce_link::map>;

TEST(Coalesce, BlocksChangeHandsUnderManySchedules) {
  expect_right(num_seeds(2000), [] { return blocks_change_hands<block_header>(56, 40, 2, 12_KiB); });
  expect_right(num_seeds(1500), [] { return blocks_change_hands<block_map>(56, 40, 2, 12_KiB); });
  expect_right(num_seeds(500), [] { return blocks_change_hands<warp_header>(80, 64, 2, 12_KiB); });
  expect_right(num_seeds(500), [] { return blocks_change_hands<warp_map>(80, 64, 2, 12_KiB); });
  // Hardly any room: superblocks are refused.
  expect_right(num_seeds(500), [] { return blocks_change_hands<block_map>(56, 40, 2, 1_KiB); });
}

// ---- who is counted

// As many pieces as the launch has threads, although fewer came: the superblock never goes back.
struct counts_the_launch : census {
  using census::census;
  [[nodiscard]] unsigned size() const { return simt::threads_per_block(); }
};
TEST(CoalesceHazard, ThreadsThatHaveReturnedAreCounted) {
  expect_found(2, [] { return blocks_change_hands<block_header, counts_the_launch>(56, 40, 2, 12_KiB); });
  expect_found(2, [] { return blocks_change_hands<block_map, counts_the_launch>(56, 40, 2, 12_KiB); });
}

// ---- the shared variable is written again before all have read it

struct group_with_one_barrier : census {
  explicit group_with_one_barrier(gpuheap::block_scratch& scratch) : census{scratch}, scratch_{&scratch} {}
  template <class T>
  [[nodiscard]] T from_first(T value) const {
    if (rank() == 0) simt::plain_write(scratch_->common, simt::bit_cast<simt::uint64_t>(value));
    sync();
    return simt::bit_cast<T>(simt::plain_read(scratch_->common));
  }
  gpuheap::block_scratch* scratch_;
};
TEST(CoalesceHazard, TheNextCallWritesBeforeAllHaveRead) {
  expect_right(num_seeds(200), [] { return blocks_change_hands<block_header>(12, 6, 8, 64_KiB); });
  expect_found(100, [] { return blocks_change_hands<block_header, group_with_one_barrier>(12, 6, 8, 64_KiB); });
}

// ---- the map forgets a piece after its superblock may have gone: the same address is there again, and is forgotten in its place

using late_map = gpuheap::basic_coalesce<coalesce_config{.link = coalesce_link::map, .map_percent = 20}, backing_reference,
                                         gpuheap::coalesce_removal::after_the_count>;
TEST(CoalesceHazard, AKeyOutlivesItsSuperblock) {
  expect_right(num_seeds(1000), [] { return blocks_change_hands<block_map>(24, 8, 6, 1_KiB); });
  expect_found(1000, [] { return blocks_change_hands<late_map>(24, 8, 6, 1_KiB); });
}

// ---- a full map, and an upstream allocator that refuses

TEST(CoalesceHazard, AFullMapHidesMemory) {
  using one_bucket = gpuheap::basic_coalesce<coalesce_config{.link = coalesce_link::map, .map_percent = 0}, backing_reference>;
  auto heap = heap_with<one_bucket>(64_KiB);
  for (unsigned round = 0; round < 3; ++round) {
    blocks_in<one_bucket> b(heap.ref(), 300, 40);
    b.malloc_all(64);
    EXPECT_EQ(b.failed_requests(), 0u);
    auto const a = heap.verify();
    EXPECT_EQ(a.problem, "");
    EXPECT_GT(a.live_pieces, 0u);
    EXPECT_LE(a.live_pieces, 16u);
    EXPECT_TRUE(are_apart(b));
    b.fill();
    b.expect_intact("beside pieces that the map had no room for");
    b.free_all(7);
    EXPECT_TRUE(is_sound_and_empty(heap));
  }
  expect_right(num_seeds(300), [] { return blocks_change_hands<one_bucket>(56, 40, 2, 12_KiB); });
}

template <class A>
class EachVariant : public ::testing::Test {};
using variants = ::testing::Types<block_header, block_map, warp_header, warp_map>;
TYPED_TEST_SUITE(EachVariant, variants);

TYPED_TEST(EachVariant, ARefusedSuperblockRefusesThoseThatWouldFitAlone) {
  auto heap = heap_with<TypeParam>(24_KiB);
  blocks_in<TypeParam> b(heap.ref(), 100, 1000);
  malloc_all_by_blocks(b, heap, 100);
  EXPECT_GT(b.failed_requests(), 0u);
  EXPECT_LE(b.failed_requests(), 100u - 15u);
  EXPECT_TRUE(are_apart(b));
  b.free_all(3);
  EXPECT_TRUE(is_sound_and_empty(heap));
}
TYPED_TEST(EachVariant, NobodyHangsWhereNothingIsServed) {
  gpuheap::heap<typename TypeParam::template over<gpuheap::refusing_backing>> heap{64_KiB};
  blocks_in<typename TypeParam::template over<gpuheap::refusing_backing>> b(heap.ref(), 150, 100);
  b.malloc_all(64);
  EXPECT_EQ(b.failed_requests(), 150u);
  malloc_all_by_blocks(b, heap, 100);
  EXPECT_EQ(b.failed_requests(), 150u);
  EXPECT_EQ(heap.stats().failed_requests, 300u);
}
TYPED_TEST(EachVariant, OneLiveBlockKeepsLargeOnesOfOthers) {
  auto heap = heap_with<TypeParam>(1_MiB);
  blocks_in<TypeParam> b(heap.ref(), 64, 5000);
  malloc_all_by_blocks(b, heap, 64);
  ASSERT_EQ(b.failed_requests(), 0u);
  auto const p = b.pointers().read();
  heap.free(std::vector<void*>(p.begin() + 1, p.end()));
  EXPECT_LT(heap.stats().held_bytes, 5200u);
  heap.free(std::vector<void*>{p[0]});
  EXPECT_TRUE(is_sound_and_empty(heap));
}
// Sizes differ at a call for which the analysis took them for uniform.
TYPED_TEST(EachVariant, SizesThatDifferOverlap) {
  auto heap = heap_with<TypeParam>(1_MiB);
  for (unsigned round = 0; round < 3; ++round) {
    std::vector<std::size_t> sizes(150);
    for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = i % 5 == round ? 700 : i % 11 == 3 ? 0 : 64;
    blocks_in<TypeParam> b(heap.ref(), sizes);
    malloc_all_by_blocks(b, heap, 100);
    EXPECT_EQ(b.failed_requests(), static_cast<std::size_t>(std::count(sizes.begin(), sizes.end(), 0u)));
    EXPECT_TRUE(are_apart(b));
    b.fill();
    b.expect_intact("of sizes that differ");
    b.free_all(7);
    EXPECT_TRUE(is_sound_and_empty(heap));
    EXPECT_EQ(heap.stats().live_bytes, 0u);
  }
}

// ---- where blocks lie

// Bytes between neighbours, if they are all the same within a group of `together`; else 0.
template <class A>
[[nodiscard]] std::size_t distance_of_neighbours(unsigned bytes, unsigned together) {
  auto heap = heap_with<A>(1_MiB);
  blocks_in<A> b(heap.ref(), 250, bytes);  // the last block is partial
  malloc_all_by_blocks(b, heap, 100);
  auto const p = b.pointers().read();
  std::size_t const first = static_cast<std::size_t>(static_cast<char*>(p[1]) - static_cast<char*>(p[0]));
  for (unsigned i = 1; i < 250; ++i) {
    bool const same_group = i % 100 / together == (i - 1) % 100 / together && i % 100 != 0;
    if (same_group && static_cast<std::size_t>(static_cast<char*>(p[i]) - static_cast<char*>(p[i - 1])) != first) return 0;
  }
  // fill() writes words of 8 bytes.
  if (reinterpret_cast<std::uintptr_t>(p[1]) % 8 == 0 || bytes < 8) {
    b.fill();
    b.expect_intact("of neighbours");
  }
  b.free_all(3);
  return is_sound_and_empty(heap) ? first : 0;
}
TEST(Coalesce, NeighboursLieSideBySide) {
  EXPECT_EQ(distance_of_neighbours<block_header>(4, 100), 32u);
  EXPECT_EQ(distance_of_neighbours<block_header>(400, 100), 416u);
  EXPECT_EQ(distance_of_neighbours<block_map>(4, 100), 16u);
  EXPECT_EQ(distance_of_neighbours<block_map>(400, 100), 400u);
  EXPECT_EQ(distance_of_neighbours<warp_header>(100, 32), 128u);
  EXPECT_EQ(distance_of_neighbours<warp_map>(100, 32), 112u);
}
TEST(Coalesce, AlignmentIsWhatThePolicySays) {
  using enum coalesce_alignment;
  constexpr auto block = coalesce_group::block;
  constexpr auto header = coalesce_link::header, map = coalesce_link::map;
  EXPECT_EQ((distance_of_neighbours<variant<block, map, natural>>(4, 100)), 4u);
  EXPECT_EQ((distance_of_neighbours<variant<block, map, natural>>(8, 100)), 8u) << "double";
  EXPECT_EQ((distance_of_neighbours<variant<block, map, natural>>(12, 100)), 16u) << "int3, or a double and an int";
  EXPECT_EQ((distance_of_neighbours<variant<block, map, natural>>(16, 100)), 16u) << "float4";
  EXPECT_EQ((distance_of_neighbours<variant<block, map, natural>>(3, 100)), 4u);
  EXPECT_EQ((distance_of_neighbours<variant<block, map, paper>>(12, 100)), 12u);
  EXPECT_EQ((distance_of_neighbours<variant<block, map, paper>>(100, 100)), 100u);
  EXPECT_EQ((distance_of_neighbours<variant<block, header, natural>>(8, 100)), 16u);
  EXPECT_EQ((distance_of_neighbours<variant<block, header, natural>>(12, 100)), 24u);
  EXPECT_EQ((distance_of_neighbours<variant<block, header, natural>>(16, 100)), 32u);
  EXPECT_EQ((distance_of_neighbours<variant<block, header, paper>>(8, 100)), 32u) << "padded to 16, as published";
}
// Kernel: blocks of one type, by a call of the warp, written as that type.
template <class Ref, class T>
struct write_as {
  Ref heap;
  unsigned* misaligned;
  GPUHEAP_FN void operator()(unsigned) const {
    auto* const p = static_cast<T*>(heap.malloc_coalesced(gpuheap::this_warp(), sizeof(T) * 3));
    if (reinterpret_cast<simt::uintptr_t>(p) % alignof(T) != 0) simt::atomic_ref<unsigned>{*misaligned}.fetch_add(1, simt::relaxed);
    heap.free(p);
  }
};
template <class A, class T>
[[nodiscard]] unsigned misaligned() {
  auto heap = heap_with<A>(256_KiB);
  test::device_array<unsigned> count(1);
  gpuheap::launch(100, write_as<typename gpuheap::heap<A>::ref_type, T>{heap.ref(), count.data()}, {.block_threads = 64});
  return count.first();
}
struct alignas(16) float4_like {
  float x, y, z, w;
};
struct int3_like {
  int x, y, z;
};
template <class A>
void expect_aligned_types() {
  EXPECT_EQ((misaligned<A, float4_like>()), 0u);
  EXPECT_EQ((misaligned<A, double>()), 0u);
  EXPECT_EQ((misaligned<A, int3_like>()), 0u);
  EXPECT_EQ((misaligned<A, short>()), 0u);
  EXPECT_EQ((misaligned<A, char>()), 0u);
}
TEST(Coalesce, TypesFindTheirAlignment) {
  expect_aligned_types<variant<coalesce_group::warp, coalesce_link::map, coalesce_alignment::natural>>();
  expect_aligned_types<variant<coalesce_group::warp, coalesce_link::header, coalesce_alignment::natural>>();
  expect_aligned_types<warp_map>();
  EXPECT_EQ((misaligned<variant<coalesce_group::warp, coalesce_link::map, coalesce_alignment::paper>, float>()), 0u);
}

}  // namespace
