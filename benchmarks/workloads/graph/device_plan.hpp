// The batches of a plan on the device.
#pragma once

#include <gpuheap/simt/runtime.hpp>

#include <memory>
#include <vector>

#include "harness/device_array.hpp"
#include "workloads/graph/update_plan.hpp"

namespace gpuheap::bench::graph {

struct device_batch {
  device_batch(update_batch const& batch, stream_ref stream)
      : num_groups{batch.num_groups()}, updates{on_device(batch.updates, stream)}, begins{on_device(batch.begins, stream)} {}

  simt::uint32_t num_groups;
  device_array<update> updates;
  device_array<simt::uint32_t> begins;
};

struct device_plan {
  std::vector<device_batch> batches;
  std::vector<device_batch> undone;  // of each batch the same edges, to delete
};

// The plan of these parameters; `undone` is empty unless asked for. The last one is kept for the points that share it. Throws
// out_of_memory.
[[nodiscard]] std::shared_ptr<device_plan const> load_plan(plan_parameters const& parameters, bool undoing, stream_ref stream);

// Gives back the memory of the plan that is kept.
void forget_plan();

}  // namespace gpuheap::bench::graph
