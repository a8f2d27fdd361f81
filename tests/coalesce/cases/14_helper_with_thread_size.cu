__device__ void* build(int k) { return malloc(k * 8); }  // pattern: inherit R3; flow: inherit R3
__global__ void kernel(void** out) {
  out[threadIdx.x] = build(threadIdx.x);  // pattern: dynamic; flow: dynamic
}
