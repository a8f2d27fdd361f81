// A heap with its slots, as the cases see it that work on slots: what they do with it is compiled once, and not for each allocator.
#pragma once

#include <gpuheap/simt/launch.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "harness/case.hpp"
#include "harness/device_array.hpp"
#include "harness/free_or_release.hpp"
#include "harness/heap_under_test.hpp"
#include "harness/kernel_timer.hpp"
#include "workloads/slots/slot_kernel.hpp"

namespace gpuheap::bench::slots {

class slot_heap {
 public:
  virtual ~slot_heap() = default;

  // Empty slots, and where the heap can be made anew, a new heap. `run` is for draws.
  virtual void start(unsigned run) = 0;
  // Microseconds of one kernel of all threads.
  virtual double work(slot_launch const& what) = 0;
  // All that was counted since start().
  virtual block_tally tally() = 0;
  // "" or how many frees were refused since start().
  virtual std::string refused_frees() = 0;
  // Bytes that the heap holds over the requested bytes of the blocks in the slots. Nothing from an allocator that does not say what it
  // holds, or if all slots are empty. Waits for the kernels.
  virtual std::optional<double> footprint_ratio() = 0;
  // Called when all blocks are freed: "" or the damage that the allocator's audit finds, or the blocks that it takes for live. Without an
  // audit "".
  virtual std::string why_not_empty() = 0;
};

// A launch in which all blocks do the same.
[[nodiscard]] inline slot_launch same_for_all(task const& what) { return {.tasks = {what, what}}; }

// `sets`: as many as threads.
template <class A>
class slot_heap_of final : public slot_heap {
 public:
  slot_heap_of(session const& s, point const& p, std::size_t slots_per_set)
      : seed_{s.seed},
        threads_{p.threads()},
        heap_{s.heap_bytes, stream_},
        timer_{stream_},
        slots_(slots_per_set * p.threads()),
        tally_(1),
        config_{.block_threads = p.block_threads(), .stream = stream_} {}

  void start(unsigned run) override {
    if (!A::traits.process_wide) heap_.renew();
    run_ = run;
    launches_ = 0;
    slots_.zero(stream_);
    tally_.zero(stream_);
  }
  double work(slot_launch const& what) override {
    slot_launch numbered = what;
    numbered.number = launches_++;
    work_on_slots<ref> const kernel{heap_.ref(), slots_.data(), threads_, numbered, random_sequence{seed_, run_}, tally_.data()};
    return timer_.time_us([&] { launch(threads_, kernel, config_); });
  }
  block_tally tally() override { return tally_.download(stream_)[0]; }
  std::string refused_frees() override { return heap_.refused_frees(); }
  std::optional<double> footprint_ratio() override {
    auto const held = heap_.footprint();
    if (!held) return std::nullopt;
    std::uint64_t live_bytes = 0;
    for (kept_block const& block : slots_.download(stream_)) live_bytes += block.words != nullptr ? block.bytes : 0;
    if (live_bytes == 0) return std::nullopt;
    return static_cast<double>(held->held_bytes) / static_cast<double>(live_bytes);
  }
  std::string why_not_empty() override {
    auto const [problem, live_bytes] = heap_.audit();
    if (!problem.empty()) return "the audit of the heap: " + problem;
    return live_bytes == 0 ? "" : "everything is freed, and the heap counts " + memory::format_bytes(live_bytes) + " as live";
  }

 private:
  using ref = typename heap_under_test<A>::ref_type;

  std::uint64_t seed_;
  unsigned threads_;
  owned_stream stream_;
  heap_under_test<A> heap_;
  kernel_timer timer_;
  device_array<kept_block> slots_;
  device_array<block_tally> tally_;
  launch_config config_;
  unsigned run_ = 0;
  std::uint64_t launches_ = 0;
};

// Why blocks of A cannot change hands, or "".
template <class A>
[[nodiscard]] std::string why_no_slots(session const& s, point const& p) {
  if (auto reason = why_no_heap<A>(s); !reason.empty()) return reason;
  if (A::traits.free == frees::never) return "this allocator never reuses freed memory";
  if (std::string reason = why_no_single_frees<A>(); !reason.empty()) return reason;
  if (A::traits.overwrites) return "this allocator overwrites live memory";
  if (p.threads() % (2 * p.block_threads()) != 0)
    return "threads=" + p.text("threads") + " is not a multiple of two blocks of " + p.text("block_threads") + " threads";
  return "";
}

// A case in two parts: `Case::slots_per_set(p)`, and `Case::measure(slot_heap&, s, p)`, which does not know the allocator.
template <class A, class Case>
[[nodiscard]] outcome run_on_slots(session const& s, point const& p) {
  if (auto reason = why_no_slots<A>(s, p); !reason.empty()) return unsupported(std::move(reason));
  slot_heap_of<A> heap(s, p, Case::slots_per_set(p));
  return Case::measure(heap, s, p);
}

}  // namespace gpuheap::bench::slots
