// The OS threads of the parallel mode.
#pragma once

#include <functional>

namespace gpuheap::simulator {

// Calls job(i) for i = 0..num_jobs-1, each on its own thread (job(0) on the caller's), and returns when all have returned. The threads stay
// for later calls, with their thread-local machines. Calls of several callers run one after the other. The job must not throw.
void run_in_parallel(unsigned num_jobs, std::function<void(unsigned)> const& job);

}  // namespace gpuheap::simulator
