// malloc and free as device code calls them, from one heap: for runtimes that call CUDA's, as that of Numba does. The heap's handle is a
// constant that another part of the link defines. Compiled with at most 32 registers, because ptxas assumes that these functions keep all
// registers from R22 on (docs/unchanged.md), and in a namespace of its own, so that no function with the same name but more registers takes
// a place here.
#include "capi/view.hpp"

using namespace gpuheap::c_interface;

extern "C" {
extern __constant__ word gpuheap_v1_served_heap;

__device__ void* malloc(size_t bytes) {
  return with_heap(reinterpret_cast<gpuheap_handle>(gpuheap_v1_served_heap),
                   [=](auto const& all) { return all.malloc(bytes == 0 ? 1 : bytes); });
}
__device__ void free(void* p) {
  with_heap(reinterpret_cast<gpuheap_handle>(gpuheap_v1_served_heap), [=](auto const& all) { return static_cast<int>(all.free(p)); });
}
}
