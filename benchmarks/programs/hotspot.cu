// Temperature of a chip after two steps of time, by one kernel: hotspot 64|512|1024, the side of the grid. Three blocks; temperature and
// power go up, the temperature comes down from the third. The CPU makes the same two steps.

#include "programs/program.hpp"

namespace {

constexpr unsigned num_steps = 2;
constexpr unsigned tile = 16;                    // threads of a block each way, with the halo
constexpr unsigned kept = tile - 2 * num_steps;  // cells of a block each way
constexpr float ambient = 80;
// The weights of a step: for the differences to the neighbours, for the power, and for the difference to the ambient temperature.
constexpr float across = 0.1F, heating = 0.5F, cooling = 0.005F;

__host__ __device__ inline float stepped(float at, float up, float down, float left, float right, float power) {
  return at + across * (up + down + left + right - 4 * at) + heating * power + cooling * (ambient - at);
}

__global__ void two_steps(float* to, float const* from, float const* power, int side) {
  __shared__ float before[tile][tile];
  __shared__ float after[tile][tile];
  int const x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  int const column = static_cast<int>(blockIdx.x * kept) + x - static_cast<int>(num_steps);
  int const row = static_cast<int>(blockIdx.y * kept) + y - static_cast<int>(num_steps);
  bool const inside = row >= 0 && row < side && column >= 0 && column < side;
  float const own_power = inside ? power[row * side + column] : 0;
  before[y][x] = inside ? from[row * side + column] : 0;
  __syncthreads();
  for (int step = 1; step <= static_cast<int>(num_steps); ++step) {
    // The cells that are still right: a ring less with each step. At the grid's edge a cell is its own neighbour.
    int const last = static_cast<int>(tile) - 1 - step;
    bool const computes = inside && x >= step && x <= last && y >= step && y <= last;
    if (computes) {
      float const own = before[y][x];
      after[y][x] = stepped(own, row > 0 ? before[y - 1][x] : own, row + 1 < side ? before[y + 1][x] : own,
                            column > 0 ? before[y][x - 1] : own, column + 1 < side ? before[y][x + 1] : own, own_power);
    }
    __syncthreads();
    if (computes) before[y][x] = after[y][x];
    __syncthreads();
  }
  int const low = static_cast<int>(num_steps), high = static_cast<int>(num_steps + kept);
  if (inside && x >= low && x < high && y >= low && y < high) to[row * side + column] = before[y][x];
}

template <class Array>
std::vector<float> step_by_cpu(Array const& from, programs::array<float> const& power, std::size_t side) {
  std::vector<float> to(from.size());
  for (std::size_t row = 0; row < side; ++row) {
    for (std::size_t column = 0; column < side; ++column) {
      std::size_t const at = row * side + column;
      to[at] = stepped(from[at], from[row > 0 ? at - side : at], from[row + 1 < side ? at + side : at], from[column > 0 ? at - 1 : at],
                       from[column + 1 < side ? at + 1 : at], power[at]);
    }
  }
  return to;
}

void heat(unsigned side) {
  std::size_t const num = std::size_t{side} * side;
  programs::array<float> temperature(num), power(num), found(num);
  programs::random_numbers source(side);
  for (float& value : temperature) value = source.between(75, 85);
  for (float& value : power) value = source.below(50) == 0 ? source.between(1, 4) : source.between(0, 0.1F);

  auto* const device_from = programs::allocate_for(temperature);
  auto* const device_to = programs::allocate_for(found);
  auto* const device_power = programs::allocate_for(power);
  programs::upload(device_from, temperature);
  programs::upload(device_power, power);
  dim3 const grid(programs::blocks_for(side, kept), programs::blocks_for(side, kept));
  dim3 const block(tile, tile);
  programs::timed("two_steps", [&] { two_steps<<<grid, block>>>(device_to, device_from, device_power, static_cast<int>(side)); });
  programs::download(found, device_to);
  programs::release(device_from, temperature);
  programs::release(device_to, found);
  programs::release(device_power, power);

  std::vector<float> const wanted = step_by_cpu(step_by_cpu(temperature, power, side), power, side);
  for (std::size_t i = 0; i < num; ++i)
    programs::expect(programs::near(found[i], wanted[i], 1e-4), "a cell is not as warm as the CPU says");
  programs::print_fingerprint("temperature", found);
}

}  // namespace

int main(int count, char** arguments) { return programs::run(count, arguments, {{"64", 64}, {"512", 512}, {"1024", 1024}}, heat); }
