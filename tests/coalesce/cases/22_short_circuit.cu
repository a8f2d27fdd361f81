__global__ void kernel(int const* flags, int const* __restrict__ constant, void** out) {
  void* p = nullptr;
  bool const flag = flags[0] != 0;
  bool const have = flag && (p = malloc(8)) != nullptr;  // pattern: dynamic W1; flow: dynamic W1
  bool const proven = constant[0] != 0 && (p = malloc(8)) != nullptr;  // pattern: dynamic W1; flow: collective R1
  out[threadIdx.x] = have || proven ? p : nullptr;
}
