// The recording of a program's requests (recorded.hpp), and the format of a recording as text (docs/traces.md).
#pragma once

#include <gpuheap/simt/types.hpp>

#if GPUHEAP_HAS_HOST
#include <algorithm>
#include <ostream>
#include <string>
#include <unordered_map>
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief One request or free of a thread, or the end of a kernel.
struct trace_event {
  static constexpr simt::uint32_t request = 1, release = 2, kernel_end = 3;

  simt::uint64_t address;  // of the block; 0 for a request that failed
  simt::uint64_t bytes;    // the size that a request asked for; 0 for other events
  simt::uint32_t thread;   // the thread's number in its launch
  simt::uint32_t kind;     // request, release or kernel_end
};

#if GPUHEAP_HAS_HOST
// @brief The events of a program. Their order is one in which they may have happened.
struct recording {
  std::vector<trace_event> events;
  simt::uint64_t dropped = 0;  // the number of events that came when the buffer was full
};

// A recording as text, for `std::ostream << trace_text{recording}`:
//
//   gpuheap-trace 1
//   threads 4096         the largest number of a thread in an event, plus one
//   events 20113         the number of lines after `dropped`
//   dropped 0            the number of events that were not recorded
//   m 17 64              thread 17 asks for 64 bytes. The first line with m is allocation 0, the next one allocation 1, ...
//   f 3 0                thread 3 frees allocation 0
//   k                    a kernel has ended
//
// Frees of pointers that no recorded request returned are left out.
struct trace_text {
  recording const& what;

  friend std::ostream& operator<<(std::ostream& out, trace_text const& text) {
    std::string lines;
    simt::uint64_t num_lines = 0, num_allocations = 0;
    simt::uint32_t threads = 0;
    std::unordered_map<simt::uint64_t, simt::uint64_t> live;  // address, allocation
    for (auto const& e : text.what.events) {
      std::string const by = std::to_string(e.thread) + " ";
      if (e.kind == trace_event::request) {
        lines += "m " + by + std::to_string(e.bytes) + "\n";
        if (e.address != 0) live[e.address] = num_allocations;
        ++num_allocations;
      } else if (e.kind == trace_event::release) {
        auto const block = live.find(e.address);
        if (block == live.end()) continue;
        lines += "f " + by + std::to_string(block->second) + "\n";
        live.erase(block);
      } else {
        lines += "k\n";
      }
      ++num_lines;
      if (e.kind != trace_event::kernel_end) threads = std::max(threads, e.thread + 1);
    }
    return out << "gpuheap-trace 1\nthreads " << threads << "\nevents " << num_lines << "\ndropped " << text.what.dropped << "\n" << lines;
  }
};
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
