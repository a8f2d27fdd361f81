// SHA-256 (FIPS 180-4). Its digests name the entries in the cache of linked code, so that different inputs have different names.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "fat_binary.hpp"

namespace gpuheap::unchanged {

class sha256 {
 public:
  void add(bytes_view bytes);
  /// Adds a number as eight bytes. add_text() adds the text's length before the text, so that different lists of texts never give the same
  /// bytes.
  void add(std::uint64_t number);
  void add_text(std::string_view text);
  /// Ends the hash, and returns its digest.
  [[nodiscard]] std::array<std::byte, 32> digest();

 private:
  void block(std::byte const* at);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> open_{};
  std::uint64_t total_ = 0;
};

[[nodiscard]] std::string hexadecimal(std::array<std::byte, 32> const& digest);

}  // namespace gpuheap::unchanged
