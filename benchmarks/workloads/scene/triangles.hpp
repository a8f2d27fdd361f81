// A scene: triangles, three corners each.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "workloads/scene/geometry.hpp"

namespace gpuheap::bench::scene {

// Corners in the order of the source; no degenerate ones are taken out.
using triangle_list = std::vector<triangle>;

// Corners that faces share, as files have them.
struct indexed_mesh {
  std::vector<vec3> corners;
  std::vector<std::array<std::uint32_t, 3>> faces;  // indices from 0, each below corners.size()
};

[[nodiscard]] inline triangle_list triangles_of(indexed_mesh const& mesh) {
  triangle_list list;
  list.reserve(mesh.faces.size());
  for (auto const& f : mesh.faces) list.push_back({mesh.corners[f[0]], mesh.corners[f[1]], mesh.corners[f[2]]});
  return list;
}

}  // namespace gpuheap::bench::scene
