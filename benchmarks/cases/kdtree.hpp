// kdtree: a kd-tree built on the device by the surface area heuristic, its nodes and lists of references from the heap. Vinkler and Havran
// 2014, section 5, [DS], and table 2.
#pragma once

#include <string>
#include <utility>

#include "harness/page_sizes.hpp"
#include "workloads/kdtree/builder.hpp"
#include "workloads/scene/scene_source.hpp"

namespace gpuheap::bench {

struct kdtree_build {
  static constexpr parameter parameters[] = {
      number_parameter("threads", "262144", 32, 1u << 24),  // of each kernel, whatever the scene
      scene::scene_parameter,
      scene::triangles_parameter,
      number_parameter("times_root", "200", 1, 1u << 20),  // the heap, in sizes of the root's list
      page_parameter,
      heap_parameter,
  };
  static constexpr case_description description{
      .name = "kdtree",
      .brief = "a kd-tree of a scene built in parallel by the surface area heuristic, nodes and lists of references from the heap",
      .section = "Applications",
      .parameters = parameters,
      .check = &scene::check_scene,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return with_page_size<A>(p, [&]<class B> { return build<B>(s, p); });
  }

 private:
  template <class A>
  static outcome build(session s, point const& p) {
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
    return kdtree::measure_builds(heap, facts, s, *triangles, threads, stream);
  }
};

}  // namespace gpuheap::bench
