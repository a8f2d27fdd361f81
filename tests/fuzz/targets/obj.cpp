// Meshes: every corner is a finite place.
#include "workloads/scene/mesh_files.hpp"

#include <cmath>

#include "reads.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  namespace scene = gpuheap::bench::scene;
  return fuzz::read_bytes(
      data, size, [](std::istream& in, std::string const& name) { return scene::read_obj(in, name); },
      [](scene::triangle_list const& list) {
        for (scene::triangle const& t : list) {
          for (auto const& corner : {t.a, t.b, t.c}) {
            for (float const x : corner.v) fuzz::require(std::isfinite(x));
          }
        }
      });
}
