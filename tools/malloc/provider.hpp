// The interface of a library of one allocator (libgpuheap_malloc_<name>.so, made from providers/provider_unit.in), by which it serves a
// program's device malloc: one C function, gpuheap_malloc_provider(), which returns the table below. The static library
// libgpuheap_malloc.a has the same table of the default allocator inside. The table and `provider_version` change together.
//
// A heap belongs to the context that was current when it was made. Every function that takes a heap is called with that context current, by
// one thread at a time for each heap; forget() and refused() call nothing of the device's and need no context. Nothing here throws.
//
// The device's side is the image: relocatable code that defines gpuheap_malloc and gpuheap_free, and reads the variable
// gpuheap_malloc_state. A module that is linked with the image serves nothing (nullptr) until the host writes the heap's state into the
// module's variable. All modules of one context get the same state, and so share one heap.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuheap::device_malloc {

inline constexpr std::uint32_t provider_version = 3;
/// The C function of the shared library: `provider const* gpuheap_malloc_provider()`.
inline constexpr char provider_entry_point[] = "gpuheap_malloc_provider";

/// The names inside the image. The calls of a program are renamed from CUDA's names to these before ptxas sees them, because ptxas assumes
/// that what is called `malloc`, `free` or `__cuda_syscall_aligned_malloc` (over-aligned `new`) keeps registers that an ordinary function
/// does not keep.
inline constexpr char malloc_name[] = "gpuheap_malloc";                  // void* (size_t): .func (.param .b64 out) (.param .b64 bytes)
inline constexpr char aligned_malloc_name[] = "gpuheap_aligned_malloc";  // void* (size_t bytes, size_t alignment): .b64 all
inline constexpr char free_name[] = "gpuheap_free";                      // void (void*):   .func (.param .b64 pointer)
inline constexpr char state_name[] = "gpuheap_malloc_state";  // a variable of state_bytes bytes, in constant memory, zero at first

/// A text that the caller has room for; the provider ends it with a zero byte.
struct provider_text {
  char words[512];
};

/// The settings of a heap. Its size is, in this order: GPUHEAP_BYTES of the environment; the size that the program set for CUDA's malloc;
/// an eighth of the device's free memory, which grows until an eighth of the device's free memory is left.
struct provider_settings {
  /// Bytes that the program has set as cudaLimitMallocHeapSize; 0: it has not. The heap then serves at least what CUDA's malloc would have
  /// served of it, and has that size for good.
  std::uint64_t malloc_limit;
};

enum class grow_answer : std::uint32_t {
  grown,
  at_most,  // the heap has its largest size, or cannot grow at all
  failed,   // the device refused the memory, or a call: `why` says so. The heap keeps what it has, and refused() stays false for good
};

/// The facts about a heap that need no count of requests. A number that the allocator cannot tell is `untold`.
struct provider_report {
  static constexpr std::uint64_t untold = ~std::uint64_t{0};
  std::uint64_t heap_bytes;       // all memory taken for the heap now
  std::uint64_t held_bytes;       // the part with blocks, and with free memory that is kept for their sizes
  std::uint64_t peak_held_bytes;  // the most that this was
  std::uint64_t metadata_bytes;
  std::uint64_t failed_requests;     // requests that were answered nullptr for want of memory
  std::uint64_t first_failed_bytes;  // the size of the first of them; 0 if there was none
  std::uint64_t double_frees;        // frees that were refused because the block was free
  std::uint64_t foreign_frees;       // frees that were refused because the pointer was no block of this heap
  std::uint64_t live_blocks;         // blocks that are not freed
  std::uint64_t live_bytes;          // their sizes as the allocator rounds them
};
/// One line of what is not freed: `blocks` blocks of `block_bytes` each, as the allocator rounds sizes.
struct provider_live {
  std::uint64_t block_bytes;
  std::uint64_t blocks;
};

struct provider {
  std::uint32_t version;      // provider_version; a reader that knows another one refuses the library
  std::uint32_t state_bytes;  // the size of gpuheap_malloc_state
  char const* allocator;      // as `gpuheap list` calls it
  char const* refusal;      // why the allocator cannot serve a program's malloc, one clause; null: it can. All below is null or 0 otherwise
  std::uint32_t alignment;  // what every block is aligned to, at least 16
  std::uint32_t reserved;   // 0

  /// The device image: a fatbin of relocatable machine code and PTX, for cuLinkAddData or nvJitLinkAddData as it is. It uses at most 64
  /// registers, so that every kernel can be launched with as many threads as before.
  void const* image;
  std::size_t image_bytes;

  /// Makes a heap in the current context and waits until kernels may use it.
  /// @param state_out state_bytes bytes of host memory: what goes into gpuheap_malloc_state.
  /// @return the heap, or null, and then `why` has one clause in words.
  void* (*make)(provider_settings const* settings, void* state_out, provider_text* why);

  /// @return whether a request was refused for want of memory since the last grow() or make(). Reads one word of host memory, which kernels
  /// that run at the moment may set any time; costs nanoseconds.
  bool (*refused)(void const* heap);

  /// Adds memory to a heap whose kernels were refused some: doubles the heap as far as the device's free memory allows, an eighth of which
  /// stays free. The state stays as it is. Waits for the device; called outside of stream captures.
  /// @return what happened. refused() is false afterwards. After any answer but `grown` it stays false, whatever requests are refused.
  grow_answer (*grow)(void* heap, provider_text* why);

  /// Fills `out`, and up to `room` lines of what is not freed into `live`, by size. Waits for the device; runs kernels.
  /// @return how many lines there are, or -1 and a clause in `why` if the device does not answer.
  long (*report)(void* heap, provider_report* out, provider_live* live, std::size_t room, provider_text* why);

  /// Fills `out` while kernels of the program run: waits for none of their streams, but for a moment at which the device has room for a
  /// small kernel. The numbers are of moments during the call.
  /// @return whether the device answered; if not, `why` has a clause.
  bool (*sample)(void* heap, provider_report* out, provider_text* why);

  /// Only if the allocator finds misuse of its blocks, else null: looks at all blocks, and calls `say` with each line about misuse since
  /// the last call, and about blocks that are not freed. Waits for the device; runs kernels.
  /// @return how many misuses were found, or -1 and a clause in `why` if the device does not answer.
  long (*findings)(void* heap, void (*say)(void* to, char const* line), void* to, provider_text* why);

  /// Waits for the device and gives the heap's memory back.
  void (*destroy)(void* heap);

  /// The context is gone, and with it all that the heap had there: drops the host's part.
  void (*forget)(void* heap);
};

using provider_entry = provider const* (*)();

}  // namespace gpuheap::device_malloc
