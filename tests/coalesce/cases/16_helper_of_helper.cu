__device__ void* inner(int bytes) {
  return malloc(bytes);  // pattern: inherit R3; flow: inherit R3
}
__device__ void* outer(int count) {
  return inner(count * 4);  // pattern: inherit; flow: inherit
}
__global__ void kernel(int n, void** out) {
  out[threadIdx.x] = outer(n);  // pattern: collective; flow: collective
}
