// Does not compile: bool has no atomic access.
#include <gpuheap/simt/atomic.hpp>

GPUHEAP_FN bool refused(bool& flag) { return gpuheap::simt::atomic_ref<bool>{flag}.load(gpuheap::simt::relaxed); }
