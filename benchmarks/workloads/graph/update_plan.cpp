#include "workloads/graph/update_plan.hpp"

#include <algorithm>

namespace gpuheap::bench::graph {

std::vector<update> update_plan::next(batch_kind kind, unsigned size) {
  unsigned const num_deletes = kind == batch_kind::inserts ? 0 : kind == batch_kind::deletes ? size : size / 2;
  unsigned const num_inserts = kind == batch_kind::deletes ? 0 : size - num_deletes;
  std::vector<update> batch;
  batch.reserve(size);

  for (unsigned i = 0; i < num_inserts; ++i) {
    edge const source = edges_[draw(edges_.size())], target = edges_[draw(edges_.size())];
    batch.push_back({{source.from, target.to}, 0});
  }
  // One edge always stays, so that the next batch has edges to draw from.
  for (unsigned i = 0; i < num_deletes && edges_.size() > 1; ++i) {
    std::size_t const chosen = draw(edges_.size());
    batch.push_back({edges_[chosen], 1});
    edges_[chosen] = edges_.back();
    edges_.pop_back();
  }
  for (auto const& u : batch) {
    if (u.is_delete == 0) edges_.push_back(u.what);
  }
  // Fisher-Yates, by the plan's own numbers: std::shuffle differs between libraries.
  for (std::size_t i = batch.size(); i > 1; --i) std::swap(batch[i - 1], batch[draw(i)]);
  return batch;
}

}  // namespace gpuheap::bench::graph
