#include "workloads/scene/scene_source.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

#include "harness/error.hpp"
#include "harness/near_names.hpp"
#include "workloads/scene/generate.hpp"
#include "workloads/scene/mesh_files.hpp"

namespace gpuheap::bench::scene {

namespace {

bool is_kind(std::string const& name) { return std::find(std::begin(scene_kinds), std::end(scene_kinds), name) != std::end(scene_kinds); }

// The file, or "" for a generated scene.
std::string file_of(session const& s, point const& p) {
  auto const& named = p.text("scene");
  if (!is_kind(named)) return named;
  return s.scene_file;
}

}  // namespace

std::shared_ptr<triangle_list const> load_scene(session const& s, point const& p) {
  static std::string last_key;
  static std::shared_ptr<triangle_list const> last;
  auto const file = file_of(s, p);
  auto const key = file.empty() ? p.text("scene") + "/" + p.text("triangles") + "/" + std::to_string(s.seed) : "file " + file;
  if (last != nullptr && key == last_key) return last;
  last = nullptr;
  last = std::make_shared<triangle_list const>(
      file.empty() ? make_scene(p.text("scene"), static_cast<std::uint32_t>(p.number("triangles")), s.seed) : read_mesh(file));
  last_key = key;
  return last;
}

void check_scene(session const& s, point const& p) {
  auto const file = file_of(s, p);
  if (file.empty()) return;
  if (file.find_first_of("./") == std::string::npos) {
    std::vector<std::string> const known(std::begin(scene_kinds), std::end(scene_kinds));
    throw usage_error("scene=" + file + ": expected a file, or a kind of scene" + suggestion(file, known));
  }
  (void)load_scene(s, p);
}

}  // namespace gpuheap::bench::scene
