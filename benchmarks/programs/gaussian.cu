// Gaussian elimination: gaussian 3|1024, the order of the system. Three blocks; matrix, multipliers and right side go up and come down
// once; two kernels for each column but the last. The CPU substitutes back and holds the solution against the system as it was.

#include "programs/program.hpp"

namespace {

// Column `at` of the multipliers.
__global__ void multipliers(float* factors, float const* matrix, unsigned order, unsigned at) {
  unsigned const row = at + 1 + blockIdx.x * blockDim.x + threadIdx.x;
  if (row < order) factors[row * order + at] = matrix[row * order + at] / matrix[at * order + at];
}

// Takes the multiples of row `at` from the rows below it.
__global__ void eliminate(float* matrix, float* right, float const* factors, unsigned order, unsigned at) {
  unsigned const column = at + blockIdx.x * blockDim.x + threadIdx.x;
  unsigned const row = at + 1 + blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= order || column >= order) return;
  float const factor = factors[row * order + at];
  matrix[row * order + column] -= factor * matrix[at * order + column];
  if (column == at) right[row] -= factor * right[at];
}

void solve(unsigned order) {
  std::size_t const num = std::size_t{order} * order;
  programs::array<float> matrix(num), factors(num, 0), right(order);
  programs::random_numbers source(order);
  for (unsigned row = 0; row < order; ++row) {
    for (unsigned column = 0; column < order; ++column) {
      // The diagonal outweighs its row, so that no pivots need to be sought.
      matrix[row * order + column] = row == column ? static_cast<float>(order) + 1 : source.between(-1, 1);
    }
    right[row] = source.between(-10, 10);
  }
  std::vector<float> const matrix_before(matrix.begin(), matrix.end()), right_before(right.begin(), right.end());

  auto* const device_factors = programs::allocate_for(factors);
  auto* const device_matrix = programs::allocate_for(matrix);
  auto* const device_right = programs::allocate_for(right);
  programs::upload(device_factors, factors);
  programs::upload(device_matrix, matrix);
  programs::upload(device_right, right);
  for (unsigned at = 0; at + 1 < order; ++at) {
    unsigned const below = order - at - 1;
    unsigned const row_blocks = programs::blocks_for(below, 256);
    programs::timed("multipliers", [&] { multipliers<<<row_blocks, 256>>>(device_factors, device_matrix, order, at); });
    dim3 const grid(programs::blocks_for(below + 1, 16), programs::blocks_for(below, 16));
    dim3 const block(16, 16);
    programs::timed("eliminate", [&] { eliminate<<<grid, block>>>(device_matrix, device_right, device_factors, order, at); });
  }
  programs::download(factors, device_factors);
  programs::download(matrix, device_matrix);
  programs::download(right, device_right);
  programs::release(device_factors, factors);
  programs::release(device_matrix, matrix);
  programs::release(device_right, right);

  std::vector<float> solution(order);
  for (unsigned row = order; row-- > 0;) {
    double rest = static_cast<double>(right[row]);
    for (unsigned column = row + 1; column < order; ++column) rest -= double{matrix[row * order + column]} * double{solution[column]};
    solution[row] = static_cast<float>(rest / double{matrix[row * order + row]});
  }
  for (unsigned row = 0; row < order; ++row) {
    double sum = 0;
    for (unsigned column = 0; column < order; ++column) sum += double{matrix_before[row * order + column]} * double{solution[column]};
    programs::expect(programs::near(sum, right_before[row], 1e-3), "the solution does not solve the system");
  }
  programs::print_fingerprint("matrix", matrix);
  programs::print_fingerprint("solution", solution);
}

}  // namespace

int main(int count, char** arguments) { return programs::run(count, arguments, {{"3", 3}, {"1024", 1024}}, solve); }
