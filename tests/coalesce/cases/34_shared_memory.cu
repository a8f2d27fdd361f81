__global__ void kernel(int const* sizes, void** out) {
  __shared__ int size;
  if (threadIdx.x == 0) size = sizes[blockIdx.x];
  __syncthreads();
  out[threadIdx.x] = malloc(size);  // pattern: dynamic W4; flow: collective R1; grid: dynamic W4
  if (threadIdx.x == 1) size = 7;
  out[threadIdx.x + 1] = malloc(size);  // pattern: dynamic W4; flow: dynamic W4
}
