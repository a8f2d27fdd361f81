// Speckle-reducing anisotropic diffusion of an image of 502 x 458 pixels: srad 100, the rounds. Twelve blocks; image and neighbours'
// indices go up; each round is five kernels and two numbers that come down, from which the CPU computes the speckle's scale; the image
// comes down. The CPU does the same in double precision.

#include "programs/program.hpp"

namespace {

constexpr unsigned num_rows = 502, num_columns = 458, num_pixels = num_rows * num_columns;
constexpr unsigned threads = 512;
constexpr float share = 0.5F;  // of the divergence that a round adds

struct neighbours {
  int const *north, *south;  // by row
  int const *west, *east;    // by column
};
struct differences {
  float *north, *south, *west, *east;
};

__global__ void extract(float* image) {
  unsigned const at = blockIdx.x * threads + threadIdx.x;
  if (at < num_pixels) image[at] = expf(image[at] / 255);
}

__global__ void prepare(float const* image, float* sums, float* squares) {
  unsigned const at = blockIdx.x * threads + threadIdx.x;
  if (at >= num_pixels) return;
  sums[at] = image[at];
  squares[at] = image[at] * image[at];
}

// Adds up the elements that lie `stride` apart, a block's share into its first.
__global__ void reduce(float* sums, float* squares, unsigned num, unsigned stride) {
  __shared__ float sum[threads];
  __shared__ float square[threads];
  unsigned const thread = threadIdx.x;
  unsigned const element = blockIdx.x * threads + thread;
  sum[thread] = element < num ? sums[element * stride] : 0;
  square[thread] = element < num ? squares[element * stride] : 0;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (thread < half) {
      sum[thread] += sum[thread + half];
      square[thread] += square[thread + half];
    }
    __syncthreads();
  }
  if (thread != 0) return;
  sums[element * stride] = sum[0];
  squares[element * stride] = square[0];
}

// The diffusion coefficient of each pixel.
__global__ void coefficients(float const* image, neighbours beside, differences to, float* coefficient, float scale) {
  unsigned const at = blockIdx.x * threads + threadIdx.x;
  if (at >= num_pixels) return;
  unsigned const row = at % num_rows, column = at / num_rows;
  float const own = image[at];
  float const north = image[static_cast<unsigned>(beside.north[row]) + column * num_rows] - own;
  float const south = image[static_cast<unsigned>(beside.south[row]) + column * num_rows] - own;
  float const west = image[row + static_cast<unsigned>(beside.west[column]) * num_rows] - own;
  float const east = image[row + static_cast<unsigned>(beside.east[column]) * num_rows] - own;
  float const gradient = (north * north + south * south + west * west + east * east) / (own * own);
  float const laplacian = (north + south + west + east) / own;
  float const nominator = 0.5F * gradient - laplacian * laplacian / 16;
  float const denominator = 1 + 0.25F * laplacian;
  float const variation = nominator / (denominator * denominator);
  float const found = 1 / (1 + (variation - scale) / (scale * (1 + scale)));
  coefficient[at] = fminf(fmaxf(found, 0), 1);
  to.north[at] = north;
  to.south[at] = south;
  to.west[at] = west;
  to.east[at] = east;
}

__global__ void diffuse(float* image, neighbours beside, differences by, float const* coefficient) {
  unsigned const at = blockIdx.x * threads + threadIdx.x;
  if (at >= num_pixels) return;
  unsigned const row = at % num_rows, column = at / num_rows;
  float const own = coefficient[at];
  float const south = coefficient[static_cast<unsigned>(beside.south[row]) + column * num_rows];
  float const east = coefficient[row + static_cast<unsigned>(beside.east[column]) * num_rows];
  image[at] += 0.25F * share * (own * by.north[at] + south * by.south[at] + own * by.west[at] + east * by.east[at]);
}

__global__ void compress(float* image) {
  unsigned const at = blockIdx.x * threads + threadIdx.x;
  if (at < num_pixels) image[at] = logf(image[at]) * 255;
}

// A pixel's own index at the edge.
programs::array<int> beside(unsigned num, int step) {
  programs::array<int> found(num);
  for (unsigned i = 0; i < num; ++i) {
    int const there = static_cast<int>(i) + step;
    found[i] = there < 0 || there >= static_cast<int>(num) ? static_cast<int>(i) : there;
  }
  return found;
}

double scale_of(double sum, double squares) {
  double const mean = sum / num_pixels;
  return (squares / num_pixels - mean * mean) / (mean * mean);
}

std::vector<double> diffuse_by_cpu(std::vector<float> const& image, unsigned rounds) {
  std::vector<double> now(image.begin(), image.end()), coefficient(num_pixels), north(num_pixels), south(num_pixels), west(num_pixels),
      east(num_pixels);
  for (double& value : now) value = std::exp(value / 255);
  for (unsigned round = 0; round < rounds; ++round) {
    double sum = 0, squares = 0;
    for (double const value : now) {
      sum += value;
      squares += value * value;
    }
    double const scale = scale_of(sum, squares);
    for (unsigned at = 0; at < num_pixels; ++at) {
      unsigned const row = at % num_rows, column = at / num_rows;
      double const own = now[at];
      north[at] = now[row > 0 ? at - 1 : at] - own;
      south[at] = now[row + 1 < num_rows ? at + 1 : at] - own;
      west[at] = now[column > 0 ? at - num_rows : at] - own;
      east[at] = now[column + 1 < num_columns ? at + num_rows : at] - own;
      double const gradient = (north[at] * north[at] + south[at] * south[at] + west[at] * west[at] + east[at] * east[at]) / (own * own);
      double const laplacian = (north[at] + south[at] + west[at] + east[at]) / own;
      double const denominator = 1 + 0.25 * laplacian;
      double const variation = (0.5 * gradient - laplacian * laplacian / 16) / (denominator * denominator);
      coefficient[at] = std::min(std::max(1 / (1 + (variation - scale) / (scale * (1 + scale))), 0.0), 1.0);
    }
    for (unsigned at = 0; at < num_pixels; ++at) {
      unsigned const row = at % num_rows, column = at / num_rows;
      double const of_south = coefficient[row + 1 < num_rows ? at + 1 : at],
                   of_east = coefficient[column + 1 < num_columns ? at + num_rows : at];
      double const divergence = coefficient[at] * (north[at] + west[at]) + of_south * south[at] + of_east * east[at];
      now[at] += 0.25 * double{share} * divergence;
    }
  }
  for (double& value : now) value = std::log(value) * 255;
  return now;
}

void clean(unsigned rounds) {
  programs::array<float> image(num_pixels);
  programs::random_numbers source(rounds);
  for (unsigned at = 0; at < num_pixels; ++at) {
    bool const bright = (at % num_rows / 64 + at / num_rows / 64) % 2 == 0;
    image[at] = (bright ? 170.0F : 90.0F) + source.between(-40, 40);
  }
  std::vector<float> const before(image.begin(), image.end());
  programs::array<int> north = beside(num_rows, -1), south = beside(num_rows, 1), west = beside(num_columns, -1),
                       east = beside(num_columns, 1);

  auto* const device_image = programs::allocate_for(image);
  auto* const device_north = programs::allocate_for(north);
  auto* const device_south = programs::allocate_for(south);
  auto* const device_west = programs::allocate_for(west);
  auto* const device_east = programs::allocate_for(east);
  differences const by{programs::allocate<float>(num_pixels), programs::allocate<float>(num_pixels), programs::allocate<float>(num_pixels),
                       programs::allocate<float>(num_pixels)};
  auto* const coefficient = programs::allocate<float>(num_pixels);
  auto* const sums = programs::allocate<float>(num_pixels);
  auto* const squares = programs::allocate<float>(num_pixels);
  programs::upload(device_north, north);
  programs::upload(device_south, south);
  programs::upload(device_west, west);
  programs::upload(device_east, east);
  programs::upload(device_image, image);
  neighbours const next{device_north, device_south, device_west, device_east};
  unsigned const blocks = programs::blocks_for(num_pixels, threads);
  programs::timed("extract", [&] { extract<<<blocks, threads>>>(device_image); });
  for (unsigned round = 0; round < rounds; ++round) {
    programs::timed("prepare", [&] { prepare<<<blocks, threads>>>(device_image, sums, squares); });
    programs::timed("reduce", [&] { reduce<<<blocks, threads>>>(sums, squares, num_pixels, 1); });
    programs::timed("reduce", [&] { reduce<<<1, threads>>>(sums, squares, blocks, threads); });
    float sum = 0, square = 0;
    programs::download(&sum, sums, 1);
    programs::download(&square, squares, 1);
    auto const scale = static_cast<float>(scale_of(double{sum}, double{square}));
    programs::timed("coefficients", [&] { coefficients<<<blocks, threads>>>(device_image, next, by, coefficient, scale); });
    programs::timed("diffuse", [&] { diffuse<<<blocks, threads>>>(device_image, next, by, coefficient); });
  }
  programs::timed("compress", [&] { compress<<<blocks, threads>>>(device_image); });
  programs::download(image, device_image);
  programs::release(device_image, image);
  programs::release(device_north, north);
  programs::release(device_south, south);
  programs::release(device_west, west);
  programs::release(device_east, east);
  for (float* const each : {by.north, by.south, by.west, by.east, coefficient, sums, squares}) programs::release(each);

  std::vector<double> const wanted = diffuse_by_cpu(before, rounds);
  for (unsigned at = 0; at < num_pixels; ++at) programs::expect(programs::near(image[at], wanted[at], 1e-2), "a pixel is not the CPU's");
  programs::print_fingerprint("image", image);
}

}  // namespace

int main(int count, char** arguments) { return programs::run(count, arguments, {{"100", 100}}, clean); }
