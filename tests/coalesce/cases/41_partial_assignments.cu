struct source {
  __device__ virtual int bytes() const { return 8; }
};
struct pair {
  int first, second;
};
__global__ void kernel(bool uniform, source const* from, void** out) {
  int a = threadIdx.x, b = threadIdx.x;
  (void)(uniform && (a = 4));
  out[0] = malloc(a);  // pattern: dynamic W4; flow: dynamic W4
  (void)(uniform ? (b = 4) : 0);
  out[1] = malloc(b);  // pattern: dynamic W4; flow: dynamic W4
  out[2] = malloc(from->bytes());  // pattern: dynamic W4; flow: dynamic W4
  auto const [first, second] = pair{static_cast<int>(threadIdx.x), 4};
  out[3] = malloc(first + second);  // pattern: dynamic W4; flow: dynamic W4
  while (int left = clock64() % 4) {
    out[4] = malloc(8);  // pattern: dynamic W6; flow: dynamic W6
    out[5] = malloc(left);  // pattern: dynamic W6; flow: dynamic W6
  }
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  out[6] = malloc(lane + 1);  // pattern: dynamic W4; flow: dynamic W4
  switch (uniform) {
    case 0:
      a = 16;
      break;
    default:
      a = 32;
  }
  out[7] = malloc(a);  // pattern: dynamic W4; flow: collective R1
}
__global__ void jump_into_a_loop(int n, void** out) {
  switch (n) {
    case 0:
      do {
        default:
          out[n] = malloc(8);  // pattern: dynamic W1; flow: dynamic W1
      } while (--n > 0);
  }
}
