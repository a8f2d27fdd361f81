// The calls that `gpuheap coalesce` writes into a program in place of malloc, calloc, free, new and delete. They use one heap of the whole
// program, which device code reaches without a parameter. docs/coalesce.md describes the rewriter.
//
//   host     init() before the first kernel that allocates, clean() after the last one
//   device   malloc(bytes), calloc(count, bytes), free(p), new (memory{}) T, destroy(p), destroy_array(p)
//
// malloc() and calloc() have one more argument, `together`, which is also the argument of memory{}. It is a promise: all live threads of
// the thread block make this call with the same size, and all of them make the calls with a promise in the same order. Threads that have
// returned from the kernel are not live. A call with a promise may wait until all live threads of the block have made it, so a false
// promise may hang. It never waits before init(), after clean() or after serve_apart(), and never with an allocator that serves each thread
// by itself. A call without a promise does not wait for other threads' calls. After init_dynamic(), the lanes of a warp that happen to make
// such a call together are served together.
//
// The macro GPUHEAP_PROGRAM_ALLOCATOR names the type of the program's allocator. A program may define it before this header or by the
// compiler's -D, in the same way in all of its files; the default is below. `-DGPUHEAP_PROGRAM_ALLOCATOR=gpuheap::coalesce_block_header`
// coalesces over CUDA's own heap, and gpuheap::cuda_malloc is CUDA's heap without coalescing. If another header defines the type, include
// that header first, or by -include.
//
// On the host, these calls allocate by the C library, so functions that are both __host__ and __device__ may contain them. A block must be
// freed on the side that allocated it. Before init() and after clean() requests on the device return nullptr, and frees do nothing.
#pragma once

#include <gpuheap/allocators/coalesce.hpp>
#include <gpuheap/allocators/sharded_spans.hpp>
#include <gpuheap/collective.hpp>
#include <gpuheap/heap.hpp>
#include <gpuheap/simt/program.hpp>

#include <cstdlib>
#include <new>
#include <optional>

#ifndef GPUHEAP_PROGRAM_ALLOCATOR
#define GPUHEAP_PROGRAM_ALLOCATOR gpuheap::basic_coalesce_block_header<gpuheap::sharded_spans>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::coalesced {

// The program's allocator. An allocator that cannot serve a thread block together serves each warp together, or each thread by itself. In
// the last case no thread waits for another thread's call.
using allocator = GPUHEAP_PROGRAM_ALLOCATOR;

namespace detail {

using ref = heap_ref<allocator>;

// The state that device code reads. All zeros mean that there is no heap.
struct program_heap {
  ref heap;
  bool made = false;
  bool dynamic = false;  // lanes that happen to call together are served together
  bool apart = false;    // promises are ignored: each request is served by itself
};
[[maybe_unused]] static bool const known_here = simt::has_program_value<program_heap>();

// The group whose live threads promise to make a call together.
enum class promise : unsigned char { none, block, warp };
[[nodiscard]] GPUHEAP_HD constexpr promise promise_of(bool together, promise by) { return together ? by : promise::none; }

// The device sides are not inlined: a program calls them in many places, and each place would contain the whole allocator.
struct malloc_side {
  GPUHEAP_COLD static void* on_device(simt::size_t bytes, promise by) {
    program_heap const& program = simt::program_value<program_heap>();
    if (!program.made) return nullptr;
    bytes = bytes == 0 ? 1 : bytes;  // `new T[0]` is not null
    if (program.apart) return program.heap.malloc(bytes);
    if constexpr (has_malloc_by_block<allocator, live_block_threads>) {
      if (by == promise::block) return program.heap.malloc_coalesced(live_block(simt::block_storage<block_scratch>()), bytes);
    }
    return by != promise::none || program.dynamic ? program.heap.malloc_coalesced(this_warp(), bytes) : program.heap.malloc(bytes);
  }
  static void* on_host(simt::size_t bytes, promise) { return std::malloc(bytes); }
};
// Allocates `count` objects of `bytes` each, all zero. nullptr if the product exceeds 2^64 - 1; a call with a promise then waits as it
// would for any other size.
[[nodiscard]] GPUHEAP_HD inline void* zeroed(simt::size_t count, simt::size_t bytes, promise by) {
  bool const too_much = bytes != 0 && count > ~simt::size_t{0} / bytes;
  simt::size_t const all = too_much ? ~simt::size_t{0} : count * bytes;
  void* const p = simt::by_side<malloc_side>(all, by);
  if (p == nullptr || too_much) return nullptr;  // p is null if too_much; the test lets the compiler know that
  // The loops clear whole words first, since blocks are aligned to 16 bytes.
  auto* const words = static_cast<simt::uint64_t*>(p);
  for (simt::size_t i = 0; i < all / 8; ++i) words[i] = 0;
  auto* const bytes_left = static_cast<unsigned char*>(p);
  for (simt::size_t i = all & ~simt::size_t{7}; i < all; ++i) bytes_left[i] = 0;
  return p;
}

struct free_side {
  GPUHEAP_COLD static void on_device(void* p) {
    program_heap const& program = simt::program_value<program_heap>();
    if (program.made) (void)program.heap.free(p);
  }
  static void on_host(void* p) { std::free(p); }
};

// The heap, on the host.
inline std::optional<heap<allocator>>& owner() {
  static std::optional<heap<allocator>> heap;
  return heap;
}

inline void make_heap(heap_size size, bool dynamic) {
  auto& heap = owner();
  if (heap)
    throw plain_error(
        "gpuheap: coalesced::init() or init_dynamic() was called while the program has a heap: call coalesced::clean() before you make "
        "another one");
  heap.emplace(size);
  simt::program_values<program_heap>::set({heap->ref(), true, dynamic, false});
}
}  // namespace detail

// @brief Makes the program's heap. Host; waits for the device.
// @param size bytes of the heap. Default: GPUHEAP_BYTES, or the default of heap_size
// @throws gpuheap::error if the program has a heap already
// @throws out_of_memory if the device does not have the memory
inline void init(heap_size size = heap_size::from_environment()) { detail::make_heap(size, false); }
// @brief Makes the program's heap. Lanes of a warp that happen to make a call at the same time are then served together without a promise.
// @param size as for init()
// @throws what init() throws
inline void init_dynamic(heap_size size = heap_size::from_environment()) { detail::make_heap(size, true); }

// @brief Serves each later request by itself and ignores promises, for comparison with a coalesced program. Host.
// @throws gpuheap::error if the program has no heap
// @note No kernel may run during the call.
inline void serve_apart() {
  auto const& owner = detail::owner();
  if (!owner) throw plain_error("gpuheap: coalesced::serve_apart() was called while the program has no heap: call coalesced::init() first");
  simt::program_values<detail::program_heap>::set({owner->ref(), true, false, true});
}

// @brief Destroys the program's heap and all blocks in it. Host; waits for the device. Does nothing without a heap.
inline void clean() {
  auto& owner = detail::owner();
  if (!owner) return;
  simt::synchronize_device();
  simt::program_values<detail::program_heap>::set({});
  owner.reset();
}

// @return the program's heap, for its statistics; nullptr before init() and after clean(). Host
[[nodiscard]] inline heap<allocator>* program_heap() { return detail::owner() ? &*detail::owner() : nullptr; }

// @brief Allocates a block of memory. Host or device.
// @param bytes the least size of the block; 0 gets a block too
// @param together a promise: all live threads of the thread block make this call with the same size, and all of them make the calls with a
// promise in the same order. The call may then wait for these threads
// @return the block, aligned to 16 bytes and not initialised, or nullptr when nothing fits
[[nodiscard]] GPUHEAP_HD inline void* malloc(simt::size_t bytes, bool together = false) {
  return simt::by_side<detail::malloc_side>(bytes, detail::promise_of(together, detail::promise::block));
}
// @brief Allocates memory for `count` objects of `bytes` each, all zero. Host or device.
// @param count the number of objects
// @param bytes the size of one object
// @param together as for malloc()
// @return the memory, or nullptr when nothing fits or the product exceeds 2^64 - 1
[[nodiscard]] GPUHEAP_HD inline void* calloc(simt::size_t count, simt::size_t bytes, bool together = false) {
  return detail::zeroed(count, bytes, detail::promise_of(together, detail::promise::block));
}

// @brief Frees a block. Host or device, any thread.
// @param p a pointer that malloc(), calloc() or `new (memory{})` returned on the same side; nullptr does nothing
GPUHEAP_HD inline void free(void* p) { simt::by_side<detail::free_side>(p); }

// @brief The placement argument of `new`: `new (memory{}) T(...)`, `new (memory{true}) T[n]`. If the heap is exhausted, `new` returns
// nullptr, and no constructor runs.
struct memory {
  bool together = false;
};

namespace detail {
// Whether objects, or arrays, of this type stay in the toolkit's heap: `delete` of a class with virtual functions frees an address that
// only its destructor knows, an array of objects with destructors begins behind its length, and the heap aligns to 16 bytes.
template <class T>
inline constexpr bool is_left_object = __is_polymorphic(T) || alignof(T) > 16;
template <class T>
inline constexpr bool is_left_array = is_left_object<T> || !simt::is_trivially_destructible_v<T>;
}  // namespace detail

// @brief The placement argument of `new` in a template whose instances belong to two heaps: `new (memory_of<T>{}) T(...)`. It allocates
// from the program's heap without a promise, or, for a type that destroy() or destroy_array() deletes, as `new` does.
template <class T>
struct memory_of {};

// @brief Takes the place of `delete p`: runs the destructor and frees the memory. Host or device, any thread. An object of a class with
// virtual functions, or of a type that asks for a larger alignment than 16 bytes, is deleted by `delete`.
// @param p an object that `new (memory{})` made on the same side, or `new` for the types named; nullptr does nothing
template <class T>
GPUHEAP_HD inline void destroy(T* p) {
  if constexpr (detail::is_left_object<T>) {
    delete p;
  } else {
    if (p == nullptr) return;
    p->~T();
    coalesced::free(const_cast<void*>(static_cast<void const volatile*>(p)));
  }
}
// @brief Takes the place of `delete[] p`: frees the memory. Host or device, any thread. An array of such objects as destroy() deletes, or
// of objects with destructors, is deleted by `delete[]`.
// @param p an array that `new (memory{}) T[n]` made on the same side, or `new` for the types named; nullptr does nothing
template <class T>
GPUHEAP_HD inline void destroy_array(T* p) {
  if constexpr (detail::is_left_array<T>) {
    delete[] p;
  } else {
    coalesced::free(const_cast<void*>(static_cast<void const volatile*>(p)));
  }
}

// The same calls, with a promise of the live lanes of a warp instead of the live threads of a block: `gpuheap coalesce --level warp`.
namespace by_warp {
using coalesced::clean;
using coalesced::destroy;
using coalesced::destroy_array;
using coalesced::free;
using coalesced::init;
using coalesced::init_dynamic;
using coalesced::memory_of;
[[nodiscard]] GPUHEAP_HD inline void* malloc(simt::size_t bytes, bool together = false) {
  return simt::by_side<detail::malloc_side>(bytes, detail::promise_of(together, detail::promise::warp));
}
[[nodiscard]] GPUHEAP_HD inline void* calloc(simt::size_t count, simt::size_t bytes, bool together = false) {
  return detail::zeroed(count, bytes, detail::promise_of(together, detail::promise::warp));
}
struct memory {
  bool together = false;
};
}  // namespace by_warp

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::coalesced

// The placement forms of operator new. The type of the second parameter keeps them apart from a program's own forms.
[[nodiscard]] GPUHEAP_HD inline void* operator new(std::size_t bytes, gpuheap::coalesced::memory how) noexcept {
  return gpuheap::coalesced::malloc(bytes, how.together);
}
[[nodiscard]] GPUHEAP_HD inline void* operator new[](std::size_t bytes, gpuheap::coalesced::memory how) noexcept {
  return gpuheap::coalesced::malloc(bytes, how.together);
}
// The matching forms of delete, which the language requires: they run if a constructor throws, which device code cannot do.
GPUHEAP_HD inline void operator delete(void* p, gpuheap::coalesced::memory) noexcept { gpuheap::coalesced::free(p); }
GPUHEAP_HD inline void operator delete[](void* p, gpuheap::coalesced::memory) noexcept { gpuheap::coalesced::free(p); }
[[nodiscard]] GPUHEAP_HD inline void* operator new(std::size_t bytes, gpuheap::coalesced::by_warp::memory how) noexcept {
  return gpuheap::coalesced::by_warp::malloc(bytes, how.together);
}
[[nodiscard]] GPUHEAP_HD inline void* operator new[](std::size_t bytes, gpuheap::coalesced::by_warp::memory how) noexcept {
  return gpuheap::coalesced::by_warp::malloc(bytes, how.together);
}
GPUHEAP_HD inline void operator delete(void* p, gpuheap::coalesced::by_warp::memory) noexcept { gpuheap::coalesced::free(p); }
GPUHEAP_HD inline void operator delete[](void* p, gpuheap::coalesced::by_warp::memory) noexcept { gpuheap::coalesced::free(p); }

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::coalesced::detail {
// Memory for an object that stays in the toolkit's heap.
template <std::size_t Alignment>
[[nodiscard]] GPUHEAP_HD inline void* toolkit_object(std::size_t bytes) {
  if constexpr (Alignment > 16) {
    return ::operator new (bytes, std::align_val_t{Alignment});
  } else {
    return ::operator new(bytes);
  }
}
// The same for an array, which `delete[]` frees.
template <std::size_t Alignment>
[[nodiscard]] GPUHEAP_HD inline void* toolkit_array(std::size_t bytes) {
  if constexpr (Alignment > 16) {
    return ::operator new[](bytes, std::align_val_t{Alignment});
  } else {
    return ::operator new[](bytes);
  }
}
}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::coalesced::detail

// The forms that choose the heap by the type: of new for an object.
template <class T>
[[nodiscard]] GPUHEAP_HD inline void* operator new(std::size_t bytes, gpuheap::coalesced::memory_of<T>) noexcept {
  namespace detail = gpuheap::coalesced::detail;
  if constexpr (detail::is_left_object<T>) return detail::toolkit_object<alignof(T)>(bytes);
  return gpuheap::coalesced::malloc(bytes);
}
// Of new for an array.
template <class T>
[[nodiscard]] GPUHEAP_HD inline void* operator new[](std::size_t bytes, gpuheap::coalesced::memory_of<T>) noexcept {
  namespace detail = gpuheap::coalesced::detail;
  if constexpr (detail::is_left_array<T>) return detail::toolkit_array<alignof(T)>(bytes);
  return gpuheap::coalesced::malloc(bytes);
}
// The matching form of delete, as above.
template <class T>
GPUHEAP_HD inline void operator delete(void* p, gpuheap::coalesced::memory_of<T>) noexcept {
  gpuheap::coalesced::free(p);
}
// The matching form of delete for an array, as above.
template <class T>
GPUHEAP_HD inline void operator delete[](void* p, gpuheap::coalesced::memory_of<T>) noexcept {
  gpuheap::coalesced::free(p);
}
