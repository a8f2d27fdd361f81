__global__ void kernel(int n, void** out) {
  int size = 8;
  for (int i = 0; i < n; ++i) {
    out[i] = malloc(size);  // pattern: dynamic W4; flow: dynamic W4
    size += threadIdx.x;
  }
  int total = 8;
  for (int i = 0; i < n; ++i) {
    if (threadIdx.x % 2) continue;
    out[i] = malloc(16);  // pattern: dynamic W6; flow: dynamic W6
  }
  while (true) {
    out[n] = malloc(24);  // pattern: dynamic W6; flow: collective R1
    total += 8;
    if (total > 100) break;
  }
  while (true) {
    out[n] = malloc(24);  // pattern: dynamic W6; flow: dynamic W6
    if (clock64() > 100) break;
  }
}
