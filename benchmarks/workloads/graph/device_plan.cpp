#include <memory>

#include "workloads/graph/device_plan.hpp"

namespace gpuheap::bench::graph {

namespace {

// The last plan made; null: none.
std::shared_ptr<device_plan const>& last_plan() {
  static std::shared_ptr<device_plan const> last;
  return last;
}

}  // namespace

void forget_plan() { last_plan() = nullptr; }

std::shared_ptr<device_plan const> load_plan(plan_parameters const& parameters, bool undoing, stream_ref stream) {
  static plan_parameters last_parameters;
  static bool last_undoing = false;
  auto& last = last_plan();
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
