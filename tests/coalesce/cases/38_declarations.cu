__device__ void* none(void);
template <class T>
__device__ T* typed(int n) {
  return (T*)malloc(n * sizeof(T));  // pattern: inherit R3; flow: inherit R3
}
struct pool {
  int bytes;
  __device__ void* take(int coalesce) const;
  __device__ static void* fixed();
};
__device__ void* with_default(int n, int m = 4) { return malloc(n * m); }  // pattern: inherit R3; flow: inherit R3
__global__ void kernel(int n, void** out) {
  pool p{n};
  out[0] = none();  // pattern: collective; flow: collective
  out[1] = typed<float>(n);  // pattern: collective; flow: collective
  out[2] = typed<double>(n);  // pattern: collective; flow: collective
  out[3] = p.take(2);  // pattern: none; flow: collective
  out[4] = pool::fixed();  // pattern: collective; flow: collective
  out[5] = with_default(n);  // pattern: dynamic; flow: dynamic
}
__device__ void* none() {
  return malloc(8);  // pattern: inherit R3; flow: inherit R3
}
__device__ void* pool::take(int coalesce) const {
  return malloc(bytes * coalesce);  // pattern: dynamic W4; flow: inherit R3
}
__device__ void* pool::fixed() {
  return malloc(4);  // pattern: inherit R3; flow: inherit R3
}
