// Device code: compiled by the compiler of the backend's kernels.
#include "workloads/kdtree/builder.hpp"
#include "harness/pace.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/random.hpp"

namespace gpuheap::bench::kdtree {

namespace {

// Eight plus 1.3 levels for each doubling, as is usual since Havran's thesis.
std::uint32_t most_levels(std::size_t triangles) { return static_cast<std::uint32_t>(8 + 1.3 * std::log2(static_cast<double>(triangles))); }

constexpr std::uint32_t num_rays = 256;

// The arrays that a build works with, beside the heap.
class builder {
 public:
  builder(scene::triangle_list const& triangles, bool from_queue, stream_ref stream)
      : stream_{stream},
        triangles_{on_device(triangles, stream)},
        bounds_{on_device(bounds_of_all(triangles), stream)},
        state_(1),
        nodes_(std::max<std::size_t>(1024, 16 * triangles.size())),
        large_a_(room_for_large(triangles.size()) * (from_queue ? most_levels(triangles.size()) : 1)),
        large_b_(from_queue ? 1 : large_a_.size()),
        retired_(large_a_.size()),
        counts_(large_a_.size() * 6 * num_planes),
        units_a_(2 * large_a_.size()),
        units_b_(units_a_.size()),
        work_(from_queue ? nodes_.size() + 2 * units_a_.size() : 1),
        from_queue_{from_queue},
        timer_{stream} {
    box whole = {{{scene::beyond_all, scene::beyond_all, scene::beyond_all}},
                 {{-scene::beyond_all, -scene::beyond_all, -scene::beyond_all}}};
    for (auto const& t : triangles) {
      box const b = scene::bounds_of(t);
      for (int axis = 0; axis < 3; ++axis) {
        whole.low.v[axis] = std::min(whole.low[axis], b.low[axis]);
        whole.high.v[axis] = std::max(whole.high[axis], b.high[axis]);
      }
    }
    whole_ = whole;
    tree_ = {.bounds = bounds_.data(),
             .num_triangles = static_cast<uint32_t>(triangles.size()),
             .max_depth = most_levels(triangles.size()),
             .state = state_.data(),
             .nodes = nodes_.data(),
             .room_for_nodes = static_cast<uint32_t>(nodes_.size()),
             .large = {large_a_.data(), large_b_.data()},
             .retired = retired_.data(),
             .counts = reinterpret_cast<uint32_t(*)[6][num_planes]>(counts_.data()),
             .units = {units_a_.data(), units_b_.data()},
             .room_for_large = static_cast<uint32_t>(large_a_.size()),
             .room_for_units = static_cast<uint32_t>(units_a_.size()),
             .work = work_.data(),
             .room_for_work = static_cast<uint32_t>(work_.size())};
  }

  // Milliseconds of the device.
  double build(tree_heap& heap, std::uint64_t may_ask, unsigned threads) {
    reset_state(state_.data(), may_ask, stream_);
    if (from_queue_) {
      work_.zero(stream_);
      return timer_.time_us([&] {
        heap.make_root(tree_, whole_);
        fill_root(tree_, threads, stream_);
        heap.build_from_queue(tree_, threads);
      }) / 1000;
    }
    return timer_.time_us([&] {
      heap.make_root(tree_, whole_);
      fill_root(tree_, threads, stream_);
      for (uint32_t level = 0; level < tree_.max_depth; ++level) {
        count_planes(tree_, threads, stream_);
        heap.split_level(tree_, threads);
        hand_on_large(tree_, threads, stream_);
        heap.free_listed(retired_.data(), &state_.data()->num_large[level % 2], threads);
        next_level(tree_, stream_);
      }
    }) / 1000;
  }

  build_state state() const { return state_.download(stream_)[0]; }

  // "" or what is wrong with the tree.
  std::string check(memory::region heap, std::uint32_t num_nodes) const {
    device_array<tree_faults> faults(1);
    device_array<unsigned char> covered(tree_.num_triangles);
    faults.zero(stream_);
    covered.zero(stream_);
    check_tree(tree_, num_nodes, heap, faults.data(), covered.data(), stream_);
    auto const found = faults.download(stream_)[0];
    if (found.outside != 0) return std::to_string(found.outside) + " nodes or lists do not lie within the heap";
    if (found.misplaced != 0) return std::to_string(found.misplaced) + " nodes do not lie within their parents: blocks overlap";
    if (found.astray != 0) return std::to_string(found.astray) + " references lead to triangles outside their node: blocks overlap";
    auto const seen = covered.download(stream_);
    auto const lost = std::count(seen.begin(), seen.end(), 0);
    return lost == 0 ? "" : std::to_string(lost) + " triangles are in no leaf";
  }

  // "" or how rays through the tree differ from rays against all triangles.
  std::string check_rays(std::uint64_t seed) const {
    random_sequence const random{seed, /*stream=*/0x72617973};
    std::vector<scene::ray> rays(num_rays);
    std::uint64_t n = 0;
    auto const somewhere = [&](float far) {
      scene::vec3 p{};
      for (int axis = 0; axis < 3; ++axis) {
        float const part = static_cast<float>(random.bits(n++) >> 40) * 0x1p-24f;
        p.v[axis] = whole_.low[axis] + (whole_.high[axis] - whole_.low[axis]) * (far * (part - 0.5f) + 0.5f);
      }
      return p;
    };
    for (auto& r : rays) {
      r.from = somewhere(2);
      r.direction = somewhere(1) - r.from;
    }
    auto const on_the_device = on_device(rays, stream_);
    device_array<ray_answer> answers(num_rays);
    trace(nodes_.data(), triangles_.data(), tree_.num_triangles, on_the_device.data(), num_rays, answers.data(), stream_);
    std::uint32_t differ = 0;
    for (auto const& a : answers.download(stream_)) differ += a.by_tree != a.by_all;
    return differ == 0 ? "" : std::to_string(differ) + " of " + std::to_string(num_rays) + " rays meet other triangles through the tree";
  }

  struct blocks_of_tree {
    std::vector<std::int32_t> references;  // of each node; -1 - n where it is no leaf
    device_array<void*> pointers;          // a node and its list, a node and its list, ...
  };
  blocks_of_tree blocks(std::uint32_t num_nodes) const {
    device_array<std::int32_t> references(num_nodes);
    device_array<void*> pointers(2 * std::size_t{num_nodes});
    list_blocks(nodes_.data(), num_nodes, references.data(), pointers.data(), stream_);
    auto counts = references.download(stream_);
    return {std::move(counts), std::move(pointers)};
  }

 private:
  static std::vector<box> bounds_of_all(scene::triangle_list const& triangles) {
    std::vector<box> bounds(triangles.size());
    std::transform(triangles.begin(), triangles.end(), bounds.begin(), [](scene::triangle const& t) { return scene::bounds_of(t); });
    return bounds;
  }
  // References of a level are a small multiple of the triangles; nodes for which there is no room are split by one warp.
  static std::size_t room_for_large(std::size_t triangles) { return 64 + 8 * triangles / large_from; }

  stream_ref stream_;
  device_array<scene::triangle> triangles_;
  device_array<box> bounds_;
  device_array<build_state> state_;
  device_array<node*> nodes_;
  device_array<large_node> large_a_, large_b_;
  device_array<void*> retired_;
  device_array<uint32_t> counts_;
  device_array<unit> units_a_, units_b_;
  device_array<simt::uint64_t> work_;
  bool from_queue_;
  kernel_timer timer_;
  box whole_{};
  build_arrays tree_{};
};

// The columns of the paper's table for a scene: the number of requests of a build, their sizes, and the number of references in leaves.
struct tree_facts {
  double references = 0, allocations = 0, size_mean = 0, size_stddev = 0;
};
tree_facts facts_of(std::vector<std::int32_t> const& nodes) {
  tree_facts facts;
  double sum = 0, squares = 0;
  auto const ask = [&](simt::size_t bytes) {
    facts.allocations += 1;
    sum += static_cast<double>(bytes);
    squares += static_cast<double>(bytes) * static_cast<double>(bytes);
  };
  for (auto const n : nodes) {
    auto const references = static_cast<uint32_t>(n < 0 ? -1 - n : n);
    ask(sizeof(node));
    if (references != 0) ask(list_bytes(references));
    if (n > 0) facts.references += references;
  }
  facts.size_mean = sum / facts.allocations;
  facts.size_stddev = std::sqrt(std::max(0.0, squares / facts.allocations - facts.size_mean * facts.size_mean));
  return facts;
}

}  // namespace

outcome measure_builds(tree_heap& heap, heap_facts const& facts, session const& s, scene::triangle_list const& triangles, unsigned threads,
                       bool from_queue, stream_ref stream) {
  builder work(triangles, from_queue, stream);
  row build_ms{"build_ms", "ms", {}}, references{"references", "count", {}}, allocations{"allocations", "count", {}};
  row size_mean{"size_mean", "bytes", {}}, size_stddev{"size_stddev", "bytes", {}};
  std::string const too_small = "the heap of " + memory::format_bytes(facts.bytes) + " is too small for the tree by this allocator: ";
  pace const timing(s);
  // Run 0 warms up.
  for (unsigned run = 0; run == 0 || !timing.enough(build_ms.samples.size()); ++run) {
    if (auto reason = timing.too_slow_after(run, build_ms.samples.size()); !reason.empty()) return timed_out(std::move(reason));
    if (facts.never_frees && run != 0) heap.renew();
    double const ms = work.build(heap, facts.may_not_wrap ? facts.bytes : ~std::uint64_t{0}, threads);
    auto const state = work.state();
    auto const fail = [&](std::string const& fault) { return wrong("build " + std::to_string(run) + ": " + fault); };
    if (state.num_nodes == 0) return unsupported(too_small + "there is no root");
    // A tree that came out smaller is sound all the same, but for that of a root without a list.
    bool const rootless = state.failed_requests != 0 && state.num_nodes == 1;
    if (!rootless) {
      if (auto fault = work.check(heap.range(), state.num_nodes); !fault.empty()) return fail(fault);
    }
    bool const whole = state.failed_requests == 0 && state.stopped == 0;
    if (whole && run == 0) {
      if (auto fault = work.check_rays(s.seed); !fault.empty()) return fail(fault);
    }
    auto const blocks = work.blocks(state.num_nodes);
    auto const count = on_device(std::vector<uint32_t>{2 * state.num_nodes}, stream);
    heap.free_listed(blocks.pointers.data(), count.data(), threads);
    simt::synchronize(stream);
    if (state.out_of_room != 0) return unsupported("the tree has more nodes than the case keeps account of");
    if (state.failed_requests != 0) return unsupported(too_small + std::to_string(state.failed_requests) + " requests failed");
    if (state.stopped != 0) return unsupported(too_small + "it never reuses freed memory, and would overwrite live blocks");
    if (run == 0) continue;
    auto const tree = facts_of(blocks.references);
    build_ms.samples.push_back(ms);
    references.samples.push_back(tree.references);
    allocations.samples.push_back(tree.allocations);
    size_mean.samples.push_back(tree.size_mean);
    size_stddev.samples.push_back(tree.size_stddev);
  }
  if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
  return {outcome_status::ok,
          "",
          {std::move(build_ms), std::move(references), std::move(allocations), std::move(size_mean), std::move(size_stddev)}};
}

}  // namespace gpuheap::bench::kdtree
