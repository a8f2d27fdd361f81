# The allocators, in the order in which tables show them. One line adds one to the benchmark, the conformance suite and the CUDA library.

set(GPUHEAP_ALLOCATORS "")
gpuheap_allocator(NAME gpuheap TYPE gpuheap::sharded_runs HEADER gpuheap/allocators/sharded_runs.hpp)
gpuheap_allocator(NAME cuda TYPE gpuheap::cuda_malloc HEADER gpuheap/allocators/cuda_malloc.hpp)
gpuheap_allocator(NAME atomic TYPE gpuheap::atomic_malloc HEADER gpuheap/allocators/atomic_malloc.hpp)
gpuheap_allocator(NAME atomic_wrap TYPE gpuheap::atomic_wrap_malloc HEADER gpuheap/allocators/atomic_wrap_malloc.hpp)
gpuheap_allocator(NAME scatteralloc TYPE gpuheap::scatteralloc HEADER gpuheap/allocators/scatteralloc.hpp)
gpuheap_allocator(NAME xmalloc TYPE gpuheap::xmalloc HEADER gpuheap/allocators/xmalloc.hpp)
gpuheap_allocator(NAME fdgmalloc TYPE gpuheap::fdgmalloc HEADER gpuheap/allocators/fdgmalloc.hpp)
gpuheap_allocator(NAME halloc TYPE gpuheap::halloc HEADER gpuheap/allocators/halloc.hpp)
