// getopt(): options of one letter in a program's arguments. Device code.
#pragma once

#include <gpuheap/mpi/c/streams.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c {

// The rank's optarg, optind, opterr and optopt.
[[nodiscard]] GPUHEAP_FN inline char*& option_value() { return detail::mine().option_value; }
[[nodiscard]] GPUHEAP_FN inline int& option_index() { return detail::mine().option_index; }
[[nodiscard]] GPUHEAP_FN inline int& option_error() { return detail::mine().option_error; }
[[nodiscard]] GPUHEAP_FN inline int& option_unknown() { return detail::mine().option_unknown; }

// Returns the letter of the next option, or -1 at the end of the arguments or at the first one that is not an option. For an option that is
// not in `known` the result is '?'. For an option that lacks its value the result is ':' if `known` begins with ':', else '?'.
GPUHEAP_COLD inline int getopt(int count, char* const* words, char const* known) {
  state& s = detail::mine();
  s.option_value = nullptr;
  if (s.option_letter == 0) {
    if (s.option_index >= count || words[s.option_index] == nullptr) return -1;
    char const* const word = words[s.option_index];
    if (word[0] != '-' || word[1] == '\0') return -1;
    if (word[1] == '-' && word[2] == '\0') {
      ++s.option_index;
      return -1;
    }
    s.option_letter = 1;
  }
  char* const word = words[s.option_index];
  char const letter = word[s.option_letter++];
  bool const word_ends = word[s.option_letter] == '\0';
  char* const rest = word + s.option_letter;
  auto const next_word = [&] {
    ++s.option_index;
    s.option_letter = 0;
  };
  bool const silent = *known == ':';
  char const* const found = letter == ':' ? nullptr : strchr(known, letter);
  if (found == nullptr) {
    if (word_ends) next_word();
    s.option_unknown = letter;
    if (s.option_error != 0 && !silent) printf("%s: invalid option -- '%c'\n", words[0], letter);
    return '?';
  }
  if (found[1] != ':') {
    if (word_ends) next_word();
    return letter;
  }
  next_word();
  if (!word_ends) {
    s.option_value = rest;
  } else if (found[2] != ':') {
    if (s.option_index >= count) {
      s.option_unknown = letter;
      if (s.option_error != 0 && !silent) printf("%s: option requires an argument -- '%c'\n", words[0], letter);
      return silent ? ':' : '?';
    }
    s.option_value = words[s.option_index++];
  }
  return letter;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c
