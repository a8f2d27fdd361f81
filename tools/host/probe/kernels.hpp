// The probe's kernels as PTX, which the driver compiles for the GPU that is there: no CUDA compiler is needed, and none of its runtime.
#pragma once

namespace gpuheap::probe {

// add_one(to, from, num): to[i] = from[i] + 1 for 32-bit words. One thread.
// request(addresses, cycles, bytes, num): num times in-kernel malloc(bytes) by one thread; each block's address, each call's cycles.
// release(addresses, cycles, num): frees them in the same way.
extern char const* const kernels;

}  // namespace gpuheap::probe
