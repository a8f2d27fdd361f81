// A region and the duty to give it back. Host code only.
#pragma once

#include <gpuheap/memory/resource.hpp>

#if GPUHEAP_HAS_HOST
#include <optional>
#include <utility>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory {

// Owns a region taken from a resource, or refers to one that the caller keeps. Move-only. The destructor gives the region back: no kernel
// may use it then.
class allocation {
 public:
  allocation() = default;
  // Takes `bytes` (> 0) from `from`. Throws out_of_memory.
  allocation(resource from, simt::size_t bytes) : region_{from.allocate(bytes)}, from_{std::move(from)} {}
  // The caller's own: never given back.
  explicit allocation(region callers) : region_{callers} {}

  allocation(allocation&& other) noexcept : region_{std::exchange(other.region_, {})}, from_{std::exchange(other.from_, std::nullopt)} {}
  allocation& operator=(allocation&& other) noexcept {
    if (this != &other) {
      give_back();
      region_ = std::exchange(other.region_, {});
      from_ = std::exchange(other.from_, std::nullopt);
    }
    return *this;
  }
  allocation(allocation const&) = delete;
  allocation& operator=(allocation const&) = delete;
  ~allocation() { give_back(); }

  [[nodiscard]] region where() const { return region_; }
  [[nodiscard]] void* base() const { return region_.base; }
  [[nodiscard]] simt::size_t bytes() const { return region_.bytes; }
  // The source; none for a caller's region.
  [[nodiscard]] std::optional<resource> const& from() const { return from_; }

 private:
  void give_back() noexcept {
    if (from_ && region_.base != nullptr) from_->deallocate(region_);
  }

  region region_{};
  std::optional<resource> from_{};
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory
#endif
