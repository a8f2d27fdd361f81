// Calls of rare code that cost their callers few registers.
#pragma once

#include <gpuheap/simt/config.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// f(arguments...), through a pointer whose target the compiler does not know. Device.
//
// The assembler gives a function with known callers registers other than theirs, so that a kernel needs as many as the longest chain of
// calls below it uses in all. A function with unknown callers keeps to the calling convention, as do the functions that it calls: it saves
// what it overwrites, and a kernel needs as many registers as one of them does. That suits code that few threads reach.
template <class Result, class... Parameters, class... Arguments>
GPUHEAP_FN inline Result far_call(Result (*f)(Parameters...), Arguments... arguments) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+l"(f));
#endif
  return f(arguments...);
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
