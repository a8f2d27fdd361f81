__global__ void kernel(void** out) {
  void* p;
  if (threadIdx.x % 2 == 0) {
    p = malloc(48);  // pattern: dynamic W1; flow: dynamic W1; note: N1
  } else {
    p = malloc(48);  // pattern: dynamic W1; flow: dynamic W1
  }
  out[threadIdx.x] = p;
}
