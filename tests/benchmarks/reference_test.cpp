#include "workloads/graph/reference.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "workloads/graph/rmat.hpp"
#include "workloads/graph/update_plan.hpp"

using namespace gpuheap::bench::graph;

namespace {
constexpr update insert(std::uint32_t from, std::uint32_t to) { return {{from, to}, 0}; }
constexpr update erase(std::uint32_t from, std::uint32_t to) { return {{from, to}, 1}; }
using results = std::vector<std::uint8_t>;
}  // namespace

TEST(ReferenceGraph, FollowsUpdates) {
  reference_graph graph({{0, 1}, {0, 1}, {1, 2}});
  std::vector<update> const batch{insert(2, 2), erase(0, 1), insert(0, 1)};
  EXPECT_EQ(graph.apply(batch, results{was_done, was_done, was_done | asked_memory}), "");
  EXPECT_EQ(graph.compare({{2, 2}, {1, 2}, {0, 1}, {0, 1}}), "");
}

TEST(ReferenceGraph, NamesTheFirstDifference) {
  reference_graph const graph({{0, 1}, {1, 2}, {1, 2}});
  EXPECT_EQ(graph.compare({{0, 1}, {1, 2}}), "edge 1 -> 2 is missing");
  EXPECT_EQ(graph.compare({{0, 1}, {0, 1}, {1, 2}, {1, 2}}), "edge 0 -> 1 is there more often than it should be");
  EXPECT_EQ(graph.compare({{0, 1}, {1, 2}, {1, 2}, {5, 4294967295u}}), "edge 5 -> 4294967295 is there more often than it should be");
}

TEST(ReferenceGraph, AnInsertMayBeUndoneOnlyForWantOfMemory) {
  std::vector<update> const batch{insert(0, 2)};
  EXPECT_EQ(reference_graph({{0, 1}}).apply(batch, results{0}), "edge 0 -> 2 was not inserted, although no memory was refused");
  reference_graph graph({{0, 1}});
  EXPECT_EQ(graph.apply(batch, results{asked_memory | got_null}), "");
  EXPECT_EQ(graph.compare({{0, 1}}), "");
}

TEST(ReferenceGraph, ADeleteMustFindItsEdgeWhileNothingWasRefused) {
  std::vector<update> const batch{erase(0, 1)};
  EXPECT_EQ(reference_graph({{0, 1}}).apply(batch, results{0}), "edge 0 -> 1 was not found to delete");
  EXPECT_EQ(reference_graph({{0, 1}}, /*complete=*/false).apply(batch, results{0}), "");
}

TEST(ReferenceGraph, NothingIsDeletedTwice) {
  std::vector<update> const batch{erase(0, 1), erase(0, 1)};
  EXPECT_EQ(reference_graph({{0, 1}}).apply(batch, results{was_done, was_done}), "edge 0 -> 1 was deleted more often than it was there");
}

TEST(UpdatePlan, DeletesOnlyWhatWasThereBeforeItsBatch) {
  auto const list = make_rmat({.scale = 8, .edge_factor = 4, .seed = 2});
  reference_graph graph(list.edges);
  update_plan plan(list, 9);
  for (batch_kind const kind : {batch_kind::inserts, batch_kind::both, batch_kind::deletes, batch_kind::both}) {
    auto const batch = plan.next(kind, 300);
    ASSERT_EQ(batch.size(), 300u);
    std::vector<update> deletes, inserts;
    for (auto const& u : batch) (u.is_delete != 0 ? deletes : inserts).push_back(u);
    EXPECT_EQ(deletes.size(), kind == batch_kind::inserts ? 0u : kind == batch_kind::deletes ? 300u : 150u);
    // Deletes first: the least favourable order.
    EXPECT_EQ(graph.apply(deletes, results(deletes.size(), was_done)), "");
    EXPECT_EQ(graph.apply(inserts, results(inserts.size(), was_done)), "");
  }
}

TEST(UpdatePlan, IsTheSameForTheSameSeed) {
  auto const list = make_rmat({.scale = 6, .edge_factor = 4, .seed = 2});
  auto const same = [](std::vector<update> const& a, std::vector<update> const& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](update x, update y) { return x.what == y.what && x.is_delete == y.is_delete; });
  };
  EXPECT_TRUE(same(update_plan(list, 1).next(batch_kind::both, 50), update_plan(list, 1).next(batch_kind::both, 50)));
  EXPECT_FALSE(same(update_plan(list, 1).next(batch_kind::both, 50), update_plan(list, 2).next(batch_kind::both, 50)));
}

TEST(UpdatePlan, DeletesNoMoreThanThereIs) {
  update_plan plan({3, {{0, 1}, {1, 0}, {0, 1}}}, 1);
  EXPECT_EQ(plan.next(batch_kind::deletes, 10).size(), 3u);
  EXPECT_EQ(plan.next(batch_kind::inserts, 10).size(), 10u);
  EXPECT_EQ(plan.next(batch_kind::deletes, 10).size(), 10u);
}

TEST(UpdatePlan, HubsAreNotSoughtOut) {
  edge_list star{100, {}};
  for (std::uint32_t v = 1; v < 100; ++v) {
    star.edges.push_back({v, 0});
    for (int i = 0; i < 100; ++i) star.edges.push_back({0, v});
  }
  auto const batch = update_plan(star, 3).next(batch_kind::deletes, 50);
  auto const of_hub = std::count_if(batch.begin(), batch.end(), [](update const& u) { return u.what.from == 0; });
  EXPECT_LT(of_hub, 10);
}
