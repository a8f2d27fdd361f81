// The host backend of explore.hpp: forwards to the simulator.
#pragma once

#include <gpuheap/simt/config.hpp>

#include <gpuheap_simulator/explore.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// `num_runs`, `failed`, `seed`, `what`; true when every run passed.
using ::gpuheap::simulator::exploration;

// Runs `body` under the schedules of seeds 0..num_seeds-1, half of them in the weak mode, until one run fails: it throws or returns false.
// The body sets up all that it uses.
using ::gpuheap::simulator::explore;

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
