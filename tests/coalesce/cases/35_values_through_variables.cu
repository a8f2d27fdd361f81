__device__ int twice(int x) { return 2 * x; }
__device__ void set(int* to, int x) { *to = x; }
__global__ void kernel(int n, void** out) {
  int a = twice(n);
  int b, c;
  set(&b, a + 1);
  set(&c, threadIdx.x);
  out[0] = malloc(a);  // pattern: dynamic W4; flow: collective R1
  out[1] = malloc(b);  // pattern: dynamic W4; flow: collective R1
  out[2] = malloc(c);  // pattern: dynamic W4; flow: dynamic W4
  int d = n;
  if (threadIdx.x == 0) d = 3;
  out[3] = malloc(d);  // pattern: dynamic W4; flow: dynamic W4
  int e = 0;
  for (int i = 0; i < static_cast<int>(threadIdx.x); ++i) ++e;
  out[4] = malloc(8);  // pattern: collective R1; flow: collective R1
  out[5] = malloc(e);  // pattern: dynamic W4; flow: dynamic W4
  int* alias = &a;
  *alias = threadIdx.x;
  out[6] = malloc(a);  // pattern: dynamic W4; flow: dynamic W4
}
