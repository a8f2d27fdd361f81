// A program with one planted mistake, which knows nothing of gpuheap: `planted overflow`, leak, use_after_free, double_free, or none.
// `planted reset` leaks, and resets the device at its end.
//   GPUHEAP_KIND=checked gpuheap run ./planted overflow
#include <cstdio>
#include <cstring>

struct node {
  int value;
  node* next;
};

enum mistake { none, overflow, leak, use_after_free, double_free, reset };

// Each thread builds a list of three nodes and a text, and frees them; thread 77 makes the mistake.
__global__ void lists(mistake what, int* sum) {
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  node* first = nullptr;
  for (int n = 0; n < 3; ++n) first = new node{i + n, first};
  char volatile* const text = static_cast<char*>(malloc(20));
  if (first == nullptr || text == nullptr) return;
  int const length = i == 77 && what == overflow ? 22 : 20;
  for (int c = 0; c < length; ++c) text[c] = static_cast<char>('a' + c);
  atomicAdd(sum, text[i % 20] == 'a' + i % 20);
  free(const_cast<char*>(text));
  if (i == 77 && what == use_after_free) text[4] = 'x';
  if (i == 77 && what == double_free) free(const_cast<char*>(text));
  while (first != nullptr) {
    node* const next = first->next;
    if (i != 77 || (what != leak && what != reset) || next != nullptr) delete first;
    first = next;
  }
}

int main(int count, char** arguments) {
  char const* const names[] = {"none", "overflow", "leak", "use_after_free", "double_free", "reset"};
  mistake what = none;
  for (int m = 0; m < 6; ++m) {
    if (count > 1 && std::strcmp(arguments[1], names[m]) == 0) what = static_cast<mistake>(m);
  }
  int* sum = nullptr;
  if (cudaMalloc(&sum, sizeof *sum) != cudaSuccess) return std::printf("no GPU\n"), 2;
  cudaMemset(sum, 0, sizeof *sum);
  lists<<<4, 256>>>(what, sum);
  int found = 0;
  if (cudaMemcpy(&found, sum, sizeof found, cudaMemcpyDeviceToHost) != cudaSuccess) return std::printf("the kernel failed\n"), 1;
  if (what == reset && cudaDeviceReset() != cudaSuccess) return std::printf("the device is not reset\n"), 1;
  std::printf("%d of 1024 threads read what they wrote\n", found);
  return found == 1024 ? 0 : 1;
}
