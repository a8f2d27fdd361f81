// Ranks that each build rows, a list and a table of their own, and add up what is in them: calls of every kind that are decided on.
// The printed text does not depend on the source of memory.
#include <on_machine.hpp>
#include <gpuheap/coalesced.hpp>

struct node {
  unsigned value;
  node* next;
  __device__ node(unsigned v, node* n) : value(v), next(n) {}
};

// A row of `length` numbers, from `first` on.
__device__ unsigned* row_of(unsigned length, unsigned first, bool coalesce = false) {
  unsigned* row = (unsigned*)gpuheap::coalesced::malloc(length * sizeof(unsigned), coalesce);
  if (row != nullptr) {
    for (unsigned i = 0; i < length; ++i) row[i] = first + i;
  }
  return row;
}

__device__ unsigned sum_of_rows(unsigned rows, unsigned length, unsigned rank, bool coalesce = false) {
  unsigned sum = 0;
  for (unsigned r = 0; r < rows; ++r) {
    unsigned* row = row_of(length, r + rank, coalesce);
    for (unsigned i = 0; row != nullptr && i < length; ++i) sum += row[i];
    gpuheap::coalesced::free(row);
  }
  return sum;
}

__global__ void work(unsigned ranks, unsigned rows, unsigned length, unsigned* sums) {
  unsigned const rank = blockIdx.x * blockDim.x + threadIdx.x;
  if (rank >= ranks) return;
  unsigned sum = sum_of_rows(rows, length, rank, true);

  node* list = nullptr;
  for (unsigned i = 0; i < rank % 5; ++i) list = new (gpuheap::coalesced::memory{}) node(i, list);
  node* last = new (gpuheap::coalesced::memory{true}) node(100, list);
  while (last != nullptr) {
    node* const next = last->next;
    sum += last->value;
    gpuheap::coalesced::destroy(last);
    last = next;
  }

  unsigned char* table = new (gpuheap::coalesced::memory{true}) unsigned char[length];
  for (unsigned i = 0; i < length; ++i) table[i] = static_cast<unsigned char>(rank + i);
  if (rank % 3 == 0) {
    unsigned* more = row_of(1 + rank % 7, rank);
    sum += more != nullptr ? more[0] : 0;
    gpuheap::coalesced::free(more);
  }
  sum += table[length - 1];
  gpuheap::coalesced::destroy_array(table);
  sums[rank] = sum;
}

int main() {
  gpuheap::coalesced::init();
  unsigned const ranks = 333, threads = 96;
  unsigned* sums = both_sides<unsigned>(ranks);
  run_kernel(work, (ranks + threads - 1) / threads, threads, ranks, 3u, 20u, sums);
  unsigned long long total = 0;
  for (unsigned i = 0; i < ranks; ++i) total += (i % 17 + 1) * sums[i];
  std::printf("%u ranks: %llu, rank 0: %u, rank 332: %u\n", ranks, total, sums[0], sums[332]);
  gpuheap::coalesced::clean();
  return 0;
}
