__global__ void kernel(unsigned total, void** out) {
  unsigned const gid = blockIdx.x * blockDim.x + threadIdx.x;
  if (gid >= total) return;
  out[gid] = malloc(40);  // pattern: dynamic W6; flow: collective R1; no-census: dynamic W6
}
