#include "sha256.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

namespace gpuheap::unchanged {

namespace {

constexpr std::uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

void sha256::block(std::byte const* at) {
  std::uint32_t w[64];
  for (int i = 0; i < 16; ++i) {
    std::uint32_t word;
    std::memcpy(&word, at + 4 * i, sizeof word);
    w[i] = __builtin_bswap32(word);
  }
  for (int i = 16; i < 64; ++i) {
    std::uint32_t const low = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    std::uint32_t const high = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + low + w[i - 7] + high;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    std::uint32_t const first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + w[i];
    std::uint32_t const second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  std::uint32_t const added[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state_[static_cast<std::size_t>(i)] += added[i];
}

void sha256::add(bytes_view bytes) {
  while (!bytes.empty()) {
    std::size_t const used = total_ % 64;
    if (used == 0 && bytes.size() >= 64) {
      block(bytes.data());
      bytes = bytes.subspan(64);
      total_ += 64;
      continue;
    }
    std::size_t const taken = std::min(64 - used, bytes.size());
    std::memcpy(open_.data() + used, bytes.data(), taken);
    bytes = bytes.subspan(taken);
    total_ += taken;
    if (total_ % 64 == 0) block(open_.data());
  }
}

void sha256::add(std::uint64_t number) {
  std::byte bytes[8];
  std::memcpy(bytes, &number, sizeof bytes);
  add(bytes_view{bytes});
}

void sha256::add_text(std::string_view text) {
  add(std::uint64_t{text.size()});
  add(std::as_bytes(std::span{text.data(), text.size()}));
}

std::array<std::byte, 32> sha256::digest() {
  std::uint64_t const bits = __builtin_bswap64(total_ * 8);
  std::byte closing[72] = {std::byte{0x80}};
  std::size_t const zeros = (119 - total_ % 64) % 64;
  std::memcpy(closing + 1 + zeros, &bits, sizeof bits);
  add(bytes_view{closing, 1 + zeros + sizeof bits});
  std::array<std::byte, 32> out;
  for (std::size_t i = 0; i < 8; ++i) {
    std::uint32_t const word = __builtin_bswap32(state_[i]);
    std::memcpy(out.data() + 4 * i, &word, sizeof word);
  }
  return out;
}

std::string hexadecimal(std::array<std::byte, 32> const& digest) {
  std::string text;
  for (std::byte const each : digest) {
    for (int const shift : {4, 0}) text += "0123456789abcdef"[(std::to_integer<int>(each) >> shift) & 15];
  }
  return text;
}

}  // namespace gpuheap::unchanged
