__device__ void* malloc(size_t bytes, bool coalesce);
__global__ void kernel(void** out) {
  out[threadIdx.x] = malloc(64, true);  // pattern: untouched I1; flow: untouched I1
}
