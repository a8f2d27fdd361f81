__global__ void kernel(int const* data, void** out) {
  void* p = nullptr;
  int bad;
  do {
    free(p);
    p = malloc(32);  // pattern: dynamic W6; flow: collective R1
    bad = p == nullptr && data[threadIdx.x] != 0;
  } while (__syncthreads_or(bad));
  out[threadIdx.x] = p;
}
