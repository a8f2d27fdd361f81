// Tests of the data with which the graph cases compare an allocator's graph: the arrays of a graph, the plan of updates, and the ledger of
// the expected edges.
#include "workloads/graph/graph_ledger.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "workloads/graph/generated.hpp"
#include "workloads/graph/update_plan.hpp"

using namespace gpuheap;
using namespace gpuheap::bench;
using namespace gpuheap::bench::graph;

namespace {

constexpr update insert(std::uint32_t from, std::uint32_t to) { return {{from, to}, 0}; }
constexpr update erase(std::uint32_t from, std::uint32_t to) { return {{from, to}, 1}; }
using bytes = std::vector<std::uint8_t>;
edge_list const three_edges{3, {{0, 1}, {0, 1}, {1, 2}}};

// Lists that somebody keeps by hand.
struct kept_lists {
  std::vector<std::vector<std::uint32_t>> lists;
  [[nodiscard]] std::string differ_from(graph_ledger& ledger) {
    std::vector<vertex> vertices;
    for (auto& list : lists) {
      auto const degree = static_cast<std::uint32_t>(list.size());
      vertices.push_back({degree, degree, degree == 0 ? nullptr : list.data()});
    }
    return ledger.compare(vertices.data());
  }
};

// The same, but with what a batch did.
std::string note(graph_ledger& ledger, std::vector<update> const& batch, bytes const& results) {
  return ledger.note_updates(batch.data(), batch.size(), results.data());
}

}  // namespace

TEST(DeviceCsr, KeepsEveryEdgeWithItsVertex) {
  device_csr const arrays(edge_list{3, {{2, 0}, {0, 1}, {2, 2}, {0, 1}}}, {});
  EXPECT_EQ(arrays.degrees, (std::vector<std::uint32_t>{2, 0, 2}));
  EXPECT_EQ(arrays.offsets.download({}), (std::vector<std::uint64_t>{0, 2, 2, 4}));
  EXPECT_EQ(arrays.sources.download({}), (std::vector<std::uint32_t>{0, 0, 2, 2}));
  auto neighbours = arrays.neighbours.download({});
  std::sort(neighbours.begin() + 2, neighbours.end());
  EXPECT_EQ(neighbours, (std::vector<std::uint32_t>{1, 1, 0, 2}));
  EXPECT_EQ(arrays.sums.download({}), (std::vector<std::uint64_t>{2 * weight_of(1), 0, weight_of(0) + weight_of(2)}));
}
TEST(DeviceCsr, HasBothDirectionsOfADoubleEdge) {
  auto graph = make_rmat(6, 4, 3);
  graph.both_directions = true;
  graph.hub_edges = 10;
  device_csr const arrays(graph, {});
  EXPECT_EQ(arrays.num_edges, 2u * 256 + 10);
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> times;
  auto const sources = arrays.sources.download({}), neighbours = arrays.neighbours.download({});
  for (std::size_t e = 0; e < arrays.num_edges; ++e) ++times[{sources[e], neighbours[e]}];
  for (std::uint64_t k = 256; k < 266; ++k) {
    EXPECT_EQ(graph.at(k).from, 0u);
    --times[{0, graph.at(k).to}];
  }
  for (auto const& [pair, count] : times) EXPECT_EQ(count - (pair.first == pair.second ? count : times[{pair.second, pair.first}]), 0);
}

TEST(GraphLedger, FollowsUpdates) {
  device_csr const edges(three_edges, {});
  graph_ledger ledger(edges, {});
  auto const counts = ledger.note_build(bytes{was_done | asked_memory, was_done | asked_memory, was_done}.data());
  EXPECT_EQ(counts.allocations, 2u);
  EXPECT_EQ(note(ledger, {insert(2, 2), erase(0, 1), insert(0, 1)}, {was_done, was_done, was_done}), "");
  EXPECT_EQ((kept_lists{{{1, 1}, {2}, {2}}}.differ_from(ledger)), "");
  EXPECT_EQ(note(ledger, {erase(1, 2)}, {was_done}), "");
  EXPECT_EQ((kept_lists{{{1, 1}, {}, {2}}}.differ_from(ledger)), "");
}
TEST(GraphLedger, NamesTheFirstListThatDiffers) {
  device_csr const edges(three_edges, {});
  graph_ledger ledger(edges, {});
  (void)ledger.note_build(bytes{was_done, was_done, was_done}.data());
  EXPECT_EQ((kept_lists{{{1}, {2}, {}}}.differ_from(ledger)), "1 list has wrong contents: the first is that of vertex 0");
  EXPECT_EQ((kept_lists{{{1, 1}, {0}, {}}}.differ_from(ledger)), "1 list has wrong contents: the first is that of vertex 1");
  EXPECT_EQ((kept_lists{{{1, 1}, {2, 2}, {0}}}.differ_from(ledger)), "2 lists have wrong contents: the first is that of vertex 1");
}
TEST(GraphLedger, AnInsertMayBeUndoneOnlyForWantOfMemory) {
  device_csr const edges(three_edges, {});
  graph_ledger ledger(edges, {});
  (void)ledger.note_build(bytes{was_done, was_done, was_done}.data());
  EXPECT_EQ(note(ledger, {insert(0, 2)}, {0}), "1 edges were not inserted, although no memory was refused");
  EXPECT_EQ(note(ledger, {insert(0, 2)}, {got_null}), "");
  EXPECT_EQ((kept_lists{{{1, 1}, {2}, {}}}.differ_from(ledger)), "");
}
TEST(GraphLedger, ADeleteMustFindItsEdgeWhileNothingWasRefused) {
  device_csr const edges(three_edges, {});
  graph_ledger ledger(edges, {});
  (void)ledger.note_build(bytes{was_done, was_done, was_done}.data());
  EXPECT_EQ(note(ledger, {erase(0, 1)}, {0}), "1 edges were not found to delete");
  EXPECT_EQ(ledger.note_build(bytes{asked_memory | got_null, was_done, was_done}.data()).failed_requests, 1u);
  EXPECT_EQ(note(ledger, {erase(0, 1)}, {0}), "");
  EXPECT_EQ((kept_lists{{{}, {2}, {}}}.differ_from(ledger)), "");
}

TEST(UpdatePlan, PutsTheUpdatesOfAVertexSideBySideDeletesFirst) {
  auto const plan = make_plan({.num_vertices = 20, .num_batches = 3, .size = 200, .mixed = true, .seed = 4});
  ASSERT_EQ(plan.size(), 4u);  // one of inserts alone before the others
  for (std::size_t b = 0; b < plan.size(); ++b) {
    auto const& [updates, begins] = plan[b];
    EXPECT_EQ(updates.size(), b == 0 ? 100u : 200u);
    EXPECT_EQ(std::count_if(updates.begin(), updates.end(), [](update const& u) { return u.is_delete != 0; }), b == 0 ? 0 : 100);
    std::set<std::uint32_t> seen;
    for (std::uint32_t g = 0; g < plan[b].num_groups(); ++g) {
      auto const source = updates[begins[g]].what.from;
      EXPECT_TRUE(seen.insert(source).second);
      for (auto i = begins[g]; i < begins[g + 1]; ++i) {
        EXPECT_EQ(updates[i].what.from, source);
        EXPECT_TRUE(i == begins[g] || updates[i].is_delete <= updates[i - 1].is_delete);
      }
    }
  }
}
TEST(UpdatePlan, DeletesWhatTheBatchBeforeInserted) {
  auto const plan = make_plan({.num_vertices = 20, .num_batches = 3, .size = 51, .mixed = true, .seed = 4});
  for (std::size_t b = 1; b < plan.size(); ++b) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, int> left;
    for (update const& u : plan[b - 1].updates) left[{u.what.from, u.what.to}] += u.is_delete == 0;
    for (update const& u : plan[b].updates) {
      if (u.is_delete != 0) {
        EXPECT_GE((--left[{u.what.from, u.what.to}]), 0);
      }
    }
  }
}
TEST(UpdatePlan, FocusesOnARange) {
  auto const plan = make_plan({.num_vertices = 1000, .num_batches = 4, .size = 300, .range = 10, .seed = 4});
  std::set<std::uint32_t> firsts;
  for (auto const& batch : plan) {
    EXPECT_LE(batch.num_groups(), 10u);
    firsts.insert(batch.updates[0].what.from);
  }
  EXPECT_GT(firsts.size(), 1u);
  for (auto const& batch : make_plan({.num_vertices = 1000, .num_batches = 2, .size = 300, .range = 1, .first = 7})) {
    EXPECT_EQ(batch.num_groups(), 1u);
    EXPECT_EQ(batch.updates[0].what.from, 7u);
  }
}
TEST(UpdatePlan, IsTheSameForTheSameSeed) {
  auto const edges = [](std::uint64_t seed) {
    std::vector<edge> all;
    for (auto const& batch : make_plan({.num_vertices = 50, .num_batches = 2, .size = 30, .seed = seed}))
      for (update const& u : batch.updates) all.push_back(u.what);
    return all;
  };
  EXPECT_EQ(edges(1), edges(1));
  EXPECT_NE(edges(1), edges(2));
}
