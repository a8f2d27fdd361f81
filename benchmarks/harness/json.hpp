// Writing JSON on one line. The caller is trusted to open, name and close in a sensible order; commas and escapes are kept here.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <string>
#include <string_view>

namespace gpuheap::bench {

class json_writer {
 public:
  json_writer& begin_object() { return open('{'); }
  json_writer& end_object() { return close('}'); }
  json_writer& begin_array() { return open('['); }
  json_writer& end_array() { return close(']'); }

  // The name of the member whose value comes next.
  json_writer& key(std::string_view name) {
    separate();
    append_string(name);
    text_ += ':';
    after_key_ = true;
    return *this;
  }

  json_writer& value(std::string_view text) {
    separate();
    append_string(text);
    return *this;
  }
  json_writer& value(char const* text) { return value(std::string_view{text}); }
  json_writer& value(bool yes) { return literal(yes ? "true" : "false"); }
  json_writer& null() { return literal("null"); }
  template <std::integral T>
  json_writer& value(T number) {
    return literal(std::to_string(number));
  }
  // The shortest text that reads back as the same number. JSON has no infinity: those become null.
  json_writer& value(double number) {
    if (!std::isfinite(number)) return null();
    char digits[32];
    auto const end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    return literal({digits, static_cast<std::size_t>(end - digits)});
  }

  template <class T>
  json_writer& member(std::string_view name, T const& what) {
    return key(name).value(what);
  }

  [[nodiscard]] std::string const& text() const { return text_; }

 private:
  json_writer& open(char bracket) {
    separate();
    text_ += bracket;
    first_ = true;
    return *this;
  }
  json_writer& close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }
  json_writer& literal(std::string_view text) {
    separate();
    text_ += text;
    return *this;
  }
  void separate() {
    if (!first_ && !after_key_) text_ += ',';
    first_ = after_key_ = false;
  }
  void append_string(std::string_view text) {
    text_ += '"';
    for (char const c : text) {
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        constexpr char hex[] = "0123456789abcdef";
        text_ += "\\u00";
        text_ += hex[static_cast<unsigned char>(c) >> 4];
        text_ += hex[c & 15];
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  std::string text_;
  bool first_ = true;       // nothing written yet at this level
  bool after_key_ = false;  // the next value belongs to the key just written
};

}  // namespace gpuheap::bench
