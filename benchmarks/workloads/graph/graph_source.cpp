#include <memory>

#include "workloads/graph/graph_source.hpp"

#include "harness/error.hpp"
#include "workloads/graph/matrix_market.hpp"
#include "workloads/graph/named.hpp"

namespace gpuheap::bench::graph {

namespace {

// The graph that the point or the session names: a file, a name, or "".
std::string const& source_of(session const& s, point const& p) {
  auto const& named = p.text("graph");
  return named.empty() ? s.graph_file : named;
}
bool is_file(session const& s, point const& p) {
  auto const& source = source_of(s, p);
  return source.ends_with(".mtx") || source.find('/') != std::string::npos || (p.text("graph").empty() && !source.empty());
}

// The last file read is kept: the check before a run reads what the run needs.
std::shared_ptr<edge_list const> read(std::string const& file) {
  static std::string last_file;
  static std::shared_ptr<edge_list const> last;
  if (last != nullptr && file == last_file) return last;
  auto const list = std::make_shared<edge_list const>(read_matrix_market(file));
  if (list->edges.empty()) throw usage_error(file + ": expected at least one entry, found a graph without edges");
  last_file = file;
  return last = list;
}

// The last graph made; null: none.
std::shared_ptr<device_csr const>& last_graph() {
  static std::shared_ptr<device_csr const> last;
  return last;
}

generated_graph generate(session const& s, point const& p) {
  auto const& name = source_of(s, p);
  if (!name.empty()) return make_named(name, s.seed);
  return make_rmat(static_cast<unsigned>(p.number("scale")), static_cast<unsigned>(p.number("edge_factor")), s.seed);
}

}  // namespace

std::shared_ptr<device_csr const> load_graph(session const& s, point const& p, stream_ref stream, std::uint64_t hub_edges) {
  static std::string last_key;
  auto& last = last_graph();
  auto const& source = source_of(s, p);
  auto const key =
      source + "/" + p.text("scale") + "/" + p.text("edge_factor") + "/" + std::to_string(s.seed) + "/" + std::to_string(hub_edges);
  if (last != nullptr && key == last_key) return last;

  last = nullptr;  // two large graphs at once may be too many
  if (is_file(s, p)) {
    auto list = *read(source);
    for (std::uint64_t k = 0; k < hub_edges; ++k) list.edges.push_back({0, static_cast<std::uint32_t>(k % list.num_vertices)});
    last = std::make_shared<device_csr const>(list, stream);
  } else {
    auto graph = generate(s, p);
    graph.hub_edges = hub_edges;
    last = std::make_shared<device_csr const>(graph, stream);
  }
  last_key = key;
  return last;
}

void forget_graph() { last_graph() = nullptr; }

void check_graph(session const& s, point const& p) {
  if (is_file(s, p)) {
    (void)read(source_of(s, p));
  } else {
    (void)generate(s, p);
  }
}

}  // namespace gpuheap::bench::graph
