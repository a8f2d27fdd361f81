#include "harness/line_reader.hpp"

#include <algorithm>
#include <istream>

#include "harness/error.hpp"

namespace gpuheap::bench {

bool line_reader::next() {
  if (!std::getline(in_, line_)) {
    if (in_.bad()) throw usage_error(name_ + ": reading failed after line " + std::to_string(number_));
    ended_ = true;
    ++number_;
    return false;
  }
  ++number_;
  if (line_.ends_with('\r')) line_.pop_back();
  return true;
}

bool line_reader::next_data() {
  while (next()) {
    auto const first = line_.find_first_not_of(" \t");
    if (first != std::string::npos && line_[first] != comment_) return true;
  }
  return false;
}

std::vector<std::string_view> const& line_reader::words() {
  words_.clear();
  std::string_view rest = line_;
  while (true) {
    auto const begin = rest.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return words_;
    rest.remove_prefix(begin);
    auto const length = std::min(rest.find_first_of(" \t"), rest.size());
    words_.push_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
}

void line_reader::refuse(std::string const& expected) const {
  constexpr std::size_t most_shown = 60;
  bool const is_text = std::none_of(line_.begin(), line_.end(), [](unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7f; });
  std::string const found = ended_     ? "the end of the file"
                            : !is_text ? "bytes that are no text"
                                       : "'" + line_.substr(0, most_shown) + (line_.size() > most_shown ? "..." : "") + "'";
  throw usage_error(name_ + ":" + std::to_string(number_) + ": expected " + expected + ", found " + found);
}

}  // namespace gpuheap::bench
