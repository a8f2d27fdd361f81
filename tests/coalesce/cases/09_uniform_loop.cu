__global__ void kernel(int n, void** out) {
  for (int i = 0; i < n; i++) {
    out[i * blockDim.x + threadIdx.x] = malloc(32);  // pattern: collective R1; flow: collective R1
  }
}
