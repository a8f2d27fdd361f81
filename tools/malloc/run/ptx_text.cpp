#include "ptx_text.hpp"

#include <algorithm>
#include <charconv>

namespace gpuheap::unchanged {

namespace {

bool in_identifier(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '%';
}

enum class token_kind { word, directive, number, mark, end };

struct token {
  token_kind kind;
  std::string_view text;  // of a directive, without its dot
};

// Reads a text token by token. Skips blanks, comments and strings.
class reader {
 public:
  explicit reader(std::string_view text) : text_{text} {}

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
      if (text_.compare(at_, 2, "//") == 0) {
        at_ = past("\n", at_ + 2) - 1;
      } else if (text_.compare(at_, 2, "/*") == 0) {
        at_ = past("*/", at_ + 2) - 1;
      } else if (c == '"') {
        at_ = end_of_string(at_ + 1) - 1;
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

  [[nodiscard]] std::size_t end_of_string(std::size_t at) const {
    for (; at < text_.size(); ++at) {
      if (text_[at] == '\\') {
        ++at;
      } else if (text_[at] == '"') {
        return at + 1;
      }
    }
    return text_.size();
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

served_name const* served(std::string_view word) {
  auto const* const found =
      std::find_if(std::begin(served_names), std::end(served_names), [&](served_name const& each) { return each.from == word; });
  return found == std::end(served_names) ? nullptr : found;
}

// Reads a target such as sm_90, sm_90a or sm_100f.
void read_target(std::string_view word, ptx_facts& out) {
  if (!word.starts_with("sm_")) return;
  char const* const end = word.data() + word.size();
  auto const [rest, error] = std::from_chars(word.data() + 3, end, out.architecture);
  if (error == std::errc{} && rest != end) out.family = *rest;
}

// Called after `.func` or `.entry`. Skips the return parameter and attributes, and returns the name.
token name_of_function(reader& from) {
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

}  // namespace

bool ptx_facts::asks() const {
  return std::any_of(std::begin(uses), std::end(uses), [](name_use use) { return use == name_use::asked; });
}

bool ptx_facts::defines() const {
  return std::any_of(std::begin(uses), std::end(uses), [](name_use use) { return use == name_use::defined; });
}

std::optional<ptx_facts> facts_of(std::string_view ptx) {
  ptx_facts found;
  reader from{ptx};
  bool external = false;
  for (token each = from.next(); each.kind != token_kind::end; each = from.next()) {
    if (each.kind != token_kind::directive) {
      external = false;
    } else if (each.text == "extern") {
      external = true;
    } else if (each.text == "target") {
      read_target(from.next().text, found);
    } else if (each.text == "address_size") {
      found.is_64_bit = from.next().text == "64";
    } else if (each.text == "func" || each.text == "entry") {
      served_name const* const name = served(name_of_function(from).text);
      if (name != nullptr) {
        name_use& use = found.uses[name - served_names];
        if (!external) use = name_use::defined;
        if (external && use == name_use::none) use = name_use::asked;
      }
      external = false;
    }
  }
  if (found.architecture == 0) return std::nullopt;
  return found;
}

bool runs_on(ptx_facts const& facts, std::uint32_t architecture) {
  if (!facts.is_64_bit) return false;
  if (facts.family == 'a') return facts.architecture == architecture;
  if (facts.family == 'f') return facts.architecture <= architecture && facts.architecture / 10 == architecture / 10;
  return facts.architecture <= architecture;
}

std::string renamed(std::string_view ptx) {
  std::string out;
  out.reserve(ptx.size() + ptx.size() / 64);
  reader from{ptx};
  std::size_t copied = 0;
  for (token each = from.next(); each.kind != token_kind::end; each = from.next()) {
    served_name const* const name = each.kind == token_kind::word ? served(each.text) : nullptr;
    if (name == nullptr) continue;
    std::size_t const at = from.position_of(each);
    out += ptx.substr(copied, at - copied);
    out += name->to;
    copied = at + each.text.size();
  }
  out += ptx.substr(copied);
  return out;
}

}  // namespace gpuheap::unchanged
