// malloc and the like, as libgpuheap_host_merging.so exports them: merging.hpp serves large blocks where it can, and all other calls are
// forwarded to the next library that has the function. A call that changes mappings first makes the blocks in its range keep their own
// pages (host_fix), and then makes the system call.
//
// These functions may be called before main, before this library's constructors, and under the dynamic linker's locks. So no variable here
// has a constructor.

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "driver.hpp"
#include "merging.hpp"

namespace gpuheap::interpose {

namespace {

struct heap_functions_of_next {
  void* (*malloc)(std::size_t);
  void (*free)(void*);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void* (*memalign)(std::size_t, std::size_t);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
  std::size_t (*malloc_usable_size)(void*);
};

// Memory for requests of the dynamic linker while the next functions are looked up: handed out once, and never reused.
alignas(16) constinit char first_bytes[16384];
constinit std::atomic<std::size_t> first_used{0};

void* of_first(std::size_t bytes) {
  std::size_t const room = (bytes + 15) / 16 * 16;
  std::size_t const from = first_used.fetch_add(room);
  return from + room <= sizeof first_bytes ? first_bytes + from : nullptr;
}
bool is_first(void const* address) { return address >= first_bytes && address < first_bytes + sizeof first_bytes; }

constinit heap_functions_of_next found{};
constinit std::atomic<bool> ready{false};
constinit thread_local bool looking __attribute__((tls_model("initial-exec"))) = false;

// The functions of the next library that has them. Returns nullptr while this thread looks them up.
heap_functions_of_next const* next() {
  if (ready.load(std::memory_order_acquire)) return &found;
  if (looking) return nullptr;
  looking = true;
  // Two threads may look them up at the same time, and write the same values.
  auto const look = [](auto& function, char const* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(linker_dlsym(RTLD_NEXT, name));
  };
  look(found.malloc, "malloc");
  look(found.free, "free");
  look(found.calloc, "calloc");
  look(found.realloc, "realloc");
  look(found.memalign, "memalign");
  look(found.posix_memalign, "posix_memalign");
  look(found.aligned_alloc, "aligned_alloc");
  look(found.malloc_usable_size, "malloc_usable_size");
  looking = false;
  ready.store(true, std::memory_order_release);
  return &found;
}

bool power_of_two(std::size_t number) { return number != 0 && (number & (number - 1)) == 0; }

}  // namespace

}  // namespace gpuheap::interpose

using namespace gpuheap::interpose;

#define GPUHEAP_EXPORT extern "C" __attribute__((visibility("default")))

GPUHEAP_EXPORT void* malloc(std::size_t bytes) noexcept {
  if (host_serves(bytes)) {
    if (void* const served = host_request(bytes, 16); served != nullptr) return served;
  }
  auto const* const after = next();
  return after == nullptr ? of_first(bytes) : after->malloc(bytes);
}

GPUHEAP_EXPORT void free(void* address) noexcept {
  if (address == nullptr || is_first(address) || host_free(address)) return;
  if (auto const* const after = next(); after != nullptr) after->free(address);
}

GPUHEAP_EXPORT void* calloc(std::size_t num, std::size_t bytes) noexcept {
  std::size_t all = 0;
  if (!__builtin_mul_overflow(num, bytes, &all) && host_serves(all)) {
    if (void* const served = host_request(all, 16); served != nullptr) return served;
  }
  auto const* const after = next();
  return after == nullptr ? of_first(num * bytes) : after->calloc(num, bytes);
}

GPUHEAP_EXPORT void* realloc(void* address, std::size_t bytes) noexcept {
  std::size_t const own = address == nullptr ? 0 : host_bytes(address);
  if (own == 0 && !is_first(address)) {
    if (address == nullptr) return malloc(bytes);
    auto const* const after = next();
    return after == nullptr ? nullptr : after->realloc(address, bytes);
  }
  if (own != 0 && bytes == 0) {
    free(address);
    return nullptr;
  }
  void* const made = malloc(bytes);
  if (made == nullptr) return nullptr;
  std::size_t const there = own != 0 ? own : static_cast<std::size_t>(first_bytes + sizeof first_bytes - static_cast<char*>(address));
  std::memcpy(made, address, std::min(there, bytes));
  free(address);
  return made;
}

GPUHEAP_EXPORT void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  if (power_of_two(alignment) && host_serves(bytes)) {
    if (void* const served = host_request(bytes, alignment); served != nullptr) return served;
  }
  auto const* const after = next();
  return after == nullptr ? nullptr : after->memalign(alignment, bytes);
}

GPUHEAP_EXPORT void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  if (power_of_two(alignment) && host_serves(bytes)) {
    if (void* const served = host_request(bytes, alignment); served != nullptr) return served;
  }
  auto const* const after = next();
  return after == nullptr ? nullptr : after->aligned_alloc(alignment, bytes);
}

GPUHEAP_EXPORT int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) noexcept {
  if (power_of_two(alignment) && alignment % sizeof(void*) == 0 && host_serves(bytes)) {
    if (void* const served = host_request(bytes, alignment); served != nullptr) {
      *out = served;
      return 0;
    }
  }
  auto const* const after = next();
  return after == nullptr ? ENOMEM : after->posix_memalign(out, alignment, bytes);
}

GPUHEAP_EXPORT std::size_t malloc_usable_size(void* address) noexcept {
  if (address == nullptr || is_first(address)) return 0;
  if (std::size_t const own = host_bytes(address); own != 0) return own;
  auto const* const after = next();
  return after == nullptr ? 0 : after->malloc_usable_size(address);
}

GPUHEAP_EXPORT int mprotect(void* address, std::size_t bytes, int protection) noexcept {
  host_fix(address, bytes);
  return static_cast<int>(syscall(SYS_mprotect, address, bytes, protection));
}

GPUHEAP_EXPORT int madvise(void* address, std::size_t bytes, int advice) noexcept {
  host_fix(address, bytes);
  return static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}

GPUHEAP_EXPORT void* mremap(void* address, std::size_t before, std::size_t after, int flags, ...) noexcept {
  va_list rest;
  va_start(rest, flags);
  void* const wanted = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  host_fix(address, before);
  return reinterpret_cast<void*>(syscall(SYS_mremap, address, before, after, flags, wanted));
}
