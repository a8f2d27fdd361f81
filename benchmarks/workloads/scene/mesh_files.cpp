#include "workloads/scene/mesh_files.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "harness/error.hpp"

namespace gpuheap::bench::scene {

triangle_list read_mesh(std::string const& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw usage_error(path + ": cannot be opened: " + std::strerror(errno));
  std::string ending = path.substr(std::min(path.rfind('.'), path.size()));
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (ending != ".obj" && ending != ".ply") throw usage_error(path + ": expected a scene as .obj or .ply");
  auto list = ending == ".obj" ? read_obj(in, path) : read_ply(in, path);
  if (list.empty()) throw usage_error(path + ": expected at least one face, found a scene without any");
  return list;
}

}  // namespace gpuheap::bench::scene
