// The host backend of explore.hpp: forwards to the simulator.
#pragma once

#include <gpuheap/simt/config.hpp>

#include <gpuheap_simulator/explore.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// The result of an exploration, with the members `num_runs`, `failed`, `seed` and `what`. It converts to true if every run passed.
using ::gpuheap::simulator::exploration;

// Runs `body` under the schedules of seeds 0..num_seeds-1, half of them in the weak mode, and stops after the first run that fails. A run
// fails if `body` throws or returns false. `body` sets up all that it uses.
using ::gpuheap::simulator::explore;

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
