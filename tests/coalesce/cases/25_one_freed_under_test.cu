__global__ void kernel(void** out) {
  void* p = malloc(16);  // pattern: collective R1; flow: collective R1
  void* q = malloc(24);  // pattern: collective R1; flow: collective R1
  if (threadIdx.x % 2 != 0) free(q);
  out[threadIdx.x] = p;
}
