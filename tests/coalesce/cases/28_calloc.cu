__device__ void* calloc(size_t count, size_t bytes);
__global__ void kernel(int n, void** out) {
  out[threadIdx.x] = calloc(n, 4);  // pattern: collective R1; flow: collective R1
}
