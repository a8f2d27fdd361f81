__global__ void kernel(int n, void** out) {
  n += threadIdx.x;
  out[threadIdx.x] = malloc(n);  // pattern: dynamic W4; flow: dynamic W4
}
