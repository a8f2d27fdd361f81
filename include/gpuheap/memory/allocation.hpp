// A region of memory that is freed with its owner, or belongs to the caller. Host code only.
#pragma once

#include <gpuheap/memory/resource.hpp>

#if GPUHEAP_HAS_HOST
#include <optional>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory {

// @brief Owns a region taken from a resource, or refers to one that the caller keeps. Host code.
// @note Move-only. The destructor frees a region that came from a resource. No kernel may use the region then.
class allocation {
 public:
  allocation() = default;
  // @brief Takes memory from a resource.
  // @param from the source
  // @param bytes more than 0
  // @throws out_of_memory if the source does not have it
  allocation(resource from, simt::size_t bytes) : region_{from.allocate(bytes)}, from_{static_cast<resource&&>(from)} {}
  // @brief Refers to a caller's region, which the destructor does not free.
  explicit allocation(region callers) : region_{callers} {}

  allocation(allocation&& other) noexcept { swap(other); }
  allocation& operator=(allocation&& other) noexcept {
    allocation taken{static_cast<allocation&&>(other)};
    swap(taken);
    return *this;
  }
  allocation(allocation const&) = delete;
  allocation& operator=(allocation const&) = delete;
  ~allocation() { release(); }

  [[nodiscard]] region where() const { return region_; }
  [[nodiscard]] void* base() const { return region_.base; }
  [[nodiscard]] simt::size_t bytes() const { return region_.bytes; }
  // @return the resource, or an empty optional for a caller's region
  [[nodiscard]] std::optional<resource> const& from() const { return from_; }

 private:
  void swap(allocation& other) noexcept {
    region const mine = region_;
    region_ = other.region_;
    other.region_ = mine;
    from_.swap(other.from_);
  }
  void release() noexcept {
    if (from_ && region_.base != nullptr) from_->deallocate(region_);
  }

  region region_{};
  std::optional<resource> from_{};
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory
#endif
