// Device code: compiled by the compiler of the backend's kernels.
#include "workloads/kdtree/passes.hpp"

#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

namespace gpuheap::bench::kdtree {

namespace {

// relaxed: sums that later kernels or the host read.
template <class T>
GPUHEAP_FN void add(T& sum, T more) {
  simt::atomic_ref<T>{sum}.fetch_add(more, simt::relaxed);
}

struct root_filler {
  build_arrays tree;
  unsigned num_threads;
  GPUHEAP_FN void operator()(unsigned thread) const {
    build_state& state = *tree.state;
    if (state.num_nodes == 0) return;
    node& root = *tree.nodes[0];
    for (uint32_t i = thread; i < root.num_references; i += num_threads) root.references[i] = i;
    uint32_t const num_units = simt::ceil_div(root.num_references, large_from);
    if (root.num_references < large_from || num_units > tree.room_for_units) return;
    for (uint32_t u = thread; u < num_units; u += num_threads) tree.units[0][u] = {0, u * large_from};
    for (uint32_t c = thread; c < 6 * num_planes; c += num_threads) tree.counts[0][c / num_planes][c % num_planes] = 0;
    if (thread != 0) return;
    tree.large[0][0] = {&root, nullptr, 0, 0, {0, 0}, 0, 0};
    root.large = 0;
    state.num_large[0] = 1;
    state.num_units[0] = num_units;
  }
};

struct plane_counter {
  build_arrays tree;
  unsigned num_warps;
  GPUHEAP_FN void operator()(unsigned thread) const {
    build_state const& state = *tree.state;
    uint32_t const count = state.num_units[state.parity];
    GPUHEAP_NO_UNROLL
    for (uint32_t u = thread / simt::warp_lanes; u < count; u += num_warps) {
      unit const work = tree.units[state.parity][u];
      if (work.large == no_large) continue;
      node const& n = *tree.large[state.parity][work.large].which;
      uint32_t const rest = n.num_references - work.first;
      auto const counts = count_range(tree.bounds, n.bounds, n.references + work.first, rest < large_from ? rest : large_from);
      for (int axis = 0; axis < 3; ++axis) {
        add(tree.counts[work.large][axis][simt::lane_id()], counts.left[axis]);
        add(tree.counts[work.large][3 + axis][simt::lane_id()], counts.right[axis]);
      }
    }
  }
};

struct large_hander {
  build_arrays tree;
  unsigned num_warps;
  GPUHEAP_FN void operator()(unsigned thread) const {
    build_state const& state = *tree.state;
    uint32_t const num_units = state.num_units[state.parity];
    GPUHEAP_NO_UNROLL
    for (uint32_t u = thread / simt::warp_lanes; u < num_units; u += num_warps) {
      unit const work = tree.units[state.parity][u];
      if (work.large != no_large) hand_on(tree.large[state.parity][work.large], work.first);
    }
    // The lists go back in the next kernel.
    GPUHEAP_NO_UNROLL
    for (uint32_t l = thread; l < state.num_large[state.parity]; l += num_warps * simt::warp_lanes) {
      tree.retired[l] = tree.large[state.parity][l].list;
    }
    // No thread reads the counts any more: zero for the next level.
    uint32_t const next = state.num_large[state.parity ^ 1], fits = next < tree.room_for_large ? next : tree.room_for_large;
    GPUHEAP_NO_UNROLL
    for (uint32_t c = thread; c < fits * 6 * num_planes; c += num_warps * simt::warp_lanes) {
      tree.counts[c / (6 * num_planes)][c / num_planes % 6][c % num_planes] = 0;
    }
  }

 private:
  GPUHEAP_FN void hand_on(large_node& large, uint32_t begin) const {
    if (large.list == nullptr) return;
    node const& n = *large.which;
    uint32_t const end = begin + large_from < n.num_references ? begin + large_from : n.num_references;
    GPUHEAP_NO_UNROLL
    for (uint32_t first = begin; first < end; first += simt::warp_lanes) {
      uint32_t const i = first + simt::lane_id();
      uint32_t const reference = i < end ? large.list[i] : 0;
      box const triangle = tree.bounds[reference];
      put(large, 0, n.children[0]->references, reference, i < end && reaches_left(triangle, large.axis, large.plane));
      put(large, 1, n.children[1]->references, reference, i < end && reaches_right(triangle, large.axis, large.plane));
    }
  }
  // By all lanes of the warp.
  GPUHEAP_FN static void put(large_node& large, int side, uint32_t* list, uint32_t reference, bool goes) {
    simt::lane_mask const all = simt::ballot(simt::all_lanes, goes);
    uint32_t place = 0;
    // relaxed: which thread gets which places is all that it decides.
    if (simt::lane_id() == 0) {
      place = simt::atomic_ref<uint32_t>{large.filled[side]}.fetch_add(simt::popcount(all), simt::relaxed);
    }
    place = simt::shuffle(simt::all_lanes, place, 0);
    if (goes) list[place + simt::popcount(all & ((simt::lane_mask{1} << simt::lane_id()) - 1))] = reference;
  }
};

struct level_turner {
  build_arrays tree;
  GPUHEAP_FN void operator()(unsigned) const {
    build_state& s = *tree.state;
    uint32_t const made = s.num_nodes - s.level_end;
    s.level_begin = s.level_end;
    s.level_end = s.num_nodes;
    s.num_large[s.parity] = s.num_units[s.parity] = 0;
    s.parity ^= 1;
    if (s.num_large[s.parity] > tree.room_for_large) s.num_large[s.parity] = tree.room_for_large;
    if (s.num_units[s.parity] > tree.room_for_units) s.num_units[s.parity] = tree.room_for_units;
    if (s.may_ask == ~simt::uint64_t{0}) return;
    // A block takes up to 16 bytes more than was asked for; a level may double what it was handed.
    simt::uint64_t const taken = s.next_references * sizeof(uint32_t) + made * simt::uint64_t{sizeof(node) + 48};
    simt::uint64_t const most = 2 * s.next_references * sizeof(uint32_t) + 2 * made * simt::uint64_t{sizeof(node) + 48};
    s.next_references = 0;
    s.may_ask = taken < s.may_ask ? s.may_ask - taken : 0;
    if (most > s.may_ask && made != 0) {
      s.stopped = 1;
      s.level_end = s.level_begin;
      s.num_large[s.parity] = s.num_units[s.parity] = 0;
    }
  }
};

struct state_setter {
  build_state* state;
  simt::uint64_t may_ask;
  GPUHEAP_FN void operator()(unsigned) const {
    *state = {};
    state->may_ask = may_ask;
  }
};

struct block_lister {
  node* const* nodes;
  std::int32_t* references;
  void** blocks;
  GPUHEAP_FN void operator()(unsigned i) const {
    node const& n = *nodes[i];
    auto const count = static_cast<std::int32_t>(n.num_references);
    references[i] = n.children[0] == nullptr ? count : -1 - count;
    blocks[2 * simt::size_t{i}] = nodes[i];
    blocks[2 * simt::size_t{i} + 1] = n.references;
  }
};

struct tree_checker {
  build_arrays tree;
  memory::region heap;
  tree_faults* faults;
  unsigned char* covered;

  [[nodiscard]] GPUHEAP_FN bool inside(void const* p, simt::size_t bytes) const {
    auto const base = reinterpret_cast<simt::uintptr_t>(heap.base);
    if (base == 0) return true;
    auto const offset = reinterpret_cast<simt::uintptr_t>(p) - base;  // below the base: beyond any heap
    return offset <= heap.bytes && bytes <= heap.bytes - offset;
  }
  GPUHEAP_FN void operator()(unsigned i) const {
    node const* const n = tree.nodes[i];
    simt::uint64_t const one = 1;
    if (!inside(n, sizeof(node))) {
      add(faults->outside, one);
      return;
    }
    if (n->children[0] != nullptr) {
      for (node const* child : n->children) {
        if (!inside(child, sizeof(node))) {
          add(faults->outside, one);
        } else if (!n->bounds.touches(child->bounds) || child->depth != n->depth + 1) {
          add(faults->misplaced, one);
        }
      }
      return;
    }
    if (n->num_references == 0) return;
    if (n->num_references > tree.num_triangles || !inside(n->references, simt::size_t{n->num_references} * sizeof(uint32_t))) {
      add(faults->outside, one);
      return;
    }
    for (uint32_t k = 0; k < n->num_references; ++k) {
      uint32_t const reference = n->references[k];
      if (reference >= tree.num_triangles || !tree.bounds[reference].touches(n->bounds)) {
        add(faults->astray, one);
      } else {
        // relaxed: every writer writes the same.
        simt::atomic_ref<unsigned char>{covered[reference]}.store(1, simt::relaxed);
      }
    }
  }
};

// Moeller and Trumbore. One function in the program, so that both ways give the same bits.
GPUHEAP_COLD float distance_to(scene::triangle const& t, scene::ray const& r) {
  scene::vec3 const ab = t.b - t.a, ac = t.c - t.a, p = scene::cross(r.direction, ac);
  float const determinant = scene::dot(ab, p);
  if (determinant == 0) return scene::beyond_all;
  float const inverse = 1 / determinant;
  scene::vec3 const from = r.from - t.a, q = scene::cross(from, ab);
  float const u = scene::dot(from, p) * inverse, v = scene::dot(r.direction, q) * inverse, distance = scene::dot(ac, q) * inverse;
  return u >= 0 && v >= 0 && u + v <= 1 && distance > 0 ? distance : scene::beyond_all;
}

// The distance at which the ray enters the box, made a little larger; beyond_all if it misses the box.
GPUHEAP_FN float entry_of(box const& b, scene::ray const& r) {
  float enters = 0, leaves = scene::beyond_all;
  for (int axis = 0; axis < 3; ++axis) {
    float const margin = 1e-4f * (1 + (b.high[axis] - b.low[axis]) + (b.high[axis] < 0 ? -b.high[axis] : b.high[axis]));
    float const inverse = 1 / r.direction[axis];
    float const a = (b.low[axis] - margin - r.from[axis]) * inverse, c = (b.high[axis] + margin - r.from[axis]) * inverse;
    float const near = a < c ? a : c, far = a < c ? c : a;
    if (near > enters) enters = near;
    if (far < leaves) leaves = far;
  }
  return enters <= leaves ? enters : scene::beyond_all;
}

// A warp for each ray; the tree by its first lane, all triangles by all.
struct ray_tracer {
  node const* const* root;
  scene::triangle const* triangles;
  uint32_t num_triangles;
  scene::ray const* rays;
  ray_answer* answers;

  GPUHEAP_FN void operator()(unsigned thread) const {
    unsigned const n = thread / simt::warp_lanes;
    scene::ray const r = rays[n];
    float least = scene::beyond_all;
    for (uint32_t t = simt::lane_id(); t < num_triangles; t += simt::warp_lanes) {
      float const distance = distance_to(triangles[t], r);
      if (distance < least) least = distance;
    }
    for (unsigned lanes = simt::warp_lanes / 2; lanes != 0; lanes /= 2) {
      float const other = simt::shuffle_xor(simt::all_lanes, least, lanes);
      if (other < least) least = other;
    }
    if (simt::lane_id() == 0) answers[n] = {through_tree(r), least};
  }

 private:
  [[nodiscard]] GPUHEAP_FN float through_tree(scene::ray const& r) const {
    constexpr unsigned most_pending = 64;  // a level leaves one node at most; trees have fewer levels
    node const* pending[most_pending] = {*root};
    unsigned num_pending = 1;
    float least = scene::beyond_all;
    // Ends: each pass takes a node off, and each node of the tree comes once.
    while (num_pending != 0) {
      node const* const n = pending[--num_pending];
      float const enters = entry_of(n->bounds, r);
      if (enters == scene::beyond_all || enters > least) continue;
      if (n->children[0] != nullptr) {
        if (num_pending + 2 > most_pending) return -1;
        pending[num_pending++] = n->children[1];
        pending[num_pending++] = n->children[0];
        continue;
      }
      for (uint32_t k = 0; k < n->num_references; ++k) {
        float const distance = distance_to(triangles[n->references[k]], r);
        if (distance < least) least = distance;
      }
    }
    return least;
  }
};

}  // namespace

void reset_state(build_state* state, simt::uint64_t may_ask, stream_ref stream) {
  launch(1, state_setter{state, may_ask}, {.block_threads = 32, .stream = stream});
}
void fill_root(build_arrays const& tree, unsigned threads, stream_ref stream) {
  launch(threads, root_filler{tree, threads}, {.stream = stream});
}
void count_planes(build_arrays const& tree, unsigned threads, stream_ref stream) {
  launch(threads, plane_counter{tree, threads / simt::warp_lanes}, {.stream = stream});
}
void hand_on_large(build_arrays const& tree, unsigned threads, stream_ref stream) {
  launch(threads, large_hander{tree, threads / simt::warp_lanes}, {.stream = stream});
}
void next_level(build_arrays const& tree, stream_ref stream) { launch(1, level_turner{tree}, {.block_threads = 32, .stream = stream}); }

void list_blocks(node* const* nodes, uint32_t count, std::int32_t* references, void** blocks, stream_ref stream) {
  launch(count, block_lister{nodes, references, blocks}, {.stream = stream});
}
void check_tree(build_arrays const& tree, uint32_t count, memory::region heap, tree_faults* faults, unsigned char* covered,
                stream_ref stream) {
  launch(count, tree_checker{tree, heap, faults, covered}, {.stream = stream});
}
void trace(node const* const* root, scene::triangle const* triangles, uint32_t num_triangles, scene::ray const* rays, uint32_t num_rays,
           ray_answer* answers, stream_ref stream) {
  launch(num_rays * simt::warp_lanes, ray_tracer{root, triangles, num_triangles, rays, answers}, {.stream = stream});
}

}  // namespace gpuheap::bench::kdtree
