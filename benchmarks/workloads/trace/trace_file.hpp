// Reading a recording from a file: the text that gpuheap/trace.hpp describes.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "harness/case.hpp"

namespace gpuheap::bench::trace {

// An operation of a thread: allocate `bytes`, or free if that is 0. `allocation` numbers requests in the order of the file.
struct operation {
  std::uint32_t allocation;
  std::uint32_t bytes;
};

// One launch: the operations of all threads, thread after thread, each in its order.
struct kernel {
  std::vector<std::uint32_t> begins;  // of each thread's operations, and the end of the last one's: threads + 1
  std::vector<operation> operations;
};

struct program {
  std::uint32_t threads = 0;
  std::vector<kernel> kernels;
  std::vector<std::uint32_t> sizes;  // bytes of each allocation
  std::vector<bool> freed;           // likewise, whether a later event frees it
  std::uint64_t num_events = 0;      // requests and frees
};

// Throws usage_error with file, line and what was expected there, if the file cannot be read, is truncated or longer than it says, frees
// what was not asked for or what was freed before, or is no recording.
[[nodiscard]] program read_trace(std::string const& path);
// The same from a stream; `name` stands for the file in messages.
[[nodiscard]] program read_trace(std::istream& in, std::string const& name);

// A launch that frees what the program never did, spread over its threads.
[[nodiscard]] kernel leftovers(program const& p);

// The parameter of a point that names its recording: a file, or one of those that come with the benchmarks. The session's file stands in
// for it.
inline constexpr parameter trace_parameter = text_parameter("trace", "graph_update");

// The program of a point. The last one read is kept.
[[nodiscard]] std::shared_ptr<program const> load_trace(session const& s, point const& p);
// Reads it, and throws usage_error if it is bad or not there.
void check_trace(session const& s, point const& p);

}  // namespace gpuheap::bench::trace
