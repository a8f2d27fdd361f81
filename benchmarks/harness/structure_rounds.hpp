// The common part of the cases that compare structures: the same kernel again and again, its time, the number of operations a second, and a
// check after each run that the kernel did its work.
#pragma once

#include <gpuheap/simt/launch.hpp>

#include <string>
#include <utility>

#include "harness/case.hpp"
#include "harness/device_array.hpp"
#include "harness/kernel_timer.hpp"

namespace gpuheap::bench {

// Threads of these cases: from a warp to a million.
inline constexpr parameter structure_threads_parameter = number_parameter("threads", "1024", 1, 1u << 24);

// `reset(stream)` readies the structures, `kernel` is launched with the point's threads, `fault(stream)` says what is wrong afterwards, or
// "". `operations`: of one launch. Round 0 is not counted.
template <class Reset, class Kernel, class Fault>
[[nodiscard]] outcome run_structure_rounds(session const& s, point const& p, stream_ref stream, double operations, Reset reset,
                                           Kernel kernel, Fault fault) {
  kernel_timer timer(stream);
  row kernel_us{"kernel_us", "us", {}}, throughput{"throughput", "1/s", {}};
  for (unsigned round = 0; round <= s.runs; ++round) {
    reset(stream);
    double const us = timer.time_us([&] { launch(p.threads(), kernel, {.block_threads = p.block_threads(), .stream = stream}); });
    if (std::string said = fault(stream); !said.empty()) return wrong("run " + std::to_string(round) + ": " + said);
    if (round == 0) continue;
    kernel_us.samples.push_back(us);
    throughput.samples.push_back(operations / (us * 1e-6));
  }
  return {outcome_status::ok, "", {std::move(kernel_us), std::move(throughput)}};
}

}  // namespace gpuheap::bench
