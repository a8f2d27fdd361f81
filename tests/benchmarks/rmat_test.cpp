#include "workloads/graph/rmat.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/random.hpp"
#include "workloads/graph/csr.hpp"

using namespace gpuheap::bench;
using namespace gpuheap::bench::graph;

namespace {
std::uint64_t checksum(edge_list const& list) {
  std::uint64_t sum = 0;
  for (edge const& e : list.edges) sum = mix_bits(sum ^ (std::uint64_t{e.from} << 32 | e.to));
  return sum;
}
}  // namespace

TEST(Rmat, HasTheNumbersThatWereAsked) {
  auto const list = make_rmat({.scale = 10, .edge_factor = 8, .seed = 1});
  EXPECT_EQ(list.num_vertices, 1024u);
  ASSERT_EQ(list.edges.size(), 8u * 1024);
  EXPECT_TRUE(std::all_of(list.edges.begin(), list.edges.end(), [](edge e) { return e.from < 1024 && e.to < 1024; }));
}

TEST(Rmat, IsTheSameGraphForTheSameSeedOnEveryMachine) {
  EXPECT_EQ(checksum(make_rmat({.scale = 10, .edge_factor = 8, .seed = 1})), 16966059693797591165u);
  EXPECT_EQ(make_rmat({.scale = 10, .edge_factor = 8, .seed = 1}).edges, make_rmat({.scale = 10, .edge_factor = 8, .seed = 1}).edges);
}

TEST(Rmat, IsAnotherGraphForAnotherSeed) {
  EXPECT_NE(make_rmat({.scale = 10, .edge_factor = 8, .seed = 1}).edges, make_rmat({.scale = 10, .edge_factor = 8, .seed = 2}).edges);
}

TEST(Rmat, DegreesAreSkewed) {
  auto const list = make_rmat({.scale = 12, .edge_factor = 16, .seed = 3});
  auto const arrays = make_csr(list);
  std::uint64_t largest = 0;
  unsigned without = 0;
  for (std::size_t v = 0; v < list.num_vertices; ++v) {
    auto const degree = arrays.offsets[v + 1] - arrays.offsets[v];
    largest = std::max(largest, degree);
    without += degree == 0;
  }
  EXPECT_GT(largest, 16u * 20);                // the hubs have many times the mean degree
  EXPECT_GT(without, list.num_vertices / 20);  // and many vertices have none
}

TEST(Rmat, SmallestScaleWorks) {
  auto const list = make_rmat({.scale = 1, .edge_factor = 4, .seed = 1});
  EXPECT_EQ(list.edges.size(), 8u);
  EXPECT_TRUE(std::all_of(list.edges.begin(), list.edges.end(), [](edge e) { return e.from < 2 && e.to < 2; }));
}

TEST(Csr, KeepsEveryEdgeWithItsVertex) {
  edge_list const list{3, {{2, 0}, {0, 1}, {2, 2}, {0, 1}}};
  auto const arrays = make_csr(list);
  EXPECT_EQ(arrays.offsets, (std::vector<std::uint64_t>{0, 2, 2, 4}));
  EXPECT_EQ(arrays.sources, (std::vector<std::uint32_t>{0, 0, 2, 2}));
  EXPECT_EQ(arrays.neighbours, (std::vector<std::uint32_t>{1, 1, 0, 2}));
}

TEST(RandomSequence, BelowStaysBelowAndReachesEverything) {
  random_sequence const random{5};
  std::vector<unsigned> seen(7);
  for (unsigned n = 0; n < 7000; ++n) ++seen.at(random.below(n, 7));
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](unsigned times) { return times > 800 && times < 1200; }));
}
