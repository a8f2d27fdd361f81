// Two rounds of k-means with 34 features and 5 centres: kmeans 100|819200, the number of points. Four blocks; the features go up once and
// are turned by a kernel; in each round memberships and centres go up, a kernel finds the nearest centre of each point, memberships come
// down and the CPU moves the centres. It also recomputes each point's distances.

#include "programs/program.hpp"

namespace {

constexpr unsigned num_features = 34;
constexpr unsigned num_centres = 5;
constexpr unsigned num_rounds = 2;

// From one point after the other to one feature after the other.
__global__ void turn(float* by_feature, float const* by_point, unsigned num) {
  unsigned const point = blockIdx.x * blockDim.x + threadIdx.x;
  if (point >= num) return;
  for (unsigned feature = 0; feature < num_features; ++feature)
    by_feature[feature * num + point] = by_point[point * num_features + feature];
}

// The nearest centre; of two that are equally near, the point's own.
__global__ void assign(float const* by_feature, float const* centres, int* membership, unsigned num) {
  unsigned const point = blockIdx.x * blockDim.x + threadIdx.x;
  if (point >= num) return;
  int const own = membership[point];
  int nearest = own;
  float least = 3e38F;
  for (int centre = 0; centre < static_cast<int>(num_centres); ++centre) {
    float distance = 0;
    for (unsigned feature = 0; feature < num_features; ++feature) {
      float const difference = by_feature[feature * num + point] - centres[static_cast<unsigned>(centre) * num_features + feature];
      distance += difference * difference;
    }
    if (distance < least || (distance == least && centre == own)) {
      least = distance;
      nearest = centre;
    }
  }
  membership[point] = nearest;
}

double distance(float const* point, float const* centre) {
  double sum = 0;
  for (unsigned feature = 0; feature < num_features; ++feature) {
    double const difference = double{point[feature]} - double{centre[feature]};
    sum += difference * difference;
  }
  return sum;
}

void check_assignment(programs::array<float> const& points, programs::array<float> const& centres, programs::array<int> const& membership) {
  for (std::size_t i = 0; i < membership.size(); ++i) {
    float const* const point = &points[i * num_features];
    programs::expect(membership[i] >= 0 && membership[i] < static_cast<int>(num_centres), "a point belongs to no centre");
    double const own = distance(point, &centres[static_cast<std::size_t>(membership[i]) * num_features]);
    for (unsigned centre = 0; centre < num_centres; ++centre) {
      programs::expect(own <= distance(point, &centres[centre * num_features]) * (1 + 1e-4),
                       "a point belongs to a centre that is not the nearest");
    }
  }
}

void move_centres(programs::array<float> const& points, programs::array<int> const& membership, programs::array<float>& centres) {
  std::vector<double> sums(centres.size(), 0);
  std::vector<std::size_t> counts(num_centres, 0);
  for (std::size_t i = 0; i < membership.size(); ++i) {
    auto const centre = static_cast<std::size_t>(membership[i]);
    ++counts[centre];
    for (unsigned feature = 0; feature < num_features; ++feature) {
      sums[centre * num_features + feature] += double{points[i * num_features + feature]};
    }
  }
  for (std::size_t i = 0; i < centres.size(); ++i) {
    if (counts[i / num_features] > 0) centres[i] = static_cast<float>(sums[i] / static_cast<double>(counts[i / num_features]));
  }
}

void cluster(unsigned num) {
  programs::array<float> points(std::size_t{num} * num_features);
  programs::random_numbers source(num);
  for (unsigned point = 0; point < num; ++point) {
    float const middle = static_cast<float>(source.below(num_centres)) * 10;
    for (unsigned feature = 0; feature < num_features; ++feature) points[point * num_features + feature] = middle + source.between(-4, 4);
  }
  programs::array<float> centres(points.begin(), points.begin() + num_centres * num_features);
  programs::array<int> membership(num, -1);

  auto* const by_point = programs::allocate_for(points);
  auto* const by_feature = programs::allocate<float>(points.size());
  auto* const device_membership = programs::allocate_for(membership);
  auto* const device_centres = programs::allocate_for(centres);
  programs::upload(by_point, points);
  unsigned const blocks = programs::blocks_for(num, 256);
  programs::timed("turn", [&] { turn<<<blocks, 256>>>(by_feature, by_point, num); });
  for (unsigned round = 0; round < num_rounds; ++round) {
    programs::upload(device_membership, membership);
    programs::upload(device_centres, centres);
    programs::timed("assign", [&] { assign<<<blocks, 256>>>(by_feature, device_centres, device_membership, num); });
    programs::download(membership, device_membership);
    check_assignment(points, centres, membership);
    move_centres(points, membership, centres);
  }
  programs::release(by_point, points);
  programs::release(by_feature);
  programs::release(device_membership, membership);
  programs::release(device_centres, centres);
  programs::print_fingerprint("membership", membership);
  programs::print_fingerprint("centres", centres);
}

}  // namespace

int main(int count, char** arguments) { return programs::run(count, arguments, {{"100", 100}, {"819200", 819200}}, cluster); }
