// Points, boxes, triangles and rays, on the device and the host.
#pragma once

#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::bench::scene {

struct vec3 {
  float v[3];
  [[nodiscard]] GPUHEAP_HD float operator[](int axis) const { return v[axis]; }
};
[[nodiscard]] GPUHEAP_HD inline vec3 operator+(vec3 const& a, vec3 const& b) { return {{a[0] + b[0], a[1] + b[1], a[2] + b[2]}}; }
[[nodiscard]] GPUHEAP_HD inline vec3 operator-(vec3 const& a, vec3 const& b) { return {{a[0] - b[0], a[1] - b[1], a[2] - b[2]}}; }
[[nodiscard]] GPUHEAP_HD inline vec3 operator*(vec3 const& a, float s) { return {{a[0] * s, a[1] * s, a[2] * s}}; }
[[nodiscard]] GPUHEAP_HD inline float dot(vec3 const& a, vec3 const& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
[[nodiscard]] GPUHEAP_HD inline vec3 cross(vec3 const& a, vec3 const& b) {
  return {{a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]}};
}

struct triangle {
  vec3 a, b, c;
};

struct box {
  vec3 low, high;
  [[nodiscard]] GPUHEAP_HD float half_area() const {
    vec3 const d = high - low;
    return simt::product(d[0], d[1]) + simt::product(d[1], d[2]) + simt::product(d[2], d[0]);
  }
  // Whether they share a point.
  [[nodiscard]] GPUHEAP_HD bool touches(box const& other) const {
    bool all = true;
    for (int axis = 0; axis < 3; ++axis) all = all && low[axis] <= other.high[axis] && other.low[axis] <= high[axis];
    return all;
  }
};

[[nodiscard]] GPUHEAP_HD inline box bounds_of(triangle const& t) {
  box b{t.a, t.a};
  for (int axis = 0; axis < 3; ++axis) {
    float const x = t.a[axis], y = t.b[axis], z = t.c[axis];
    b.low.v[axis] = x < y ? (x < z ? x : z) : (y < z ? y : z);
    b.high.v[axis] = x > y ? (x > z ? x : z) : (y > z ? y : z);
  }
  return b;
}

struct ray {
  vec3 from, direction;
};

// No hit.
inline constexpr float beyond_all = 3.0e38f;

}  // namespace gpuheap::bench::scene
