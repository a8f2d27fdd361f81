// Follows 51 points of a heart's two walls through 20 frames of 656 x 744 pixels: heartwall 20, the frames. 623 blocks: the frame,
// positions, templates, and twelve for each point. Constants are copied to symbols, one of them with each frame; a kernel for each frame
// has a block of threads for each point, which seeks where the frame correlates best with the point's surroundings in the first. The CPU,
// which made the frames, knows where the points went.

#include "programs/program.hpp"

namespace {

constexpr int num_rows = 656, num_columns = 744;
constexpr int num_inner = 20, num_outer = 31, num_points = num_inner + num_outer;
constexpr int radius = 12, side = 2 * radius + 1;  // of a template
constexpr int reach = 10, places = 2 * reach + 1;  // how far a point may go from one frame to the next
constexpr int region_side = side + 2 * reach;      // of what a template is held against
constexpr int template_pixels = side * side;

// The buffers in which a point's threads compute one after the other.
struct point_buffers {
  float* region;  // of the frame, around where the point was
  float* region_squares;
  float* row_sums;  // over `side` pixels of a row
  float* row_squares;
  float* sums;  // over what the template would cover
  float* squares;
  float* centred;   // the template less its mean
  float* products;  // with the region
  float* spread;    // of what the template would cover
  float* correlation;
  float* best;   // of each row of places
  int* best_at;  // where in the row
};
constexpr int num_buffers = 12;

struct walls {
  int *inner_row, *inner_column, *outer_row, *outer_column;      // where the points are in the first frame
  int *inner_rows, *inner_columns, *outer_rows, *outer_columns;  // and in all frames, a point's after another's
  float *inner_templates, *outer_templates;
  int num_frames;
};
struct moment {
  float const* frame;
  int number;
};

__constant__ point_buffers buffers[num_points];
__constant__ walls heart;
__constant__ moment now;

__global__ void follow() {
  int const point = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  bool const inner = point < num_inner;
  int const own = inner ? point : point - num_inner;
  int* const rows = (inner ? heart.inner_rows : heart.outer_rows) + own * heart.num_frames;
  int* const columns = (inner ? heart.inner_columns : heart.outer_columns) + own * heart.num_frames;
  float* const kept = (inner ? heart.inner_templates : heart.outer_templates) + own * template_pixels;
  point_buffers const to = buffers[point];
  if (now.number == 0) {
    int const row = (inner ? heart.inner_row : heart.outer_row)[own], column = (inner ? heart.inner_column : heart.outer_column)[own];
    for (int i = thread; i < template_pixels; i += step) {
      kept[i] = now.frame[(row - radius + i / side) * num_columns + column - radius + i % side];
    }
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < template_pixels; ++i) sum += kept[i];
    for (int i = thread; i < template_pixels; i += step) to.centred[i] = kept[i] - sum / template_pixels;
    if (thread == 0) {
      rows[0] = row;
      columns[0] = column;
    }
    return;
  }
  int const row = rows[now.number - 1], column = columns[now.number - 1];
  for (int i = thread; i < region_side * region_side; i += step) {
    float const pixel = now.frame[(row - radius - reach + i / region_side) * num_columns + column - radius - reach + i % region_side];
    to.region[i] = pixel;
    to.region_squares[i] = pixel * pixel;
  }
  __syncthreads();
  for (int i = thread; i < region_side * places; i += step) {
    float sum = 0, squares = 0;
    for (int k = 0; k < side; ++k) {
      int const at = i / places * region_side + i % places + k;
      sum += to.region[at];
      squares += to.region_squares[at];
    }
    to.row_sums[i] = sum;
    to.row_squares[i] = squares;
  }
  __syncthreads();
  for (int i = thread; i < places * places; i += step) {
    float sum = 0, squares = 0, products = 0;
    for (int k = 0; k < side; ++k) {
      int const at = (i / places + k) * places + i % places;
      sum += to.row_sums[at];
      squares += to.row_squares[at];
    }
    for (int k = 0; k < template_pixels; ++k) {
      products += to.centred[k] * to.region[(i / places + k / side) * region_side + i % places + k % side];
    }
    to.sums[i] = sum;
    to.squares[i] = squares;
    to.products[i] = products;
    to.spread[i] = fmaxf(squares - sum * sum / template_pixels, 1);
    to.correlation[i] = products / sqrtf(to.spread[i]);
  }
  __syncthreads();
  if (thread < places) {
    int best_at = 0;
    for (int k = 1; k < places; ++k) {
      if (to.correlation[thread * places + k] > to.correlation[thread * places + best_at]) best_at = k;
    }
    to.best[thread] = to.correlation[thread * places + best_at];
    to.best_at[thread] = best_at;
  }
  __syncthreads();
  if (thread != 0) return;
  int best = 0;
  for (int k = 1; k < places; ++k) {
    if (to.best[k] > to.best[best]) best = k;
  }
  rows[now.number] = row + best - reach;
  columns[now.number] = column + to.best_at[best] - reach;
}

struct place {
  int row, column;
};

// The distance that the heart has moved by a frame.
place moved(int frame) {
  return {static_cast<int>(std::lround(9 * std::sin(0.6 * frame))), static_cast<int>(std::lround(7 * std::cos(0.6 * frame))) - 7};
}

// A noise that moves with the heart, beneath one that differs from frame to frame.
void make_frame(int number, programs::array<float>& frame) {
  programs::random_numbers source(static_cast<std::uint64_t>(number) + 100);
  place const by = moved(number);
  for (int row = 0; row < num_rows; ++row) {
    for (int column = 0; column < num_columns; ++column) {
      auto const cell = static_cast<std::uint64_t>((row - by.row + 64) / 3 * 1000 + (column - by.column + 64) / 3);
      frame[static_cast<std::size_t>(row * num_columns + column)] =
          programs::random_numbers(cell * 2654435761).between(60, 200) + source.between(-8, 8);
    }
  }
}

programs::array<int> around(int num, double distance, bool of_rows) {
  programs::array<int> found;
  found.reserve(static_cast<std::size_t>(num));
  for (int i = 0; i < num; ++i) {
    double const angle = 6.283185307179586 * i / num;
    found.push_back(
        static_cast<int>(std::lround(of_rows ? num_rows / 2 + distance * std::sin(angle) : num_columns / 2 + distance * std::cos(angle))));
  }
  return found;
}

void track(unsigned size) {
  int const num_frames = static_cast<int>(size);
  programs::array<int> inner_row = around(num_inner, 110, true), inner_column = around(num_inner, 110, false);
  programs::array<int> outer_row = around(num_outer, 200, true), outer_column = around(num_outer, 200, false);
  programs::array<float> frame(std::size_t{num_rows} * num_columns);
  programs::array<int> inner_rows(std::size_t{size} * num_inner), inner_columns(inner_rows.size());
  programs::array<int> outer_rows(std::size_t{size} * num_outer), outer_columns(outer_rows.size());
  auto* const device_frame = programs::allocate_for(frame);
  walls device{};
  device.inner_row = programs::allocate_for(inner_row);
  device.inner_column = programs::allocate_for(inner_column);
  device.inner_rows = programs::allocate_for(inner_rows);
  device.inner_columns = programs::allocate_for(inner_columns);
  device.outer_row = programs::allocate_for(outer_row);
  device.outer_column = programs::allocate_for(outer_column);
  device.outer_rows = programs::allocate_for(outer_rows);
  device.outer_columns = programs::allocate_for(outer_columns);
  device.inner_templates = programs::allocate<float>(std::size_t{num_inner} * template_pixels);
  device.outer_templates = programs::allocate<float>(std::size_t{num_outer} * template_pixels);
  device.num_frames = num_frames;
  programs::upload(device.inner_row, inner_row);
  programs::upload(device.inner_column, inner_column);
  programs::upload(device.outer_row, outer_row);
  programs::upload(device.outer_column, outer_column);
  std::vector<point_buffers> of_points(num_points);
  for (point_buffers& each : of_points) {
    each.region = programs::allocate<float>(region_side * region_side);
    each.region_squares = programs::allocate<float>(region_side * region_side);
    each.row_sums = programs::allocate<float>(region_side * places);
    each.row_squares = programs::allocate<float>(region_side * places);
    each.sums = programs::allocate<float>(places * places);
    each.squares = programs::allocate<float>(places * places);
    each.centred = programs::allocate<float>(template_pixels);
    each.products = programs::allocate<float>(places * places);
    each.spread = programs::allocate<float>(places * places);
    each.correlation = programs::allocate<float>(places * places);
    each.best = programs::allocate<float>(places);
    each.best_at = programs::allocate<int>(places);
  }
  programs::check(cudaMemcpyToSymbol(heart, &device, sizeof device), "copy to a symbol");
  programs::check(cudaMemcpyToSymbol(buffers, of_points.data(), sizeof buffers), "copy to a symbol");
  for (int number = 0; number < num_frames; ++number) {
    // A frame that host and device share may be written once the kernel of the last one has read it.
    if (programs::memory() != programs::sharing::none) programs::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    make_frame(number, frame);
    programs::upload(device_frame, frame);
    moment const current{device_frame, number};
    programs::check(cudaMemcpyToSymbol(now, &current, sizeof current), "copy to a symbol");
    programs::timed("follow", [&] { follow<<<num_points, 256>>>(); });
  }
  programs::download(inner_rows, device.inner_rows);
  programs::download(inner_columns, device.inner_columns);
  programs::download(outer_rows, device.outer_rows);
  programs::download(outer_columns, device.outer_columns);

  programs::release(device_frame, frame);
  programs::release(device.inner_row, inner_row);
  programs::release(device.inner_column, inner_column);
  programs::release(device.inner_rows, inner_rows);
  programs::release(device.inner_columns, inner_columns);
  programs::release(device.outer_row, outer_row);
  programs::release(device.outer_column, outer_column);
  programs::release(device.outer_rows, outer_rows);
  programs::release(device.outer_columns, outer_columns);
  programs::release(device.inner_templates);
  programs::release(device.outer_templates);
  static_assert(sizeof(point_buffers) == num_buffers * sizeof(void*));
  for (point_buffers const& each : of_points) {
    for (float* const block : {each.region, each.region_squares, each.row_sums, each.row_squares, each.sums, each.squares, each.centred,
                               each.products, each.spread, each.correlation, each.best}) {
      programs::release(block);
    }
    programs::release(each.best_at);
  }

  auto const followed = [&](programs::array<int> const& found, programs::array<int> const& start, bool of_rows) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      place const first = moved(0), then = moved(static_cast<int>(i % size));
      int const wanted = start[i / size] + (of_rows ? then.row - first.row : then.column - first.column);
      programs::expect(found[i] == wanted, "a point was lost");
    }
  };
  followed(inner_rows, inner_row, true);
  followed(inner_columns, inner_column, false);
  followed(outer_rows, outer_row, true);
  followed(outer_columns, outer_column, false);
  programs::print_fingerprint("inner rows", inner_rows);
  programs::print_fingerprint("inner columns", inner_columns);
  programs::print_fingerprint("outer rows", outer_rows);
  programs::print_fingerprint("outer columns", outer_columns);
}

}  // namespace

int main(int count, char** arguments) { return programs::run(count, arguments, {{"20", 20}}, track); }
