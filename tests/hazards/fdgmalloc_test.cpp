// The hazards of the published FDGMalloc.
#include "fdgmalloc_mutants.hpp"

#include <gpuheap/allocators/fdgmalloc.hpp>
#include <gpuheap/memory/address_range.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace hazards;
using gpuheap::backing_reference;

using fdgmalloc = gpuheap::basic_fdgmalloc<{}, backing_reference>;
// Small enough that every call is near some edge: 15 units an area, three blocks a list, three warps.
constexpr gpuheap::fdgmalloc_config tiny_config{.superblock_bytes = 256, .list_pointers = 3, .max_warps = 3};
using tiny = gpuheap::basic_fdgmalloc<tiny_config, backing_reference>;

// ---- kernels

// Lanes of `mask` of each warp ask `requests` times, and stay together to the end.
template <class Ref>
struct ask {
  Ref heap;
  std::size_t const* sizes;  // of request k of thread i: k * threads + i
  void** out;
  unsigned threads;
  unsigned requests;
  simt::lane_mask mask;
  bool in_groups;
  GPUHEAP_FN void operator()(unsigned i) const {
    if ((mask >> i % 32 & 1) == 0) return;
    if (in_groups && i % 3 == 0) {
      ask_all(i);
    } else {
      ask_all(i);
    }
  }
  GPUHEAP_FN void ask_all(unsigned i) const {
    for (unsigned k = 0; k < requests; ++k) out[k * threads + i] = heap.malloc(sizes[k * threads + i]);
  }
};
template <class Ref>
struct release {
  Ref heap;
  simt::lane_mask mask;
  GPUHEAP_FN void operator()(unsigned i) const {
    if ((mask >> i % 32 & 1) != 0) heap.release_warp();
  }
};

// Blocks that `threads` threads ask for, `requests` each.
template <class A>
struct asked {
  using ref = typename gpuheap::heap<A>::ref_type;
  test::blocks<ref> blocks;
  asked(gpuheap::heap<A>& heap, unsigned threads, unsigned requests, std::vector<std::size_t> sizes, simt::lane_mask mask = simt::all_lanes,
        bool in_groups = false)
      : blocks{heap.ref(), sizes} {
    gpuheap::launch(threads,
                    ask<ref>{heap.ref(), blocks.device_sizes().data(), blocks.pointers().data(), threads, requests, mask, in_groups},
                    {.block_threads = 64});
  }
};
template <class A>
void release_all(gpuheap::heap<A>& heap, unsigned threads, simt::lane_mask mask = simt::all_lanes) {
  gpuheap::launch(threads, release<typename gpuheap::heap<A>::ref_type>{heap.ref(), mask}, {.block_threads = 64});
}
std::vector<std::size_t> sizes_up_to(unsigned count, unsigned most) {
  test::rng random{7};
  std::vector<std::size_t> sizes(count);
  for (auto& s : sizes) s = 1 + random.below(most);
  return sizes;
}

// Of a warp and a half, in two groups each: whether the blocks are apart, and come back.
template <class A>
bool keeps_groups_apart() {
  gpuheap::heap<A> heap{1_MiB};  // room for superblocks that groups ask for at the same time, of which one is needed
  asked<A> a(heap, 48, 4, sizes_up_to(48 * 4, 16), simt::all_lanes, true);
  if (a.blocks.failed_requests() != 0 || !are_apart(a.blocks)) return false;
  release_all(heap, 48);
  return heap.stats().held_bytes == 0;
}
TEST(Mutants, TheArenaTheyAreMadeOfIsRight) { expect_right(500, keeps_groups_apart<right_arena>); }

// ---- hazard 1

struct sign_extending : right_steps {
  static constexpr bool sign_extends = true;
};
// A heap whose addresses have bit 31 set.
template <class A>
bool stays_inside_above_2_gib() {
  gpuheap::memory::address_range range{8_GiB};
  auto const base = reinterpret_cast<std::uintptr_t>(range.base());
  std::uintptr_t const at = (base | 0x80000000u) + ((base & 0x80000000u) != 0 ? 0 : -(base & 0x7fffffffu));
  simt::size_t const offset = (at - base + 2_MiB - 1) / 2_MiB * 2_MiB;
  range.map(offset, 2_MiB);
  gpuheap::memory::region const where{static_cast<char*>(range.base()) + offset, 1_MiB};
  EXPECT_NE(reinterpret_cast<std::uintptr_t>(where.base) & 0x80000000u, 0u);
  gpuheap::heap<A> heap{where};
  asked<A> a(heap, 64, 2, std::vector<std::size_t>(128, 16));
  for (void* p : a.blocks.pointers().read()) {
    if (p < where.base || p >= static_cast<char*>(where.base) + where.bytes) return false;
  }
  return true;
}
TEST(Hazard1, AddressesWithBit31LoseTheirUpperHalf) {
  EXPECT_TRUE(stays_inside_above_2_gib<fdgmalloc>());
  EXPECT_TRUE(stays_inside_above_2_gib<right_arena>());
  EXPECT_FALSE(stays_inside_above_2_gib<arena_of_steps<sign_extending>>()) << "the test does not see the published mistake";
}

// ---- hazard 2

struct looking_again : right_steps {
  static constexpr bool looks_again = true;
};
TEST(Hazard2, MasksOfSuccessiveStepsDiffer) {
  expect_right(500, keeps_groups_apart<fdgmalloc>);
  expect_found(500, keeps_groups_apart<arena_of_steps<looking_again>>);
}

// ---- hazard 3

struct keeping_slots : right_steps {
  static constexpr bool keeps_slots = true;
};
// The requests of one lane after its whole warp has asked.
template <class A>
std::size_t held_for_one_lane() {
  gpuheap::heap<A> heap{1_MiB};
  asked<A> all(heap, 32, 1, std::vector<std::size_t>(32, 14));
  std::size_t const before = heap.stats().held_bytes;
  asked<A> one(heap, 32, 16, std::vector<std::size_t>(32 * 16, 16), 1u << 20);
  return heap.stats().held_bytes - before;
}
TEST(Hazard3, LanesThatDoNotAskTakeWhatTheyAskedBefore) {
  EXPECT_EQ(held_for_one_lane<fdgmalloc>(), 0u) << "the area has room for 16 more requests of 16 bytes";
  std::size_t const right = held_for_one_lane<right_arena>(), mutant = held_for_one_lane<arena_of_steps<keeping_slots>>();
  EXPECT_GT(mutant, 4 * right) << "the test does not see the published mistake";
}

// ---- hazard 4

struct with_plain_index : right_steps {
  static constexpr bool index_is_plain = true;
};
TEST(Hazard4, GroupsThatReadTheIndexAtOnceGetTheSameBytes) {
  expect_right(1000, keeps_groups_apart<fdgmalloc>);
  expect_right(1000, keeps_groups_apart<tiny>);
  expect_found(1000, keeps_groups_apart<arena_of_steps<with_plain_index>>);
}

// ---- hazard 5

struct counting_lanes : right_steps {
  static constexpr bool counts_lanes = true;
};
// The lanes of a mask ask, and all of them release.
template <class A>
bool takes_back_from_some_lanes(simt::lane_mask mask) {
  gpuheap::heap<A> heap{1_MiB};
  asked<A> a(heap, 48, 3, std::vector<std::size_t>(48 * 3, 16), mask);
  if (heap.stats().held_bytes == 0) return false;
  release_all(heap, 48, mask);
  return heap.stats().held_bytes == 0;
}
TEST(Hazard5, LanesThatNeverStartedAreWaitedFor) {
  for (simt::lane_mask const mask : {0x1u, 0x7fu, 0x7fffffffu, 0xaaaau, 0xffffu}) EXPECT_TRUE(takes_back_from_some_lanes<fdgmalloc>(mask));
  EXPECT_TRUE(takes_back_from_some_lanes<arena_of_steps<counting_lanes>>(0xffff));
  EXPECT_FALSE(takes_back_from_some_lanes<arena_of_steps<counting_lanes>>(0xaaaa)) << "the test does not see the published mistake";
}
// One lane of each warp releases what all of them had; the others have left.
TEST(Hazard5, LanesThatLeaveEarlyKeepTheMemory) {
  gpuheap::heap<fdgmalloc> heap{1_MiB};
  asked<fdgmalloc> a(heap, 100, 3, sizes_up_to(300, 2000));
  EXPECT_GT(heap.stats().held_bytes, 0u);
  release_all(heap, 100, 1u);
  EXPECT_EQ(heap.stats().held_bytes, 0u);
}

// ---- hazard 6

struct with_leaving_leader : right_steps {
  static constexpr bool leader_leaves = true;
};
// More than there is. Whoever waits for a lane that has left is reported by the simulator.
template <class A>
bool ends_when_exhausted() {
  gpuheap::heap<A> heap{gpuheap::heap<A>::min_bytes() + 12_KiB};
  asked<A> a(heap, 64, 30, std::vector<std::size_t>(64 * 30, 16));
  if (a.blocks.failed_requests() == 0 || a.blocks.failed_requests() == a.blocks.count() || !are_apart(a.blocks)) return false;
  release_all(heap, 64);
  return heap.stats().held_bytes == 0;
}
TEST(Hazard6, OthersWaitForALeaderThatHasLeft) {
  expect_right(100, ends_when_exhausted<fdgmalloc>);
  expect_right(100, ends_when_exhausted<tiny>);
  expect_right(20, ends_when_exhausted<right_arena>);
  expect_found(20, ends_when_exhausted<arena_of_steps<with_leaving_leader>>);
}

// ---- hazard 7

// Kernel: each warp gives back nothing, then something, and keeps its list.
template <class Ref>
struct tidy_up_early {
  Ref heap;
  unsigned* failed_requests;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const warp = gpuheap::this_warp(i < 64 ? simt::all_lanes : 0x3ffu);
    for (unsigned round = 0; round < 4; ++round) {
      heap.tidy_up_warp(warp);
      if (round >= 1 && heap.malloc(200 * round) == nullptr) simt::atomic_ref<unsigned>{*failed_requests}.fetch_add(1, simt::relaxed);
    }
    heap.tidy_up_warp(warp);
    heap.tidy_up_warp(warp);
  }
};
TEST(Hazard7, TidyingUpWithoutAListFollowsNull) {
  gpuheap::heap<fdgmalloc> heap{1_MiB};
  test::device_array<unsigned> failed_requests(1);
  gpuheap::launch(74, tidy_up_early<gpuheap::heap<fdgmalloc>::ref_type>{heap.ref(), failed_requests.data()}, {.block_threads = 64});
  EXPECT_EQ(failed_requests.first(), 0u);
  auto const report = heap.verify();
  EXPECT_EQ(report.problem, "");
  EXPECT_EQ(report.blocks, 0u);
  EXPECT_EQ(report.lists, 3u) << "one empty list for each warp";
  EXPECT_EQ(heap.stats().live_allocations, 0u);
  release_all(heap, 74);
  EXPECT_EQ(heap.stats().held_bytes, 0u);
}

// ---- hazard 8

struct releasing_newest_only : right_steps {
  static constexpr bool newest_only = true;
};
template <class A>
bool takes_back_all_lists() {
  gpuheap::heap<A> heap{1_MiB};
  asked<A> a(heap, 32, 20, std::vector<std::size_t>(32 * 20, 16));  // 20 arenas, five lists of the mutant
  if (a.blocks.failed_requests() != 0) return false;
  release_all(heap, 32);
  return heap.stats().held_bytes == 0;
}
TEST(Hazard8, ListsBeyondTheFirstGrowWithoutEnd) {
  EXPECT_TRUE(takes_back_all_lists<fdgmalloc>());
  EXPECT_TRUE(takes_back_all_lists<tiny>());
  EXPECT_TRUE(takes_back_all_lists<right_arena>());
  EXPECT_FALSE(takes_back_all_lists<arena_of_steps<releasing_newest_only>>()) << "the test does not see the published mistake";

  gpuheap::heap<fdgmalloc> heap{16_MiB};
  asked<fdgmalloc> many(heap, 1, 300, std::vector<std::size_t>(300, 9000));
  auto const report = heap.verify();
  EXPECT_EQ(report.problem, "");
  EXPECT_EQ(report.blocks, 300u);
  EXPECT_EQ(report.lists, 3u) << "of 126 blocks each";
  EXPECT_EQ(report.block_bytes, 300u * 9008);
  release_all(heap, 1);
  EXPECT_EQ(heap.stats().held_bytes, 0u);
}
// The lanes that fit fill the area, the others begin the next one at its start.
TEST(Hazard8, WhatIsLeftOfAReplacedAreaIsLost) {
  gpuheap::heap<fdgmalloc> heap{1_MiB};
  asked<fdgmalloc> a(heap, 32, 3, std::vector<std::size_t>(96, 112));  // 3584 bytes a call, 8176 an area: 9 lanes of the third call fit
  auto const p = a.blocks.pointers().read();
  auto const first = static_cast<char*>(p[0]), next = static_cast<char*>(p[64 + 9]);
  for (unsigned n = 0; n < 64 + 9; ++n) EXPECT_EQ(p[n], first + n * 112);
  for (unsigned n = 0; n < 32 - 9; ++n) EXPECT_EQ(p[64 + 9 + n], next + n * 112);
  EXPECT_EQ(heap.verify().block_bytes, 2 * 8192u);
}

// ---- hazard 9

struct with_a_record_per_call : right_steps {
  static constexpr bool record_per_call = true;
};
TEST(Hazard9, ARecordPerCallUsesUpTheHeap) {
  EXPECT_EQ(held_for_one_lane<fdgmalloc>(), 0u);
  EXPECT_GT(held_for_one_lane<arena_of_steps<with_a_record_per_call>>(), 16u * 512) << "the test does not see the published mistake";
  // Kernel after kernel, with a release in each.
  gpuheap::heap<fdgmalloc> heap{1_MiB};
  for (unsigned round = 0; round < 200; ++round) {
    asked<fdgmalloc> a(heap, 64, 2, sizes_up_to(128, 3000));
    ASSERT_EQ(a.blocks.failed_requests(), 0u) << "round " << round;
    release_all(heap, 64);
  }
  EXPECT_EQ(heap.stats().held_bytes, 0u);
}

// ---- hazard 10

// Blocks at 16 modulo 32, as a backing may place them that promises 16.
class skewed_backing {
 public:
  static constexpr gpuheap::allocator_traits traits{.name = "skewed_backing"};
  GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    void* const p = inner_.malloc(bytes + 16);
    return p == nullptr ? nullptr : static_cast<char*>(p) + 16;
  }
  GPUHEAP_FN void free(void* p) const {
    if (p == nullptr) return;
    EXPECT_EQ(inner_.free(static_cast<char*>(p) - 16), gpuheap::free_status::done);
  }
  static simt::size_t min_region_bytes() { return backing_reference::min_region_bytes(); }
  static skewed_backing create(gpuheap::memory::region region, gpuheap::stream_ref stream) {
    skewed_backing b;
    b.inner_ = backing_reference::create(region, stream);
    return b;
  }
  gpuheap::allocator_footprint footprint(gpuheap::stream_ref stream) const { return inner_.footprint(stream); }

 private:
  backing_reference inner_;
};
TEST(Hazard10, AlignmentThatTheBackingDoesNotPromise) {
  using skewed = gpuheap::basic_fdgmalloc<{}, skewed_backing>;
  gpuheap::heap<skewed> heap{4_MiB};
  asked<skewed> a(heap, 100, 10, sizes_up_to(1000, 700));
  EXPECT_EQ(a.blocks.failed_requests(), 0u);
  a.blocks.expect_sound(16, {});
  a.blocks.fill();
  a.blocks.expect_intact("in areas at 16 modulo 32");
  EXPECT_EQ(heap.verify().problem, "");
  release_all(heap, 100);
  EXPECT_EQ(heap.stats().held_bytes, 0u);
}

// ---- edges

TEST(Edges, TheHandOffIsOnTheTotalOfAWarp) {
  for (auto const& [bytes, expected] : {std::pair{8176 / 16, 8192u}, std::pair{8192 / 16, 8192u}, std::pair{8208 / 16, 8208u}}) {
    gpuheap::heap<fdgmalloc> heap{1_MiB};
    asked<fdgmalloc> a(heap, 16, 2, std::vector<std::size_t>(32, 16));  // 512 bytes of an area
    std::vector<std::size_t> sizes(16, 512);
    sizes[15] = static_cast<std::size_t>(bytes) * 16 - 15 * 512;
    release_all(heap, 16);
    asked<fdgmalloc> b(heap, 16, 1, sizes);
    auto const report = heap.verify();
    EXPECT_EQ(report.block_bytes, expected) << bytes * 16 << " bytes in all";
    EXPECT_EQ(report.blocks, 1u);
    // A further request makes a second block, in the same area or in a new one.
    asked<fdgmalloc> more(heap, 1, 1, {1});
    EXPECT_EQ(heap.verify().blocks, 2u) << "8176 bytes fill an area, and a dedicated block is none";
  }
}

TEST(Edges, WarpsBeyondTheTableGetNothing) {
  gpuheap::heap<tiny> heap{64_KiB};
  asked<tiny> a(heap, 5 * 32, 1, std::vector<std::size_t>(5 * 32, 16));
  auto const p = a.blocks.pointers().read();
  for (unsigned i = 0; i < p.size(); ++i) EXPECT_EQ(p[i] != nullptr, i < 3 * 32) << "thread " << i;
  release_all(heap, 5 * 32);
  EXPECT_EQ(heap.stats().held_bytes, 0u);
  EXPECT_GE(gpuheap::heap<fdgmalloc>{16_MiB}.ref().allocator().num_warps(), 4000u);
  EXPECT_LE(gpuheap::heap<fdgmalloc>{1_MiB}.ref().allocator().num_warps(), 256u);
}

TEST(Edges, WithoutABackingEveryLaneGetsNull) {
  using none = gpuheap::basic_fdgmalloc<{}, gpuheap::refusing_backing>;
  expect_right(100, [] {
    gpuheap::heap<none> heap{1_MiB};
    asked<none> a(heap, 80, 3, sizes_up_to(240, 3000), simt::all_lanes, true);
    release_all(heap, 80);
    return a.blocks.failed_requests() == 240 && heap.stats().failed_requests == 240 && heap.verify().problem.empty();
  });
}

// A lane that asks for more than there is does not take its warp down with it.
TEST(Edges, ALaneThatAsksTooMuchFailsAlone) {
  gpuheap::heap<fdgmalloc> heap{1_MiB};
  std::vector<std::size_t> sizes(32, 40);
  sizes[3] = 700'000;
  sizes[9] = 600'000;     // one of these two fits
  sizes[20] = 2'000'000;  // never
  asked<fdgmalloc> a(heap, 32, 1, sizes);
  auto const p = a.blocks.pointers().read();
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(p[i] == nullptr, i == 9 || i == 20) << "lane " << i;
  a.blocks.expect_sound(16, {});
  EXPECT_EQ(heap.verify().problem, "");
}

// ---- all at once

// Kernel: groups of a warp ask for blocks of every kind, write and read them, and the warp gives all back, by release or by tidying up.
template <class Ref>
struct mix {
  Ref heap;
  unsigned threads;
  unsigned rounds;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const lanes = threads - i / 32 * 32;
    auto const warp = gpuheap::this_warp(lanes >= 32 ? simt::all_lanes : (1u << lanes) - 1);
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const bytes = random.below(8) == 0 ? 200 + random.below(400) : 1 + random.below(60);
      void* const p = (i + round) % 4 == 0 ? heap.malloc(bytes) : heap.malloc(bytes + 1);
      void* const q = i % 5 == round ? nullptr : heap.malloc(16);
      write(p, bytes, i, 2 * round);
      write(q, 16, i, 2 * round + 1);
      warp.sync();
      unsigned const bad = lost(p, bytes, i, 2 * round) + lost(q, 16, i, 2 * round + 1);
      if (bad != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(bad, simt::relaxed);  // relaxed: a count
      if (round % 2 == 0) {
        heap.tidy_up_warp(warp);
      } else {
        heap.release_warp(warp);
      }
    }
  }
  GPUHEAP_FN static void write(void* p, unsigned bytes, unsigned i, unsigned n) {
    if (p != nullptr) test::fill_pattern(p, bytes < 32 ? bytes : 32, simt::uint64_t{i} << 8 | n);
  }
  GPUHEAP_FN static unsigned lost(void* p, unsigned bytes, unsigned i, unsigned n) {
    return p == nullptr ? 0 : test::wrong_words(p, bytes < 32 ? bytes : 32, simt::uint64_t{i} << 8 | n);
  }
};
TEST(Mix, OfEverythingUnderManySchedules) {
  expect_right(2000, [] {
    gpuheap::heap<tiny> heap{gpuheap::heap<tiny>::min_bytes() + 8_KiB};
    test::device_array<unsigned> wrong(1);
    gpuheap::launch(80, mix<gpuheap::heap<tiny>::ref_type>{heap.ref(), 80, 2, wrong.data()}, {.block_threads = 64});
    gpuheap::statistics const s = heap.stats();
    return wrong.first() == 0 && s.live_allocations == 0 && s.held_bytes == 0 && heap.verify().problem.empty();
  });
}

// Kernels that run at the same time have the same numbers of warps: a release by one also releases the other's blocks, and nothing breaks.
// Here the lanes of a warp stand for the kernels: no lane writes to its block.
template <class Ref>
struct ask_and_release_at_will {
  Ref heap;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned round = 0; round < 3; ++round) {
      if ((i + round) % 7 == 0) {
        (void)heap.allocator().release_warp();
      } else if ((i + round) % 7 == 1) {
        (void)heap.allocator().tidy_up_warp();
      } else {
        (void)heap.allocator().malloc(16 + i * 3);
      }
    }
  }
};
TEST(Mix, ReleasesBesideRequestsLeaveTheHeapSound) {
  expect_right(1000, [] {
    gpuheap::heap<tiny> heap{gpuheap::heap<tiny>::min_bytes() + 8_KiB};
    gpuheap::launch(64, ask_and_release_at_will<gpuheap::heap<tiny>::ref_type>{heap.ref()}, {.block_threads = 64});
    auto const report = heap.verify();
    // The last release of a warp may have missed the count of a request that it took the block of, and nothing else.
    bool const sound = report.problem.empty() || (report.problem.find("allocations and no memory\n") != std::string::npos &&
                                                  std::count(report.problem.begin(), report.problem.end(), '\n') == 1);
    release_all(heap, 64);
    return sound && heap.stats().held_bytes == 0 && heap.verify().lists == 0;
  });
}

}  // namespace
