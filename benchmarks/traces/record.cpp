// gpuheap-record: runs one of the benchmarks' programs on a heap that records, in the simulator, and writes the recording. How the
// recordings beside this file were made:
//
//   gpuheap-record graph_update graph_update.trace
//   gpuheap-record kdtree kdtree.trace
#include <gpuheap/heap.hpp>
#include <gpuheap/memory/literals.hpp>
#include <gpuheap/recorded.hpp>

#include <cstdio>
#include <fstream>
#include <string>

#include "workloads/graph/graph_run.hpp"
#include "workloads/graph/rmat.hpp"
#include "workloads/graph/update_plan.hpp"
#include "workloads/kdtree/builder.hpp"
#include "workloads/scene/generate.hpp"

namespace gpuheap::bench {
namespace {

using recorder = recorded<sharded_runs, 1u << 16>;
using recorded_heap = heap_under_test<recorder>;
constexpr std::uint64_t heap_bytes = 64_MiB;

// A skewed graph, and edges inserted and deleted by one thread each.
recording record_graph_update() {
  owned_stream stream;
  recorded_heap heap(heap_bytes, stream);
  kernel_timer timer(stream);
  auto const list = graph::make_rmat({.scale = 10, .edge_factor = 4, .seed = 1});
  auto const arrays = graph::make_csr(list);
  graph::device_edges const edges(arrays, stream);
  graph::graph_run<recorded_heap::ref_type> work(list, edges, heap.ref(), timer, stream);
  heap.ref().allocator().end_kernel(stream);
  graph::update_plan plan(list, 1);
  for (int batch = 0; batch < 4; ++batch) {
    (void)work.apply(plan.next(graph::batch_kind::both, 4096));
    heap.ref().allocator().end_kernel(stream);
  }
  work.give_back();
  return heap.ref().allocator().read(stream);
}

// A tree heap whose levels are told apart.
class recorded_tree_heap final : public kdtree::tree_heap {
 public:
  explicit recorded_tree_heap(stream_ref stream) : stream_{stream}, heap_{heap_bytes, stream} {}

  void make_root(kdtree::build_arrays const& tree, kdtree::box const& bounds) override {
    launch(1, kdtree::make_root<ref>{heap_.ref(), tree, bounds}, {.block_threads = 32, .stream = stream_});
    end();
  }
  void split_level(kdtree::build_arrays const& tree, unsigned threads) override {
    launch(threads, kdtree::split_level<ref>{heap_.ref(), tree, threads / simt::warp_lanes}, {.stream = stream_});
    end();
  }
  void free_listed(void* const* pointers, kdtree::uint32_t const* count, unsigned threads) override {
    launch(threads, kdtree::free_listed<ref>{heap_.ref(), pointers, count, threads}, {.stream = stream_});
    end();
  }
  void renew() override { heap_.renew(); }
  memory::region range() const override { return heap_.range(); }
  std::string refused_frees() const override { return heap_.refused_frees(); }
  recording read() const { return heap_.ref().allocator().read(stream_); }

 private:
  using ref = recorded_heap::ref_type;
  // Launches without events, of levels that are no more, leave nothing behind.
  void end() {
    simt::synchronize(stream_);
    auto const now = heap_.ref().allocator().read(stream_).events.size();
    if (now == seen_) return;
    heap_.ref().allocator().end_kernel(stream_);
    seen_ = now + 1;
  }

  stream_ref stream_;
  recorded_heap heap_;
  std::size_t seen_ = 0;
};

recording record_kdtree() {
  owned_stream stream;
  recorded_tree_heap heap(stream);
  session s;
  s.runs = 0;
  auto const outcome = kdtree::measure_builds(heap, {heap_bytes, false, false}, s, scene::make_scene("surface", 1200, 1), 1024, stream);
  if (outcome.status != outcome_status::ok) throw error("the tree was not built: " + outcome.reason);
  return heap.read();
}

int run(std::string const& program, std::string const& file) {
  recording const what = program == "graph_update" ? record_graph_update() : record_kdtree();
  std::ofstream out(file);
  out << trace_text{what};
  out.close();
  if (!out) {
    std::fprintf(stderr, "gpuheap-record: %s cannot be written\n", file.c_str());
    return 1;
  }
  std::printf("%s: %zu events, %llu dropped\n", file.c_str(), what.events.size(), static_cast<unsigned long long>(what.dropped));
  return 0;
}

}  // namespace
}  // namespace gpuheap::bench

int main(int argc, char** argv) {
  std::string const program = argc == 3 ? argv[1] : "";
  if (program != "graph_update" && program != "kdtree") {
    std::fputs("usage: gpuheap-record graph_update|kdtree FILE\n", stderr);
    return 2;
  }
  try {
    return gpuheap::bench::run(program, argv[2]);
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "gpuheap-record: %s\n", failure.what());
    return 1;
  }
}
