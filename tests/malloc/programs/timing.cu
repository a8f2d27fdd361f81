// Times device malloc, free, new and delete of 100,000 threads. Knows nothing of gpuheap: linked with it or without, the same lines. A line
// is
// "<what> <microseconds>", the median of 9 rounds after 3 that are not counted. timing [LIMIT]: bytes of cudaLimitMallocHeapSize; 0: not
// set.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

struct node {
  unsigned value;
  node* next;
};
constexpr unsigned n = 100000, threads = 256, blocks = (n + threads - 1) / threads;

__global__ void ask(void** p, size_t bytes) {
  unsigned const i = blockIdx.x * threads + threadIdx.x;
  if (i >= n) return;
  auto* const q = static_cast<unsigned*>(malloc(bytes));
  if (q != nullptr) *q = i;
  p[i] = q;
}
__global__ void give(void** p, unsigned* wrong) {
  unsigned const i = blockIdx.x * threads + threadIdx.x;
  if (i >= n) return;
  if (p[i] == nullptr || *static_cast<unsigned*>(p[i]) != i) atomicAdd(wrong, 1);
  free(p[i]);
}
__global__ void build(node** p) {
  unsigned const i = blockIdx.x * threads + threadIdx.x;
  if (i >= n) return;
  node* list = nullptr;
  for (unsigned k = 0; k < 8; ++k) list = new node{k, list};
  p[i] = list;
}
__global__ void drop(node** p, unsigned* wrong) {
  unsigned const i = blockIdx.x * threads + threadIdx.x;
  if (i >= n) return;
  unsigned count = 0;
  for (node* x = p[i]; x != nullptr;) {
    node* const next = x->next;
    count += x->value == 7 - count;
    delete x;
    x = next;
  }
  if (count != 8) atomicAdd(wrong, 1);
}

double median(std::vector<float>& times) {
  std::sort(times.begin(), times.end());
  return 1000.0 * times[times.size() / 2];
}

}  // namespace

int main(int count, char** arguments) {
  unsigned long long const limit = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 2ull << 30;
  if (limit != 0) (void)cudaDeviceSetLimit(cudaLimitMallocHeapSize, limit);
  void** p = nullptr;
  unsigned *wrong = nullptr, found = 0;
  (void)cudaMalloc(&p, n * sizeof *p);
  (void)cudaMalloc(&wrong, sizeof *wrong);
  (void)cudaMemset(wrong, 0, sizeof *wrong);
  cudaEvent_t begin, middle, end;
  (void)cudaEventCreate(&begin);
  (void)cudaEventCreate(&middle);
  (void)cudaEventCreate(&end);
  auto const measure = [&](char const* first, char const* second, auto one, auto other) {
    std::vector<float> firsts, seconds;
    for (int r = 0; r < 12; ++r) {
      float a = 0, b = 0;
      (void)cudaEventRecord(begin);
      one();
      (void)cudaEventRecord(middle);
      other();
      (void)cudaEventRecord(end);
      (void)cudaEventSynchronize(end);
      (void)cudaEventElapsedTime(&a, begin, middle);
      (void)cudaEventElapsedTime(&b, middle, end);
      if (r < 3) continue;
      firsts.push_back(a);
      seconds.push_back(b);
    }
    std::printf("%s %.1f\n%s %.1f\n", first, median(firsts), second, median(seconds));
  };
  char const* const names[][2] = {{"malloc_16", "free_16"}, {"malloc_256", "free_256"}, {"malloc_4096", "free_4096"}};
  size_t const sizes[] = {16, 256, 4096};
  for (int k = 0; k < 3; ++k)
    measure(
        names[k][0], names[k][1], [&] { ask<<<blocks, threads>>>(p, sizes[k]); }, [&] { give<<<blocks, threads>>>(p, wrong); });
  auto** const lists = reinterpret_cast<node**>(p);
  measure(
      "new_lists_of_8", "delete_lists_of_8", [&] { build<<<blocks, threads>>>(lists); }, [&] { drop<<<blocks, threads>>>(lists, wrong); });
  (void)cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost);
  std::printf("wrong %u\nerror %s\n", found, cudaGetErrorString(cudaGetLastError()));
  return found == 0 && cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
