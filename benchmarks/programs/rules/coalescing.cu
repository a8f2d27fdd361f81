// Rule 2, coalescing: coalescing ways=N. Each thread reads and writes one word of 16 MiB, always all of them; the threads of a warp take
// words from N places that lie far apart, a power of two to 32: one for each thread of the warp.

#include "programs/program.hpp"

namespace {

constexpr unsigned num = 4 << 20;

__global__ void add_one(unsigned* to, unsigned const* from, unsigned ways) {
  unsigned const thread = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned const at = thread % ways * (num / ways) + thread / ways;
  to[at] = from[at] + 1;
}

void scatter(std::vector<unsigned> const& parameters) {
  unsigned const ways = parameters[0];
  if ((ways & (ways - 1)) != 0) {
    std::fprintf(stderr, "ways=%u: expected a power of two\n", ways);
    std::exit(2);
  }
  programs::array<unsigned> data(num), found(num);
  for (unsigned i = 0; i < num; ++i) data[i] = i * 2654435761U;
  auto* const device_from = programs::allocate_for(data);
  auto* const device_to = programs::allocate_for(found);
  programs::upload(device_from, data);
  programs::timed("add_one", [&] { add_one<<<num / 256, 256>>>(device_to, device_from, ways); });
  programs::download(found, device_to);
  programs::release(device_from, data);
  programs::release(device_to, found);
  for (unsigned i = 0; i < num; ++i) programs::expect(found[i] == data[i] + 1, "a word is not the CPU's");
  programs::print_fingerprint("words", found);
}

}  // namespace

int main(int count, char** arguments) { return programs::run_with(count, arguments, {{"ways", 1, 32}}, scatter); }
