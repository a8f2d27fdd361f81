// The interface of a library of one allocator (libgpuheap_malloc_<name>.so, made from providers/provider_unit.in), which serves a program's
// device malloc. The library has one C function, gpuheap_malloc_provider(), which returns the table below. The static library
// libgpuheap_malloc.a contains such a table for the default allocator. A change of the table must also change `provider_version`.
//
// A heap belongs to the context that was current when it was made. Every function that takes a heap is called with that context current, by
// one thread at a time for each heap; forget() and refused() make no call to the device, and need no context. No function here throws.
//
// The device's part is the image: relocatable code that defines gpuheap_malloc and gpuheap_free, and reads the variable
// gpuheap_malloc_state. A module that is linked with the image serves nothing (nullptr) until the host writes the heap's state into the
// module's variable. All modules of one context get the same state, and so share one heap.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuheap::device_malloc {

inline constexpr std::uint32_t provider_version = 4;
/// The C function of the shared library: `provider const* gpuheap_malloc_provider()`.
inline constexpr char provider_entry_point[] = "gpuheap_malloc_provider";

/// The names inside the image. The calls of a program are renamed from CUDA's names to these before ptxas sees them, because ptxas assumes
/// that a function called `malloc`, `free` or `__cuda_syscall_aligned_malloc` (over-aligned `new`) keeps registers that an ordinary
/// function does not keep.
inline constexpr char malloc_name[] = "gpuheap_malloc";                  // void* (size_t): .func (.param .b64 out) (.param .b64 bytes)
inline constexpr char aligned_malloc_name[] = "gpuheap_aligned_malloc";  // void* (size_t bytes, size_t alignment): .b64 all
inline constexpr char free_name[] = "gpuheap_free";                      // void (void*):   .func (.param .b64 pointer)
/// The names in an image whose provider takes places. The last argument is the number of the caller's place, 1 to 2^62.
inline constexpr char malloc_at_name[] = "gpuheap_malloc_at";                  // as malloc_name, (size_t, place)
inline constexpr char aligned_malloc_at_name[] = "gpuheap_aligned_malloc_at";  // as aligned_malloc_name, (size_t, size_t, place)
inline constexpr char free_at_name[] = "gpuheap_free_at";                      // as free_name, (void*, place)
inline constexpr char state_name[] = "gpuheap_malloc_state";  // a variable of state_bytes bytes, in constant memory, zero at first

/// A text in memory of the caller. The provider ends it with a zero byte.
struct provider_text {
  char words[512];
};

/// The settings of a heap. Its size is the first of these that is set: the environment variable GPUHEAP_BYTES; the size that the program
/// set for CUDA's malloc. If neither is set, the heap begins with an eighth of the device's free memory, and grows until an eighth of the
/// device's memory is left free.
struct provider_settings {
  /// Bytes that the program has set as cudaLimitMallocHeapSize; 0: it has set none. A heap with a limit serves at least what CUDA's malloc
  /// would have served, and never grows.
  std::uint64_t malloc_limit;
};

enum class grow_answer : std::uint32_t {
  grown,
  at_most,  // the heap has its largest size, cannot grow at all, or could grow by too little
  failed,   // the device refused the memory, or a call: `why` says so. The heap keeps what it has, and refused() stays false for good
};

/// The statistics of a heap, which does not count its requests. A number that the allocator cannot tell is `untold`.
struct provider_report {
  static constexpr std::uint64_t untold = ~std::uint64_t{0};
  std::uint64_t heap_bytes;       // all memory taken for the heap now
  std::uint64_t held_bytes;       // bytes of the heap in blocks, and in free memory that is bound to size classes
  std::uint64_t peak_held_bytes;  // the highest value of held_bytes
  std::uint64_t metadata_bytes;
  std::uint64_t failed_requests;     // requests that got nullptr
  std::uint64_t first_failed_bytes;  // the size of the first of them; 0 if there was none
  std::uint64_t double_frees;        // frees that were refused because the block was free
  std::uint64_t foreign_frees;       // frees that were refused because the pointer was no block of this heap
  std::uint64_t live_blocks;         // blocks that are not freed
  std::uint64_t live_bytes;          // their sizes as the allocator rounds them
};
/// Blocks that are not freed: `blocks` blocks of `block_bytes` each, as the allocator rounds sizes.
struct provider_live {
  std::uint64_t block_bytes;
  std::uint64_t blocks;
};

/// @return The text of a place of the program, such as "in build(node*)"; null: the number is of no place.
using provider_place_text = char const*(std::uint64_t number);

struct provider {
  std::uint32_t version;      // provider_version; a library of another version is refused
  std::uint32_t state_bytes;  // the size of gpuheap_malloc_state
  char const* allocator;      // its name in `gpuheap list`
  char const* refusal;      // why the allocator cannot serve a program's malloc, one clause, and then all below is null or 0; null: it can
  std::uint32_t alignment;  // the alignment of every block, at least 16
  std::uint32_t takes_places;  // 1: the image also has the functions that take places, and findings() names the places. 0: it has not

  /// The device image: a fatbin of relocatable machine code and PTX, as cuLinkAddData and nvJitLinkAddData take it. It uses at most 64
  /// registers, so that every kernel can be launched with as many threads as before.
  void const* image;
  std::size_t image_bytes;

  /// Makes a heap in the current context and waits until kernels may use it.
  /// @param state_out `state_bytes` bytes of host memory, which get the contents of gpuheap_malloc_state.
  /// @return the heap, or null, and then `why` has one clause.
  void* (*make)(provider_settings const* settings, void* state_out, provider_text* why);

  /// @return whether a request was refused for lack of memory since the last grow() or make(). Reads one word of host memory, which running
  /// kernels may set at any time; costs nanoseconds.
  bool (*refused)(void const* heap);

  /// Adds memory to a heap that has refused requests: doubles the heap, or adds less, so that an eighth of the device's memory stays free.
  /// The state stays as it is. Waits for the device. Called outside of stream captures.
  /// @return what happened. refused() is false afterwards. After any answer but `grown`, refused() stays false, even when the heap refuses
  /// further requests.
  grow_answer (*grow)(void* heap, provider_text* why);

  /// Fills `out`, and `live` with up to `room` sizes of blocks that are not freed, the smallest size first. Waits for the device, and runs
  /// kernels.
  /// @return the number of such sizes, or -1 and a clause in `why` if the device does not answer.
  long (*report)(void* heap, provider_report* out, provider_live* live, std::size_t room, provider_text* why);

  /// Fills `out` while kernels of the program run. It does not wait for their streams; it waits only until the device has room for a small
  /// kernel. The numbers are those of different moments during the call.
  /// @return whether the device answered; if not, `why` has a clause.
  bool (*sample)(void* heap, provider_report* out, provider_text* why);

  /// Null unless the allocator finds misuse of its blocks. Looks at all blocks, and calls `say` with each line about misuse since the last
  /// call, and about blocks that are not freed. Waits for the device, and runs kernels.
  /// @param text_of gives the texts of the places in these lines; null: there are none
  /// @return the number of misuses found, or -1 and a clause in `why` if the device does not answer.
  long (*findings)(void* heap, provider_place_text* text_of, void (*say)(void* to, char const* line), void* to, provider_text* why);

  /// Waits for the device and frees the heap's memory.
  void (*destroy)(void* heap);

  /// Called when the context is about to end or has ended, and the heap's device memory with it. The heap must not be used afterwards.
  void (*forget)(void* heap);
};

using provider_entry = provider const* (*)();

}  // namespace gpuheap::device_malloc
