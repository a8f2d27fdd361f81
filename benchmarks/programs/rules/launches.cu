// Rules 3 and 4, kernels and data: launches kernels=N kib=M. M KiB go up, N kernels add one to every word, M KiB come down.

#include "programs/program.hpp"

namespace {

__global__ void add_one(unsigned* words, unsigned num) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < num; i += gridDim.x * blockDim.x) ++words[i];
}

void count(std::vector<unsigned> const& parameters) {
  unsigned const num_kernels = parameters[0], num = parameters[1] << 8;
  std::vector<unsigned> data(num);
  for (unsigned i = 0; i < num; ++i) data[i] = i * 2654435761U;
  programs::array<unsigned> found(num);
  auto* const device = programs::allocate_for(found);
  programs::upload(device, data);
  unsigned const blocks = std::min(programs::blocks_for(num, 256), 1024U);
  for (unsigned i = 0; i < num_kernels; ++i) {
    programs::timed("add_one", [&] { add_one<<<blocks, 256>>>(device, num); });
  }
  programs::download(found, device);
  programs::release(device, found);
  for (unsigned i = 0; i < num; ++i) programs::expect(found[i] == data[i] + num_kernels, "a word is not the CPU's");
  programs::print_fingerprint("words", found);
}

}  // namespace

int main(int number, char** arguments) {
  return programs::run_with(number, arguments, {{"kernels", 2, 1 << 20}, {"kib", 4096, 1 << 20}}, count);
}
