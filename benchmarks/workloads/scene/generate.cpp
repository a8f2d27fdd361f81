#include "workloads/scene/generate.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "harness/random.hpp"

namespace gpuheap::bench::scene {

namespace {

constexpr float pi = 3.14159265f;

// Draws one after the other.
class drawing {
 public:
  explicit drawing(std::uint64_t seed, std::uint64_t stream) : random_{seed, stream} {}
  // In 0..1.
  float unit() { return static_cast<float>(random_.bits(n_++) >> 40) * 0x1p-24f; }
  float between(float low, float high) { return low + (high - low) * unit(); }
  vec3 in_box(vec3 const& low, vec3 const& high) {
    float const x = between(low[0], high[0]), y = between(low[1], high[1]), z = between(low[2], high[2]);
    return {{x, y, z}};
  }

 private:
  random_sequence random_;
  std::uint64_t n_ = 0;
};

// A grid of points of a surface, as triangles: `rows` x `columns` squares of two triangles.
template <class At>
void add_patch(triangle_list& list, std::uint32_t rows, std::uint32_t columns, At at) {
  auto const point = [&](std::uint32_t r, std::uint32_t c) {
    return at(static_cast<float>(r) / static_cast<float>(rows), static_cast<float>(c) / static_cast<float>(columns));
  };
  for (std::uint32_t r = 0; r < rows; ++r) {
    for (std::uint32_t c = 0; c < columns; ++c) {
      vec3 const corners[4] = {point(r, c), point(r + 1, c), point(r, c + 1), point(r + 1, c + 1)};
      list.push_back({corners[0], corners[1], corners[2]});
      list.push_back({corners[3], corners[2], corners[1]});
    }
  }
}

void add_box(triangle_list& list, vec3 const& low, vec3 const& high) {
  for (int side = 0; side < 6; ++side) {
    int const axis = side / 2, u = (axis + 1) % 3, v = (axis + 2) % 3;
    add_patch(list, 1, 1, [&](float r, float c) {
      vec3 p = side % 2 == 0 ? low : high;
      p.v[u] = low[u] + (high[u] - low[u]) * r;
      p.v[v] = low[v] + (high[v] - low[v]) * c;
      return p;
    });
  }
}

triangle_list make_surface(std::uint32_t count, std::uint64_t seed) {
  drawing draw(seed, 0x73757266);
  struct wave {
    vec3 direction;
    float phase, height;
  };
  std::vector<wave> waves;
  for (int i = 0; i < 12; ++i) {
    float const frequency = 1.5f * static_cast<float>(1 << (i / 3));
    waves.push_back({draw.in_box({{-1, -1, -1}}, {{1, 1, 1}}) * (4 * frequency), draw.between(0, 2 * pi), 0.35f / frequency});
  }
  auto const rows = static_cast<std::uint32_t>(std::ceil(std::sqrt(count / 4.0)));
  triangle_list list;
  add_patch(list, rows, 2 * rows, [&](float r, float c) {
    float const latitude = pi * r, longitude = 2 * pi * c;
    vec3 const on_sphere{{std::sin(latitude) * std::cos(longitude), std::cos(latitude), std::sin(latitude) * std::sin(longitude)}};
    float radius = 1;
    for (wave const& w : waves) radius += w.height * 0.3f * std::sin(dot(w.direction, on_sphere) + w.phase);
    return on_sphere * radius;
  });
  return list;
}

// Columns stand in rows along the halls, which lie side by side.
triangle_list make_hall(std::uint32_t count, std::uint64_t seed) {
  drawing draw(seed, 0x68616c6c);
  triangle_list list;
  unsigned const halls = 4;
  for (unsigned h = 0; h < halls; ++h) {
    float const x = 12.0f * static_cast<float>(h);
    add_box(list, {{x, 0, 0}}, {{x + 11.5f, 8, 60}});
    add_patch(list, 2, 6, [&](float r, float c) { return vec3{{x + 11.5f * r, 0.01f, 60 * c}}; });
  }
  while (list.size() < count) {
    float const x = 12.0f * std::floor(draw.between(0, halls)) + draw.between(1, 10), z = draw.between(1, 59);
    if (draw.unit() < 0.5f) {
      float const radius = draw.between(0.2f, 0.5f), wobble = draw.between(0, 0.1f);
      add_patch(list, 24, 16, [&](float r, float c) {
        float const here = radius * (1 + wobble * std::sin(40 * r));
        return vec3{{x + here * std::cos(2 * pi * c), 8 * r, z + here * std::sin(2 * pi * c)}};
      });
    } else {
      vec3 const low = draw.in_box({{x, 0, z}}, {{x, 1, z}});
      add_box(list, low, low + draw.in_box({{0.1f, 0.1f, 0.1f}}, {{1.5f, 1, 1.5f}}));
    }
  }
  return list;
}

triangle_list make_forest(std::uint32_t count, std::uint64_t seed) {
  drawing draw(seed, 0x74726565);
  triangle_list list;
  add_patch(list, 2, 4, [](float r, float c) { return vec3{{400 * r - 200, -0.5f * std::sin(6 * r), 400 * c - 200}}; });
  constexpr unsigned leaves = 600;
  while (list.size() < count) {
    // Clearings and thickets: the product of two draws gathers trees around the middle.
    vec3 const foot{{draw.between(-180, 180) * draw.unit(), 0, draw.between(-180, 180) * draw.unit()}};
    float const height = draw.between(3, 12), crown = height * draw.between(0.2f, 0.4f);
    add_box(list, foot + vec3{{-0.1f, 0, -0.1f}}, foot + vec3{{0.1f, height, 0.1f}});
    for (unsigned leaf = 0; leaf < leaves; ++leaf) {
      vec3 const at = foot + vec3{{0, height, 0}} + draw.in_box({{-crown, -crown, -crown}}, {{crown, crown, crown}}) * draw.unit();
      float const size = draw.between(0.02f, 0.08f);
      vec3 const away{{size, size, size}};
      list.push_back({at, at + draw.in_box(away * -1, away), at + draw.in_box(away * -1, away)});
    }
  }
  return list;
}

triangle_list make_soup(std::uint32_t count, std::uint64_t seed) {
  drawing draw(seed, 0x736f7570);
  triangle_list list;
  while (list.size() < count) {
    vec3 const at = draw.in_box({{0, 0, 0}}, {{100, 100, 100}});
    float const size = 0.03f * std::pow(1000.0f, std::pow(draw.unit(), 4.0f));
    vec3 const away{{size, size, size}};
    list.push_back({at, at + draw.in_box(away * -1, away), at + draw.in_box(away * -1, away)});
  }
  return list;
}

}  // namespace

triangle_list make_scene(std::string_view kind, std::uint32_t count, std::uint64_t seed) {
  triangle_list list;
  if (kind == "surface") list = make_surface(count, seed);
  if (kind == "hall") list = make_hall(count, seed);
  if (kind == "forest") list = make_forest(count, seed);
  if (kind == "soup") list = make_soup(count, seed);
  if (list.size() < count) throw std::logic_error("no scene of " + std::to_string(count) + " triangles is called " + std::string(kind));
  // Surplus triangles are removed everywhere, and neighbours in space are no neighbours in the list: file order is the builder's worst
  // case.
  random_sequence const random{seed, 0x6f726472};
  for (std::size_t i = 0; i < count; ++i) {
    std::swap(list[i], list[i + random.below(i, static_cast<std::uint32_t>(list.size() - i))]);
  }
  list.resize(count);
  return list;
}

}  // namespace gpuheap::bench::scene
