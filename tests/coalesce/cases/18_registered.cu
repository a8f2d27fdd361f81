__device__ int exchange(void const* send, void* receive, int count, bool coalesce = false);
__global__ void kernel(int n, char* data) {
  exchange(data, data + n, n);  // pattern: collective R1; flow: collective R1
  if (threadIdx.x == 0) exchange(data, data + n, n);  // pattern: dynamic W1; flow: dynamic W1
}
