// kdtree, kdtree_queue: a kd-tree built on the device by the surface area heuristic, its nodes and lists of references from the heap.
// Vinkler and Havran 2014, section 5, [DS], and table 2.
#pragma once

#include <string>
#include <utility>

#include "harness/page_sizes.hpp"
#include "workloads/kdtree/builder.hpp"
#include "workloads/scene/scene_source.hpp"

namespace gpuheap::bench {

// A build in a heap of the point, and what becomes of it.
template <class A>
[[nodiscard]] outcome build_kdtree(session s, point const& p, bool from_queue) {
  auto const triangles = scene::load_scene(s, p);
  if (triangles->size() >= std::size_t{1} << 27) return unsupported("the scene has more triangles than the case takes, 2^27");
  auto const root = kdtree::list_bytes(static_cast<std::uint32_t>(triangles->size()));
  s.heap_bytes = p.bytes_of("heap").value_or(root * p.number("times_root"));
  if (auto reason = why_no_heap<A>(s); !reason.empty()) return unsupported(std::move(reason));
  if (std::string reason = why_no_single_frees<A>(); !reason.empty()) return unsupported(std::move(reason));
  owned_stream stream;
  kdtree::tree_heap_of<A> heap(s.heap_bytes, stream);
  kdtree::heap_facts const facts{s.heap_bytes, A::traits.free == frees::never, A::traits.overwrites};
  auto const threads = static_cast<unsigned>(simt::round_up_pow2(p.threads(), 256));
  return kdtree::measure_builds(heap, facts, s, *triangles, threads, from_queue, stream);
}
inline constexpr parameter kdtree_threads_parameter = number_parameter("threads", "262144", 32, 1u << 24);  // whatever the scene
inline constexpr parameter times_root_parameter =
    number_parameter("times_root", "200", 1, 1u << 20);  // the heap, in sizes of the root's list

// Level by level, each step a kernel.
struct kdtree_build {
  static constexpr parameter parameters[] = {kdtree_threads_parameter, scene::scene_parameter, scene::triangles_parameter,
                                             times_root_parameter,     page_parameter,         heap_parameter};
  static constexpr case_description description{
      .name = "kdtree",
      .brief = "a kd-tree of a scene built in parallel by the surface area heuristic, nodes and lists of references from the heap",
      .section = "Applications",
      .parameters = parameters,
      .check = &scene::check_scene,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return with_page_size<A>(p, [&]<class B> { return build_kdtree<B>(s, p, false); });
  }
};

// In one kernel of persistent warps, from a queue of work, as published.
struct kdtree_queue {
  static constexpr parameter parameters[] = {
      kdtree_threads_parameter, scene::scene_parameter, scene::triangles_parameter, times_root_parameter, page_parameter,
      presplit_parameter,       heap_parameter};
  static constexpr case_description description{
      .name = "kdtree_queue",
      .brief = "the same kd-tree, built by persistent warps that take their work from a queue, so that they do not ask together",
      .section = "Applications",
      .parameters = parameters,
      .check = &scene::check_scene,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return with_page_size<A>(p, [&]<class Paged> { return with_presplit<Paged>(p, [&]<class B> { return build_kdtree<B>(s, p, true); }); });
  }
};

}  // namespace gpuheap::bench
