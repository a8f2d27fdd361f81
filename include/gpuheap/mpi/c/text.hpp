// Functions of <string.h>, <strings.h> and <ctype.h>, which do the same as in the C library, except strerror(). Device code.
#pragma once

#include <gpuheap/mpi/c/process.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c {

// ---- letters

// The classes of characters, and conversions of case, in the C locale. A test returns 1 for true, where the C library may return any
// nonzero value.
[[nodiscard]] GPUHEAP_FN constexpr int isdigit(int c) { return c >= '0' && c <= '9'; }
[[nodiscard]] GPUHEAP_FN constexpr int isupper(int c) { return c >= 'A' && c <= 'Z'; }
[[nodiscard]] GPUHEAP_FN constexpr int islower(int c) { return c >= 'a' && c <= 'z'; }
[[nodiscard]] GPUHEAP_FN constexpr int isalpha(int c) { return isupper(c) || islower(c); }
[[nodiscard]] GPUHEAP_FN constexpr int isalnum(int c) { return isalpha(c) || isdigit(c); }
[[nodiscard]] GPUHEAP_FN constexpr int isspace(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
[[nodiscard]] GPUHEAP_FN constexpr int isblank(int c) { return c == ' ' || c == '\t'; }
[[nodiscard]] GPUHEAP_FN constexpr int isprint(int c) { return c >= ' ' && c <= '~'; }
[[nodiscard]] GPUHEAP_FN constexpr int isgraph(int c) { return c > ' ' && c <= '~'; }
[[nodiscard]] GPUHEAP_FN constexpr int ispunct(int c) { return isgraph(c) && !isalnum(c); }
[[nodiscard]] GPUHEAP_FN constexpr int iscntrl(int c) { return (c >= 0 && c < ' ') || c == 127; }
[[nodiscard]] GPUHEAP_FN constexpr int isxdigit(int c) { return isdigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
[[nodiscard]] GPUHEAP_FN constexpr int toupper(int c) { return islower(c) ? c - 'a' + 'A' : c; }
[[nodiscard]] GPUHEAP_FN constexpr int tolower(int c) { return isupper(c) ? c - 'A' + 'a' : c; }

// ---- lengths and orders

// The number of characters before the end of `text`.
[[nodiscard]] GPUHEAP_FN inline simt::size_t strlen(char const* text) {
  simt::size_t length = 0;
  // Ends: at the end of the text.
  while (text[length] != '\0') ++length;
  return length;
}
[[nodiscard]] GPUHEAP_FN inline simt::size_t strnlen(char const* text, simt::size_t most) {
  simt::size_t length = 0;
  // Ends: after `most` characters.
  while (length < most && text[length] != '\0') ++length;
  return length;
}

// Compares the first `most` characters of two strings. Returns -1, 0 or 1.
[[nodiscard]] GPUHEAP_FN inline int strncmp(char const* a, char const* b, simt::size_t most) {
  for (simt::size_t i = 0; i < most; ++i) {
    if (a[i] != b[i]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[i]) ? -1 : 1;
    if (a[i] == '\0') return 0;
  }
  return 0;
}
// The same for whole strings.
[[nodiscard]] GPUHEAP_FN inline int strcmp(char const* a, char const* b) { return strncmp(a, b, ~simt::size_t{0}); }
// The same, ignoring case.
[[nodiscard]] GPUHEAP_FN inline int strncasecmp(char const* a, char const* b, simt::size_t most) {
  for (simt::size_t i = 0; i < most; ++i) {
    int const left = tolower(static_cast<unsigned char>(a[i])), right = tolower(static_cast<unsigned char>(b[i]));
    if (left != right) return left < right ? -1 : 1;
    if (left == '\0') return 0;
  }
  return 0;
}
[[nodiscard]] GPUHEAP_FN inline int strcasecmp(char const* a, char const* b) { return strncasecmp(a, b, ~simt::size_t{0}); }

// Compares `bytes` bytes. Returns -1, 0 or 1.
[[nodiscard]] GPUHEAP_FN inline int memcmp(void const* a, void const* b, simt::size_t bytes) {
  auto const* const left = static_cast<unsigned char const*>(a);
  auto const* const right = static_cast<unsigned char const*>(b);
  for (simt::size_t i = 0; i < bytes; ++i) {
    if (left[i] != right[i]) return left[i] < right[i] ? -1 : 1;
  }
  return 0;
}

// ---- copies

// Copies `bytes` bytes. The two ranges may overlap. Returns `to`.
GPUHEAP_FN inline void* memmove(void* to, void const* from, simt::size_t bytes) {
  auto* const there = static_cast<unsigned char*>(to);
  auto const* const here = static_cast<unsigned char const*>(from);
  // The order of the copies is such that no byte is overwritten before it is read.
  for (simt::size_t i = 0; i < bytes; ++i) {
    simt::size_t const at = there <= here ? i : bytes - 1 - i;
    there[at] = here[at];
  }
  return to;
}
GPUHEAP_FN inline void bzero(void* to, simt::size_t bytes) {
  for (simt::size_t i = 0; i < bytes; ++i) static_cast<unsigned char*>(to)[i] = 0;
}
GPUHEAP_FN inline char* strcpy(char* to, char const* from) {
  // Ends: at the end of the text.
  for (simt::size_t i = 0;; ++i) {
    to[i] = from[i];
    if (from[i] == '\0') return to;
  }
}
// Copies at most `most` characters, and fills the rest of the `most` bytes with zeros.
GPUHEAP_FN inline char* strncpy(char* to, char const* from, simt::size_t most) {
  bool ended = false;
  for (simt::size_t i = 0; i < most; ++i) {
    ended = ended || from[i] == '\0';
    to[i] = ended ? '\0' : from[i];
  }
  return to;
}
GPUHEAP_FN inline char* strcat(char* to, char const* from) {
  strcpy(to + strlen(to), from);
  return to;
}
GPUHEAP_FN inline char* strncat(char* to, char const* from, simt::size_t most) {
  simt::size_t const length = strlen(to), more = strnlen(from, most);
  memmove(to + length, from, more);
  to[length + more] = '\0';
  return to;
}
// Copies a string into a new block of the program's heap. nullptr: the heap has no memory for it.
[[nodiscard]] GPUHEAP_FN inline char* strdup(char const* text) {
  auto* const copy = static_cast<char*>(coalesced::malloc(strlen(text) + 1));
  return copy == nullptr ? nullptr : strcpy(copy, text);
}

// ---- searches

// The first byte that equals `wanted`, or nullptr.
[[nodiscard]] GPUHEAP_FN inline void* memchr(void const* in, int wanted, simt::size_t bytes) {
  auto const* const all = static_cast<unsigned char const*>(in);
  for (simt::size_t i = 0; i < bytes; ++i) {
    if (all[i] == static_cast<unsigned char>(wanted)) return const_cast<unsigned char*>(all + i);
  }
  return nullptr;
}
// The first occurrence of a character, or nullptr. The character may be the zero at the string's end.
[[nodiscard]] GPUHEAP_FN inline char* strchr(char const* text, int wanted) {
  return static_cast<char*>(memchr(text, wanted, strlen(text) + 1));
}
// The last occurrence of a character, or nullptr.
[[nodiscard]] GPUHEAP_FN inline char* strrchr(char const* text, int wanted) {
  for (simt::size_t i = strlen(text) + 1; i > 0; --i) {
    if (text[i - 1] == static_cast<char>(wanted)) return const_cast<char*>(text + i - 1);
  }
  return nullptr;
}
[[nodiscard]] GPUHEAP_FN inline char* strstr(char const* text, char const* wanted) {
  simt::size_t const length = strlen(wanted);
  // Ends: at the end of the text.
  for (;; ++text) {
    if (strncmp(text, wanted, length) == 0) return const_cast<char*>(text);
    if (*text == '\0') return nullptr;
  }
}
// The number of characters at the beginning of `text` that are in `letters`.
[[nodiscard]] GPUHEAP_FN inline simt::size_t strspn(char const* text, char const* letters) {
  simt::size_t length = 0;
  // Ends: at the end of the text.
  while (text[length] != '\0' && strchr(letters, text[length]) != nullptr) ++length;
  return length;
}
// The number of characters at the beginning of `text` that are not in `letters`.
[[nodiscard]] GPUHEAP_FN inline simt::size_t strcspn(char const* text, char const* letters) {
  simt::size_t length = 0;
  // Ends: at the end of the text.
  while (text[length] != '\0' && strchr(letters, text[length]) == nullptr) ++length;
  return length;
}
[[nodiscard]] GPUHEAP_FN inline char* strpbrk(char const* text, char const* letters) {
  text += strcspn(text, letters);
  return *text == '\0' ? nullptr : const_cast<char*>(text);
}
// Returns the next token of a string, and writes a zero after it. `letters` are the separators. nullptr: there is no further token.
GPUHEAP_FN inline char* strtok_r(char* text, char const* letters, char** rest) {
  if (text == nullptr) text = *rest;
  if (text == nullptr) return nullptr;
  text += strspn(text, letters);
  if (*text == '\0') {
    *rest = nullptr;
    return nullptr;
  }
  char* const end = text + strcspn(text, letters);
  *rest = *end == '\0' ? nullptr : end + 1;
  *end = '\0';
  return text;
}
GPUHEAP_FN inline char* strtok(char* text, char const* letters) { return strtok_r(text, letters, &detail::mine().token_rest); }

// The description of an error number; "Error" for all numbers but 0, ENOENT and ENOMEM.
[[nodiscard]] GPUHEAP_FN inline char const* strerror(int number) {
  return number == 0 ? "Success" : number == ENOENT ? "No such file or directory" : number == ENOMEM ? "Cannot allocate memory" : "Error";
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c
