#include <memory>

#include "workloads/graph/device_plan.hpp"

namespace gpuheap::bench::graph {

std::shared_ptr<device_plan const> load_plan(plan_parameters const& parameters, bool undoing, stream_ref stream) {
  static plan_parameters last_parameters;
  static bool last_undoing = false;
  static std::shared_ptr<device_plan const> last;
  if (last != nullptr && parameters == last_parameters && undoing == last_undoing) return last;

  last = nullptr;  // two large plans at once may be too many
  auto const made = std::make_shared<device_plan>();
  for (update_batch& batch : make_plan(parameters)) {
    made->batches.emplace_back(batch, stream);
    if (!undoing) continue;
    for (update& u : batch.updates) u.is_delete = 1;
    made->undone.emplace_back(batch, stream);
  }
  last_parameters = parameters;
  last_undoing = undoing;
  return last = made;
}

}  // namespace gpuheap::bench::graph
