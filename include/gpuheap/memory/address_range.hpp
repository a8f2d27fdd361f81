// Memory that grows without moving: addresses are reserved once, and memory is mapped to parts of them as it is needed. Host code only.
#pragma once

#include <gpuheap/memory/region.hpp>
#include <gpuheap/memory/resource.hpp>
#include <gpuheap/memory/size.hpp>
#include <gpuheap/simt/address_space.hpp>
#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/types.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#include <vector>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory {

// @brief Owns reserved addresses of the current device, and the device memory that is mapped to parts of them. Host code.
//
// Addresses never change. Memory comes and goes in units of granularity().
// @note Move-only; a moved-from range is empty. unmap() and the destructor wait for the device, so kernels that use mapped memory may still
// run when the host calls them.
class address_range {
 public:
  // The size of the largest piece of memory that one call of the driver maps or unmaps. map() cuts a part at the multiples of this size,
  // counted from the base. A piece can only be unmapped as a whole, which speaks for small pieces; each call takes time, which speaks for
  // large ones.
  static constexpr simt::size_t largest_piece_bytes = 32_MiB;

  address_range() = default;
  // @brief Reserves addresses. Takes no memory.
  // @param bytes more than 0; rounded up to the granularity
  // @throws gpuheap::error if the device does not have so many addresses
  explicit address_range(simt::size_t bytes) {
    try {
      space_ = simt::reserve_addresses(bytes);
    } catch (out_of_memory const& refused) {
      throw out_of_memory(
          text_of("gpuheap: cannot reserve %s of addresses: reserve less. (%s)", format_bytes(bytes).c_str(), refused.what()));
    } catch (device_error const& failed) {
      throw device_error(text_of("gpuheap: cannot reserve %s of addresses: %s", format_bytes(bytes).c_str(), failed.what()));
    } catch (error const& refused) {
      throw plain_error(
          text_of("gpuheap: cannot reserve %s of addresses: reserve less. (%s)", format_bytes(bytes).c_str(), refused.what()));
    }
  }

  address_range(address_range&& other) noexcept { swap(other); }
  address_range& operator=(address_range&& other) noexcept {
    address_range taken{static_cast<address_range&&>(other)};
    swap(taken);
    return *this;
  }
  address_range(address_range const&) = delete;
  address_range& operator=(address_range const&) = delete;
  ~address_range() { release(); }

  // @return the first address, aligned to the granularity; nullptr if empty
  [[nodiscard]] void* base() const { return space_.base; }
  // @return the number of bytes of reserved addresses
  [[nodiscard]] simt::size_t bytes() const { return space_.bytes; }
  [[nodiscard]] region where() const { return {space_.base, space_.bytes}; }
  // @return the number of bytes of mapped memory, over all parts
  [[nodiscard]] simt::size_t mapped_bytes() const { return mapped_bytes_; }
  // @return the unit of mapping in bytes, a power of two; 0 if empty
  [[nodiscard]] simt::size_t granularity() const { return space_.granularity; }

  // @brief Maps memory to [offset, offset + bytes), rounded outwards to the granularity. Memory that is mapped there already stays as it
  // is.
  // @param offset bytes from base()
  // @param bytes how many; 0 does nothing
  // @throws gpuheap::error if the part does not lie in the range
  // @throws out_of_memory if the device does not have the memory; the range is then as it was
  // @note Kernels that are launched after the call may use the memory, which is not initialised.
  void map(simt::size_t offset, simt::size_t bytes) {
    require_inside(offset, bytes);
    if (bytes == 0) return;
    simt::size_t const end = round_up(offset + bytes);
    std::vector<simt::size_t> made;
    simt::size_t at = round_down(offset);
    try {
      // Ends: each pass advances to the end of a piece, an existing or a new one.
      while (at < end) {
        std::size_t const after = first_after(at);
        if (after != 0 && pieces_[after - 1].end() > at) {
          at = pieces_[after - 1].end();
          continue;
        }
        simt::size_t stop = at / largest_piece_bytes * largest_piece_bytes + largest_piece_bytes;
        if (stop > end) stop = end;
        if (after != pieces_.size() && stop > pieces_[after].offset) stop = pieces_[after].offset;
        map_piece(after, {at, stop - at}, made);
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

  // @brief Frees the memory of [offset, offset + bytes). Waits for the device.
  // @param offset bytes from base()
  // @param bytes how many
  // @return how many bytes were freed. Only whole pieces are freed: a piece that reaches beyond the part stays
  // @throws gpuheap::error if the part does not lie in the range
  simt::size_t unmap(simt::size_t offset, simt::size_t bytes) {
    require_inside(offset, bytes);
    simt::size_t const before = mapped_bytes_;
    std::size_t const first = offset == 0 ? 0 : first_after(offset - 1);
    std::size_t end = first;
    // Ends: at the last piece.
    while (end < pieces_.size() && pieces_[end].end() <= offset + bytes) ++end;
    if (first != end) simt::wait_for_device(space_);
    drop(first, end);
    return before - mapped_bytes_;
  }

  // @return whether all of [offset, offset + bytes) has memory
  [[nodiscard]] bool is_mapped(simt::size_t offset, simt::size_t bytes) const {
    if (offset > space_.bytes || bytes > space_.bytes - offset) return false;
    simt::size_t at = offset;
    // Ends: each pass advances to the end of a piece.
    while (at < offset + bytes) {
      std::size_t const after = first_after(at);
      if (after == 0 || pieces_[after - 1].end() <= at) return false;
      at = pieces_[after - 1].end();
    }
    return true;
  }

 private:
  // The memory that one map_memory() mapped.
  struct piece {
    simt::size_t offset = 0, bytes = 0;
    [[nodiscard]] simt::size_t end() const { return offset + bytes; }
  };
  // The index of the first piece that begins after `offset`, or the number of pieces if none does.
  [[nodiscard]] std::size_t first_after(simt::size_t offset) const {
    std::size_t low = 0, high = pieces_.size();
    // Ends: the difference halves.
    while (low < high) {
      std::size_t const middle = low + (high - low) / 2;
      (pieces_[middle].offset <= offset ? low : high) = pieces_[middle].offset <= offset ? middle + 1 : middle;
    }
    return low;
  }

  [[nodiscard]] simt::size_t round_down(simt::size_t x) const { return x & ~(space_.granularity - 1); }
  [[nodiscard]] simt::size_t round_up(simt::size_t x) const { return round_down(x + space_.granularity - 1); }
  [[nodiscard]] void* at_offset(simt::size_t offset) const { return static_cast<char*>(space_.base) + offset; }

  void require_inside(simt::size_t offset, simt::size_t bytes) const {
    if (offset <= space_.bytes && bytes <= space_.bytes - offset) return;
    throw plain_error(
        text_of("gpuheap: %s at offset %zu do not lie in an address range of %s: reserve a larger range, as a range gets no further "
                "addresses later",
                format_bytes(bytes).c_str(), offset, format_bytes(space_.bytes).c_str()));
  }

  // Maps memory where none is mapped, as piece number `index`, and adds the piece's offset to `made`.
  void map_piece(std::size_t index, piece p, std::vector<simt::size_t>& made) {
    made.reserve(made.size() + 1);
    pieces_.insert(pieces_.begin() + static_cast<std::ptrdiff_t>(index), p);
    try {
      simt::map_memory(space_, at_offset(p.offset), p.bytes);
    } catch (...) {
      pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(index));
      throw;
    }
    made.push_back(p.offset);
    mapped_bytes_ += p.bytes;
  }
  // Unmaps pieces first..end-1.
  void drop(std::size_t first, std::size_t end) noexcept {
    for (std::size_t i = first; i < end; ++i) {
      simt::unmap_memory(space_, at_offset(pieces_[i].offset), pieces_[i].bytes);
      mapped_bytes_ -= pieces_[i].bytes;
    }
    pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(first), pieces_.begin() + static_cast<std::ptrdiff_t>(end));
  }
  // Unmaps the pieces that a failed map() has made. No kernel uses them yet.
  void take_back(std::vector<simt::size_t> const& made) noexcept {
    for (simt::size_t const at : made) {
      std::size_t const behind = first_after(at);
      drop(behind - 1, behind);
    }
  }
  void release() noexcept {
    if (space_.base == nullptr) return;
    simt::wait_for_device(space_);
    drop(0, pieces_.size());
    simt::release_addresses(space_);
  }
  void swap(address_range& other) noexcept {
    simt::address_space const mine = space_;
    space_ = other.space_;
    other.space_ = mine;
    pieces_.swap(other.pieces_);
    simt::size_t const my_bytes = mapped_bytes_;
    mapped_bytes_ = other.mapped_bytes_;
    other.mapped_bytes_ = my_bytes;
  }

  [[nodiscard]] std::string no_memory_text(simt::size_t bytes, std::string const& refusal) const {
    simt::device_memory const queried = simt::query_memory();
    return text_of(
        "gpuheap: cannot map %s: there are %s of device memory, %s of it free, and this range holds %s. Map less, or free other memory of "
        "the device. (%s)",
        format_bytes(bytes).c_str(), format_bytes(queried.total_bytes).c_str(), format_bytes(queried.free_bytes).c_str(),
        format_bytes(mapped_bytes_).c_str(), refusal.c_str());
  }

  simt::address_space space_{};
  std::vector<piece> pieces_;  // sorted by offset
  simt::size_t mapped_bytes_ = 0;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory
#endif
