// Sources of a heap's memory: `memory::resource` holds any source, and the machine's own kinds of memory are sources. Host code only.
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

// @brief How much memory a source has.
struct capacity {
  simt::size_t total_bytes = 0;
  simt::size_t free_bytes = 0;  // now; others may take it before the caller does
};

// A source, from which a resource is made. `allocate` returns memory that device code reaches, aligned to at least 256 bytes, or throws
// out_of_memory. `deallocate` takes back what `allocate` returned, with the same count, once no kernel uses it any more. `query` returns
// nothing if the source does not know how much it has.
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
  // The first condition comes first: whether a resource is a source asks whether it can be copied, which would ask this constructor again.
  // clang-format off
  template <class S>
    requires(!simt::same_as<S, resource>) && source<S>
  resource(S s) : held_{new model<S>{static_cast<S&&>(s)}} {}  // NOLINT(google-explicit-constructor): a source is a resource
  // clang-format on

  // @brief Takes memory that device code reaches.
  // @param bytes more than 0
  // @return the memory, aligned to at least 256 bytes
  // @throws out_of_memory if the source does not have it
  [[nodiscard]] region allocate(simt::size_t bytes) const { return {held_->allocate(bytes), bytes}; }
  // @brief Gives back what allocate() returned. No kernel uses it any more.
  void deallocate(region r) const noexcept { held_->deallocate(r.base, r.bytes); }
  // @return how much the source has, or nothing where it does not say
  [[nodiscard]] std::optional<capacity> query() const { return held_->query(); }
  // @return the name for messages, as "device memory"
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

// The host's memory: all of it, and what programs could still take.
[[nodiscard]] inline capacity host_capacity() {
  auto const page = static_cast<simt::size_t>(::sysconf(_SC_PAGESIZE));
  capacity c{static_cast<simt::size_t>(::sysconf(_SC_PHYS_PAGES)) * page, static_cast<simt::size_t>(::sysconf(_SC_AVPHYS_PAGES)) * page};
  // The kernel's own estimate counts what it would drop from its caches, too.
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
  // @return how much of this kind there is. For managed memory: what can stay on the device, though more can be had
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
// The host's memory, fixed in place; kernels reach it over the bus.
inline constexpr machine_memory pinned{simt::memory_kind::pinned};
// Plain host memory. Kernels reach it in the simulator, and on machines whose GPU shares the host's page tables.
inline constexpr machine_memory host{simt::memory_kind::host};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory
#endif
