// The C interface of the heap, for kernels: declarations alone, which compile in milliseconds under nvcc, NVRTC and clang. The definitions
// are linked: from the relocatable or LTO fatbins, or the bitcode, that come with the library.
//
// Names carry the version of this interface, as those of gpuheap.h do. Definitions are weak, so two parts of a program may each bring them.
// Every function may be called by any thread in any state of divergence, but for those whose names end in _block. `heap` is what
// gpuheap_get_handle() gave the host.
#pragma once

/// A heap, seen from kernels.
typedef void const* gpuheap_handle;

/// The outcome of a free.
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
// addresses are integers there. The bitcode has these; the fatbins do not.

/// One block of `bytes` for a program of `threads` threads: all of them call with the same size and get the same address. 0 also where the
/// thread block has another number of threads: its warps then run different code, and could not wait for each other here.
__device__ unsigned long long gpuheap_v1_malloc_program(unsigned long long heap, unsigned long long bytes, unsigned threads);
/// Gives one block back for a program of `threads` threads, all of which call. Answers as free; where they cannot wait it frees nothing and
/// answers GPUHEAP_FREED_NULL.
__device__ int gpuheap_v1_free_program(unsigned long long heap, unsigned long long p, unsigned threads);
/// The address of `count` slots, words of 64 bits that are 0, for a program of `threads` threads, all of which call: 8 KiB of shared memory
/// hold up to 1024 slots, and a block of the heap holds more. 0 where the heap has none, and where malloc_program gives 0. A program has
/// one such array at a time.
__device__ unsigned long long gpuheap_v1_open_slots(unsigned long long heap, unsigned long long count, unsigned threads);
/// Ends the use of the slots: every thread of the program calls. GPUHEAP_FREED where they were a block of the heap, else
/// GPUHEAP_FREED_NULL.
__device__ int gpuheap_v1_close_slots(unsigned long long heap, unsigned long long slots, unsigned threads);
/// Allocates `bytes` for a slot once, however many threads of the program ask. 1 for the thread that allocated, else 0. A `slot` of 0 is no
/// request.
__device__ int gpuheap_v1_malloc_slot(unsigned long long heap, unsigned long long slot, unsigned long long bytes);
/// Frees the block at `p` for a slot once, however many threads of the program ask. Likewise.
__device__ int gpuheap_v1_free_slot(unsigned long long heap, unsigned long long slot, unsigned long long p);
/// The address that malloc_slot got for the slot, or 0: after a barrier of the program.
__device__ unsigned long long gpuheap_v1_read_slot(unsigned long long slot);

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
#define gpuheap_open_slots gpuheap_v1_open_slots
#define gpuheap_close_slots gpuheap_v1_close_slots
#define gpuheap_malloc_slot gpuheap_v1_malloc_slot
#define gpuheap_free_slot gpuheap_v1_free_slot
#define gpuheap_read_slot gpuheap_v1_read_slot
#define gpuheap_device_abi_version gpuheap_v1_device_abi_version
