// What the host can say about a heap: its statistics and the texts of its errors. Host code only.
#pragma once

#include <gpuheap/failure_record.hpp>
#include <gpuheap/memory/resource.hpp>
#include <gpuheap/memory/size.hpp>
#include <gpuheap/simt/types.hpp>

#if GPUHEAP_HAS_HOST
#include <cstdint>
#include <string>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// heap::stats(). Counters are 0 where the heap does not know them; the flags say which it does.
struct statistics {
  simt::size_t heap_bytes = 0;    // taken from the source, bookkeeping included
  simt::size_t usable_bytes = 0;  // of these, what the allocator can hand out or bind; its metadata excluded if it says how much that is

  bool counts_allocations = false;     // the heap's statistics are on
  bool counts_bytes = false;           // and the allocator knows the size of a block
  std::uint64_t live_allocations = 0;  // served and not yet freed
  simt::size_t live_bytes = 0;         // their usable sizes, rounding included
  simt::size_t peak_live_bytes = 0;    // the most at any time since the heap was made or reset; up to peak_error_bytes too low
  simt::size_t peak_error_bytes = 0;   // at most heap_bytes / 1024 or 256, whichever is more

  std::uint64_t failed_requests = 0;  // answered nullptr
  failed_request first_failure{};     // of them, if any
  std::uint64_t double_frees = 0;     // refused, where the allocator detects them
  std::uint64_t foreign_frees = 0;
  void* first_double_free = nullptr;
  void* first_foreign_free = nullptr;

  bool knows_footprint = false;      // the allocator offers footprint()
  simt::size_t held_bytes = 0;       // bound to a size class or a block: not free for every request
  simt::size_t metadata_bytes = 0;   // the allocator's own
  simt::size_t peak_held_bytes = 0;  // 0 if it keeps none

  // Live bytes over all bytes taken, 0..1: now, and at the peak.
  [[nodiscard]] double utilisation() const { return ratio(live_bytes, heap_bytes); }
  [[nodiscard]] double peak_utilisation() const { return ratio(peak_live_bytes, heap_bytes); }
  // Live bytes over held bytes, 0..1: what is left of 1 is bound and not in use.
  [[nodiscard]] double occupancy() const { return ratio(live_bytes, held_bytes); }
  [[nodiscard]] double metadata_ratio() const { return ratio(metadata_bytes, heap_bytes); }

 private:
  [[nodiscard]] static double ratio(simt::size_t part, simt::size_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  }
};

// What heap::check() tells a callback.
struct exhaustion {
  std::uint64_t failed_requests = 0;  // since the last check
  failed_request first{};             // of all since the heap was made or reset
  statistics stats{};                 // before the heap grew, if it has
  simt::size_t grown_bytes = 0;       // by grow_when_exhausted(); 0: it has not grown
  std::string not_grown{};            // why not, if it was to

  [[nodiscard]] std::string text() const {
    return "gpuheap: " + std::to_string(failed_requests) + " requests in kernels found no memory in a heap of " +
           memory::in_words(stats.heap_bytes) + "; the first asked for " + std::to_string(first.bytes) + " bytes (block " +
           std::to_string(first.block) + ", thread " + std::to_string(first.thread) + ")." +
           (stats.counts_bytes
                ? " Live now: " + memory::in_words(stats.live_bytes) + ", at most " + memory::in_words(stats.peak_live_bytes) + "."
                : "") +
           (grown_bytes != 0 ? " The heap has grown by " + memory::in_words(grown_bytes) + ": make the requests again"
                             : not_grown + " Make the heap larger, or free blocks earlier");
  }
};

namespace detail {

inline void read_failures(statistics& s, failure_record const& record) {
  s.failed_requests = 0;
  // Ends: one pass per counter.
  for (unsigned i = 0; i < failure_record::num_counters; ++i)
    s.failed_requests += record.failed_requests[i * failure_record::words_per_counter];
  s.first_failure = record.first_failed;
  s.double_frees = record.double_frees;
  s.foreign_frees = record.foreign_frees;
  s.first_double_free = record.first_double_free;
  s.first_foreign_free = record.first_foreign_free;
}

[[nodiscard]] inline std::string no_memory_text(memory::resource const& from, simt::size_t bytes, std::string const& refusal) {
  std::string text = "gpuheap: a heap of " + memory::in_words(bytes) + " was asked for; ";
  if (auto const there = from.how_much()) {
    text += "there are " + memory::in_words(there->total_bytes) + " of " + from.name() + ", " + memory::in_words(there->free_bytes) +
            " free. Ask for less";
  } else {
    text += from.name() + " does not have it. Ask for less";
  }
  return text + ", or for a part: heap{gpuheap::fraction_of_free(0.5)}, or take it from elsewhere, e.g. gpuheap::memory::managed. (" +
         refusal + ")";
}

[[nodiscard]] inline std::string stopped_text(std::string const& allocator, failed_request const& request, std::string const& stopped) {
  return "gpuheap: a kernel was stopped because a heap of '" + allocator + "' had no room for " + std::to_string(request.bytes) +
         " bytes (block " + std::to_string(request.block) + ", thread " + std::to_string(request.thread) +
         "), as the heap's policy says. Make the heap larger, or set when_exhausted::null and look at the pointers. (" + stopped + ")";
}

[[nodiscard]] inline std::string refused_frees_text(std::string const& allocator, statistics const& s) {
  auto const hexadecimal = [](void const* p) {
    char text[32];
    std::snprintf(text, sizeof text, "%p", p);
    return std::string(text);
  };
  std::string text = "gpuheap: frees refused by a heap of '" + allocator + "' since it was made or reset:";
  if (s.double_frees != 0) {
    text +=
        " " + std::to_string(s.double_frees) + " of blocks that were free already, the first at " + hexadecimal(s.first_double_free) + ";";
  }
  if (s.foreign_frees != 0) {
    text += " " + std::to_string(s.foreign_frees) + " of pointers that it never handed out, the first " +
            hexadecimal(s.first_foreign_free) + ";";
  }
  return text + " each block must be freed once, with the pointer that malloc returned, to the heap that returned it";
}

}  // namespace detail

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
#endif
