// The probe's kernels as PTX, which the driver compiles for the machine's GPU. Neither a CUDA compiler nor the CUDA runtime is needed.
#pragma once

namespace gpuheap::probe {

// add_one(to, from, num): to[i] = from[i] + 1 for 32-bit words. One thread.
// request(addresses, cycles, bytes, num): one thread calls malloc(bytes) `num` times, and writes each block's address and each call's
// cycles.
// release(addresses, cycles, num): one thread frees these blocks, and writes each call's cycles.
extern char const* const kernels;

}  // namespace gpuheap::probe
