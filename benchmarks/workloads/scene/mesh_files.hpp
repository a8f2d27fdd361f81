// Reading triangles from files: Wavefront OBJ, and PLY as text or binary of either byte order. Faces with more corners become fans. All
// throw usage_error with file and line (in the binary part of a PLY file: the element) and what was expected there.
#pragma once

#include <iosfwd>
#include <string>

#include "workloads/scene/triangles.hpp"

namespace gpuheap::bench::scene {

// By the name's ending, .obj or .ply in either case.
[[nodiscard]] triangle_list read_mesh(std::string const& path);

// The same from streams; `name` stands for the file in messages.
[[nodiscard]] triangle_list read_obj(std::istream& in, std::string const& name);
[[nodiscard]] triangle_list read_ply(std::istream& in, std::string const& name);

}  // namespace gpuheap::bench::scene
