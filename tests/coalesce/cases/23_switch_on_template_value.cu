template <int Mode>
__global__ void kernel(void** out) {
  void* p = nullptr;
  switch (Mode) {
    case 0:
      p = malloc(16);  // pattern: collective R1; flow: collective R1
      break;
    default:
      p = malloc(32);  // pattern: collective R1; flow: collective R1
  }
  out[threadIdx.x] = p;
}
template __global__ void kernel<0>(void**);
template __global__ void kernel<1>(void**);
