__device__ void* elsewhere(int bytes);
__global__ void kernel(void** out) {
  out[threadIdx.x] = elsewhere(64);  // note: W2
  free(malloc(8));  // pattern: dynamic W11; flow: dynamic W11
}
