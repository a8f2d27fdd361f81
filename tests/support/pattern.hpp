// The pattern that tests write into a block, so that a byte written by another thread is seen: words that depend on the block's key and
// their place.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>

namespace test {

namespace simt = gpuheap::simt;

[[nodiscard]] GPUHEAP_HD inline simt::uint64_t mix(simt::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
  return x ^ (x >> 32);
}

// Blocks up to 4 KiB are covered entirely; of larger ones the first and last 64 words and one word in 61 of the rest.
[[nodiscard]] GPUHEAP_FN inline simt::size_t next_covered(simt::size_t word, simt::size_t words) {
  if (words <= 512 || word + 1 < 64 || word + 65 >= words) return word + 1;
  return word + 61 < words - 64 ? word + 61 : words - 64;
}

GPUHEAP_FN inline void fill_pattern(void* p, simt::size_t bytes, simt::uint64_t key) {
  auto* const words = static_cast<simt::uint64_t*>(p);
  simt::size_t const count = bytes / 8;
  for (simt::size_t w = 0; w < count; w = next_covered(w, count)) simt::plain_write(words[w], mix(key + w));
  auto* const tail = static_cast<unsigned char*>(p);
  for (simt::size_t b = count * 8; b < bytes; ++b) simt::plain_write(tail[b], static_cast<unsigned char>(mix(key + b)));
}

// The number of covered words and tail bytes that differ.
[[nodiscard]] GPUHEAP_FN inline unsigned wrong_words(void const* p, simt::size_t bytes, simt::uint64_t key) {
  auto const* const words = static_cast<simt::uint64_t const*>(p);
  simt::size_t const count = bytes / 8;
  unsigned wrong = 0;
  for (simt::size_t w = 0; w < count; w = next_covered(w, count)) wrong += simt::plain_read(words[w]) != mix(key + w);
  auto const* const tail = static_cast<unsigned char const*>(p);
  for (simt::size_t b = count * 8; b < bytes; ++b) wrong += simt::plain_read(tail[b]) != static_cast<unsigned char>(mix(key + b));
  return wrong;
}

}  // namespace test
