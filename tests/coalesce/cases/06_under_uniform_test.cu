__global__ void kernel(int n, void** out) {
  if (n > 1024) {
    out[threadIdx.x] = malloc(n);  // pattern: collective R1; flow: collective R1
  }
}
