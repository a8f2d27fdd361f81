__device__ void* build(int k) { return malloc(k * 8); }  // pattern: inherit R3; flow: inherit R3
__global__ void kernel(void** out) {
  void* p = build(4);  // pattern: collective; flow: collective
  if (threadIdx.x < 4) {
    free(p);
    p = build(4);  // pattern: dynamic; flow: dynamic
  }
  out[threadIdx.x] = p;
}
