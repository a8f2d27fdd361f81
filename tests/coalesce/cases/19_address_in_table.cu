__device__ void* make(int bytes) { return malloc(bytes); }  // pattern: dynamic W3; flow: dynamic W3
__device__ void* (*operators[])(int) = {make};
__global__ void kernel(void** out) {
  out[threadIdx.x] = make(8);
}
