// gpuheap-record: runs one of the benchmarks' programs on a heap that records, in the simulator, and writes the recording. How the
// recordings beside this file were made:
//
//   gpuheap-record graph_update graph_update.trace
//   gpuheap-record kdtree kdtree.trace
#include <gpuheap/heap.hpp>
#include <gpuheap/memory/literals.hpp>
#include <gpuheap/recorded.hpp>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <fstream>
#include <string>

#include "harness/random.hpp"
#include "workloads/kdtree/builder.hpp"
#include "workloads/scene/generate.hpp"

namespace gpuheap::bench {
namespace {

using recorder = recorded<sharded_spans, 1u << 16>;
using recorded_heap = heap_under_test<recorder>;
constexpr std::uint64_t heap_bytes = 64_MiB;

// A graph that changes: a list of neighbours for each vertex, which doubles when it is full and goes when it is empty. In a batch each
// vertex, by a thread of its own, gets some edges or loses some; a few get and lose most of them.
struct change_lists {
  struct list {
    std::uint32_t* neighbours;
    std::uint32_t degree, capacity;
  };
  recorded_heap::ref_type heap;
  list* lists;
  random_sequence random;
  bool last;  // all lists go

  void operator()(unsigned vertex) const {
    list& mine = lists[vertex];
    // One in 1, 2, 4, ... of the numbers is that much larger: degrees are skewed as those of real graphs.
    auto const draw = random.bits(vertex);
    unsigned const skew = static_cast<unsigned>(std::countr_zero(draw >> 32 | 1u << 7));
    auto const change = static_cast<std::uint32_t>(draw % 3) << skew;
    if (last || (draw >> 16) % 4 == 0) {
      mine.degree = last || mine.degree < change ? 0 : mine.degree - change;
      if (mine.degree == 0) {
        heap.free(mine.neighbours);
        mine = {};
      }
      return;
    }
    for (std::uint32_t e = 0; e < change; ++e) {
      if (mine.degree == mine.capacity && !grow(mine)) return;
      mine.neighbours[mine.degree++] = e;
    }
  }

 private:
  bool grow(list& mine) const {
    std::uint32_t const capacity = mine.capacity == 0 ? 4 : 2 * mine.capacity;
    auto* const moved = static_cast<std::uint32_t*>(heap.malloc(capacity * sizeof(std::uint32_t)));
    if (moved == nullptr) return false;
    std::copy_n(mine.neighbours, mine.degree, moved);
    heap.free(mine.neighbours);
    mine.neighbours = moved;
    mine.capacity = capacity;
    return true;
  }
};

recording record_graph_update() {
  constexpr unsigned num_vertices = 1024, num_batches = 8;
  owned_stream stream;
  recorded_heap heap(heap_bytes, stream);
  device_array<change_lists::list> lists(num_vertices);
  lists.zero(stream);
  for (unsigned batch = 0; batch < num_batches; ++batch) {
    launch(num_vertices, change_lists{heap.ref(), lists.data(), random_sequence{1, batch}, batch + 1 == num_batches}, {.stream = stream});
    heap.ref().allocator().end_kernel(stream);
  }
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
  void build_from_queue(kdtree::build_arrays const&, unsigned) override {
    throw plain_error("a recording tells levels apart: build by them");
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
  auto const outcome =
      kdtree::measure_builds(heap, {heap_bytes, false, false}, s, scene::make_scene("surface", 1200, 1), 1024, false, stream);
  if (outcome.status != outcome_status::ok) throw plain_error("the tree was not built: " + outcome.reason);
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
