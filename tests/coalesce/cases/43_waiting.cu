// If a thread may wait for another one, the other thread must not wait for it in an allocation.
__device__ int lock, flag, serving;
__device__ void take() {
  while (atomicCAS(&lock, 0, 1) != 0) __nanosleep(20);
}
__global__ void locked(void** out) {
  out[0] = malloc(8);  // pattern: collective R1; flow: collective R1
  take();
  out[1] = malloc(8);  // pattern: dynamic W11; flow: dynamic W11
  atomicExch(&lock, 0);
  out[2] = malloc(8);  // pattern: dynamic W11; flow: dynamic W11
  __syncthreads();
  out[3] = malloc(8);  // pattern: collective R1; flow: collective R1
}
__global__ void ticket(void** out) {
  int const mine = atomicAdd(&serving, 1);
  out[0] = malloc(8);  // pattern: collective R1; flow: collective R1
  while (atomicAdd(&flag, 0) != mine) {
  }
  out[1] = malloc(8);  // pattern: dynamic W11; flow: dynamic W11
  atomicAdd(&flag, 1);
}
__global__ void one_waits_and_leaves(void** out) {
  if (threadIdx.x == 0) {
    while (atomicAdd(&flag, 0) == 0) {
    }
    return;
  }
  out[threadIdx.x] = malloc(8);  // pattern: dynamic W6; flow: dynamic W1
  if (threadIdx.x == 1) atomicExch(&flag, 1);
}
__global__ void round_by_round(int n, void** out) {
  for (int i = 0; i < n; ++i) {
    out[i] = malloc(8);  // pattern: dynamic W11; flow: dynamic W11
    while (atomicAdd(&flag, 0) < i) {
    }
  }
}
__global__ void counting_is_no_waiting(int n, void** out) {
  for (int i = 0; i < n; ++i) atomicAdd(&flag, 1);
  out[0] = malloc(8);  // pattern: collective R1; flow: collective R1
  int last = atomicAdd(&serving, 1);
  out[last] = malloc(8);  // pattern: collective R1; flow: collective R1
}
__global__ void until_there_is_memory(void** out) {
  void* p = nullptr;
  while ((p = malloc(1 << 20)) == nullptr) {  // pattern: dynamic W6; flow: dynamic W6
  }
  out[0] = malloc(8);  // pattern: dynamic W11; flow: dynamic W11
  free(p);
}
__global__ void printing_waits_for_nobody(int n, void** out) {
  printf("%d\n", n);
  out[0] = malloc(n);  // pattern: collective R1; flow: collective R1
}
