// LU decomposition in place, in tiles of 16: lud 64|2048, the order of the matrix. One block, up and down once; for each tile of the
// diagonal a kernel for it, one for the tiles beside and below it, and one for the rest. The CPU multiplies the parts with a vector.

#include "programs/program.hpp"

namespace {

constexpr unsigned tile = 16;

// The tile at (at, at): one thread for each of its rows.
__global__ void diagonal(float* matrix, unsigned order, unsigned at) {
  __shared__ float part[tile][tile];
  unsigned const row = threadIdx.x;
  for (unsigned column = 0; column < tile; ++column) part[column][row] = matrix[(at + column) * order + at + row];
  __syncthreads();
  for (unsigned k = 0; k + 1 < tile; ++k) {
    if (row > k) {
      float const factor = part[row][k] / part[k][k];
      part[row][k] = factor;
      for (unsigned column = k + 1; column < tile; ++column) part[row][column] -= factor * part[k][column];
    }
    __syncthreads();
  }
  for (unsigned column = 0; column < tile; ++column) matrix[(at + column) * order + at + row] = part[column][row];
}

// Block b: the b-th tile beside the diagonal's by its first 16 threads, one for each column, and the b-th below by the others, one a row.
__global__ void perimeter(float* matrix, unsigned order, unsigned at) {
  __shared__ float corner[tile][tile];
  unsigned const away = at + (blockIdx.x + 1) * tile;
  bool const beside = threadIdx.x < tile;
  unsigned const lane = threadIdx.x % tile;
  if (beside) {
    for (unsigned row = 0; row < tile; ++row) corner[row][lane] = matrix[(at + row) * order + at + lane];
  }
  __syncthreads();
  float own[tile];
  if (beside) {
    for (unsigned row = 0; row < tile; ++row) {
      own[row] = matrix[(at + row) * order + away + lane];
      for (unsigned k = 0; k < row; ++k) own[row] -= corner[row][k] * own[k];
      matrix[(at + row) * order + away + lane] = own[row];
    }
    return;
  }
  for (unsigned column = 0; column < tile; ++column) {
    own[column] = matrix[(away + lane) * order + at + column];
    for (unsigned k = 0; k < column; ++k) own[column] -= own[k] * corner[k][column];
    own[column] /= corner[column][column];
    matrix[(away + lane) * order + at + column] = own[column];
  }
}

// All other tiles: each less the product of the one left of it and the one above it.
__global__ void inner(float* matrix, unsigned order, unsigned at) {
  __shared__ float left[tile][tile];
  __shared__ float above[tile][tile];
  unsigned const row = at + (blockIdx.y + 1) * tile + threadIdx.y;
  unsigned const column = at + (blockIdx.x + 1) * tile + threadIdx.x;
  left[threadIdx.y][threadIdx.x] = matrix[row * order + at + threadIdx.x];
  above[threadIdx.y][threadIdx.x] = matrix[(at + threadIdx.y) * order + column];
  __syncthreads();
  float sum = 0;
  for (unsigned k = 0; k < tile; ++k) sum += left[threadIdx.y][k] * above[k][threadIdx.x];
  matrix[row * order + column] -= sum;
}

void decompose(unsigned order) {
  programs::array<float> matrix(std::size_t{order} * order);
  programs::random_numbers source(order);
  for (unsigned row = 0; row < order; ++row) {
    for (unsigned column = 0; column < order; ++column) {
      matrix[row * order + column] = row == column ? static_cast<float>(order) : source.between(-1, 1);
    }
  }
  std::vector<float> const before(matrix.begin(), matrix.end());

  auto* const device = programs::allocate_for(matrix);
  programs::upload(device, matrix);
  for (unsigned at = 0; at < order; at += tile) {
    programs::timed("diagonal", [&] { diagonal<<<1, tile>>>(device, order, at); });
    unsigned const rest = (order - at) / tile - 1;
    if (rest == 0) break;
    programs::timed("perimeter", [&] { perimeter<<<rest, 2 * tile>>>(device, order, at); });
    dim3 const grid(rest, rest);
    dim3 const block(tile, tile);
    programs::timed("inner", [&] { inner<<<grid, block>>>(device, order, at); });
  }
  programs::download(matrix, device);
  programs::release(device, matrix);

  // L (U x) = A x for a vector that the program did not choose.
  std::vector<double> vector(order), upper(order, 0);
  for (double& value : vector) value = double{source.between(-1, 1)};
  for (unsigned row = 0; row < order; ++row) {
    for (unsigned column = row; column < order; ++column) upper[row] += double{matrix[row * order + column]} * vector[column];
  }
  for (unsigned row = 0; row < order; ++row) {
    double found = upper[row], wanted = 0;
    for (unsigned column = 0; column < row; ++column) found += double{matrix[row * order + column]} * upper[column];
    for (unsigned column = 0; column < order; ++column) wanted += double{before[row * order + column]} * vector[column];
    programs::expect(programs::near(found, wanted, 1e-3), "lower times upper is not the matrix");
  }
  programs::print_fingerprint("matrix", matrix);
}

}  // namespace

int main(int count, char** arguments) { return programs::run(count, arguments, {{"64", 64}, {"2048", 2048}}, decompose); }
