#include "workloads/graph/update_plan.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include "harness/random.hpp"

namespace gpuheap::bench::graph {

namespace {

// Runs f(0) .. f(count - 1) on as many threads as the machine has.
template <class F>
void for_each_in_parallel(unsigned count, F f) {
  std::atomic<unsigned> next{0};
  auto const work = [&] {
    for (unsigned i = next++; i < count; i = next++) f(i);
  };
  std::vector<std::thread> others;
  for (unsigned t = 1; t < std::min(count, std::thread::hardware_concurrency()); ++t) others.emplace_back(work);
  work();
  for (auto& thread : others) thread.join();
}

// The edges that batch `b` inserts.
std::vector<edge> inserts_of(plan_parameters const& plan, unsigned b, unsigned count) {
  random_sequence const random{plan.seed, 0x7570'6474'0000'0000u + b};
  std::uint32_t const range = plan.range == 0 ? plan.num_vertices : std::min(plan.range, plan.num_vertices);
  std::uint32_t const first = plan.first != plan_parameters::any_vertex ? plan.first : random.below(0, plan.num_vertices);
  std::vector<edge> edges(count);
  for (unsigned i = 0; i < count; ++i) {
    auto const from = (std::uint64_t{first} + random.below(2 * std::uint64_t{i} + 1, range)) % plan.num_vertices;
    edges[i] = {static_cast<std::uint32_t>(from), random.below(2 * std::uint64_t{i} + 2, plan.num_vertices)};
  }
  return edges;
}

update_batch grouped(std::vector<update> updates) {
  auto const key = [](update const& u) { return std::uint64_t{u.what.from} << 1 | (u.is_delete == 0); };
  std::sort(updates.begin(), updates.end(),
            [&](update const& a, update const& b) { return key(a) != key(b) ? key(a) < key(b) : a.what.to < b.what.to; });
  update_batch made{std::move(updates), {}};
  for (std::uint32_t i = 0; i < made.updates.size(); ++i) {
    if (i == 0 || made.updates[i].what.from != made.updates[i - 1].what.from) made.begins.push_back(i);
  }
  made.begins.push_back(static_cast<std::uint32_t>(made.updates.size()));
  return made;
}

}  // namespace

std::vector<update_batch> make_plan(plan_parameters const& plan) {
  unsigned const num_batches = plan.num_batches + plan.mixed;
  unsigned const num_deletes = plan.mixed ? plan.size / 2 : 0;
  std::vector<update_batch> batches(num_batches);
  for_each_in_parallel(num_batches, [&](unsigned b) {
    bool const deletes = plan.mixed && b != 0;
    std::vector<update> updates;
    updates.reserve(plan.size);
    for (edge const e : inserts_of(plan, b, plan.size - num_deletes)) updates.push_back({e, 0});
    if (deletes) {
      auto const before = inserts_of(plan, b - 1, plan.size - num_deletes);
      for (unsigned i = 0; i < num_deletes; ++i) updates.push_back({before[i], 1});
    }
    batches[b] = grouped(std::move(updates));
  });
  return batches;
}

}  // namespace gpuheap::bench::graph
