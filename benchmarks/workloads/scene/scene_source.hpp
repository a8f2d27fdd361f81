// The scene that a point of a case is about.
#pragma once

#include <memory>
#include <string>

#include "harness/case.hpp"
#include "workloads/scene/triangles.hpp"

namespace gpuheap::bench::scene {

// The parameters of a point that choose its scene: `scene`, a file or one of the kinds that generate.hpp knows, which then has `triangles`
// of them. The session's file stands in for a generated scene.
inline constexpr parameter scene_parameter = text_parameter("scene", "surface");
inline constexpr parameter triangles_parameter = number_parameter("triangles", "20000", 16, 1u << 25);

// The scene. The last one made is kept, since neighbouring points of a sweep share it. Throws usage_error for a bad file.
[[nodiscard]] std::shared_ptr<triangle_list const> load_scene(session const& s, point const& p);

// Reads the point's file, if it names one, and throws usage_error if it is bad or if there is no scene of that name.
void check_scene(session const& s, point const& p);

}  // namespace gpuheap::bench::scene
