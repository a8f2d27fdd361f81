struct item {
  int value;
  __device__ item(int v) : value(v) {}
  __device__ ~item() { value = 0; }
};
struct shape {
  __device__ virtual ~shape() {}
};
__global__ void kernel(int n, int* out) {
  item* one = new item(n);  // pattern: untouched W8; flow: collective R1
  int* many = new int[n];  // pattern: untouched W8; flow: collective R1
  shape* s = new shape;  // pattern: untouched W8; flow: untouched W8
  if (threadIdx.x > 4) {
    int* own = new int(3);  // pattern: untouched W8; flow: dynamic W1
    delete own;
  }
  out[threadIdx.x] = one->value + many[0];
  delete s;  // note: W8
  delete[] many;
  delete one;
}
