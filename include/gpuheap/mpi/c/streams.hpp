// Functions of <stdio.h> that read and print. The host has read all files before the ranks begin. As under mpirun, rank 0 of the world
// reads the standard input; for the other ranks it is empty. Device code.
#pragma once

#include <gpuheap/mpi/c/format.hpp>

#include <cstdio>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c {

namespace detail {
enum class standard : simt::uintptr_t { input = 1, output, error };
[[nodiscard]] GPUHEAP_FN inline FILE* stream_of(standard which) { return reinterpret_cast<FILE*>(static_cast<simt::uintptr_t>(which)); }
[[nodiscard]] GPUHEAP_FN inline bool prints(FILE* stream) {
  return stream == stream_of(standard::output) || stream == stream_of(standard::error);
}

// The file from which a stream reads.
[[nodiscard]] GPUHEAP_FN inline open_file& file_of(FILE* stream) {
  state& s = mine();
  if (stream != stream_of(standard::input)) return *reinterpret_cast<open_file*>(stream);
  // The last element is the standard input, which is opened at its first use.
  open_file& input = s.files[state::num_files - 1];
  if (!input.used) {
    bool const has_input = here().world()->rank == 0 && facts().num_files != 0;
    input = {has_input ? facts().files[0] : file_text{"", "", 0}, 0, true, false, true};
  }
  return input;
}
[[nodiscard]] GPUHEAP_FN inline int look(open_file const& f) {
  return f.at < f.source.bytes ? static_cast<unsigned char>(f.source.text[f.at]) : EOF;
}
}  // namespace detail

// The values of stdin, stdout and stderr.
[[nodiscard]] GPUHEAP_FN inline FILE* standard_input() { return detail::stream_of(detail::standard::input); }
[[nodiscard]] GPUHEAP_FN inline FILE* standard_output() { return detail::stream_of(detail::standard::output); }
[[nodiscard]] GPUHEAP_FN inline FILE* standard_error() { return detail::stream_of(detail::standard::error); }

// Opens a file that the host has read: one whose name is a string literal in the program, or one of the program's arguments. For any other
// name, for a mode that does not begin with "r", and if the rank has seven files open, the result is nullptr, and errno says why.
[[nodiscard]] GPUHEAP_COLD inline FILE* fopen(char const* name, char const* how) {
  auto const& known = detail::facts();
  state& s = detail::mine();
  error_number() = ENOENT;
  if (*how != 'r') return nullptr;
  for (unsigned i = 1; i < known.num_files; ++i) {
    if (known.files[i].text == nullptr || strcmp(known.files[i].name, name) != 0) continue;
    for (int k = 0; k + 1 < state::num_files; ++k) {
      if (s.files[k].used) continue;
      s.files[k] = {known.files[i], 0, true, false, false};
      return reinterpret_cast<FILE*>(&s.files[k]);
    }
    error_number() = EMFILE;
  }
  return nullptr;
}
GPUHEAP_FN inline int fclose(FILE* stream) {
  if (!detail::prints(stream)) detail::file_of(stream).used = detail::file_of(stream).standard;
  return 0;
}
[[nodiscard]] GPUHEAP_FN inline int feof(FILE* stream) { return !detail::prints(stream) && detail::file_of(stream).ended; }
[[nodiscard]] GPUHEAP_FN inline int ferror(FILE*) { return 0; }
GPUHEAP_FN inline int fflush(FILE*) { return 0; }
GPUHEAP_FN inline int setvbuf(FILE*, char*, int, simt::size_t) { return 0; }
GPUHEAP_FN inline void setbuf(FILE*, char*) {}
GPUHEAP_FN inline void rewind(FILE* stream) {
  detail::file_of(stream).at = 0;
  detail::file_of(stream).ended = false;
}
[[nodiscard]] GPUHEAP_FN inline long ftell(FILE* stream) { return static_cast<long>(detail::file_of(stream).at); }
GPUHEAP_FN inline int fseek(FILE* stream, long offset, int from) {
  auto& f = detail::file_of(stream);
  long const base = from == SEEK_SET ? 0 : static_cast<long>(from == SEEK_CUR ? f.at : f.source.bytes);
  if (base + offset < 0) return -1;
  f.at = static_cast<simt::size_t>(base + offset);
  f.ended = false;
  return 0;
}

// ---- reading letters

// Reads the next character, or returns EOF.
GPUHEAP_FN inline int fgetc(FILE* stream) {
  auto& f = detail::file_of(stream);
  int const letter = detail::look(f);
  if (letter == EOF) f.ended = true;
  if (letter != EOF) ++f.at;
  return letter;
}
GPUHEAP_FN inline int getc(FILE* stream) { return c::fgetc(stream); }
GPUHEAP_FN inline int getchar() { return c::fgetc(standard_input()); }
// Puts back the character that was read last.
GPUHEAP_FN inline int ungetc(int letter, FILE* stream) {
  auto& f = detail::file_of(stream);
  if (letter == EOF || f.at == 0) return EOF;
  --f.at;
  f.ended = false;
  return letter;
}
// Reads a line of at most room - 1 characters, the newline included. nullptr: the file is at its end.
GPUHEAP_COLD inline char* fgets(char* to, int room, FILE* stream) {
  int length = 0;
  // Ends: at the end of the line or of the file.
  while (length + 1 < room) {
    int const letter = c::fgetc(stream);
    if (letter == EOF) break;
    to[length++] = static_cast<char>(letter);
    if (letter == '\n') break;
  }
  if (length == 0) return nullptr;
  to[length] = '\0';
  return to;
}
GPUHEAP_COLD inline simt::size_t fread(void* to, simt::size_t bytes, simt::size_t count, FILE* stream) {
  auto& f = detail::file_of(stream);
  if (bytes == 0 || count == 0) return 0;
  simt::size_t const left = f.at < f.source.bytes ? f.source.bytes - f.at : 0, whole = left / bytes;
  if (whole < count) f.ended = true;
  simt::size_t const taken = whole < count ? left : count * bytes;
  memmove(to, f.source.text + f.at, taken);
  f.at += taken;
  return whole < count ? whole : count;
}

// ---- reading values

namespace detail {
// The address at which a call stores a value that it reads.
struct place {
  void* to = nullptr;
  place() = default;
  template <class T>
  GPUHEAP_FN explicit place(T* at) : to{const_cast<void*>(static_cast<void const volatile*>(at))} {}
};

GPUHEAP_COLD inline void store_whole(void* to, conversion const& c, long long value) {
  if (c.letter == 'p' || c.longs >= 1) {
    *static_cast<long long*>(to) = value;
  } else if (c.longs == 0) {
    *static_cast<int*>(to) = static_cast<int>(value);
  } else if (c.longs == -1) {
    *static_cast<short*>(to) = static_cast<short>(value);
  } else {
    *static_cast<signed char*>(to) = static_cast<signed char>(value);
  }
}

GPUHEAP_FN inline void skip_blanks(open_file& f) {
  // Ends: at the end of the file.
  while (look(f) != EOF && isspace(look(f))) ++f.at;
}

// Whether a character is in a set of the conversion %[...]. The set's text is the range `set` to `end`.
[[nodiscard]] GPUHEAP_FN inline bool is_in_set(char const* set, char const* end, int letter) {
  bool const others = *set == '^';
  if (others) ++set;
  bool found = false;
  for (char const* at = set; at != end; ++at) {
    if (at + 2 < end && at[1] == '-') {
      found = found || (letter >= *at && letter <= at[2]);
      at += 2;
    } else {
      found = found || letter == *at;
    }
  }
  return found != others;
}

// Reads values by a format. Returns how many it stored, or EOF if the file ended before the first one.
GPUHEAP_COLD inline int scan(open_file& f, char const* format, place const* places, int count) {
  int stored = 0, next = 0;
  simt::size_t const begin = f.at;
  auto const failed = [&]() -> int {
    if (look(f) == EOF) f.ended = true;
    return look(f) == EOF && stored == 0 ? EOF : stored;
  };
  for (char const* at = format; *at != '\0'; ++at) {
    if (isspace(*at)) {
      skip_blanks(f);
      continue;
    }
    if (*at != '%') {
      if (look(f) != *at) return failed();
      ++f.at;
      continue;
    }
    bool const dropped = at[1] == '*';
    conversion c;
    at = read_conversion(at + (dropped ? 2 : 1), c, [] { return 0; });
    char const *set = nullptr, *set_end = nullptr;
    if (c.letter == '[') {
      set = at + 1;
      at = set + (*set == '^' ? 2 : 1);
      // Ends: at the end of the format.
      while (*at != ']' && *at != '\0') ++at;
      set_end = at;
    }
    if (c.letter == '\0' || *at == '\0') return stored;
    if (c.letter != 'c' && c.letter != '[' && c.letter != 'n') skip_blanks(f);
    if (c.letter == '%') {
      if (look(f) != '%') return failed();
      ++f.at;
      continue;
    }
    void* const to = dropped || next >= count ? nullptr : places[next++].to;
    if (c.letter == 'n') {
      if (to != nullptr) store_whole(to, c, static_cast<long long>(f.at - begin));
      continue;
    }
    if (look(f) == EOF) return failed();
    simt::size_t const most = c.width > 0 ? static_cast<simt::size_t>(c.width) : c.letter == 'c' ? 1 : ~simt::size_t{0};
    if (c.letter == 's' || c.letter == 'c' || c.letter == '[') {
      auto* const letters = static_cast<char*>(to);
      simt::size_t length = 0;
      // Ends: at the end of the file.
      while (length < most && look(f) != EOF) {
        if (c.letter == 's' && isspace(look(f))) break;
        if (c.letter == '[' && !is_in_set(set, set_end, look(f))) break;
        if (letters != nullptr) letters[length] = static_cast<char>(look(f));
        ++length;
        ++f.at;
      }
      if (length == 0) return failed();
      if (letters != nullptr && c.letter != 'c') letters[length] = '\0';
    } else {
      // A number is read from a copy of its characters with a final zero.
      constexpr simt::size_t longest = 80;
      char word[longest];
      simt::size_t length = 0;
      // Ends: when the copy is full.
      while (length + 1 < longest && length < most && f.at + length < f.source.bytes && !isspace(f.source.text[f.at + length])) {
        word[length] = f.source.text[f.at + length];
        ++length;
      }
      word[length] = '\0';
      char const* end = word;
      bool const whole = c.letter == 'd' || c.letter == 'i' || c.letter == 'u' || c.letter == 'x' || c.letter == 'X' || c.letter == 'o';
      if (whole) {
        unsigned const base = c.letter == 'i' ? 0 : c.letter == 'x' || c.letter == 'X' ? 16 : c.letter == 'o' ? 8 : 10;
        auto const n = read_whole(word, &end, base);
        if (end != word && to != nullptr) store_whole(to, c, static_cast<long long>(n.negative ? 0 - n.value : n.value));
      } else {
        double const value = read_floating(word, &end);
        if (end != word && to != nullptr && c.longs > 0) *static_cast<double*>(to) = value;
        if (end != word && to != nullptr && c.longs <= 0) *static_cast<float*>(to) = static_cast<float>(value);
      }
      if (end == word) return failed();
      f.at += static_cast<simt::size_t>(end - word);
    }
    if (!dropped) ++stored;
  }
  return stored;
}
}  // namespace detail

// Reads values by a format. Returns how many it stored, or EOF if the file was at its end.
template <class... To>
GPUHEAP_FN int fscanf(FILE* stream, char const* format, To*... to) {
  detail::place const all[sizeof...(To) + 1] = {detail::place{to}..., detail::place{}};
  return detail::scan(detail::file_of(stream), format, all, sizeof...(To));
}
template <class... To>
GPUHEAP_FN int scanf(char const* format, To*... to) {
  return c::fscanf(standard_input(), format, to...);
}
template <class... To>
GPUHEAP_FN int sscanf(char const* text, char const* format, To*... to) {
  detail::place const all[sizeof...(To) + 1] = {detail::place{to}..., detail::place{}};
  open_file f{{"", text, strlen(text)}, 0, true, false, false};
  return detail::scan(f, format, all, sizeof...(To));
}

// ---- printing

// Prints to standard output, whatever the stream. Returns what printf returns.
template <class... Values>
GPUHEAP_FN int fprintf(FILE*, char const* format, Values... values) {
  return printf(format, values...);
}
// Prints a string and a newline, in order with printf. Returns 0.
GPUHEAP_FN inline int puts(char const* text) {
  printf("%s\n", text);
  return 0;
}
GPUHEAP_FN inline int fputs(char const* text, FILE*) {
  printf("%s", text);
  return 0;
}
// Prints a character, and returns it.
GPUHEAP_FN inline int putchar(int letter) {
  printf("%c", letter);
  return letter;
}
GPUHEAP_FN inline int fputc(int letter, FILE*) { return c::putchar(letter); }
GPUHEAP_FN inline int putc(int letter, FILE*) { return c::putchar(letter); }
// Prints `text` and the description of errno, to standard output.
GPUHEAP_FN inline void perror(char const* text) { printf("%s: %s\n", text, strerror(error_number())); }

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c
