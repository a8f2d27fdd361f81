// A call of rarely executed code that adds few registers to the calling kernel.
#pragma once

#include <gpuheap/simt/config.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// Returns f(arguments...), called through a pointer whose target the compiler does not know. Device.
//
// The assembler (ptxas) gives a function whose callers it knows other registers than those of its callers. A kernel then needs the sum of
// the registers along its longest chain of calls. A function whose callers are unknown follows the calling convention, and so do the
// functions that it calls: each saves the registers that it overwrites. A kernel then needs only the maximum over these functions. Saving
// registers takes time, so a far call suits code that few threads reach.
template <class Result, class... Parameters, class... Arguments>
GPUHEAP_FN inline Result far_call(Result (*f)(Parameters...), Arguments... arguments) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+l"(f));
#endif
  return f(arguments...);
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
