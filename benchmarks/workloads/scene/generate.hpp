// Generated scenes of the characters that scenes for ray tracing have.
#pragma once

#include <cstdint>
#include <string_view>

#include "workloads/scene/triangles.hpp"

namespace gpuheap::bench::scene {

// surface: a closed, bumpy surface of small triangles of much the same size, as laser scans give (armadillo, dragon)
// hall:    rooms with columns: walls and floors of few large triangles, columns and furniture of many small ones (sponza, conference)
// forest:  trees of small leaves, strewn over a ground of large triangles: detail in few places (fairy forest)
// soup:    triangles of sizes over three decades, anywhere, at any angle
inline constexpr char const* scene_kinds[] = {"surface", "hall", "forest", "soup"};

// Exactly `count` triangles (at least 16), the same ones for the same arguments on every machine but for the last bits of their
// coordinates. `kind` is one of scene_kinds.
[[nodiscard]] triangle_list make_scene(std::string_view kind, std::uint32_t count, std::uint64_t seed);

}  // namespace gpuheap::bench::scene
