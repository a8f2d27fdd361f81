__global__ void kernel(void** out) {
  int const lane = threadIdx.x % 32;
  if (lane < 8) out[threadIdx.x] = malloc(16);  // pattern: dynamic W1; flow: dynamic W1
}
