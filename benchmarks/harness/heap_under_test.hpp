// The heap that a point runs on, as a program has it. Cases count no calls: the default heap does not, and papers measure no statistics.
#pragma once

#include <gpuheap/heap.hpp>

#include <optional>
#include <string>

#include "harness/case.hpp"
#include "harness/heap_memory.hpp"

namespace gpuheap::bench {

template <device_allocator A>
class heap_under_test {
  using heap_type = heap<A, uncounted>;  // of the default allocator the same type as heap<>: see default_statistics

 public:
  using ref_type = typename heap_type::ref_type;

  // Throws out_of_memory if the device has not that much, and error if a process-wide heap already has another size.
  heap_under_test(std::size_t bytes, stream_ref stream) : stream_{stream}, memory_{A::traits.process_wide ? 0 : bytes}, heap_{make(bytes)} {
    simt::synchronize(stream);
  }

  // The view that kernels get by value.
  [[nodiscard]] ref_type ref() const { return heap_.ref(); }

  // Forgets every block: the next requests are the first of a fresh heap. Not for process-wide ones.
  void renew() {
    heap_.reset(stream_);
    simt::synchronize(stream_);
  }

  // The region in which blocks must lie. Base nullptr: only the allocator knows it.
  [[nodiscard]] memory::region range() const {
    if (A::traits.process_wide) return {};
    return {memory_.data(), memory_.size()};
  }

  // "" or how many frees the allocator refused since the heap was made or renewed. The cases free each block once: refusals are the
  // allocator's fault.
  [[nodiscard]] std::string refused_frees() const {
    auto const s = heap_.stats(stream_);
    auto const refused = s.double_frees + s.foreign_frees;
    return refused == 0 ? "" : std::to_string(refused) + " frees of live blocks were refused";
  }

  // The result of the allocator's audit: "" or the damage, and the live bytes. Nothing if the allocator has no audit.
  struct audited {
    std::string problem{};
    std::uint64_t live_bytes = 0;
  };
  [[nodiscard]] audited audit() const {
    audited found;
    if constexpr (has_verify<A>) {
      auto const all = heap_.verify(stream_);
      found.problem = all.problem;
      if constexpr (requires { all.live_bytes; }) found.live_bytes = all.live_bytes;
    }
    return found;
  }

  // All bytes taken, whatever they are used for.
  [[nodiscard]] std::uint64_t bytes() const { return heap_.bytes(); }

  // Nothing from an allocator that does not say. Waits for the stream.
  [[nodiscard]] std::optional<allocator_footprint> footprint() const {
    if constexpr (has_footprint<A>) {
      return heap_.ref().allocator().footprint(stream_);
    } else {
      return std::nullopt;
    }
  }

 private:
  heap_type make(std::size_t bytes) const {
    if constexpr (A::traits.process_wide) {
      return heap_type{heap_size{bytes}, stream_};
    } else {
      return heap_type{memory::region{memory_.data(), memory_.size()}, stream_};
    }
  }

  stream_ref stream_;
  heap_memory memory_;  // the case's own, so that it knows where blocks must lie
  heap_type heap_;
};

// Why a heap of the whole process is not measured cold, where the process is to make several runs.
inline constexpr char const* no_second_heap = "a process-wide heap is new once in a process: --first-run measures that";

// Why A cannot manage a heap of this session's size, or "".
template <device_allocator A>
[[nodiscard]] std::string why_no_heap(session const& s) {
  if (auto const total = simt::query_device().total_bytes; s.heap_bytes > total)
    return "a heap of " + memory::format_bytes(s.heap_bytes) + " is more than the device has: " + memory::format_bytes(total);
  if constexpr (A::traits.process_wide) {
    static std::uint64_t const first = s.heap_bytes;
    if (s.heap_bytes != first)
      return "the process's heap has " + memory::format_bytes(first) + " already, and one process has one size of it";
  }
  auto const least = heap<A, uncounted>::min_bytes();
  if (s.heap_bytes >= least) return "";
  return "a heap of " + memory::format_bytes(s.heap_bytes) + " is too small: this allocator needs at least " + memory::format_bytes(least);
}

}  // namespace gpuheap::bench
