#include "harness/point.hpp"

#include <algorithm>
#include <charconv>
#include <span>
#include <stdexcept>
#include <vector>

#include "harness/bytes.hpp"
#include "harness/error.hpp"
#include "harness/near_names.hpp"

namespace gpuheap::bench {

namespace {

// The parts of `text` between separators. An empty text has none.
std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    auto const end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// False unless the whole text is a number.
bool read_number(std::string_view text, std::uint64_t& number) {
  auto const [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc{} && end == text.data() + text.size();
}

void check_value(parameter const& p, std::string const& value) {
  auto const refuse = [&](std::string const& expected) { throw usage_error(std::string(p.name) + "=" + value + ": expected " + expected); };
  if (p.largest != 0) {
    std::uint64_t number = 0;
    if (!read_number(value, number) || number < p.smallest || number > p.largest) {
      refuse("a whole number from " + std::to_string(p.smallest) + " to " + std::to_string(p.largest));
    }
  } else if (p.choices != nullptr) {
    auto const choices = split(p.choices, '|');
    if (std::find(choices.begin(), choices.end(), value) == choices.end()) refuse(std::string("one of ") + p.choices);
  } else if (p.is_size && !value.empty() && parse_bytes(p.name, value) == 0) {
    refuse("more than 0");
  }
}

}  // namespace

point::point(std::string_view text, std::span<parameter const> parameters) {
  for (auto const& assignment : split(text, ',')) {
    auto const equals = assignment.find('=');
    if (equals == std::string::npos) throw usage_error("--point: expected key=value, got '" + assignment + "'");
    std::string const name = assignment.substr(0, equals);
    std::string const value = assignment.substr(equals + 1);
    auto const known = std::find_if(parameters.begin(), parameters.end(), [&](parameter const& p) { return p.name == name; });
    if (known == parameters.end()) {
      std::vector<std::string> names;
      for (auto const& p : parameters) names.emplace_back(p.name);
      throw usage_error("--point: the case has no parameter '" + name + "'" + suggestion(name, names));
    }
    check_value(*known, value);
    if (!values_.emplace(name, value).second) throw usage_error("--point: '" + name + "' is given twice");
  }
  for (auto const& p : parameters) values_.emplace(p.name, p.fallback);
}

std::string const& point::text(std::string_view name) const {
  auto const found = values_.find(name);
  if (found == values_.end()) throw std::logic_error("the case does not declare the parameter " + std::string(name));
  return found->second;
}

std::uint64_t point::number(std::string_view name) const {
  std::uint64_t number = 0;
  if (!read_number(text(name), number)) throw std::logic_error("the parameter " + std::string(name) + " is not declared as a number");
  return number;
}

std::optional<std::uint64_t> point::bytes_of(std::string_view name) const {
  auto const found = values_.find(name);
  if (found == values_.end() || found->second.empty()) return std::nullopt;
  return parse_bytes(name, found->second);
}

}  // namespace gpuheap::bench
