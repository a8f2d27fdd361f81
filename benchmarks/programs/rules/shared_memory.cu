// Rule 5, shared memory: shared_memory reads=N. Each thread adds up 64 words around its own, N of them from a copy of the words that its
// block keeps in shared memory and the others from where they were.

#include "programs/program.hpp"

namespace {

constexpr unsigned num = 1 << 20, threads = 256, around = 64;

__global__ void add_up(unsigned const* words, unsigned* sums, unsigned reads) {
  __shared__ unsigned kept[threads + around];
  unsigned const first = blockIdx.x * threads, thread = threadIdx.x;
  kept[thread] = words[first + thread];
  if (thread < around) kept[threads + thread] = words[(first + threads + thread) % num];
  __syncthreads();
  unsigned sum = 0;
  for (unsigned i = 0; i < reads; ++i) sum += kept[thread + i];
  for (unsigned i = reads; i < around; ++i) sum += words[(first + thread + i) % num];
  sums[first + thread] = sum;
}

void read(std::vector<unsigned> const& parameters) {
  programs::array<unsigned> words(num), sums(num);
  for (unsigned i = 0; i < num; ++i) words[i] = i * 2654435761U;
  auto* const device_words = programs::allocate_for(words);
  auto* const device_sums = programs::allocate_for(sums);
  programs::upload(device_words, words);
  programs::timed("add_up", [&] { add_up<<<num / threads, threads>>>(device_words, device_sums, parameters[0]); });
  programs::download(sums, device_sums);
  programs::release(device_words, words);
  programs::release(device_sums, sums);
  for (unsigned i = 0; i < num; ++i) {
    unsigned wanted = 0;
    for (unsigned k = 0; k < around; ++k) wanted += words[(i + k) % num];
    programs::expect(sums[i] == wanted, "a sum is not the CPU's");
  }
  programs::print_fingerprint("sums", sums);
}

}  // namespace

int main(int count, char** arguments) { return programs::run_with(count, arguments, {{"reads", around, around}}, read); }
