__global__ void kernel(int n, int const* data, void** out) {
  int const tid = threadIdx.x;
  for (int i = 0; i < n; i++) {
    out[tid] = malloc(32);  // pattern: dynamic W6; flow: dynamic W6
    if (data[tid] < 0) break;
  }
}
