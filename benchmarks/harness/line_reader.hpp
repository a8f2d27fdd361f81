// Reading text files line by line, with what a message needs to point at a line.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace gpuheap::bench {

class line_reader {
 public:
  // `comment`: what a line begins with that next_data() passes over. `name` stands for the file in messages and outlives the reader.
  line_reader(std::istream& in, std::string const& name, char comment = '%') : in_{in}, name_{name}, comment_{comment} {}

  // False at the end of the file.
  bool next();
  // The next line that is neither blank nor a comment.
  bool next_data();

  // The words of the current line, which they point into.
  [[nodiscard]] std::vector<std::string_view> const& words();
  [[nodiscard]] std::uint64_t number() const { return number_; }

  // Throws usage_error: file, line, what was expected there, and what there is.
  [[noreturn]] void refuse(std::string const& expected) const;

 private:
  std::istream& in_;
  std::string const& name_;
  char comment_;
  std::string line_;
  std::vector<std::string_view> words_;
  std::uint64_t number_ = 0;
  bool ended_ = false;
};

// False unless the whole word is a number of this type.
template <class Number>
[[nodiscard]] bool read_whole(std::string_view word, Number& number) {
  if (word.starts_with('+')) word.remove_prefix(1);
  auto const [end, failure] = std::from_chars(word.data(), word.data() + word.size(), number);
  return failure == std::errc{} && end == word.data() + word.size();
}

}  // namespace gpuheap::bench
