// libgpuheap.so: the host functions of gpuheap.h over heap<>, heap<hardened<>> and heap<checked<>>.
#include <gpuheap/checked.hpp>
#include <gpuheap/hardened.hpp>
#include <gpuheap/heap.hpp>
#include <gpuheap/version.hpp>

#include <gpuheap.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <variant>

#include "capi/view.hpp"

namespace {

using gpuheap::text_of;

// A failure whose status the caller is to get.
class refusal : public gpuheap::plain_error {
 public:
  refusal(gpuheap_status status, std::string const& text) : plain_error{text}, status_{status} {}
  [[nodiscard]] gpuheap_status status() const { return status_; }

 private:
  gpuheap_status status_;
};

// Memory for the text of a failure may be what is lacking.
thread_local std::string last_error;
void remember(char const* text) noexcept {
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
}

// Runs `call`; an exception becomes its status and the thread's last error.
template <class Call>
gpuheap_status guarded(gpuheap_status of_errors, Call call) noexcept {
  try {
    call();
    return GPUHEAP_SUCCESS;
  } catch (refusal const& e) {
    remember(e.what());
    return e.status();
  } catch (gpuheap::out_of_memory const& e) {
    remember(e.what());
    return GPUHEAP_OUT_OF_MEMORY;
  } catch (gpuheap::misuse_error const& e) {
    remember(e.what());
    return GPUHEAP_MISUSED;
  } catch (gpuheap::device_error const& e) {
    remember(e.what());
    return GPUHEAP_CUDA_ERROR;
  } catch (gpuheap::error const& e) {
    remember(e.what());
    return of_errors;
  } catch (std::bad_alloc const&) {
    remember("gpuheap: the host has no more memory");
    return GPUHEAP_INTERNAL_ERROR;
  } catch (std::exception const& e) {
    remember(e.what());
    return GPUHEAP_INTERNAL_ERROR;
  } catch (...) {
    remember("gpuheap: an unknown failure");
    return GPUHEAP_INTERNAL_ERROR;
  }
}

void require(bool holds, std::string const& text) {
  if (!holds) throw refusal(GPUHEAP_INVALID_ARGUMENT, text);
}
void require_cuda(cudaError_t result, char const* what) {
  if (result == cudaSuccess) return;
  (void)cudaGetLastError();
  bool const absent = result == cudaErrorInsufficientDriver || result == cudaErrorNoDevice;
  char const* const advice = absent ? ": a GPU with NVIDIA's driver 580 or newer is needed; look at nvidia-smi" : "";
  throw refusal(GPUHEAP_CUDA_ERROR, text_of("gpuheap: %s: %s%s", what, cudaGetErrorString(result), advice));
}

// Makes a device current for as long as it lives.
class on_device {
 public:
  explicit on_device(int device) {
    require_cuda(cudaGetDevice(&before_), "CUDA has no current device");
    if (device == before_) return;
    require_cuda(cudaSetDevice(device), text_of("device %d cannot be used", device).c_str());
    changed_ = true;
  }
  ~on_device() {
    if (changed_) (void)cudaSetDevice(before_);
  }
  on_device(on_device const&) = delete;
  on_device& operator=(on_device const&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

gpuheap::memory::resource resource_of(uint32_t memory) {
  switch (memory) {
    case GPUHEAP_DEVICE_MEMORY:
      return gpuheap::memory::device;
    case GPUHEAP_MANAGED_MEMORY:
      return gpuheap::memory::managed;
    case GPUHEAP_PINNED_MEMORY:
      return gpuheap::memory::pinned;
    default:
      throw refusal(GPUHEAP_INVALID_ARGUMENT, text_of("gpuheap: options.memory is %u: GPUHEAP_DEVICE_MEMORY (0), GPUHEAP_MANAGED_MEMORY "
                                                      "(1) and GPUHEAP_PINNED_MEMORY (2) are what there is",
                                                      memory));
  }
}

int device_of(int32_t asked) {
  if (asked == GPUHEAP_CURRENT_DEVICE) {
    int current = 0;
    require_cuda(cudaGetDevice(&current), "CUDA has no current device");
    return current;
  }
  int count = 0;
  require_cuda(cudaGetDeviceCount(&count), "CUDA finds no device");
  require(asked >= 0 && asked < count,
          text_of("gpuheap: device %d was asked for, and there are %d: count from 0, or -1 for the current one", asked, count));
  return asked;
}

}  // namespace

struct gpuheap_heap {
  using plain_heap = gpuheap::heap<>;
  using checked_heap = gpuheap::heap<gpuheap::checked<>>;
  using hardened_heap = gpuheap::heap<gpuheap::hardened<>>;
  // The bytes of a heap_ref of any kind, which kernels read.
  struct view_bytes {
    alignas(
        16) unsigned char all[std::max({sizeof(plain_heap::ref_type), sizeof(checked_heap::ref_type), sizeof(hardened_heap::ref_type)})];
  };

  int device;
  std::variant<std::monostate, plain_heap, checked_heap, hardened_heap> heap;
  gpuheap::memory::allocation view;  // the copy of the heap's ref() that kernels read
  view_bytes written{};              // what is in it, if `is_written`
  bool is_written = false;

  // Calls `call` with the heap, whichever it is.
  template <class Call>
  static auto with(auto& any, Call call) {
    if (auto* const checked = std::get_if<checked_heap>(&any)) return call(*checked);
    if (auto* const hardened = std::get_if<hardened_heap>(&any)) return call(*hardened);
    return call(std::get<plain_heap>(any));
  }

  gpuheap_heap(int on, gpuheap_options const& options) : device{on} {
    if (options.allocator == GPUHEAP_CHECKED_ALLOCATOR) {
      make<checked_heap>(options);
    } else if (options.allocator == GPUHEAP_HARDENED_ALLOCATOR) {
      make<hardened_heap>(options);
    } else {
      make<plain_heap>(options);
    }
    // Thrown through check(), which leaves refused frees to its next call. An out_of_memory of check() itself is then the device's.
    with(heap, [](auto& any) { any.on_exhausted([](gpuheap::exhaustion const& what) { throw refusal(GPUHEAP_EXHAUSTED, what.text()); }); });
    view = gpuheap::memory::allocation{gpuheap::memory::device, sizeof(view_bytes)};
    write_view({options.stream});
  }

  [[nodiscard]] gpuheap_handle handle() const {
    using namespace gpuheap::c_interface;
    word const kind = std::holds_alternative<checked_heap>(heap)    ? checked_kind
                      : std::holds_alternative<hardened_heap>(heap) ? hardened_kind
                                                                    : plain_kind;
    return static_cast<char const*>(view.base()) + kind;
  }

  // In stream order, before the kernels that are launched next.
  void write_view(gpuheap::stream_ref stream) {
    view_bytes now{};
    with(heap, [&](auto const& any) {
      auto const ref = any.ref();
      std::memcpy(now.all, &ref, sizeof ref);
    });
    if (is_written && std::memcmp(&now, &written, sizeof now) == 0) return;
    is_written = false;  // until the copy is under way
    written = now;
    gpuheap::simt::copy(view.base(), &written, sizeof written, stream);
    is_written = true;
  }

 private:
  template <class Heap>
  void make(gpuheap_options const& options) {
    gpuheap::stream_ref const stream{options.stream};
    if (options.at_most_bytes != 0) {
      if constexpr (gpuheap::has_grow<typename Heap::allocator_type>) {
        heap.template emplace<Heap>(gpuheap::growth{.initial = gpuheap::heap_size{options.bytes}, .at_most = options.at_most_bytes},
                                    stream);
      } else {
        throw refusal(GPUHEAP_INVALID_ARGUMENT,
                      "gpuheap: a checked heap cannot grow: leave out at_most_bytes, or GPUHEAP_CHECKED_ALLOCATOR");
      }
    } else if (options.buffer != nullptr) {
      heap.template emplace<Heap>(gpuheap::memory::region{options.buffer, options.bytes}, stream);
    } else {
      heap.template emplace<Heap>(gpuheap::heap_size{options.bytes}, resource_of(options.memory), stream);
    }
  }
};

extern "C" {

#define GPUHEAP_EXPORT __attribute__((visibility("default")))

GPUHEAP_EXPORT uint32_t gpuheap_v1_abi_version() { return GPUHEAP_ABI_VERSION; }
GPUHEAP_EXPORT char const* gpuheap_v1_version() { return GPUHEAP_VERSION_STRING; }
GPUHEAP_EXPORT char const* gpuheap_v1_last_error() { return last_error.c_str(); }
GPUHEAP_EXPORT uint64_t gpuheap_v1_min_bytes() { return gpuheap::heap<>::min_bytes(); }

GPUHEAP_EXPORT char const* gpuheap_v1_status_text(gpuheap_status status) {
  switch (status) {
    case GPUHEAP_SUCCESS:
      return "success";
    case GPUHEAP_INVALID_ARGUMENT:
      return "an argument makes no sense";
    case GPUHEAP_OUT_OF_MEMORY:
      return "not enough memory for the heap";
    case GPUHEAP_EXHAUSTED:
      return "requests found no memory in the heap";
    case GPUHEAP_REFUSED_FREES:
      return "frees were refused";
    case GPUHEAP_CUDA_ERROR:
      return "CUDA failed";
    case GPUHEAP_INTERNAL_ERROR:
      return "an internal failure";
    case GPUHEAP_MISUSED:
      return "a checked or hardened heap was misused";
    default:
      return "no status of this library";
  }
}

GPUHEAP_EXPORT gpuheap_status gpuheap_v1_create(gpuheap_heap** heap, gpuheap_options const* options) {
  if (heap != nullptr) *heap = nullptr;
  return guarded(GPUHEAP_INVALID_ARGUMENT, [&] {
    require(heap != nullptr && options != nullptr, "gpuheap: gpuheap_create was given NULL for the heap or the options");
    require(options->struct_bytes == sizeof(gpuheap_options),
            text_of("gpuheap: options.struct_bytes is %llu, and this library's gpuheap_options have %zu bytes: set it to "
                    "sizeof(gpuheap_options), and compile with the header that came with the library",
                    static_cast<unsigned long long>(options->struct_bytes), sizeof(gpuheap_options)));
    require(options->buffer == nullptr || options->at_most_bytes == 0,
            "gpuheap: a heap in a given buffer cannot grow: leave out at_most_bytes or the buffer");
    require(options->allocator <= GPUHEAP_HARDENED_ALLOCATOR,
            text_of("gpuheap: options.allocator is %u: set it to GPUHEAP_DEFAULT_ALLOCATOR (0), GPUHEAP_CHECKED_ALLOCATOR (1) or "
                    "GPUHEAP_HARDENED_ALLOCATOR (2)",
                    options->allocator));
    require(options->reserved == 0, "gpuheap: options.reserved is not 0: set every member of gpuheap_options that nothing is said of to 0");
    int const device = device_of(options->device);
    on_device const here{device};
    *heap = new gpuheap_heap(device, *options);
  });
}
GPUHEAP_EXPORT void gpuheap_v1_destroy(gpuheap_heap* heap) {
  if (heap == nullptr) return;
  (void)guarded(GPUHEAP_CUDA_ERROR, [&] {
    std::unique_ptr<gpuheap_heap> const ended{heap};
    on_device const here{heap->device};
    ended->heap.emplace<std::monostate>();
    ended->view = {};
  });
}
GPUHEAP_EXPORT gpuheap_handle gpuheap_v1_handle(gpuheap_heap const* heap) { return heap->handle(); }
GPUHEAP_EXPORT int32_t gpuheap_v1_device(gpuheap_heap const* heap) { return heap->device; }

GPUHEAP_EXPORT gpuheap_status gpuheap_v1_reset(gpuheap_heap* heap, void* stream) {
  return guarded(GPUHEAP_CUDA_ERROR, [&] {
    on_device const here{heap->device};
    gpuheap_heap::with(heap->heap, [&](auto& any) { any.reset({stream}); });
    heap->write_view({stream});
  });
}
GPUHEAP_EXPORT gpuheap_status gpuheap_v1_check(gpuheap_heap* heap, void* stream) {
  return guarded(GPUHEAP_CUDA_ERROR, [&] {
    on_device const here{heap->device};
    require_cuda(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "the work on the stream has failed");
    try {
      gpuheap_heap::with(heap->heap, [&](auto& any) { (void)any.check({stream}); });
    } catch (refusal const&) {
      throw;
    } catch (gpuheap::misuse_error const&) {
      throw;
    } catch (gpuheap::device_error const&) {
      throw;
    } catch (gpuheap::out_of_memory const&) {
      throw;
    } catch (gpuheap::error const& e) {
      throw refusal(GPUHEAP_REFUSED_FREES, e.what());
    }
  });
}
GPUHEAP_EXPORT gpuheap_status gpuheap_v1_get_stats(gpuheap_heap const* heap, gpuheap_stats* stats, void* stream) {
  return guarded(GPUHEAP_CUDA_ERROR, [&] {
    require(stats != nullptr && stats->struct_bytes == sizeof(gpuheap_stats),
            text_of("gpuheap: stats->struct_bytes must be sizeof(gpuheap_stats), which is %zu in this library", sizeof(gpuheap_stats)));
    on_device const here{heap->device};
    gpuheap::statistics const s = gpuheap_heap::with(heap->heap, [&](auto const& any) { return any.stats({stream}); });
    *stats = {.struct_bytes = sizeof(gpuheap_stats),
              .heap_bytes = s.heap_bytes,
              .usable_bytes = s.usable_bytes,
              .at_most_bytes = gpuheap_heap::with(heap->heap, [](auto const& any) { return any.at_most(); }),
              .live_allocations = s.live_allocations,
              .live_bytes = s.live_bytes,
              .peak_live_bytes = s.peak_live_bytes,
              .held_bytes = s.held_bytes,
              .metadata_bytes = s.metadata_bytes,
              .failed_requests = s.failed_requests,
              .first_failed_bytes = s.failed_requests == 0 ? 0 : s.first_failure.bytes,
              .double_frees = s.double_frees,
              .foreign_frees = s.foreign_frees,
              .first_double_free = reinterpret_cast<uint64_t>(s.first_double_free),
              .first_foreign_free = reinterpret_cast<uint64_t>(s.first_foreign_free),
              .counts_allocations = s.counts_allocations ? 1U : 0U,
              .counts_bytes = s.counts_bytes ? 1U : 0U};
  });
}
GPUHEAP_EXPORT gpuheap_status gpuheap_v1_grow(gpuheap_heap* heap, uint64_t bytes, void* stream) {
  return guarded(GPUHEAP_INVALID_ARGUMENT, [&] {
    on_device const here{heap->device};
    gpuheap_heap::with(heap->heap, [&]<class Heap>(Heap& any) {
      if constexpr (gpuheap::has_grow<typename Heap::allocator_type>) {
        any.grow(bytes, {stream});
      } else {
        throw refusal(GPUHEAP_INVALID_ARGUMENT, "gpuheap: a checked heap cannot grow: make it as large as it is to become");
      }
    });
    // Views stay as they are.
  });
}
GPUHEAP_EXPORT gpuheap_status gpuheap_v1_free_blocks(gpuheap_heap* heap, void* const* pointers, uint64_t count, void* stream) {
  struct listed {
    void* const* first;
    uint64_t number;
    [[nodiscard]] void* const* data() const { return first; }
    [[nodiscard]] uint64_t size() const { return number; }
  };
  return guarded(GPUHEAP_CUDA_ERROR, [&] {
    require(pointers != nullptr || count == 0, "gpuheap: gpuheap_free_blocks was given NULL for the pointers");
    on_device const here{heap->device};
    gpuheap_heap::with(heap->heap, [&](auto& any) { any.free(listed{pointers, count}, {stream}); });
  });
}
GPUHEAP_EXPORT gpuheap_status gpuheap_v1_free_blocks_on_device(gpuheap_heap* heap, void* const* pointers, uint64_t count, void* stream) {
  return guarded(GPUHEAP_CUDA_ERROR, [&] {
    require(pointers != nullptr || count == 0, "gpuheap: gpuheap_free_blocks_on_device was given NULL for the pointers");
    on_device const here{heap->device};
    gpuheap_heap::with(heap->heap, [&](auto& any) {
      any.free(gpuheap::device_span<void*>{const_cast<void**>(pointers), count}, {stream});
    });
  });
}
GPUHEAP_EXPORT gpuheap_status gpuheap_v1_copy_to_host(gpuheap_heap const* heap, void* to, void const* from, uint64_t bytes, void* stream) {
  return guarded(GPUHEAP_INVALID_ARGUMENT, [&] {
    on_device const here{heap->device};
    gpuheap_heap::with(heap->heap, [&](auto const& any) { any.copy_to_host(to, from, bytes, {stream}); });
  });
}
GPUHEAP_EXPORT gpuheap_status gpuheap_v1_copy_from_host(gpuheap_heap* heap, void* to, void const* from, uint64_t bytes, void* stream) {
  return guarded(GPUHEAP_INVALID_ARGUMENT, [&] {
    on_device const here{heap->device};
    gpuheap_heap::with(heap->heap, [&](auto& any) { any.copy_from_host(to, from, bytes, {stream}); });
  });
}
}
