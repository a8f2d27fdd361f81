#include "workloads/graph/update_plan.hpp"

#include <utility>

namespace gpuheap::bench::graph {

update_plan::update_plan(edge_list const& start, std::uint64_t seed)
    : neighbours_(start.num_vertices), position_(start.num_vertices), random_{seed, /*stream=*/0x75706474} {
  for (edge const& e : start.edges) add(e);
}

void update_plan::add(edge e) {
  auto& list = neighbours_[e.from];
  if (list.empty()) {
    position_[e.from] = static_cast<std::uint32_t>(with_edges_.size());
    with_edges_.push_back(e.from);
  }
  list.push_back(e.to);
}

// A random edge of a random vertex that has some.
edge update_plan::take_any() {
  std::uint32_t const from = with_edges_[draw(with_edges_.size())];
  auto& list = neighbours_[from];
  std::swap(list[draw(list.size())], list.back());
  edge const taken{from, list.back()};
  list.pop_back();
  if (list.empty()) {
    std::uint32_t const last = with_edges_.back();
    with_edges_[position_[from]] = last;
    position_[last] = position_[from];
    with_edges_.pop_back();
  }
  return taken;
}

std::vector<update> update_plan::next(batch_kind kind, unsigned size) {
  unsigned const num_deletes = kind == batch_kind::inserts ? 0 : kind == batch_kind::deletes ? size : size / 2;
  unsigned const num_inserts = kind == batch_kind::deletes ? 0 : size - num_deletes;
  std::vector<update> batch;
  batch.reserve(size);
  for (unsigned i = 0; i < num_deletes && !with_edges_.empty(); ++i) batch.push_back({take_any(), 1});
  for (unsigned i = 0; i < num_inserts; ++i) {
    edge const inserted{draw(neighbours_.size()), draw(neighbours_.size())};
    batch.push_back({inserted, 0});
    add(inserted);
  }
  // Fisher-Yates, by the plan's own numbers: std::shuffle differs between libraries.
  for (std::size_t i = batch.size(); i > 1; --i) std::swap(batch[i - 1], batch[draw(i)]);
  return batch;
}

}  // namespace gpuheap::bench::graph
