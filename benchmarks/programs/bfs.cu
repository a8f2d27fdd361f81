// Breadth-first search in a random graph: bfs 4096|1000000, the number of nodes, each with about six edges. Seven blocks; the graph and the
// state of each node go up once; each level is a flag that goes up, two kernels, and the flag that comes down; then the levels come down.
// The block of the flag, one byte, is never freed. The CPU searches as well.

#include "programs/program.hpp"

namespace {

struct node {
  unsigned first, num;  // of its edges
};

// Marks what is reached from the nodes of this level.
__global__ void expand(node const* nodes, unsigned const* edges, unsigned char* level, unsigned char* next, unsigned char const* visited,
                       int* cost, unsigned num) {
  unsigned const from = blockIdx.x * blockDim.x + threadIdx.x;
  if (from >= num || level[from] == 0) return;
  level[from] = 0;
  for (unsigned edge = nodes[from].first; edge < nodes[from].first + nodes[from].num; ++edge) {
    unsigned const to = edges[edge];
    if (visited[to] != 0) continue;
    // Several threads may write: all write the same.
    cost[to] = cost[from] + 1;
    next[to] = 1;
  }
}

// Makes what was marked the next level, and says whether there is one.
__global__ void advance(unsigned char* level, unsigned char* next, unsigned char* visited, unsigned char* more, unsigned num) {
  unsigned const at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= num || next[at] == 0) return;
  next[at] = 0;
  level[at] = 1;
  visited[at] = 1;
  *more = 1;
}

struct graph {
  programs::array<node> nodes;
  programs::array<unsigned> edges;
};

// Every node asks for 2, 3 or 4 neighbours; an edge leads both ways.
graph make_graph(unsigned num) {
  programs::random_numbers source(num);
  std::vector<std::pair<unsigned, unsigned>> pairs;
  graph made{programs::array<node>(num, node{0, 0}), {}};
  for (unsigned from = 0; from < num; ++from) {
    for (unsigned i = 0; i < 2 + from % 3; ++i) {
      pairs.emplace_back(from, source.below(num));
      ++made.nodes[pairs.back().first].num;
      ++made.nodes[pairs.back().second].num;
    }
  }
  unsigned all = 0;
  for (node& each : made.nodes) {
    each.first = all;
    all += std::exchange(each.num, 0);
  }
  made.edges.resize(all);
  for (auto const& [one, other] : pairs) {
    made.edges[made.nodes[one].first + made.nodes[one].num++] = other;
    made.edges[made.nodes[other].first + made.nodes[other].num++] = one;
  }
  return made;
}

std::vector<int> search_by_cpu(graph const& in, unsigned start) {
  std::vector<int> cost(in.nodes.size(), -1);
  std::vector<unsigned> queue{start};
  cost[start] = 0;
  for (std::size_t at = 0; at < queue.size(); ++at) {
    node const& from = in.nodes[queue[at]];
    for (unsigned edge = from.first; edge < from.first + from.num; ++edge) {
      unsigned const to = in.edges[edge];
      if (cost[to] != -1) continue;
      cost[to] = cost[queue[at]] + 1;
      queue.push_back(to);
    }
  }
  return cost;
}

void search(unsigned num) {
  graph searched = make_graph(num);
  unsigned const start = 0;
  programs::array<unsigned char> level(num, 0), next(num, 0), visited(num, 0);
  programs::array<int> cost(num, -1);
  level[start] = visited[start] = 1;
  cost[start] = 0;

  auto* const device_nodes = programs::allocate_for(searched.nodes);
  auto* const device_edges = programs::allocate_for(searched.edges);
  auto* const device_level = programs::allocate_for(level);
  auto* const device_next = programs::allocate_for(next);
  auto* const device_visited = programs::allocate_for(visited);
  auto* const device_cost = programs::allocate_for(cost);
  auto* const device_more = programs::allocate<unsigned char>(1);
  programs::upload(device_nodes, searched.nodes);
  programs::upload(device_edges, searched.edges);
  programs::upload(device_level, level);
  programs::upload(device_next, next);
  programs::upload(device_visited, visited);
  programs::upload(device_cost, cost);
  unsigned const blocks = programs::blocks_for(num, 512);
  unsigned num_levels = 0;
  for (unsigned char more = 1; more != 0; ++num_levels) {
    more = 0;
    programs::upload(device_more, &more, 1);
    programs::timed("expand", [&] {
      expand<<<blocks, 512>>>(device_nodes, device_edges, device_level, device_next, device_visited, device_cost, num);
    });
    programs::timed("advance", [&] { advance<<<blocks, 512>>>(device_level, device_next, device_visited, device_more, num); });
    programs::download(&more, device_more, 1);
  }
  programs::download(cost, device_cost);
  programs::release(device_nodes, searched.nodes);
  programs::release(device_edges, searched.edges);
  programs::release(device_level, level);
  programs::release(device_next, next);
  programs::release(device_visited, visited);
  programs::release(device_cost, cost);

  programs::expect(std::equal(cost.begin(), cost.end(), search_by_cpu(searched, start).begin()),
                   "the levels are not those of the CPU's search");
  std::printf("levels %u\n", num_levels);
  programs::print_fingerprint("cost", cost);
}

}  // namespace

int main(int count, char** arguments) { return programs::run(count, arguments, {{"4096", 4096}, {"1000000", 1000000}}, search); }
