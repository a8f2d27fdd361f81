#include <algorithm>
#include <array>
#include <cmath>
#include <istream>
#include <string_view>

#include "harness/line_reader.hpp"
#include "workloads/scene/mesh_files.hpp"

namespace gpuheap::bench::scene {

namespace {

// Statements of an OBJ file that are not about the places of triangles.
constexpr std::array<std::string_view, 22> passed_over{"vt",       "vn",         "vp",        "o",      "g",   "s",   "mg",    "usemtl",
                                                       "mtllib",   "usemap",     "maplib",    "l",      "p",   "lod", "bevel", "c_interp",
                                                       "d_interp", "shadow_obj", "trace_obj", "cstype", "deg", "call"};

vec3 read_corner(line_reader& lines, std::vector<std::string_view> const& words) {
  vec3 corner{};
  // x y z, then perhaps a weight or a colour.
  if (words.size() < 4) lines.refuse("a corner 'v x y z'");
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (!read_whole(words[axis + 1], corner.v[axis]) || !std::isfinite(corner.v[axis])) lines.refuse("a corner 'v x y z' of three numbers");
  }
  return corner;
}

// The corner of "7", "7/1", "7//2" or "-1/2/3".
std::uint32_t read_index(line_reader& lines, std::string_view word, std::size_t num_corners) {
  std::int64_t index = 0;
  if (!read_whole(word.substr(0, word.find('/')), index)) lines.refuse("a face 'f a b c ...' of corner numbers");
  std::int64_t const from_zero = index < 0 ? static_cast<std::int64_t>(num_corners) + index : index - 1;
  if (index == 0 || from_zero < 0 || from_zero >= static_cast<std::int64_t>(num_corners)) {
    lines.refuse("corner numbers from 1 to " + std::to_string(num_corners) + ", the corners so far, or as many back from -1");
  }
  return static_cast<std::uint32_t>(from_zero);
}

}  // namespace

triangle_list read_obj(std::istream& in, std::string const& name) {
  line_reader lines(in, name, '#');
  indexed_mesh mesh;
  while (lines.next_data()) {
    auto const& words = lines.words();
    if (words[0] == "v") {
      mesh.corners.push_back(read_corner(lines, words));
    } else if (words[0] == "f") {
      if (words.size() < 4) lines.refuse("a face 'f a b c ...' of at least three corners");
      std::array<std::uint32_t, 3> fan{read_index(lines, words[1], mesh.corners.size()), 0, 0};
      fan[2] = read_index(lines, words[2], mesh.corners.size());
      for (std::size_t k = 3; k < words.size(); ++k) {
        fan[1] = fan[2];
        fan[2] = read_index(lines, words[k], mesh.corners.size());
        mesh.faces.push_back(fan);
      }
    } else if (std::find(passed_over.begin(), passed_over.end(), words[0]) == passed_over.end()) {
      lines.refuse("'v x y z', 'f a b c ...' or another statement of a Wavefront OBJ file");
    }
  }
  return triangles_of(mesh);
}

}  // namespace gpuheap::bench::scene
