// Memory that grows without moving: addresses are reserved once, and memory is put behind parts of them as it is needed. Host code only.
#pragma once

#include <gpuheap/memory/region.hpp>
#include <gpuheap/memory/resource.hpp>
#include <gpuheap/memory/size.hpp>
#include <gpuheap/simt/address_space.hpp>
#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/types.hpp>

#if GPUHEAP_HAS_HOST
#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory {

// Owns reserved addresses of the current device and the device memory that is mapped there, in any number of separate parts. Move-only;
// addresses never change. Its memory comes and goes in units of granularity().
//
// Moved from, it is empty, as made by default. Kernels that use mapped memory must have ended, or been launched, before the host changes
// anything about that memory: unmap() and the destructor wait for the device.
class address_range {
 public:
  // The most bytes that come and go as one: a part that is mapped is cut at the multiples of it, counted from the base. (Memory that was
  // mapped by one call of the driver can only be unmapped by one, and each such call takes its time.)
  static constexpr simt::size_t largest_piece_bytes = 32_MiB;

  address_range() = default;
  // Reserves `bytes` (> 0) of addresses, rounded up to the granularity. Takes no memory. Throws gpuheap::error.
  explicit address_range(simt::size_t bytes) {
    try {
      space_ = simt::reserve_addresses(bytes);
    } catch (error const& refused) {
      throw error("gpuheap: " + in_words(bytes) + " of addresses were asked for, and cannot be reserved: ask for less. (" + refused.what() +
                  ")");
    }
  }

  address_range(address_range&& other) noexcept
      : space_{std::exchange(other.space_, {})},
        pieces_{std::exchange(other.pieces_, {})},
        mapped_bytes_{std::exchange(other.mapped_bytes_, 0)} {}
  address_range& operator=(address_range&& other) noexcept {
    if (this != &other) {
      give_back();
      space_ = std::exchange(other.space_, {});
      pieces_ = std::exchange(other.pieces_, {});
      mapped_bytes_ = std::exchange(other.mapped_bytes_, 0);
    }
    return *this;
  }
  address_range(address_range const&) = delete;
  address_range& operator=(address_range const&) = delete;
  ~address_range() { give_back(); }

  // nullptr if empty. Aligned to the granularity.
  [[nodiscard]] void* base() const { return space_.base; }
  // What is reserved.
  [[nodiscard]] simt::size_t bytes() const { return space_.bytes; }
  [[nodiscard]] region where() const { return {space_.base, space_.bytes}; }
  // What memory is taken: the sum over all parts.
  [[nodiscard]] simt::size_t mapped_bytes() const { return mapped_bytes_; }
  // A power of two. 0 if empty.
  [[nodiscard]] simt::size_t granularity() const { return space_.granularity; }

  // Puts memory behind [offset, offset + bytes), rounded outwards to the granularity; what is mapped there already is left alone. New
  // memory is not initialised. Ready for kernels that are launched after the call. Throws gpuheap::error if the part is not inside the
  // range, out_of_memory if the device has not enough; then nothing has changed.
  void map(simt::size_t offset, simt::size_t bytes) {
    require_inside(offset, bytes);
    if (bytes == 0) return;
    simt::size_t const end = round_up(offset + bytes);
    std::vector<simt::size_t> made;
    simt::size_t at = round_down(offset);
    try {
      // Ends: each pass goes on to the end of a piece, there or new.
      while (at < end) {
        auto const after = pieces_.upper_bound(at);
        if (after != pieces_.begin()) {
          auto const before = std::prev(after);
          if (simt::size_t const its_end = before->first + before->second; its_end > at) {
            at = its_end;
            continue;
          }
        }
        simt::size_t stop = std::min(end, at / largest_piece_bytes * largest_piece_bytes + largest_piece_bytes);
        if (after != pieces_.end()) stop = std::min(stop, after->first);
        map_piece(at, stop - at, made);
        at = stop;
      }
    } catch (out_of_memory const& refused) {
      take_back(made);
      throw out_of_memory(no_memory_text(bytes, refused.what()));
    } catch (...) {
      take_back(made);
      throw;
    }
  }

  // Gives the memory behind [offset, offset + bytes) back to the device, in whole pieces: one that reaches beyond the part stays. Waits for
  // the device. Returns how many bytes went. Throws gpuheap::error if the part is not inside the range.
  simt::size_t unmap(simt::size_t offset, simt::size_t bytes) {
    require_inside(offset, bytes);
    simt::size_t const before = mapped_bytes_;
    auto piece = pieces_.lower_bound(offset);
    bool waited = false;
    // Ends: each pass takes or passes a piece.
    while (piece != pieces_.end() && piece->first + piece->second <= offset + bytes) {
      if (!std::exchange(waited, true)) simt::wait_for_device(space_);
      piece = drop(piece);
    }
    return before - mapped_bytes_;
  }

  // Whether all of [offset, offset + bytes) has memory.
  [[nodiscard]] bool is_mapped(simt::size_t offset, simt::size_t bytes) const {
    if (offset > space_.bytes || bytes > space_.bytes - offset) return false;
    simt::size_t at = offset;
    // Ends: each pass goes on to the end of a piece.
    while (at < offset + bytes) {
      auto const after = pieces_.upper_bound(at);
      if (after == pieces_.begin()) return false;
      auto const piece = std::prev(after);
      if (piece->first + piece->second <= at) return false;
      at = piece->first + piece->second;
    }
    return true;
  }

 private:
  using piece_map = std::map<simt::size_t, simt::size_t>;  // offset to bytes: what one map_memory() put there

  [[nodiscard]] simt::size_t round_down(simt::size_t x) const { return x & ~(space_.granularity - 1); }
  [[nodiscard]] simt::size_t round_up(simt::size_t x) const { return round_down(x + space_.granularity - 1); }
  [[nodiscard]] void* at_offset(simt::size_t offset) const { return static_cast<char*>(space_.base) + offset; }

  void require_inside(simt::size_t offset, simt::size_t bytes) const {
    if (offset <= space_.bytes && bytes <= space_.bytes - offset) return;
    throw error("gpuheap: " + in_words(bytes) + " at offset " + std::to_string(offset) + " do not lie in an address range of " +
                in_words(space_.bytes) + ": reserve more at the start, as addresses cannot be added later");
  }

  // Puts memory where none is, and says so in `made`.
  void map_piece(simt::size_t at, simt::size_t bytes, std::vector<simt::size_t>& made) {
    made.push_back(at);
    try {
      auto const piece = pieces_.emplace(at, bytes).first;
      try {
        simt::map_memory(space_, at_offset(at), bytes);
      } catch (...) {
        pieces_.erase(piece);
        throw;
      }
    } catch (...) {
      made.pop_back();
      throw;
    }
    mapped_bytes_ += bytes;
  }
  piece_map::iterator drop(piece_map::iterator piece) noexcept {
    simt::unmap_memory(space_, at_offset(piece->first), piece->second);
    mapped_bytes_ -= piece->second;
    return pieces_.erase(piece);
  }
  // What a map() that failed has made: no kernel knows it.
  void take_back(std::vector<simt::size_t> const& made) noexcept {
    // Ends: one pass a piece.
    for (simt::size_t const at : made) drop(pieces_.find(at));
  }
  void give_back() noexcept {
    if (space_.base == nullptr) return;
    simt::wait_for_device(space_);
    // Ends: each pass takes a piece.
    while (!pieces_.empty()) drop(pieces_.begin());
    simt::release_addresses(space_);
  }

  [[nodiscard]] std::string no_memory_text(simt::size_t bytes, std::string const& refusal) const {
    simt::device_info const device = simt::query_device();
    return "gpuheap: mapping " + in_words(bytes) + " was asked for; there are " + in_words(device.total_bytes) + " of device memory, " +
           in_words(device.free_bytes) + " free, and this range has " + in_words(mapped_bytes_) +
           " of it. Ask for less, or free other memory of the device. (" + refusal + ")";
  }

  simt::address_space space_{};
  piece_map pieces_;
  simt::size_t mapped_bytes_ = 0;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory
#endif
