#include "workloads/graph/generated.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "harness/error.hpp"
#include "harness/random.hpp"
#include "workloads/graph/named.hpp"

using namespace gpuheap::bench;
using namespace gpuheap::bench::graph;

namespace {
std::vector<edge> edges_of(generated_graph const& graph) {
  std::vector<edge> edges;
  for (std::uint64_t k = 0; k < graph.num_drawn(); ++k) edges.push_back(graph.at(k));
  return edges;
}
std::uint64_t checksum(generated_graph const& graph) {
  std::uint64_t sum = 0;
  for (edge const& e : edges_of(graph)) sum = mix_bits(sum ^ (std::uint64_t{e.from} << 32 | e.to));
  return sum;
}
std::vector<std::uint32_t> degrees_of(generated_graph const& graph) {
  std::vector<std::uint32_t> degrees(graph.num_vertices);
  for (std::uint64_t k = 0; k < graph.num_drawn(); ++k) {
    auto const e = graph.at(k);
    ++degrees.at(e.from);
    if (graph.is_double(k)) ++degrees.at(e.to);
  }
  return degrees;
}
std::uint32_t largest(std::vector<std::uint32_t> const& degrees) { return *std::max_element(degrees.begin(), degrees.end()); }
}  // namespace

TEST(Rmat, HasTheNumbersThatWereAsked) {
  auto const graph = make_rmat(10, 8, 1);
  EXPECT_EQ(graph.num_vertices, 1024u);
  EXPECT_EQ(graph.num_directed(), 8u * 1024);
  auto const edges = edges_of(graph);
  EXPECT_TRUE(std::all_of(edges.begin(), edges.end(), [](edge e) { return e.from < 1024 && e.to < 1024; }));
}
TEST(Rmat, IsTheSameGraphForTheSameSeedOnEveryMachine) {
  EXPECT_EQ(checksum(make_rmat(10, 8, 1)), 16966059693797591165u);
  EXPECT_NE(checksum(make_rmat(10, 8, 1)), checksum(make_rmat(10, 8, 2)));
}
TEST(Rmat, DegreesAreSkewed) {
  auto const degrees = degrees_of(make_rmat(12, 16, 3));
  EXPECT_GT(largest(degrees), 16u * 20);                                               // the hubs have many times the mean degree
  EXPECT_GT(std::count(degrees.begin(), degrees.end(), 0u), std::int64_t{4096} / 20);  // and many vertices have none
}
TEST(Rmat, SmallestScaleWorks) {
  for (edge const& e : edges_of(make_rmat(1, 4, 1))) EXPECT_TRUE(e.from < 2 && e.to < 2);
}

TEST(NamedGraphs, HaveTheSizesOfTheirTable) {
  for (auto const& known : named_graphs()) {
    auto const graph = make_named(known.name, 1);
    EXPECT_EQ(std::string_view{known.name}.substr(0, 5), "like_") << "the name of a real graph on a generated one";
    EXPECT_EQ(graph.num_vertices, known.num_vertices) << known.name;
    EXPECT_EQ(graph.num_directed(), 2 * known.num_edges) << known.name;
    EXPECT_TRUE(known.shape != graph_shape::skewed || graph.num_vertices <= std::uint64_t{1} << graph.scale) << known.name;
    auto const last = graph.at(graph.num_drawn() - 1);
    EXPECT_TRUE(last.from < known.num_vertices && last.to < known.num_vertices) << known.name;
  }
}
TEST(NamedGraphs, AreAsUnevenAsTheirClass) {
  EXPECT_NEAR(largest(degrees_of(make_named("like_email", 1))), 71, 35);
  EXPECT_NEAR(largest(degrees_of(make_named("like_coAuthorsCiteseer", 1))), 1372, 300);
  auto const mesh = degrees_of(make_named("like_fe_body", 1));
  EXPECT_LT(largest(mesh), 20u);
  EXPECT_GT(*std::min_element(mesh.begin(), mesh.end()), 2u);
  auto const roads = degrees_of(make_named("like_luxembourg_osm", 1));
  EXPECT_LT(largest(roads), 8u);
  EXPECT_GT(std::count(roads.begin(), roads.end(), 2u), 100'000);
}
TEST(NamedGraphs, AnUnknownNameIsRefused) {
  try {
    (void)make_named("like_orkutt", 1);
    FAIL();
  } catch (usage_error const& refused) {
    EXPECT_STREQ(refused.what(), "graph=like_orkutt: expected a file, *.mtx, or the name of a generated graph (did you mean like_orkut?)");
  }
}

TEST(RandomSequence, BelowStaysBelowAndReachesEverything) {
  random_sequence const random{5};
  std::vector<unsigned> seen(7);
  for (unsigned n = 0; n < 7000; ++n) ++seen.at(random.below(n, 7));
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](unsigned times) { return times > 800 && times < 1200; }));
}
