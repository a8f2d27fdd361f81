// A further parameter must not let a function be chosen for a call of another one.
struct length {
  int value;
  __device__ length(int v) : value(v) {}
};
__device__ int* row(int n) {
  return (int*)malloc(n);  // pattern: dynamic W3; flow: dynamic W3
}
__device__ int* row(int n, length of) {
  return (int*)malloc(n + of.value);  // pattern: inherit R3; flow: inherit R3
}
__global__ void kernel(int n) {
  int* one = row(n);
  int* other = nullptr;
  if (threadIdx.x == 0) other = row(n, 5);  // pattern: dynamic; flow: dynamic
  free(other);
  free(one);
}
