// PTX as a sequence of tokens.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpuheap::unchanged {

inline bool in_identifier(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '%';
}

enum class token_kind { word, directive, number, mark, end };

struct token {
  token_kind kind;
  std::string_view text;  // of a directive, without its dot
};

// Reads a text token by token. Skips blanks, comments and strings.
class ptx_reader {
 public:
  explicit ptx_reader(std::string_view text) : text_{text} {}

  [[nodiscard]] token next() {
    skip();
    if (at_ == text_.size()) return {token_kind::end, {}};
    std::size_t const begin = at_;
    bool const dot = text_[at_] == '.';
    if (dot) ++at_;
    if (at_ < text_.size() && in_identifier(text_[at_])) {
      std::size_t const first = at_;
      while (at_ < text_.size() && in_identifier(text_[at_])) ++at_;
      std::string_view const word = text_.substr(first, at_ - first);
      if (dot) return {token_kind::directive, word};
      return {word[0] >= '0' && word[0] <= '9' ? token_kind::number : token_kind::word, word};
    }
    if (!dot) ++at_;
    return {token_kind::mark, text_.substr(begin, at_ - begin)};
  }

  [[nodiscard]] std::size_t position_of(token const& found) const { return static_cast<std::size_t>(found.text.data() - text_.data()); }

 private:
  void skip() {
    for (; at_ < text_.size(); ++at_) {
      char const c = text_[at_];
      char const after = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
      if (c == '/' && after == '/') {
        at_ = past("\n", at_ + 2) - 1;
      } else if (c == '/' && after == '*') {
        at_ = past("*/", at_ + 2) - 1;
      } else if (c == '"') {
        at_ = past("\"", at_ + 1) - 1;  // a backslash means nothing in a string of PTX
      } else if (c != ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\0') {
        return;
      }
    }
  }

  // The position after the next `what` from `from` on; the text's end if there is none.
  [[nodiscard]] std::size_t past(std::string_view what, std::size_t from) const {
    std::size_t const found = text_.find(what, from);
    return found == std::string_view::npos ? text_.size() : found + what.size();
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Called after `.func` or `.entry`. Skips the return parameter and attributes, and returns the name.
inline token name_of_function(ptx_reader& from) {
  token found = from.next();
  if (found.text == "(") {
    while (found.kind != token_kind::end && found.text != ")") found = from.next();
    found = from.next();
  }
  // Attributes and their arguments also stand before the name: .attribute(.unified(1, 2)).
  while (found.kind == token_kind::directive) {
    found = from.next();
    int depth = 0;
    while (found.text == "(" || depth > 0) {
      if (found.kind == token_kind::end) return found;
      depth += found.text == "(" ? 1 : found.text == ")" ? -1 : 0;
      found = from.next();
    }
  }
  return found;
}

}  // namespace gpuheap::unchanged
