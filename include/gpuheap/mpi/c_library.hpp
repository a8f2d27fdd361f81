// Functions of the C library that MPI programs call and device code lacks, with the C library's meanings. Device code; `gpuheap coalesce
// --mpi` writes these names.
#pragma once

#include <gpuheap/simt/config.hpp>
#include <gpuheap/simt/types.hpp>

#include <cstdio>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c {

// The number that `text` begins with, 0 if there is none.
[[nodiscard]] GPUHEAP_FN inline long atol(char const* text) {
  // Ends: at the end of the text.
  while (*text == ' ' || (*text >= '\t' && *text <= '\r')) ++text;
  bool const negative = *text == '-';
  if (*text == '-' || *text == '+') ++text;
  unsigned long value = 0;
  // Ends: at the end of the text.
  for (; *text >= '0' && *text <= '9'; ++text) value = 10 * value + static_cast<unsigned long>(*text - '0');
  return static_cast<long>(negative ? 0 - value : value);
}
// Likewise, as int.
[[nodiscard]] GPUHEAP_FN inline int atoi(char const* text) { return static_cast<int>(atol(text)); }

// Letters before the end of `text`.
[[nodiscard]] GPUHEAP_FN inline simt::size_t strlen(char const* text) {
  simt::size_t length = 0;
  // Ends: at the end of the text.
  while (text[length] != '\0') ++length;
  return length;
}

// -1, 0 or 1: the order of two texts, of which `most` letters count.
[[nodiscard]] GPUHEAP_FN inline int strncmp(char const* a, char const* b, simt::size_t most) {
  // Ends: after `most` letters.
  for (simt::size_t i = 0; i < most; ++i) {
    if (a[i] != b[i]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[i]) ? -1 : 1;
    if (a[i] == '\0') return 0;
  }
  return 0;
}
// Likewise, of whole texts.
[[nodiscard]] GPUHEAP_FN inline int strcmp(char const* a, char const* b) { return strncmp(a, b, ~simt::size_t{0}); }

// -1, 0 or 1: the order of `bytes` bytes.
[[nodiscard]] GPUHEAP_FN inline int memcmp(void const* a, void const* b, simt::size_t bytes) {
  auto const* const left = static_cast<unsigned char const*>(a);
  auto const* const right = static_cast<unsigned char const*>(b);
  // Ends: after `bytes` passes.
  for (simt::size_t i = 0; i < bytes; ++i) {
    if (left[i] != right[i]) return left[i] < right[i] ? -1 : 1;
  }
  return 0;
}

// Copies `bytes` bytes, which may overlap; `to`.
GPUHEAP_FN inline void* memmove(void* to, void const* from, simt::size_t bytes) {
  auto* const there = static_cast<unsigned char*>(to);
  auto const* const here = static_cast<unsigned char const*>(from);
  // Ends: after `bytes` passes, in the order in which no byte is overwritten before it is read.
  for (simt::size_t i = 0; i < bytes; ++i) {
    simt::size_t const at = there <= here ? i : bytes - 1 - i;
    there[at] = here[at];
  }
  return to;
}

// Prints a text and a line's end, in the order of printf; 0.
GPUHEAP_FN inline int puts(char const* text) {
  printf("%s\n", text);
  return 0;
}
// Prints a letter; that letter.
GPUHEAP_FN inline int putchar(int letter) {
  printf("%c", letter);
  return letter;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c
