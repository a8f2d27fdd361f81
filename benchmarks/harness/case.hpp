// The description of a benchmark case, and the arguments of its run.
//
// A case is a struct in a file of its own under cases/, with
//   static constexpr case_description description;
//   template <class A> static outcome run(session const&, point const&);   // on a heap of allocator A
// and one line in cases/all.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "harness/parameter.hpp"
#include "harness/point.hpp"
#include "harness/results.hpp"

namespace gpuheap::bench {

// The settings for all points of one invocation.
struct session {
  std::uint64_t heap_bytes = 0;
  unsigned runs = 10;  // timed; each sample of a row is one
  std::uint64_t seed = 1;
  std::string graph_file{};  // Matrix Market; empty: generated graphs
  std::string scene_file{};  // OBJ or PLY; empty: generated scenes
  std::string trace_file{};  // of a recorded program; empty: those of the points
  double enough_s = 0;       // after so long a point needs no more than the fewest runs (pace.hpp); 0: it makes them all
  double timeout_s = 0;      // when the program that runs the benchmark gives a point up; 0: never
  bool first_run = false;    // one run, the first of the process's heap, and timed: how a heap of the whole process is measured cold
};

// The session as a point has it: the point's own heap if it names one.
[[nodiscard]] inline session at_point(session s, point const& p) {
  s.heap_bytes = p.bytes_of("heap").value_or(s.heap_bytes);
  return s;
}

struct case_description {
  char const* name;
  char const* brief;
  char const* section;  // heading under which reports put it
  std::span<parameter const> parameters;
  bool takes_baselines = false;        // runs also on a baseline that hands out no memory
  bool takes_host_allocation = false;  // and on one whose memory the host allocates
  // Compares structures, which a parameter names, and no allocators: runs where there is none, on the baseline that hands out no memory.
  bool without_allocator = false;
  // Looks at what a point names outside the program (files) before anything is run or printed; throws usage_error. May be null.
  void (*check)(session const&, point const&) = nullptr;
};

template <class... Cases>
struct case_list {};

}  // namespace gpuheap::bench
