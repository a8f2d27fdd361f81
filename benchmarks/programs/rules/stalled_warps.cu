// Rule 6, stalled warps: stalled_warps chain=N. Each thread makes 64 reads from 16 MiB, in chains of N reads that each say where the next
// is, a power of two to 64: the longer they are, the longer warps wait.

#include "programs/program.hpp"

namespace {

constexpr unsigned num = 4 << 20, num_threads = 1 << 16, num_reads = 64;

template <unsigned Chain>
__global__ void follow(unsigned const* next, unsigned* sums) {
  constexpr unsigned num_chains = num_reads / Chain;
  unsigned const thread = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned at[num_chains];
  for (unsigned chain = 0; chain < num_chains; ++chain) at[chain] = (thread + chain * num_threads) % num;
  for (unsigned read = 0; read < Chain; ++read) {
    for (unsigned chain = 0; chain < num_chains; ++chain) at[chain] = next[at[chain]];
  }
  unsigned sum = 0;
  for (unsigned chain = 0; chain < num_chains; ++chain) sum += at[chain];
  sums[thread] = sum;
}

using kernel = void (*)(unsigned const*, unsigned*);

kernel kernel_for(unsigned chain) {
  switch (chain) {
    case 1:
      return follow<1>;
    case 2:
      return follow<2>;
    case 4:
      return follow<4>;
    case 8:
      return follow<8>;
    case 16:
      return follow<16>;
    case 32:
      return follow<32>;
    case 64:
      return follow<64>;
    default:
      std::fprintf(stderr, "chain=%u: expected a power of two\n", chain);
      std::exit(2);
  }
}

void chase(std::vector<unsigned> const& parameters) {
  unsigned const chain = parameters[0];
  kernel const chosen = kernel_for(chain);
  programs::array<unsigned> next(num), sums(num_threads);
  for (unsigned i = 0; i < num; ++i) next[i] = (i * 2654435761U + 12345) % num;
  auto* const device_next = programs::allocate_for(next);
  auto* const device_sums = programs::allocate_for(sums);
  programs::upload(device_next, next);
  programs::timed("follow", [&] { chosen<<<num_threads / 256, 256>>>(device_next, device_sums); });
  programs::download(sums, device_sums);
  programs::release(device_next, next);
  programs::release(device_sums, sums);
  for (unsigned thread = 0; thread < num_threads; ++thread) {
    unsigned wanted = 0;
    for (unsigned k = 0; k < num_reads / chain; ++k) {
      unsigned at = (thread + k * num_threads) % num;
      for (unsigned read = 0; read < chain; ++read) at = next[at];
      wanted += at;
    }
    programs::expect(sums[thread] == wanted, "a sum is not the CPU's");
  }
  programs::print_fingerprint("sums", sums);
}

}  // namespace

int main(int count, char** arguments) { return programs::run_with(count, arguments, {{"chain", 64, 64}}, chase); }
