// Groups of threads that allocate together: lanes of a warp, blocks, and groups made like those of cooperative_groups.
#include "fixtures.hpp"
#include "groups.hpp"

#include "../support/pattern.hpp"

#include <gpuheap/simt/explore.hpp>

#include <algorithm>
#include <cstdint>
#include <set>

namespace {

using namespace test;
using heap_t = gpuheap::heap<gpuheap::backing_reference>;
using ref_t = heap_t::ref_type;

// Thread i's answer, and what it found wrong on the device.
struct answer {
  void* p = nullptr;
  simt::uint64_t bytes = 0;  // that this thread may use
  simt::uint32_t group = 0;  // lowest thread number of its group
  simt::uint32_t wrong = 0;  // bytes of others that it did not find as they wrote them
};

// One block of memory a group: every thread writes its part, and reads its neighbour's; freed if `and_free`.
template <class Groups>
struct share {
  ref_t heap;
  Groups groups;
  simt::size_t bytes_each;
  bool and_free;
  answer* out;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const group = groups(i);
    simt::size_t const bytes = bytes_each * group.size();
    auto* const block = static_cast<char*>(heap.malloc(group, bytes));
    answer mine{.p = block, .bytes = bytes, .group = static_cast<simt::uint32_t>(first_of(group, i))};
    if (block != nullptr) {
      unsigned const rank = rank_of(group);
      unsigned const next = (rank + 1) % static_cast<unsigned>(group.size());
      fill_pattern(block + bytes_each * rank, bytes_each, mine.group + rank);
      group.sync();
      mine.wrong = wrong_words(block + bytes_each * next, bytes_each, mine.group + next);
    }
    if (and_free && heap.free(group, block) != (block == nullptr ? gpuheap::free_status::null : gpuheap::free_status::done)) ++mine.wrong;
    out[i] = mine;
  }
};

// A piece for each thread, of sizes that differ. `unit` 0: nobody asks for anything.
template <class Groups>
struct split {
  ref_t heap;
  Groups groups;
  unsigned unit;
  bool and_free;
  answer* out;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const group = groups(i);
    simt::size_t const bytes = unit * (mix(i) % 5);
    void* const piece = heap.malloc_each(group, bytes);
    answer mine{.p = piece, .bytes = bytes, .group = static_cast<simt::uint32_t>(first_of(group, i))};
    // The barrier stands outside the branches: that of a block must be met by all lanes of a warp together.
    bool const holds = piece != nullptr && bytes != 0;
    if (holds) fill_pattern(piece, bytes, i);
    group.sync();
    if (holds) mine.wrong = wrong_words(piece, bytes, i);
    if (and_free) (void)heap.free(group, piece);
    out[i] = mine;
  }
};

template <class Kernel>
std::vector<answer> answers_of(unsigned threads, unsigned block_threads, Kernel kernel) {
  device_array<answer> out(threads);
  kernel.out = out.data();
  gpuheap::launch(threads, kernel, {.block_threads = block_threads});
  return out.read();
}

std::size_t groups_in(std::vector<answer> const& answers) {
  std::set<unsigned> groups;
  for (answer const& a : answers) groups.insert(a.group);
  return groups.size();
}

// The faults of the answers if each group shares one block.
std::string problem_of_shares(std::vector<answer> const& answers) {
  std::set<void*> blocks;
  for (answer const& a : answers) {
    if (a.wrong != 0) return "bytes of a neighbour are not there";
    if (a.p != answers[a.group].p) return "two threads of a group have different pointers";
    if (a.p != nullptr) blocks.insert(a.p);
  }
  std::size_t const served = static_cast<std::size_t>(
      std::count_if(answers.begin(), answers.end(), [&](answer const& a) { return &a == &answers[a.group] && a.p != nullptr; }));
  return blocks.size() == served ? "" : "two groups have the same block";
}

// The faults of the pieces of groups that were all served and freed nothing.
std::string problem_of_pieces(std::vector<answer> const& answers) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    answer const& a = answers[i];
    if (a.wrong != 0) return "bytes of a piece have changed";
    if ((a.p == nullptr) != (a.bytes == 0 && a.group != i))
      return "a request for " + std::to_string(a.bytes) + " bytes was answered wrongly";
    if (reinterpret_cast<std::uintptr_t>(a.p) % 16 != 0) return "a piece is not aligned to 16 bytes";
  }
  // Pieces of a group follow each other by rank, with nothing between.
  std::vector<std::uintptr_t> end(answers.size());
  for (answer const& a : answers) {
    if (a.p == nullptr) continue;
    auto const at = reinterpret_cast<std::uintptr_t>(a.p);
    if (end[a.group] != 0 && at != end[a.group]) return "a piece does not begin where the one before it ends";
    end[a.group] = at + (a.bytes + 15) / 16 * 16;
  }
  return "";
}

// Each kind of group, by block sizes that it is tried with.
template <class Groups>
class Collective : public ::testing::Test {};
using kinds_of_group = ::testing::Types<whole_warps, odd_and_even, whoever_is_here, triples, blocks, live_blocks, own_tiles>;
TYPED_TEST_SUITE(Collective, kinds_of_group);

constexpr unsigned block_sizes[] = {1, 31, 32, 33, 64, 200, 1024};

// Threads that fill whole blocks, and what `Groups` needs for them.
template <class Groups>
struct launch_shape {
  unsigned block_threads;
  unsigned threads = block_threads * 3;
  device_array<gpuheap::block_scratch> scratch{3};
  Groups groups{Groups::make(scratch.data())};
};

TYPED_TEST(Collective, AllThreadsGetOneBlock) {
  for (unsigned const block_threads : block_sizes) {
    launch_shape<TypeParam> shape{block_threads};
    heap_t heap{8_MiB};
    auto const answers = answers_of(shape.threads, block_threads, share<TypeParam>{heap.ref(), shape.groups, 40, false, nullptr});
    EXPECT_EQ(problem_of_shares(answers), "") << block_threads;
    EXPECT_NE(answers[0].p, nullptr);
    EXPECT_EQ(heap.stats().live_allocations, groups_in(answers)) << block_threads;
    std::set<void*> pointers;
    for (answer const& a : answers) pointers.insert(a.p);
    heap.free(std::vector<void*>(pointers.begin(), pointers.end()));  // by one thread each
    EXPECT_EQ(heap.stats().live_allocations, 0u);
    EXPECT_NO_THROW(heap.check());
  }
}

TYPED_TEST(Collective, FreeTogether) {
  for (unsigned const block_threads : block_sizes) {
    launch_shape<TypeParam> shape{block_threads};
    heap_t heap{8_MiB};
    auto const answers = answers_of(shape.threads, block_threads, share<TypeParam>{heap.ref(), shape.groups, 24, true, nullptr});
    for (answer const& a : answers) ASSERT_EQ(a.wrong, 0u) << block_threads;
    EXPECT_EQ(heap.stats().live_allocations, 0u) << block_threads;
    EXPECT_NO_THROW(heap.check());
  }
}

TYPED_TEST(Collective, EachThreadGetsAPiece) {
  for (unsigned const block_threads : block_sizes) {
    launch_shape<TypeParam> shape{block_threads};
    heap_t heap{8_MiB};
    auto const answers = answers_of(shape.threads, block_threads, split<TypeParam>{heap.ref(), shape.groups, 13, false, nullptr});
    // A group of which nobody asks for anything gets nothing.
    std::vector<simt::uint64_t> asked(answers.size());
    for (answer const& a : answers) asked[a.group] += a.bytes;
    std::vector<answer> served;
    std::size_t blocks = 0;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      answer a = answers[i];
      if (asked[a.group] == 0) {
        EXPECT_EQ(a.p, nullptr);
        a = {.group = static_cast<simt::uint32_t>(i + 1)};
      } else if (a.group == i) {
        ++blocks;
      }
      served.push_back(a);
    }
    EXPECT_EQ(problem_of_pieces(served), "") << block_threads;
    EXPECT_EQ(heap.stats().live_allocations, blocks) << block_threads;
    EXPECT_NO_THROW(heap.check());
  }
}

TYPED_TEST(Collective, PiecesAreFreedTogether) {
  launch_shape<TypeParam> shape{96};
  heap_t heap{8_MiB};
  answers_of(shape.threads, 96, split<TypeParam>{heap.ref(), shape.groups, 7, true, nullptr});
  EXPECT_EQ(heap.stats().live_allocations, 0u);
  EXPECT_NO_THROW(heap.check());
}

TYPED_TEST(Collective, NothingForNothing) {
  launch_shape<TypeParam> shape{64};
  heap_t heap{1_MiB};
  for (answer const& a : answers_of(shape.threads, 64, split<TypeParam>{heap.ref(), shape.groups, 0, true, nullptr}))
    EXPECT_EQ(a.p, nullptr);
  for (answer const& a : answers_of(shape.threads, 64, share<TypeParam>{heap.ref(), shape.groups, 0, true, nullptr}))
    EXPECT_EQ(a.p, nullptr);
  EXPECT_NO_THROW(heap.check()) << "no failure: nothing was asked for";
}

// Every thread asks for `bytes`.
template <class Groups>
struct split_evenly {
  ref_t heap;
  Groups groups;
  simt::size_t bytes;
  answer* out;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const group = groups(i);
    out[i] = {.p = heap.malloc_each(group, bytes), .bytes = bytes, .group = static_cast<simt::uint32_t>(first_of(group, i))};
  }
};

TYPED_TEST(Collective, WhatDoesNotFitIsNullForAllAndOneFailureAGroup) {
  launch_shape<TypeParam> shape{64};
  for (simt::size_t const bytes : {simt::size_t{2_MiB}, simt::size_t{1} << 60, ~simt::size_t{0}, ~simt::size_t{0} - 15}) {
    heap_t heap{1_MiB};
    auto const pieces = answers_of(shape.threads, 64, split_evenly<TypeParam>{heap.ref(), shape.groups, bytes, nullptr});
    for (answer const& a : pieces) EXPECT_EQ(a.p, nullptr) << bytes;
    EXPECT_EQ(heap.stats().failed_requests, groups_in(pieces)) << bytes;
    EXPECT_THROW(heap.check(), gpuheap::out_of_memory);
  }
  heap_t heap{1_MiB};
  auto const shares = answers_of(shape.threads, 64, share<TypeParam>{heap.ref(), shape.groups, 2_MiB, true, nullptr});
  for (answer const& a : shares) EXPECT_EQ(a.p, nullptr);
  EXPECT_EQ(heap.stats().failed_requests, groups_in(shares));
}

TYPED_TEST(Collective, UnderManySchedules) {
  simt::exploration const result = simt::explore(60, [] {
    launch_shape<TypeParam> shape{40};
    heap_t heap{heap_t::min_bytes() + 6_KiB};  // not enough for all at once
    auto const shares = answers_of(shape.threads, 40, share<TypeParam>{heap.ref(), shape.groups, 64, true, nullptr});
    for (answer const& a : shares) {
      if (a.wrong != 0 || a.p != shares[a.group].p) return false;
    }
    for (answer const& a : answers_of(shape.threads, 40, split<TypeParam>{heap.ref(), shape.groups, 30, true, nullptr})) {
      if (a.wrong != 0) return false;
    }
    gpuheap::statistics const s = heap.stats();
    return s.live_allocations == 0 && s.double_frees + s.foreign_frees == 0;
  });
  EXPECT_TRUE(result) << result.what << "\nseed " << result.seed;
}

// One scratch serves all calls of its block, one after the other.
struct use_scratch_again {
  ref_t heap;
  gpuheap::block_scratch* scratch;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const block = gpuheap::this_block(scratch[simt::block_id()]);
    for (unsigned round = 0; round < 5; ++round) {
      void* const a = heap.malloc(block, 500);
      void* const b = heap.malloc_each(block, 16 + i % 3 * 16);
      void* const c = heap.malloc(block, 300);
      if (a == nullptr || b == nullptr || c == nullptr || a == c) simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
      (void)heap.free(block, b);
      (void)heap.free(block, a);
      (void)heap.free(block, c);
    }
  }
};

TEST(CollectiveBlock, UsesItsScratchAgainAndAgain) {
  device_array<gpuheap::block_scratch> scratch(4);
  simt::exploration const result = simt::explore(20, [&] {
    heap_t heap{1_MiB};
    device_array<unsigned> wrong(1);
    gpuheap::launch(160, use_scratch_again{heap.ref(), scratch.data(), wrong.data()}, {.block_threads = 40});
    return wrong.first() == 0 && heap.stats().live_allocations == 0;
  });
  EXPECT_TRUE(result) << result.what;
}

// Threads that come to a call of their block, by kind of launch; the others return first.
[[nodiscard]] GPUHEAP_HD bool comes(unsigned i, unsigned pattern) {
  switch (pattern) {
    case 0:
      return true;
    case 1:
      return i % 200 != 0;  // not thread 0
    case 2:
      return i % 200 >= 64;  // not the first two warps
    case 3:
      return i % 3 == 1;
    default:
      return i % 200 == 77;  // one of each block
  }
}
// Each thread of what is left of a block adds up, and gets a piece.
struct count_the_living {
  ref_t heap;
  gpuheap::block_scratch* scratch;
  unsigned pattern;
  answer* out;  // `group`: rank; `bytes`: sum of the thread numbers of lower ranks
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (!comes(i, pattern)) return;
    auto const block = gpuheap::live_block(scratch[simt::block_id()]);
    simt::uint64_t total = 0;
    simt::uint64_t const before = block.sum_before(i, total);
    void* const piece = heap.malloc_each(block, 40);
    auto const again = gpuheap::live_block(scratch[simt::block_id()]);
    bool const bad = again.rank() != block.rank() || again.size() != block.size() || piece == nullptr || total < before + i;
    if (bad) simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
    out[i] = {.p = piece, .bytes = before, .group = block.rank(), .wrong = block.size()};
  }
};
std::string problem_of_census(unsigned threads, unsigned pattern) {
  heap_t heap{8_MiB};
  device_array<gpuheap::block_scratch> scratch(4);
  device_array<answer> out(threads);
  device_array<unsigned> wrong(1);
  gpuheap::launch(threads, count_the_living{heap.ref(), scratch.data(), pattern, out.data(), wrong.data()}, {.block_threads = 200});
  if (wrong.first() != 0) return "a thread was answered wrongly";
  auto const answers = out.read();
  for (unsigned first = 0; first < threads; first += 200) {
    unsigned rank = 0, size = 0;
    simt::uint64_t sum = 0;
    unsigned const end = std::min(first + 200, threads);
    for (unsigned i = first; i < end; ++i) size += comes(i, pattern);
    for (unsigned i = first; i < end; ++i) {
      if (!comes(i, pattern)) continue;
      answer const& a = answers[i];
      if (a.group != rank || a.wrong != size || a.bytes != sum) return "thread " + std::to_string(i) + " has another rank, size or sum";
      ++rank;
      sum += i;
    }
  }
  return "";
}
TEST(CollectiveLiveBlock, CountsThoseThatHaveNotReturned) {
  for (unsigned pattern = 0; pattern < 5; ++pattern) {
    for (unsigned const threads : {200u, 650u, 33u + 200u}) EXPECT_EQ(problem_of_census(threads, pattern), "") << threads << " " << pattern;
  }
}
TEST(CollectiveLiveBlock, CountsUnderManySchedules) {
  std::string problem;
  simt::exploration const result = simt::explore(100, [&] {
    for (unsigned pattern = 0; pattern < 4 && problem.empty(); ++pattern) problem = problem_of_census(270, pattern);
    return problem.empty();
  });
  EXPECT_TRUE(result) << problem << result.what << "\nseed " << result.seed;
}

// A block of its own for each thread of a group, from an allocator that does nothing special for it.
template <class Groups>
struct own_blocks {
  ref_t heap;
  Groups groups;
  answer* out;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const group = groups(i);
    void* const p = heap.malloc_coalesced(group, 40);
    void* const none = heap.malloc_coalesced(group, 0);
    if (p != nullptr) fill_pattern(p, 40, i);
    out[i] = {.p = p, .wrong = none != nullptr};
  }
};
TYPED_TEST(Collective, EachThreadGetsABlockOfItsOwn) {
  launch_shape<TypeParam> shape{96};
  heap_t heap{8_MiB};
  auto const answers = answers_of(shape.threads, 96, own_blocks<TypeParam>{heap.ref(), shape.groups, nullptr});
  std::vector<void*> pointers;
  for (answer const& a : answers) {
    EXPECT_EQ(a.wrong, 0u);
    pointers.push_back(a.p);
  }
  EXPECT_EQ(heap.stats().live_allocations, shape.threads);
  heap.free(pointers);
  EXPECT_EQ(heap.stats().live_allocations, 0u);
  EXPECT_NO_THROW(heap.check());
}

struct free_twice {
  ref_t heap;
  gpuheap::free_status* out;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const warp = gpuheap::this_warp(simt::all_lanes);
    void* const p = heap.malloc(warp, 100);
    (void)heap.free(warp, p);
    out[i] = heap.free(warp, p);
  }
};

TEST(CollectiveFree, SaysWhatBecameOfIt) {
  heap_t heap{1_MiB};
  device_array<gpuheap::free_status> answers(32);
  gpuheap::launch(32, free_twice{heap.ref(), answers.data()}, {.block_threads = 32});
  for (auto const status : answers.read()) EXPECT_EQ(status, gpuheap::free_status::double_free);
  EXPECT_EQ(heap.stats().double_frees, 1u);
}

struct both_forms {
  gpuheap::heap_ref<> heap;
  void** out;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const warp = gpuheap::this_warp(simt::all_lanes);
    out[i] = heap.malloc_each(warp, 16 + i % 7 * 8);
    void* const p = heap.malloc(warp, 1000);
    (void)heap.free(warp, p);
  }
};

TEST(CollectiveMalloc, ServesFromTheDefaultHeap) {
  gpuheap::heap<> heap{16_MiB};
  device_array<void*> out(256);
  gpuheap::launch(256, both_forms{heap.ref(), out.data()}, {.block_threads = 64});
  for (void* p : out.read()) EXPECT_NE(p, nullptr);
  EXPECT_EQ(heap.stats().live_allocations, 8u);
}

}  // namespace
