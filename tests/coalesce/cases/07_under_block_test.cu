__global__ void kernel(void** out) {
  if (blockIdx.x == 0) out[threadIdx.x] = malloc(16);  // pattern: dynamic W1; flow: collective R1; grid: dynamic W1
}
