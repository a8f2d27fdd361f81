// The C interface of the heap, for kernels: declarations alone, which compile in milliseconds under nvcc, NVRTC and clang. The definitions
// are linked: from the relocatable or LTO fatbins, or the bitcode, that come with the library.
//
// Names carry the version of this interface, as those of gpuheap.h do. Definitions are weak, so two parts of a program may each bring them.
// Every function may be called by any thread in any state of divergence, but for those whose names end in _block. `heap` is what
// gpuheap_get_handle() gave the host.
#pragma once

/// A heap, seen from kernels.
typedef void const* gpuheap_handle;

/// What became of a free.
enum { GPUHEAP_FREED = 0, GPUHEAP_FREED_NULL = 1, GPUHEAP_FOREIGN_FREE = 2, GPUHEAP_DOUBLE_FREE = 3 };

extern "C" {
/// `bytes` of memory, aligned to 16 bytes and not initialised; NULL for 0 bytes, and when nothing fits, which the heap's record keeps.
__device__ void* gpuheap_v1_malloc(gpuheap_handle heap, size_t bytes);
/// `count` objects of `bytes` each, all zero. NULL also if the product exceeds 2^64 - 1.
__device__ void* gpuheap_v1_calloc(gpuheap_handle heap, size_t count, size_t bytes);
/// Like malloc, aligned to `alignment`: a power of two, 2 MiB at most; else NULL.
__device__ void* gpuheap_v1_aligned_malloc(gpuheap_handle heap, size_t bytes, size_t alignment);
/// A block of `bytes` with the contents of `p` up to the smaller size. NULL when nothing fits, and `p` stays as it is. A NULL `p`: malloc.
/// 0 bytes: free, and NULL.
__device__ void* gpuheap_v1_realloc(gpuheap_handle heap, void* p, size_t bytes);
/// Gives a block back. NULL does nothing. Answers GPUHEAP_FREED, ...; what is refused the heap's record keeps.
__device__ int gpuheap_v1_free(gpuheap_handle heap, void* p);
/// How many bytes may be used at `p`, a block of the heap: at least as many as were asked. 0 for NULL.
__device__ size_t gpuheap_v1_usable_size(gpuheap_handle heap, void* p);
/// 1 for every live block of the heap, 0 for pointers into other memory.
__device__ int gpuheap_v1_owns(gpuheap_handle heap, void const* p);
/// One block of `bytes` for a whole thread block: every thread of it calls with the same size, waits for the others, and gets the same
/// pointer.
__device__ void* gpuheap_v1_malloc_block(gpuheap_handle heap, size_t bytes);
/// Gives one block back for a whole thread block: every thread of it calls with the same pointer, and their accesses happen before. All get
/// the answer.
__device__ int gpuheap_v1_free_block(gpuheap_handle heap, void* p);

// For languages in which a program is a thread block and several threads may hold the same element of a tensor, as Triton. Handles and
// addresses are integers there. The bitcode has these, and these alone.

/// One block of `bytes` for a program of `threads` threads: all of them call with the same size and get the same address. 0 also where the
/// thread block has another number of threads: its warps then run different code, and could not wait for each other here.
__device__ unsigned long long gpuheap_v1_malloc_program(unsigned long long heap, unsigned long long bytes, unsigned threads);
/// Gives one block back for a program of `threads` threads, all of which call. Answers as free; where they cannot wait it frees nothing and
/// answers GPUHEAP_FREED_NULL.
__device__ int gpuheap_v1_free_program(unsigned long long heap, unsigned long long p, unsigned threads);
/// Serves the request in the 64-bit word at `slot` once, however many threads make it: the word is 2 * bytes + 1 before, and the block's
/// address, or 0, once all of them have returned. 1 for the thread that served it, else 0. A `slot` of 0 is no request.
__device__ int gpuheap_v1_malloc_slot(unsigned long long heap, unsigned long long slot);
/// Frees the block whose address is in the word at `slot` once, however many threads ask for it; the word is 0 afterwards. Likewise.
__device__ int gpuheap_v1_free_slot(unsigned long long heap, unsigned long long slot);

/// The version of this interface that was linked.
__device__ unsigned gpuheap_v1_device_abi_version();
}

// The names without the version.
#define gpuheap_malloc gpuheap_v1_malloc
#define gpuheap_calloc gpuheap_v1_calloc
#define gpuheap_aligned_malloc gpuheap_v1_aligned_malloc
#define gpuheap_realloc gpuheap_v1_realloc
#define gpuheap_free gpuheap_v1_free
#define gpuheap_usable_size gpuheap_v1_usable_size
#define gpuheap_owns gpuheap_v1_owns
#define gpuheap_malloc_block gpuheap_v1_malloc_block
#define gpuheap_free_block gpuheap_v1_free_block
#define gpuheap_malloc_program gpuheap_v1_malloc_program
#define gpuheap_free_program gpuheap_v1_free_program
#define gpuheap_malloc_slot gpuheap_v1_malloc_slot
#define gpuheap_free_slot gpuheap_v1_free_slot
#define gpuheap_device_abi_version gpuheap_v1_device_abi_version
