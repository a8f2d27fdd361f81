// Ranks in tests: many schedules of a program whose ranks check the values that they receive.
#pragma once

#include "../support/device_array.hpp"
#include "../support/seeds.hpp"

#include <gpuheap/allocators/backing_reference.hpp>
#include <gpuheap/heap.hpp>
#include <gpuheap/mpi/world.hpp>
#include <gpuheap/simt/explore.hpp>

#include <gtest/gtest.h>

#include <string>

namespace test {

namespace mpi = gpuheap::mpi;
namespace simt = gpuheap::simt;
using namespace gpuheap::literals;
using test_heap = gpuheap::heap<gpuheap::backing_reference>;
using mpi::datatype;
using mpi::operation;

// Counts what a rank finds wrong; says the first line of it.
struct judge {
  unsigned* wrong;  // {how many, line of one}
  GPUHEAP_FN void operator()(bool right, unsigned line = __builtin_LINE()) const {
    if (right) return;
    // relaxed: a count; it is read after the kernel.
    simt::atomic_ref<unsigned>{wrong[0]}.fetch_add(1, simt::relaxed);
    simt::atomic_ref<unsigned>{wrong[1]}.store(line, simt::relaxed);
  }
};

// The program between init() and finalize().
template <class Body>
struct whole_program {
  Body body;
  judge check;
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me) const {
    check(me.init() == mpi::success);
    int rank = -1, size = -1;
    check(me.comm_rank(me.world(), &rank) == mpi::success);
    check(me.comm_size(me.world(), &size) == mpi::success);
    body(me, rank, size, check);
    check(me.finalize() == mpi::success);
  }
};

// Runs the body as `ranks` ranks: every check holds, none aborts, and the heap is empty afterwards.
template <class Body, class Heap = test_heap>
void require_right(unsigned ranks, unsigned block_threads, Body body, Heap heap = Heap{4_MiB}) {
  device_array<unsigned> wrong(2);
  mpi::result const ended = mpi::run(heap.ref(), ranks, whole_program<Body>{body, judge{wrong.data()}}, {.block_threads = block_threads});
  if (ended.aborted) throw gpuheap::plain_error("rank " + std::to_string(ended.rank) + " aborted with " + std::to_string(ended.code));
  auto const found = wrong.read();
  if (found[0] != 0) throw gpuheap::plain_error(std::to_string(found[0]) + " checks failed, one in line " + std::to_string(found[1]));
  if (auto const live = heap.stats().live_allocations; live != 0) throw gpuheap::plain_error(std::to_string(live) + " blocks are left");
}

// Likewise under many schedules, as ranks of one warp and of several blocks, alone, and as two.
template <class Body>
void expect_right(Body body, std::uint64_t seeds = 12) {
  struct shape {
    unsigned ranks, block_threads;
  };
  for (shape const s : {shape{7, 32}, {40, 16}, {1, 32}, {2, 1}}) {
    auto const explored = simt::explore(num_seeds(seeds), [&] {
      require_right(s.ranks, s.block_threads, body);
      return true;
    });
    EXPECT_TRUE(explored) << s.ranks << " ranks in blocks of " << s.block_threads << ": " << explored.what;
  }
}

}  // namespace test
