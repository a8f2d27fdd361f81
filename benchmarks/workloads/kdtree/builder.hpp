// Building kd-trees on a heap, timing it, and checking the result. The parts that do not depend on the allocator are compiled once.
#pragma once

#include <gpuheap/simt/launch.hpp>

#include <string>
#include <vector>

#include "harness/case.hpp"
#include "harness/device_array.hpp"
#include "harness/heap_under_test.hpp"
#include "harness/kernel_timer.hpp"
#include "workloads/kdtree/passes.hpp"
#include "workloads/kdtree/queue_build.hpp"
#include "workloads/kdtree/split.hpp"
#include "workloads/scene/triangles.hpp"

namespace gpuheap::bench::kdtree {

// The heap, as the builder sees it. All but renew() is asynchronous.
class tree_heap {
 public:
  virtual ~tree_heap() = default;
  virtual void make_root(build_arrays const& tree, box const& bounds) = 0;
  virtual void split_level(build_arrays const& tree, unsigned threads) = 0;
  // All levels at once, from the queue of work, by as many of the threads as run at the same time.
  virtual void build_from_queue(build_arrays const& tree, unsigned threads) = 0;
  virtual void free_listed(void* const* pointers, uint32_t const* count, unsigned threads) = 0;
  virtual void renew() = 0;  // all blocks are forgotten, where that can be
  virtual memory::region range() const = 0;
  virtual std::string refused_frees() const = 0;
};

struct heap_facts {
  std::uint64_t bytes;
  bool never_frees;   // trees are not given back: the heap is made anew
  bool may_not_wrap;  // hands out live memory again once its bytes have been asked for
};

template <class A>
class tree_heap_of final : public tree_heap {
 public:
  tree_heap_of(std::uint64_t bytes, stream_ref stream) : stream_{stream}, heap_{bytes, stream} {}

  void make_root(build_arrays const& tree, box const& bounds) override {
    launch(1, kdtree::make_root<ref>{heap_.ref(), tree, bounds}, {.block_threads = 32, .stream = stream_});
  }
  void split_level(build_arrays const& tree, unsigned threads) override {
    launch(threads, kdtree::split_level<ref>{heap_.ref(), tree, threads / simt::warp_lanes}, {.stream = stream_});
  }
  void build_from_queue(build_arrays const& tree, unsigned threads) override {
    using kernel = kdtree::build_from_queue<ref>;
    unsigned const most = simt::most_resident_threads<kernel>(queue_block) & ~(queue_block - 1);
    launch(1, begin_queue{tree}, {.block_threads = 32, .stream = stream_});
    launch(threads < most ? threads : most, kernel{{heap_.ref(), tree, 0}}, {.block_threads = queue_block, .stream = stream_});
  }
  void free_listed(void* const* pointers, uint32_t const* count, unsigned threads) override {
    launch(threads, kdtree::free_listed<ref>{heap_.ref(), pointers, count, threads}, {.stream = stream_});
  }
  void renew() override {
    if (!A::traits.process_wide) heap_.renew();
  }
  memory::region range() const override { return heap_.range(); }
  std::string refused_frees() const override { return heap_.refused_frees(); }

 private:
  static constexpr unsigned queue_block = 256;
  using ref = typename heap_under_test<A>::ref_type;
  stream_ref stream_;
  heap_under_test<A> heap_;
};

// Runs the point: the tree of the scene, built again and again, level by level or from the queue. `threads` of each kernel: a multiple
// of 32.
[[nodiscard]] outcome measure_builds(tree_heap& heap, heap_facts const& facts, session const& s, scene::triangle_list const& triangles,
                                     unsigned threads, bool from_queue, stream_ref stream);

}  // namespace gpuheap::bench::kdtree
