#include "workloads/graph/graph_source.hpp"

#include "harness/error.hpp"
#include "workloads/graph/matrix_market.hpp"
#include "workloads/graph/rmat.hpp"

namespace gpuheap::bench::graph {

std::string graph_file(session const& s, point const& p) {
  auto const& named = p.text("graph");
  return named.empty() ? s.graph_file : named;
}

std::shared_ptr<edge_list const> load_graph(session const& s, point const& p) {
  static std::string last_key;
  static std::shared_ptr<edge_list const> last;
  auto const file = graph_file(s, p);
  auto const key = file.empty() ? p.text("scale") + "/" + p.text("edge_factor") + "/" + std::to_string(s.seed) : "file " + file;
  if (last != nullptr && key == last_key) return last;

  last = nullptr;  // two large graphs at once may be too many
  if (file.empty()) {
    rmat_parameters const parameters{static_cast<unsigned>(p.number("scale")), static_cast<unsigned>(p.number("edge_factor")), s.seed};
    last = std::make_shared<edge_list const>(make_rmat(parameters));
  } else {
    auto const read = std::make_shared<edge_list const>(read_matrix_market(file));
    if (read->edges.empty()) throw usage_error(file + ": expected at least one entry, found a graph without edges");
    last = read;
  }
  last_key = key;
  return last;
}

void check_graph(session const& s, point const& p) {
  if (!graph_file(s, p).empty()) (void)load_graph(s, p);
}

}  // namespace gpuheap::bench::graph
