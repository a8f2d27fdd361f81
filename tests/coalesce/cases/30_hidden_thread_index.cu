#include <cooperative_groups.h>
__global__ void kernel(void** out) {
  if (cooperative_groups::this_thread_block().thread_rank() < 4) {
    out[threadIdx.x] = malloc(8);  // pattern: dynamic W1; flow: dynamic W1
  }
}
