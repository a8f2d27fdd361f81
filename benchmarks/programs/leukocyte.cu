// Finds 36 cells in the first of a series of images of 219 x 640 pixels and follows them through the next: leukocyte 5, the images to
// follow them in. Circles of samples go to symbols, the gradient up; a kernel scores each pixel as a centre of a cell, another takes the
// largest score around each, both come down. For each further image six blocks are made: a kernel smooths the edges around all cells, the
// field comes down and the CPU takes each cell's middle from it. 34 blocks, and a free of none at the end. The CPU knows where it drew the
// cells.

#include <algorithm>

#include "programs/program.hpp"

namespace {

constexpr int num_rows = 219, num_columns = 640, num_pixels = num_rows * num_columns;
constexpr int num_cells = 36;
constexpr int num_circles = 5, first_radius = 6, num_angles = 64;
constexpr int reach = 12;  // of a cell over others
constexpr int disc_side = 2 * reach + 1;
constexpr int patch_rows = 41, patch_columns = 80, patch_pixels = patch_rows * patch_columns;
constexpr int num_rounds = 20;  // of smoothing; even, so that the field is where it began
constexpr int margin = 21;      // of the image, where no cell is sought

__constant__ float cosines[num_angles];
__constant__ float sines[num_angles];
__constant__ int circle_rows[num_circles * num_angles];
__constant__ int circle_columns[num_circles * num_angles];
__constant__ unsigned char disc[disc_side * disc_side];

__host__ __device__ inline float score_of(float const* gradient_x, float const* gradient_y, int at, int circle, float const* cosine,
                                          float const* sine, int const* rows, int const* columns) {
  float sum = 0, squares = 0;
  for (int angle = 0; angle < num_angles; ++angle) {
    int const there = at + rows[circle * num_angles + angle] * num_columns + columns[circle * num_angles + angle];
    float const outward = gradient_x[there] * cosine[angle] + gradient_y[there] * sine[angle];
    sum += outward;
    squares += outward * outward;
  }
  float const mean = sum / num_angles;
  float const variance = squares / num_angles - mean * mean;
  return mean > 0 ? mean * mean / fmaxf(variance, 1) : 0;
}

// The evenness and steepness of the edge of the best circle around a pixel.
__global__ void score(float const* gradient_x, float const* gradient_y, float* scores) {
  int const at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= num_pixels) return;
  int const row = at / num_columns, column = at % num_columns;
  float best = 0;
  if (row >= margin && row < num_rows - margin && column >= margin && column < num_columns - margin) {
    for (int circle = 0; circle < num_circles; ++circle) {
      best = fmaxf(best, score_of(gradient_x, gradient_y, at, circle, cosines, sines, circle_rows, circle_columns));
    }
  }
  scores[at] = best;
}

__global__ void dilate(float const* scores, float* largest) {
  int const at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= num_pixels) return;
  int const row = at / num_columns, column = at % num_columns;
  float most = 0;
  for (int i = 0; i < disc_side * disc_side; ++i) {
    int const there_row = row + i / disc_side - reach, there_column = column + i % disc_side - reach;
    if (disc[i] == 0 || there_row < 0 || there_row >= num_rows || there_column < 0 || there_column >= num_columns) continue;
    most = fmaxf(most, scores[there_row * num_columns + there_column]);
  }
  largest[at] = most;
}

__host__ __device__ inline float smoothed(float const* field, float const* edges, int i, int rows, int columns) {
  int const row = i / columns, column = i % columns;
  float const own = field[i];
  float const around = field[row > 0 ? i - columns : i] + field[row + 1 < rows ? i + columns : i] + field[column > 0 ? i - 1 : i] +
                       field[column + 1 < columns ? i + 1 : i];
  return own + 0.2F * (around - 4 * own) - 0.2F * edges[i] * (own - edges[i]);
}

// A block of threads for each cell: spreads its edges, keeping them where they are strong.
__global__ void spread(float* fields, float* scratch, float const* edges, int const* offsets, int const* rows, int const* columns) {
  int const first = offsets[blockIdx.x], num_r = rows[blockIdx.x], num_c = columns[blockIdx.x];
  float* from = fields + first;
  float* to = scratch + first;
  for (int round = 0; round < num_rounds; ++round) {
    for (int i = static_cast<int>(threadIdx.x); i < num_r * num_c; i += static_cast<int>(blockDim.x)) {
      to[i] = smoothed(from, edges + first, i, num_r, num_c);
    }
    __syncthreads();
    float* const between = from;
    from = to;
    to = between;
  }
}

struct place {
  int row, column;
};

place drawn_at(int cell, int image) {
  return {35 + cell / 9 * 48 + (cell * 7 + image) % 3 - 1, 45 + cell % 9 * 68 + (cell * 5 + 2 * image) % 5 - 2};
}

// Bright discs on a dark ground with a little noise.
std::vector<float> make_image(int number) {
  std::vector<float> image(num_pixels);
  programs::random_numbers source(static_cast<std::uint64_t>(number) + 7);
  for (float& pixel : image) pixel = 60 + source.between(-2, 2);
  for (int cell = 0; cell < num_cells; ++cell) {
    place const middle = drawn_at(cell, number);
    for (int i = 0; i < disc_side * disc_side; ++i) {
      int const down = i / disc_side - reach, right = i % disc_side - reach;
      double const inside = 8 - std::sqrt(static_cast<double>(down * down + right * right));
      float const share = static_cast<float>(std::clamp(inside / 3, 0.0, 1.0));
      image[static_cast<std::size_t>((middle.row + down) * num_columns + middle.column + right)] += 120 * share;
    }
  }
  return image;
}

float pixel_of(std::vector<float> const& image, int row, int column) {
  return image[static_cast<std::size_t>(std::clamp(row, 0, num_rows - 1) * num_columns + std::clamp(column, 0, num_columns - 1))];
}

// Towards darker pixels, so that it points out of a cell.
template <class Array>
std::pair<Array, Array> gradient_of(std::vector<float> const& image) {
  Array x, y;
  x.reserve(num_pixels);
  y.reserve(num_pixels);
  for (int at = 0; at < num_pixels; ++at) {
    int const row = at / num_columns, column = at % num_columns;
    x.push_back((pixel_of(image, row, column - 1) - pixel_of(image, row, column + 1)) / 2);
    y.push_back((pixel_of(image, row - 1, column) - pixel_of(image, row + 1, column)) / 2);
  }
  return {std::move(x), std::move(y)};
}

std::vector<place> find_cells(std::vector<float> const& image) {
  std::vector<float> cosine, sine;
  std::vector<int> rows, columns;
  for (int angle = 0; angle < num_angles; ++angle) {
    cosine.push_back(static_cast<float>(std::cos(6.283185307179586 * angle / num_angles)));
    sine.push_back(static_cast<float>(std::sin(6.283185307179586 * angle / num_angles)));
  }
  for (int circle = 0; circle < num_circles; ++circle) {
    for (std::size_t angle = 0; angle < num_angles; ++angle) {
      rows.push_back(static_cast<int>(std::lround(static_cast<float>(first_radius + circle) * sine[angle])));
      columns.push_back(static_cast<int>(std::lround(static_cast<float>(first_radius + circle) * cosine[angle])));
    }
  }
  std::vector<unsigned char> round(disc_side * disc_side);
  for (int i = 0; i < disc_side * disc_side; ++i) {
    int const down = i / disc_side - reach, right = i % disc_side - reach;
    round[static_cast<std::size_t>(i)] = down * down + right * right <= reach * reach ? 1 : 0;
  }
  programs::check(cudaMemcpyToSymbol(cosines, cosine.data(), sizeof cosines), "copy to a symbol");
  programs::check(cudaMemcpyToSymbol(sines, sine.data(), sizeof sines), "copy to a symbol");
  programs::check(cudaMemcpyToSymbol(circle_rows, rows.data(), sizeof circle_rows), "copy to a symbol");
  programs::check(cudaMemcpyToSymbol(circle_columns, columns.data(), sizeof circle_columns), "copy to a symbol");
  programs::check(cudaMemcpyToSymbol(disc, round.data(), sizeof disc), "copy to a symbol");

  auto [gradient_x, gradient_y] = gradient_of<programs::array<float>>(image);
  programs::array<float> scores(num_pixels), largest(num_pixels);
  auto* const device_x = programs::allocate_for(gradient_x);
  auto* const device_y = programs::allocate_for(gradient_y);
  auto* const device_scores = programs::allocate_for(scores);
  programs::upload(device_x, gradient_x);
  programs::upload(device_y, gradient_y);
  unsigned const blocks = programs::blocks_for(num_pixels, 256);
  programs::timed("score", [&] { score<<<blocks, 256>>>(device_x, device_y, device_scores); });
  programs::download(scores, device_scores);
  auto* const device_largest = programs::allocate_for(largest);
  programs::timed("dilate", [&] { dilate<<<blocks, 256>>>(device_scores, device_largest); });
  programs::download(largest, device_largest);
  programs::release(device_x, gradient_x);
  programs::release(device_y, gradient_y);
  programs::release(device_scores, scores);
  programs::release(device_largest, largest);

  std::vector<place> found;
  float const strong = *std::max_element(scores.begin(), scores.end()) / 8;
  for (int at = 0; at < num_pixels; ++at) {
    auto const i = static_cast<std::size_t>(at);
    if (scores[i] < strong || scores[i] < largest[i]) continue;
    float wanted = 0;
    for (int circle = 0; circle < num_circles; ++circle) {
      wanted = std::max(
          wanted, score_of(gradient_x.data(), gradient_y.data(), at, circle, cosine.data(), sine.data(), rows.data(), columns.data()));
    }
    programs::expect(programs::near(scores[i], wanted, 1e-2), "a score is not the CPU's");
    found.push_back({at / num_columns, at % num_columns});
  }
  return found;
}

// The strength of the edges around each cell, from 0 to 1.
programs::array<float> edges_around(std::vector<float> const& image, std::vector<place> const& cells) {
  auto const [x, y] = gradient_of<std::vector<float>>(image);
  programs::array<float> found;
  found.reserve(cells.size() * patch_pixels);
  for (place const& cell : cells) {
    for (int i = 0; i < patch_pixels; ++i) {
      int const row = std::clamp(cell.row + i / patch_columns - patch_rows / 2, 0, num_rows - 1);
      int const column = std::clamp(cell.column + i % patch_columns - patch_columns / 2, 0, num_columns - 1);
      auto const at = static_cast<std::size_t>(row * num_columns + column);
      found.push_back(std::min(std::sqrt(x[at] * x[at] + y[at] * y[at]) / 24, 1.0F));
    }
  }
  return found;
}

// The middle of the field near where the cell was.
place middle_of(programs::array<float> const& fields, std::size_t cell, place was) {
  double sum = 0, rows = 0, columns = 0;
  for (int down = -reach; down <= reach; ++down) {
    for (int right = -reach; right <= reach; ++right) {
      auto const i = static_cast<std::size_t>((patch_rows / 2 + down) * patch_columns + patch_columns / 2 + right);
      double const weight = double{fields[cell * patch_pixels + i]};
      sum += weight;
      rows += weight * down;
      columns += weight * right;
    }
  }
  return {was.row + static_cast<int>(std::lround(rows / sum)), was.column + static_cast<int>(std::lround(columns / sum))};
}

void check_field(programs::array<float> const& fields, programs::array<float> const& edges, std::size_t cell) {
  std::vector<float> from(edges.begin() + static_cast<long>(cell * patch_pixels),
                          edges.begin() + static_cast<long>((cell + 1) * patch_pixels)),
      to(from.size());
  std::vector<float> const own = from;
  for (int round = 0; round < num_rounds; ++round) {
    for (int i = 0; i < patch_pixels; ++i)
      to[static_cast<std::size_t>(i)] = smoothed(from.data(), own.data(), i, patch_rows, patch_columns);
    from.swap(to);
  }
  for (std::size_t i = 0; i < from.size(); ++i) {
    programs::expect(programs::near(fields[cell * patch_pixels + i], from[i], 1e-4), "a field is not the CPU's");
  }
}

std::vector<place> follow_cells(std::vector<float> const& image, std::vector<place> cells) {
  programs::array<float> edges = edges_around(image, cells), fields(edges.size());
  programs::array<int> offsets(num_cells), rows(num_cells, patch_rows), columns(num_cells, patch_columns);
  for (int cell = 0; cell < num_cells; ++cell) offsets[static_cast<std::size_t>(cell)] = cell * patch_pixels;
  auto* const device_fields = programs::allocate_for(fields);
  auto* const device_scratch = programs::allocate<float>(edges.size());
  auto* const device_edges = programs::allocate_for(edges);
  auto* const device_offsets = programs::allocate_for(offsets);
  auto* const device_rows = programs::allocate_for(rows);
  auto* const device_columns = programs::allocate_for(columns);
  programs::upload(device_fields, edges);
  programs::upload(device_edges, edges);
  programs::upload(device_offsets, offsets);
  programs::upload(device_rows, rows);
  programs::upload(device_columns, columns);
  programs::timed("spread", [&] {
    spread<<<num_cells, 256>>>(device_fields, device_scratch, device_edges, device_offsets, device_rows, device_columns);
  });
  programs::download(fields, device_fields);
  programs::release(device_fields, fields);
  programs::release(device_scratch);
  programs::release(device_edges, edges);
  programs::release(device_offsets, offsets);
  programs::release(device_rows, rows);
  programs::release(device_columns, columns);
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    if (cell % 9 == 0) check_field(fields, edges, cell);
    cells[cell] = middle_of(fields, cell, cells[cell]);
  }
  return cells;
}

void check_places(std::vector<place> const& cells, int image) {
  programs::expect(cells.size() == num_cells, "the number of cells is not that of those drawn");
  for (int cell = 0; cell < num_cells; ++cell) {
    place const wanted = drawn_at(cell, image);
    bool const there = std::any_of(cells.begin(), cells.end(), [&](place const& each) {
      return std::abs(each.row - wanted.row) <= 2 && std::abs(each.column - wanted.column) <= 2;
    });
    programs::expect(there, "a cell is not where it was drawn");
  }
}

void track(unsigned num_images) {
  std::vector<place> cells = find_cells(make_image(0));
  check_places(cells, 0);
  for (unsigned image = 1; image <= num_images; ++image) {
    cells = follow_cells(make_image(static_cast<int>(image)), cells);
    check_places(cells, static_cast<int>(image));
  }
  programs::release(nullptr);
  programs::print_fingerprint("cells", cells);
}

}  // namespace

int main(int count, char** arguments) { return programs::run(count, arguments, {{"5", 5}}, track); }
