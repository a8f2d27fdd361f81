__global__ void kernel(int n, void** out) {
again:
  out[threadIdx.x] = malloc(8);  // pattern: dynamic W1; flow: dynamic W1
  if (n-- > 0) goto again;
}
