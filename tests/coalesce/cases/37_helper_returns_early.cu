__device__ void* make(int* data) {
  void* first = malloc(16);  // pattern: inherit R3; flow: inherit R3
  if (data[threadIdx.x] == 0) return first;
  return malloc(32);  // pattern: dynamic W6; flow: dynamic W6
}
__global__ void kernel(int* data, void** out) {
  out[threadIdx.x] = make(data);  // pattern: collective; flow: collective
  out[threadIdx.x + 1] = malloc(8);  // pattern: collective R1; flow: collective R1
}
