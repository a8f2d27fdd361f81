// The host's reports about a heap: its statistics and the texts of its errors. Host code only.
#pragma once

#include <gpuheap/failure_record.hpp>
#include <gpuheap/memory/resource.hpp>
#include <gpuheap/memory/size.hpp>
#include <gpuheap/simt/types.hpp>

#if GPUHEAP_HAS_HOST
#include <cstdint>
#include <string>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief The result of heap::stats(). A number is 0 if the heap does not know it; the flags say which numbers it knows.
struct statistics {
  simt::size_t heap_bytes = 0;    // bytes taken from the source of memory, bookkeeping included
  simt::size_t usable_bytes = 0;  // bytes that the allocator can hand out; the metadata are subtracted if knows_footprint

  bool counts_allocations = false;     // live_allocations is known: the heap counts, or its allocator can tell
  bool counts_bytes = false;           // live_bytes is known
  bool knows_peak = false;             // peak_live_bytes is known: the heap counts every malloc and free (`counted`)
  std::uint64_t live_allocations = 0;  // blocks that are not freed
  simt::size_t live_bytes = 0;         // the sum of their usable sizes, rounding included
  simt::size_t peak_live_bytes = 0;    // the largest live_bytes since the heap was made or reset, up to peak_error_bytes too low
  simt::size_t peak_error_bytes = 0;   // at most heap_bytes / 1024 or 256, whichever is more

  std::uint64_t failed_requests = 0;   // requests that got nullptr; those for 0 bytes are not counted
  std::uint64_t invalid_requests = 0;  // those of them that the heap could never serve: see request_fault
  failed_request first_failure{};      // the first request that found no memory, or first_invalid if none did
  failed_request first_invalid{};      // the first request that the heap could never serve
  std::uint64_t double_frees = 0;      // refused frees, where the allocator detects them
  std::uint64_t foreign_frees = 0;
  void* first_double_free = nullptr;
  void* first_foreign_free = nullptr;

  bool knows_footprint = false;      // the allocator has footprint(), so the next three numbers are known
  simt::size_t held_bytes = 0;       // bytes that are bound to a size class or a block, and so not free for every request
  simt::size_t metadata_bytes = 0;   // bytes that the allocator never hands out
  simt::size_t peak_held_bytes = 0;  // the largest held_bytes; 0 if the allocator does not keep it

  // live_bytes and peak_live_bytes as shares of heap_bytes, 0..1.
  [[nodiscard]] double utilisation() const { return ratio(live_bytes, heap_bytes); }
  [[nodiscard]] double peak_utilisation() const { return ratio(peak_live_bytes, heap_bytes); }
  // live_bytes as a share of held_bytes, 0..1. The other held bytes are bound, but not in use.
  [[nodiscard]] double occupancy() const { return ratio(live_bytes, held_bytes); }
  [[nodiscard]] double metadata_ratio() const { return ratio(metadata_bytes, heap_bytes); }

  // @return the statistics as one JSON object, on one line. It leaves out numbers that the heap does not know. Addresses are numbers
  [[nodiscard]] std::string json() const {
    std::string text = "{";
    auto const add = [&](char const* name, std::uint64_t number) {
      text += text_of("%s\"%s\": %llu", text.size() == 1 ? "" : ", ", name, static_cast<unsigned long long>(number));
    };
    add("heap_bytes", heap_bytes);
    add("usable_bytes", usable_bytes);
    if (counts_allocations) add("live_allocations", live_allocations);
    if (counts_bytes) add("live_bytes", live_bytes);
    if (knows_peak) {
      add("peak_live_bytes", peak_live_bytes);
      add("peak_error_bytes", peak_error_bytes);
    }
    if (knows_footprint) {
      add("held_bytes", held_bytes);
      add("metadata_bytes", metadata_bytes);
      if (peak_held_bytes != 0) add("peak_held_bytes", peak_held_bytes);
    }
    add("failed_requests", failed_requests);
    add("invalid_requests", invalid_requests);
    if (failed_requests != 0) add("first_failed_bytes", first_failure.bytes);
    add("double_frees", double_frees);
    if (double_frees != 0) add("first_double_free", reinterpret_cast<std::uintptr_t>(first_double_free));
    add("foreign_frees", foreign_frees);
    if (foreign_frees != 0) add("first_foreign_free", reinterpret_cast<std::uintptr_t>(first_foreign_free));
    return text + "}";
  }

 private:
  [[nodiscard]] static double ratio(simt::size_t part, simt::size_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  }
};

namespace detail {

// "1 request", "2 requests".
[[nodiscard]] inline std::string requests_text(std::uint64_t count) {
  return text_of("%llu request%s", static_cast<unsigned long long>(count), count == 1 ? "" : "s");
}
// The message about requests that the heap could never serve.
[[nodiscard]] inline std::string invalid_requests_text(statistics const& s, std::uint64_t count, simt::size_t most_bytes) {
  failed_request const& first = s.first_invalid;
  std::string const asked = first.fault == request_fault::overflow ? std::string{"was a calloc() of at least 2^64 bytes"}
                            : first.fault == request_fault::alignment
                                ? text_of("asked for an alignment of %llu bytes, which is not a power of two up to 2 MiB",
                                          static_cast<unsigned long long>(first.alignment))
                                : text_of("asked for %llu bytes, and a block of this heap has at most %llu",
                                          static_cast<unsigned long long>(first.bytes), static_cast<unsigned long long>(most_bytes));
  return text_of(
      "gpuheap: %s in kernels can never be served, however much memory is free; the first %s (block %u, thread %u). Correct the request%s",
      requests_text(count).c_str(), asked.c_str(), first.block, first.thread,
      first.fault == request_fault::too_large ? ", or make the heap larger" : "");
}

}  // namespace detail

// @brief The failed requests that heap::check() reports: the argument of its callback.
struct exhaustion {
  std::uint64_t failed_requests = 0;   // since the last check
  std::uint64_t invalid_requests = 0;  // those of them that the heap could never serve
  failed_request first{};              // the first since the heap was made or reset
  statistics stats{};                  // of the heap; if check() has grown it, the statistics before the growth
  simt::size_t most_bytes = 0;         // the largest block that the heap can ever have
  simt::size_t grown_bytes = 0;        // the bytes by which check() has grown the heap; 0: the heap has not grown
  std::string not_grown{};             // the reason, if growth was asked for but did not happen; a sentence that begins with a space

  [[nodiscard]] std::string text() const {
    std::uint64_t const short_of_memory = failed_requests - invalid_requests;
    if (short_of_memory == 0) return detail::invalid_requests_text(stats, invalid_requests, most_bytes);
    std::string text =
        text_of("gpuheap: %s in kernels found no memory in a heap of %s; the first asked for %llu bytes (block %u, thread %u).",
                detail::requests_text(short_of_memory).c_str(), memory::format_bytes(stats.heap_bytes).c_str(),
                static_cast<unsigned long long>(first.bytes), first.block, first.thread);
    if (stats.counts_bytes) text += text_of(" Live now: %s.", memory::format_bytes(stats.live_bytes).c_str());
    if (stats.knows_peak) text += text_of(" Live at most: %s.", memory::format_bytes(stats.peak_live_bytes).c_str());
    if (grown_bytes != 0) {
      text += text_of(" The heap has grown by %s: make the requests again", memory::format_bytes(grown_bytes).c_str());
    } else {
      text += text_of("%s Make the heap larger, or free blocks earlier", not_grown.c_str());
    }
    if (invalid_requests != 0) text += ". " + detail::invalid_requests_text(stats, invalid_requests, most_bytes);
    return text;
  }
};

namespace detail {

// The counts of failures, by kind, for check() to compare with those that it has reported.
struct failure_counts {
  std::uint64_t requests = 0, invalid = 0, frees = 0;

  [[nodiscard]] static failure_counts of(statistics const& s) {
    return {s.failed_requests, s.invalid_requests, s.double_frees + s.foreign_frees};
  }
  [[nodiscard]] bool operator==(failure_counts const&) const = default;
};

inline void read_failures(statistics& s, failure_record const& record) {
  s.failed_requests = 0;
  for (unsigned i = 0; i < failure_record::num_counters; ++i)
    s.failed_requests += record.failed_requests[i * failure_record::words_per_counter];
  s.first_failure = s.failed_requests != 0 ? record.first_failed : record.first_invalid;
  s.failed_requests += record.invalid_requests;
  s.invalid_requests = record.invalid_requests;
  s.first_invalid = record.first_invalid;
  s.double_frees = record.double_frees;
  s.foreign_frees = record.foreign_frees;
  s.first_double_free = record.first_double_free;
  s.first_foreign_free = record.first_foreign_free;
}

[[gnu::cold, nodiscard]] inline std::string no_memory_text(memory::resource const& from, simt::size_t bytes, std::string const& refusal) {
  std::string const source = from.name();
  auto const there = from.query();
  std::string const has = there ? text_of("there are %s of %s, %s free", memory::format_bytes(there->total_bytes).c_str(), source.c_str(),
                                          memory::format_bytes(there->free_bytes).c_str())
                                : text_of("%s does not have it", source.c_str());
  return text_of(
      "gpuheap: cannot make a heap of %s: %s. Make a smaller heap, or one of a share of the free memory: "
      "heap{gpuheap::fraction_of_free(0.5)}, or take another memory, such as gpuheap::memory::managed. (%s)",
      memory::format_bytes(bytes).c_str(), has.c_str(), refusal.c_str());
}

[[nodiscard]] inline std::string stopped_text(std::string const& allocator, failed_request const& request, std::string const& stopped) {
  return text_of(
      "gpuheap: a kernel was stopped because a heap of '%s' %s %llu bytes (block %u, thread %u), as the heap's policy says. "
      "%s, or set exhaustion_policy::null and look at the pointers. (%s)",
      allocator.c_str(), request.fault == request_fault::alignment ? "takes no such alignment for" : "had no room for",
      static_cast<unsigned long long>(request.bytes), request.block, request.thread,
      request.fault == request_fault::none || request.fault == request_fault::too_large ? "Make the heap larger" : "Correct the request",
      stopped.c_str());
}

[[nodiscard]] inline std::string refused_frees_text(std::string const& allocator, statistics const& s) {
  std::string which;
  if (s.double_frees != 0) {
    which += text_of(" %llu of blocks that were free already, the first at %p;", static_cast<unsigned long long>(s.double_frees),
                     s.first_double_free);
  }
  if (s.foreign_frees != 0) {
    which += text_of(" %llu of pointers that it never handed out, the first %p;", static_cast<unsigned long long>(s.foreign_frees),
                     s.first_foreign_free);
  }
  return text_of(
      "gpuheap: frees refused by a heap of '%s' since it was made or reset:%s each block must be freed once, with the pointer that malloc "
      "returned, to the heap that returned it",
      allocator.c_str(), which.c_str());
}

}  // namespace detail

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
#endif
