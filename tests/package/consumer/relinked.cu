// A program that knows nothing of gpuheap. Linked with gpuheap::malloc, it gets its device malloc from there. Without an argument it needs
// no GPU.
#include <cstdio>

__global__ void kernel(int** out) {
  *out = new int{7};
  delete *out;
}

int main(int count, char**) {
  int** out = nullptr;
  if (count > 1) {
    cudaMalloc(&out, sizeof *out);
    kernel<<<1, 1>>>(out);
    cudaFree(out);
  }
  std::printf("relinked\n");
}
