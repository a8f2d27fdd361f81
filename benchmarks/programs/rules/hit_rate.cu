// Rule 1, hit rates: hit_rate window_kib=N. Always the same number of reads from a block of 64 MiB, of which only a window of N KiB is
// read, again and again: the smaller it is, the more reads the caches serve.

#include "programs/program.hpp"

namespace {

constexpr unsigned block_kib = 64 << 10;
constexpr unsigned num_threads = 1 << 16, num_reads = 64;

__global__ void add_up(unsigned const* data, unsigned* sums, unsigned window) {
  unsigned const thread = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned sum = 0;
  for (unsigned i = 0; i < num_reads; ++i) sum += data[(thread + i * num_threads) % window];
  sums[thread] = sum;
}

void read(std::vector<unsigned> const& parameters) {
  unsigned const window = parameters[0] << 8;
  programs::array<unsigned> data(std::size_t{block_kib} << 8), sums(num_threads);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned>(i) * 2654435761U;
  auto* const device_data = programs::allocate_for(data);
  auto* const device_sums = programs::allocate_for(sums);
  programs::upload(device_data, data);
  programs::timed("add_up", [&] { add_up<<<num_threads / 256, 256>>>(device_data, device_sums, window); });
  programs::download(sums, device_sums);
  programs::release(device_data, data);
  programs::release(device_sums, sums);
  for (unsigned thread = 0; thread < num_threads; ++thread) {
    unsigned wanted = 0;
    for (unsigned i = 0; i < num_reads; ++i) wanted += data[(thread + i * num_threads) % window];
    programs::expect(sums[thread] == wanted, "a sum is not the CPU's");
  }
  programs::print_fingerprint("sums", sums);
}

}  // namespace

int main(int count, char** arguments) { return programs::run_with(count, arguments, {{"window_kib", 64, block_kib}}, read); }
