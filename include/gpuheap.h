// The C interface of the heap, for hosts: C99 and newer, and what calls C. The device's part is gpuheap_device.h.
//
// Names carry the version of this interface (GPUHEAP_ABI_VERSION): gpuheap_create is gpuheap_v1_create in the library. A later version adds
// names and keeps these. Structs begin with their size in bytes, so that a later one may be longer.
//
// A function that can fail returns a gpuheap_status. The text of a failure, which says what was asked, what there was and what to do, is
// that of gpuheap_last_error() on the same thread. No exception leaves the library.
//
// A heap belongs to one device. Functions make that device current while they run, and restore the one that was. One host thread at a time
// calls functions of a heap; kernels of any streams may use it meanwhile, unless the function says otherwise. `stream` is a cudaStream_t;
// NULL is the default stream.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GPUHEAP_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/// The result of a function.
typedef int32_t gpuheap_status;
enum {
  GPUHEAP_SUCCESS = 0,
  GPUHEAP_INVALID_ARGUMENT = 1,  ///< what was asked makes no sense
  GPUHEAP_OUT_OF_MEMORY = 2,     ///< the device has not enough memory for the heap
  GPUHEAP_EXHAUSTED = 3,         ///< gpuheap_check: requests in kernels found no memory in the heap
  GPUHEAP_REFUSED_FREES = 4,     ///< gpuheap_check: blocks were freed twice, or pointers that are none of the heap's
  GPUHEAP_CUDA_ERROR = 5,        ///< CUDA refused something, or an earlier kernel failed
  GPUHEAP_INTERNAL_ERROR = 6,    ///< anything else
  GPUHEAP_MISUSED = 7  ///< gpuheap_check: a checked or hardened heap has found misuse: a wrong free, or a write outside of a live block
};

/// Where a heap's memory comes from, if the caller does not give it.
enum { GPUHEAP_DEVICE_MEMORY = 0, GPUHEAP_MANAGED_MEMORY = 1, GPUHEAP_PINNED_MEMORY = 2 };

/// The allocator that serves a heap's requests (docs/misuse.md): the default one, or the same in a checked or a hardened heap. A checked
/// heap puts a header and a guard around each block, and gpuheap_check looks at all of them; it takes several times as long, and does not
/// grow. A hardened heap keeps one bit for each 16 bytes, and refuses every wrong free.
enum { GPUHEAP_DEFAULT_ALLOCATOR = 0, GPUHEAP_CHECKED_ALLOCATOR = 1, GPUHEAP_HARDENED_ALLOCATOR = 2 };

/// The device that is current on the calling thread.
#define GPUHEAP_CURRENT_DEVICE (-1)

/// A heap, seen from the host.
typedef struct gpuheap_heap gpuheap_heap;

/// A heap, seen from kernels, which get it as an argument: an address in device memory, whose lowest two bits say the kind of heap. Valid
/// as long as the heap lives.
typedef void const* gpuheap_handle;

/// The request for a new heap. Set `struct_bytes` to sizeof(gpuheap_options), the others to 0 where nothing is said.
typedef struct {
  uint64_t struct_bytes;
  uint64_t bytes;          ///< of the heap, bookkeeping included; of a heap that grows, at first
  uint64_t at_most_bytes;  ///< not 0: the heap grows, by gpuheap_grow, up to this. Addresses for it are reserved
  void* buffer;            ///< not NULL: `bytes` of device memory, aligned to 256, that the caller keeps for longer than the heap
  void* stream;            ///< the heap is ready for kernels that run on it later, or on any stream once it has been waited for
  int32_t device;          ///< its number as CUDA counts, or GPUHEAP_CURRENT_DEVICE
  uint32_t memory;         ///< GPUHEAP_DEVICE_MEMORY, ...; of no meaning with a buffer or growth
  uint32_t allocator;      ///< GPUHEAP_DEFAULT_ALLOCATOR, ...
  uint32_t reserved;       ///< 0
} gpuheap_options;

/// The live blocks of a heap, and the failures since it was made or reset. Sizes are in bytes.
typedef struct {
  uint64_t struct_bytes;
  uint64_t heap_bytes;          ///< taken for the heap, bookkeeping included
  uint64_t usable_bytes;        ///< of these, what blocks can have
  uint64_t at_most_bytes;       ///< what a heap that grows can become; else its capacity
  uint64_t live_allocations;    ///< served and not yet freed
  uint64_t live_bytes;          ///< their usable sizes, rounding included
  uint64_t peak_live_bytes;     ///< the most at any time
  uint64_t held_bytes;          ///< bound to a block size or a block: not free for every request
  uint64_t metadata_bytes;      ///< the allocator's own
  uint64_t failed_requests;     ///< answered NULL
  uint64_t first_failed_bytes;  ///< what the first of them asked for
  uint64_t double_frees;        ///< refused: the block was free
  uint64_t foreign_frees;       ///< refused: no block of this heap
  uint64_t first_double_free;   ///< the pointer of the first double free
  uint64_t first_foreign_free;  ///< the pointer of the first foreign free
  uint32_t counts_allocations;  ///< 1: live_allocations is known; else it is 0
  uint32_t counts_bytes;        ///< 1: live_bytes and peak_live_bytes are known; else they are 0
} gpuheap_stats;

/// The library's GPUHEAP_ABI_VERSION.
uint32_t gpuheap_v1_abi_version(void);
/// The library's version, "major.minor.patch".
char const* gpuheap_v1_version(void);
/// The meaning of a status in a few words; never NULL.
char const* gpuheap_v1_status_text(gpuheap_status status);
/// The text of the calling thread's last failure; "" if there was none. Valid until the thread's next failure.
char const* gpuheap_v1_last_error(void);
/// The least `bytes` that gpuheap_create takes for the default allocator.
uint64_t gpuheap_v1_min_bytes(void);

/// Makes a heap and writes it to *heap; on failure NULL.
gpuheap_status gpuheap_v1_create(gpuheap_heap** heap, gpuheap_options const* options);
/// Ends a heap and gives its memory back. No kernel may be using it. NULL does nothing.
void gpuheap_v1_destroy(gpuheap_heap* heap);
/// The handle by which kernels reach the heap.
gpuheap_handle gpuheap_v1_handle(gpuheap_heap const* heap);
/// The number of the heap's device.
int32_t gpuheap_v1_device(gpuheap_heap const* heap);
/// Forgets every block at once, in stream order. No kernel of another stream may be using the heap.
gpuheap_status gpuheap_v1_reset(gpuheap_heap* heap, void* stream);
/// Waits for the stream. GPUHEAP_EXHAUSTED, GPUHEAP_REFUSED_FREES or GPUHEAP_MISUSED if that has happened since the last check. A checked
/// heap looks at all of its blocks: no kernel may be using it.
gpuheap_status gpuheap_v1_check(gpuheap_heap* heap, void* stream);
/// Waits for the stream, then fills *stats, of which `struct_bytes` is set. Exact if no other stream uses the heap meanwhile.
gpuheap_status gpuheap_v1_get_stats(gpuheap_heap const* heap, gpuheap_stats* stats, void* stream);
/// Adds `bytes` to a heap that was made with at_most_bytes, for kernels launched later on `stream`. No kernel may be using the heap.
gpuheap_status gpuheap_v1_grow(gpuheap_heap* heap, uint64_t bytes, void* stream);
/// Frees `count` blocks of the heap, whose addresses lie in host memory; NULLs are skipped. Waits for the stream.
gpuheap_status gpuheap_v1_free_blocks(gpuheap_heap* heap, void* const* pointers, uint64_t count, void* stream);
/// Frees `count` blocks whose addresses lie in device memory, in stream order: the array must not change until then. NULLs are skipped.
gpuheap_status gpuheap_v1_free_blocks_on_device(gpuheap_heap* heap, void* const* pointers, uint64_t count, void* stream);
/// Copies `bytes` from the heap to host memory. Waits for the stream. GPUHEAP_INVALID_ARGUMENT if they do not lie in the heap.
gpuheap_status gpuheap_v1_copy_to_host(gpuheap_heap const* heap, void* to, void const* from, uint64_t bytes, void* stream);
/// Copies `bytes` from host memory into the heap. Waits for the stream. GPUHEAP_INVALID_ARGUMENT if they do not lie in the heap.
gpuheap_status gpuheap_v1_copy_from_host(gpuheap_heap* heap, void* to, void const* from, uint64_t bytes, void* stream);

#ifdef __cplusplus
}
#endif

// The names without the version.
#define gpuheap_abi_version gpuheap_v1_abi_version
#define gpuheap_version gpuheap_v1_version
#define gpuheap_status_text gpuheap_v1_status_text
#define gpuheap_last_error gpuheap_v1_last_error
#define gpuheap_min_bytes gpuheap_v1_min_bytes
#define gpuheap_create gpuheap_v1_create
#define gpuheap_destroy gpuheap_v1_destroy
#define gpuheap_get_handle gpuheap_v1_handle
#define gpuheap_get_device gpuheap_v1_device
#define gpuheap_reset gpuheap_v1_reset
#define gpuheap_check gpuheap_v1_check
#define gpuheap_get_stats gpuheap_v1_get_stats
#define gpuheap_grow gpuheap_v1_grow
#define gpuheap_free_blocks gpuheap_v1_free_blocks
#define gpuheap_free_blocks_on_device gpuheap_v1_free_blocks_on_device
#define gpuheap_copy_to_host gpuheap_v1_copy_to_host
#define gpuheap_copy_from_host gpuheap_v1_copy_from_host
