// Blocks taken kernel after kernel until a heap is full, and given back together.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/launch.hpp>

#include <algorithm>
#include <string>

#include "harness/allocation_rounds.hpp"
#include "harness/block_check.hpp"
#include "harness/bound_bytes.hpp"
#include "harness/device_array.hpp"
#include "harness/heap_under_test.hpp"

namespace gpuheap::bench {

struct pile_tally {
  simt::uint64_t live_bytes = 0;  // what the blocks take of the heap: bound_bytes()
  simt::uint64_t failed_requests = 0;
  // The least live_bytes that a thread whose request failed saw right after.
  simt::uint64_t bytes_at_first_null = ~simt::uint64_t{0};
};

// Request i of the pile: asked for, noted, counted.
template <class Ref, class Requests>
struct add_to_pile {
  Ref heap;
  Requests requests;
  void** blocks;
  simt::uint64_t* sizes;
  simt::uint64_t first;
  pile_tally* tally;
  GPUHEAP_FN void operator()(unsigned thread) const {
    using word = simt::atomic_ref<simt::uint64_t>;
    simt::uint64_t const n = first + thread;
    simt::uint64_t const bytes = requests.bytes(static_cast<unsigned>(n));
    void* const block = heap.malloc(bytes);
    blocks[n] = block;
    sizes[n] = bytes;
    // relaxed, all: tallies that publish nothing.
    if (block != nullptr) {
      word{tally->live_bytes}.fetch_add(bound_bytes(heap, block, bytes), simt::relaxed);
    } else {
      word{tally->failed_requests}.fetch_add(1, simt::relaxed);
      word{tally->bytes_at_first_null}.fetch_min(word{tally->live_bytes}.load(simt::relaxed), simt::relaxed);
    }
  }
};

template <class A, class Requests>
class block_pile {
 public:
  using ref = typename heap_under_test<A>::ref_type;

  // `capacity`: requests, failed ones included.
  block_pile(heap_under_test<A>& heap, Requests const& requests, std::size_t capacity, launch_config config)
      : heap_{heap}, requests_{requests}, config_{config}, blocks_(capacity), sizes_(capacity), tally_(1) {
    clear();
  }

  [[nodiscard]] std::size_t room() const { return blocks_.size() - count_; }

  // Runs one kernel of `n` requests, at most room(). Returns the counts since the pile was empty.
  pile_tally add(unsigned n) {
    launch(n, add_to_pile<ref, Requests>{heap_.ref(), requests_, blocks_.data(), sizes_.data(), count_, tally_.data()}, config_);
    count_ += n;
    return tally_.download(config_.stream)[0];
  }

  // Why the blocks are no good memory, or "". `contents`: also written and read back whole.
  [[nodiscard]] std::string fault(block_checker& checker, bool contents, unsigned round) const {
    block_list const list{blocks_.data(), sizes_.data(), static_cast<unsigned>(count_)};
    auto const report = checker.inspect(list, A::traits.min_alignment, heap_.range());
    if (auto fault = report.fault(A::traits.min_alignment); !fault.empty()) return fault;
    auto const lost = contents ? checker.count_lost(list, requests_.largest_bytes(), round) : 0;
    return lost == 0 ? "" : std::to_string(lost) + " words did not keep their contents: blocks overlap";
  }

  // Frees every block. Warps that give back together are those of one launch for all requests, which has those of each kernel. An allocator
  // that never takes memory back gets a new heap instead.
  void deallocate() {
    if constexpr (A::traits.free == frees::never) {
      heap_.renew();
    } else {
      launch(static_cast<unsigned>(count_), load_and_free<ref, Requests>{heap_.ref(), requests_, blocks_.data()}, config_);
    }
    clear();
  }

 private:
  void clear() {
    static constexpr pile_tally empty{};
    simt::copy(tally_.data(), &empty, sizeof empty, config_.stream);
    count_ = 0;
  }

  heap_under_test<A>& heap_;
  Requests requests_;
  launch_config config_;
  device_array<void*> blocks_;
  device_array<simt::uint64_t> sizes_;
  device_array<pile_tally> tally_;
  std::size_t count_ = 0;
};

// The number of requests of a mean size that may be in a heap at once, with room for some that fail or are smaller than the mean.
[[nodiscard]] inline std::size_t pile_capacity(std::uint64_t heap_bytes, std::uint64_t mean_bytes, unsigned threads) {
  return heap_bytes / std::max<std::uint64_t>(16, mean_bytes * 9 / 10) + std::size_t{4} * threads;
}
// A pile is counted in 32 bits.
[[nodiscard]] inline std::string why_no_pile(std::size_t capacity) {
  return capacity < std::size_t{1} << 31 ? "" : "as many blocks as fit into this heap are more than the case counts: make it smaller";
}

}  // namespace gpuheap::bench
