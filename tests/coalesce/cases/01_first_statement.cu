__global__ void kernel(void** out) {
  void* p = malloc(64);  // pattern: collective R1; flow: collective R1
  out[blockIdx.x * blockDim.x + threadIdx.x] = p;
}
