template <class F>
__device__ void for_each(int n, F f) {
  for (int i = 0; i < n; ++i) f(i);
}
__global__ void kernel(void** out) {
  for_each(threadIdx.x, [=](int i) { out[i] = malloc(32); });  // pattern: dynamic W3; flow: dynamic W3
}
