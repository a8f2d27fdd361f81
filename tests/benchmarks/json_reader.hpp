// A strict reader of JSON, by which the tests read the executable's output.
#pragma once

#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace gpuheap::test {

// One JSON value. Members that do not apply to its kind are empty.
struct json {
  enum class kind { null, boolean, number, string, array, object };
  kind type = kind::null;
  bool yes = false;
  double number = 0;
  std::string text;
  std::vector<json> items;
  std::map<std::string, json> members;

  [[nodiscard]] bool has(std::string const& name) const { return members.contains(name); }
  [[nodiscard]] json const& operator[](std::string const& name) const {
    auto const found = members.find(name);
    if (found == members.end()) throw std::runtime_error("no member '" + name + "'");
    return found->second;
  }
};

// Throws std::runtime_error unless `text` is exactly one JSON value.
class json_reader {
 public:
  static json read(std::string_view text) {
    json_reader reader{text};
    json const value = reader.value();
    reader.skip_space();
    if (!reader.rest_.empty()) throw std::runtime_error("more than one JSON value: " + std::string(reader.rest_));
    return value;
  }

 private:
  explicit json_reader(std::string_view text) : rest_{text} {}

  void skip_space() {
    while (!rest_.empty() && std::string_view{" \t\r\n"}.find(rest_[0]) != std::string_view::npos) rest_.remove_prefix(1);
  }
  char next() {
    if (rest_.empty()) throw std::runtime_error("the JSON text ends too early");
    char const c = rest_[0];
    rest_.remove_prefix(1);
    return c;
  }
  bool accept(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  void expect(std::string_view word) {
    if (!accept(word)) throw std::runtime_error("expected '" + std::string(word) + "' before: " + std::string(rest_));
  }

  std::string string() {
    expect("\"");
    std::string text;
    for (char c = next(); c != '"'; c = next()) {
      if (static_cast<unsigned char>(c) < 0x20) throw std::runtime_error("a control character in a JSON string");
      if (c != '\\') {
        text += c;
        continue;
      }
      char const escape = next();
      if (escape == 'u') {
        std::string digits;
        for (int i = 0; i < 4; ++i) digits += next();
        text += static_cast<char>(std::stoi(digits, nullptr, 16));
      } else if (escape == '"' || escape == '\\' || escape == '/') {
        text += escape;
      } else {
        throw std::runtime_error("an escape that is not used here");
      }
    }
    return text;
  }

  json value() {
    json out;
    if (accept("{")) {
      out.type = json::kind::object;
      if (accept("}")) return out;
      do {
        std::string const name = string();
        expect(":");
        if (!out.members.emplace(name, value()).second) throw std::runtime_error("a repeated member: " + name);
      } while (accept(","));
      expect("}");
    } else if (accept("[")) {
      out.type = json::kind::array;
      if (accept("]")) return out;
      do out.items.push_back(value());
      while (accept(","));
      expect("]");
    } else if (skip_space(); rest_.starts_with('"')) {
      out.type = json::kind::string;
      out.text = string();
    } else if (accept("true")) {
      out.type = json::kind::boolean;
      out.yes = true;
    } else if (accept("false")) {
      out.type = json::kind::boolean;
    } else if (!accept("null")) {
      out.type = json::kind::number;
      std::string const text{rest_.substr(0, rest_.find_first_not_of("+-.0123456789eE"))};
      char* end = nullptr;
      out.number = std::strtod(text.c_str(), &end);
      if (text.empty() || *end != '\0') throw std::runtime_error("not a JSON value: " + std::string(rest_));
      rest_.remove_prefix(text.size());
    }
    return out;
  }

  std::string_view rest_;
};

}  // namespace gpuheap::test
