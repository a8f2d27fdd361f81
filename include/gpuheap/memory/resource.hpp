// Sources of a heap's memory. A `memory::resource` holds any source. memory::device, managed, pinned and host are the machine's own
// sources. Host code only.
#pragma once

#include <gpuheap/memory/function.hpp>
#include <gpuheap/memory/region.hpp>
#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/types.hpp>

#if GPUHEAP_HAS_HOST
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory {

// @brief The total and the free memory of a source.
struct capacity {
  simt::size_t total_bytes = 0;
  simt::size_t free_bytes = 0;  // at the time of the query; other programs may take it before the caller does
};

// A type from which a resource can be made. `allocate` returns memory that device code can access, aligned to at least 256 bytes, or throws
// out_of_memory. `deallocate` frees memory of `allocate`, with the same count, once no kernel uses it any more. `query` returns an empty
// optional if the source does not know its size.
template <class S>
concept source = simt::is_constructible_v<S, S const&> && requires(S const& s, void* p, simt::size_t bytes) {
  { s.allocate(bytes) } -> simt::same_as<void*>;
  requires noexcept(s.deallocate(p, bytes));
  { s.query() } -> simt::same_as<std::optional<capacity>>;
  { s.name() } -> simt::convertible_to<std::string>;
};

// @brief Any source of memory, held by value. Copies share it. Host code.
class resource {
 public:
  // The order of the two conditions matters. The test whether `resource` is a source would test whether it can be copied, and that would
  // consider this constructor again.
  // clang-format off
  template <class S>
    requires(!simt::same_as<S, resource>) && source<S>
  resource(S s) : held_{new model<S>{static_cast<S&&>(s)}} {}  // NOLINT(google-explicit-constructor): a source is a resource
  // clang-format on

  // @brief Allocates memory that device code can access.
  // @param bytes more than 0
  // @return the memory, aligned to at least 256 bytes
  // @throws out_of_memory if the source does not have it
  [[nodiscard]] region allocate(simt::size_t bytes) const { return {held_->allocate(bytes), bytes}; }
  // @brief Frees a region that allocate() returned. No kernel may use it any more.
  void deallocate(region r) const noexcept { held_->deallocate(r.base, r.bytes); }
  // @return the source's total and free memory, or an empty optional if the source does not know them
  [[nodiscard]] std::optional<capacity> query() const { return held_->query(); }
  // @return the source's name for messages, such as "device memory"
  [[nodiscard]] std::string name() const { return held_->name(); }

 private:
  struct interface : held {
    virtual void* allocate(simt::size_t bytes) const = 0;
    virtual void deallocate(void* p, simt::size_t bytes) const noexcept = 0;
    virtual std::optional<capacity> query() const = 0;
    virtual std::string name() const = 0;
  };
  template <class S>
  struct model final : interface {
    explicit model(S&& s) : s_{static_cast<S&&>(s)} {}
    void* allocate(simt::size_t bytes) const override { return s_.allocate(bytes); }
    void deallocate(void* p, simt::size_t bytes) const noexcept override { s_.deallocate(p, bytes); }
    std::optional<capacity> query() const override { return s_.query(); }
    std::string name() const override { return s_.name(); }
    S s_;
  };
  shared<interface> held_;
};

// The host's memory: the total, and the part that programs could still take.
[[nodiscard]] inline capacity host_capacity() {
  auto const page = static_cast<simt::size_t>(::sysconf(_SC_PAGESIZE));
  capacity c{static_cast<simt::size_t>(::sysconf(_SC_PHYS_PAGES)) * page, static_cast<simt::size_t>(::sysconf(_SC_AVPHYS_PAGES)) * page};
  // Linux's own estimate is better: it includes memory that the kernel would take from its caches.
  std::FILE* const meminfo = std::fopen("/proc/meminfo", "r");
  if (meminfo == nullptr) return c;
  char line[256];
  // Ends: at the end of the file, some fifty lines.
  while (std::fgets(line, sizeof line, meminfo) != nullptr) {
    unsigned long long kib = 0;
    if (std::sscanf(line, "MemAvailable: %llu kB", &kib) == 1) c.free_bytes = static_cast<simt::size_t>(kib) << 10;
  }
  std::fclose(meminfo);
  return c;
}

// @brief One of the machine's own kinds of memory: memory::device, managed, pinned or host.
class machine_memory {
 public:
  constexpr explicit machine_memory(simt::memory_kind kind) : kind_{kind} {}

  [[nodiscard]] void* allocate(simt::size_t bytes) const {
    if (kind_ == simt::memory_kind::host && !simt::kernels_reach_host_memory()) {
      throw plain_error(
          "gpuheap: cannot make a heap in plain host memory: kernels on this GPU do not reach it: use memory::pinned or memory::managed");
    }
    return simt::allocate(kind_, bytes);
  }
  void deallocate(void* p, simt::size_t) const noexcept { simt::deallocate(kind_, p); }
  // @return the total and the free memory of this kind. For managed memory these are the device's, though a program can allocate more
  [[nodiscard]] std::optional<capacity> query() const {
    if (kind_ == simt::memory_kind::pinned || kind_ == simt::memory_kind::host) return host_capacity();
    simt::device_memory const device = simt::query_memory();
    return capacity{device.total_bytes, device.free_bytes};
  }
  [[nodiscard]] std::string name() const {
    switch (kind_) {
      case simt::memory_kind::device:
        return "device memory";
      case simt::memory_kind::managed:
        return "managed memory";
      case simt::memory_kind::pinned:
        return "pinned host memory";
      case simt::memory_kind::host:
        return "host memory";
    }
    return "memory";
  }

 private:
  simt::memory_kind kind_;
};

// The GPU's own memory.
inline constexpr machine_memory device{simt::memory_kind::device};
// Memory that migrates between host and GPU on demand.
inline constexpr machine_memory managed{simt::memory_kind::managed};
// Page-locked host memory. Kernels access it over the bus.
inline constexpr machine_memory pinned{simt::memory_kind::pinned};
// Pageable host memory. Kernels can access it in the simulator, and on machines whose GPU shares the host's page tables.
inline constexpr machine_memory host{simt::memory_kind::host};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory
#endif
