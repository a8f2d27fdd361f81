#include "ptxas_options.hpp"

#include <algorithm>
#include <charconv>

namespace gpuheap::unchanged {

namespace {

constexpr unsigned highest_level = 4;

std::optional<std::uint32_t> number_in(std::string_view text) {
  std::uint32_t number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Removes the first word from `text`, and returns it; "" if there is none.
std::string_view next_word(std::string_view* text) {
  std::size_t const begin = std::min(text->find_first_not_of(' '), text->size());
  std::size_t const end = std::min(text->find(' ', begin), text->size());
  std::string_view const word = text->substr(begin, end - begin);
  text->remove_prefix(end);
  return word;
}

}  // namespace

ptxas_options ptxas_options_in(std::string_view text) {
  ptxas_options found;
  // Ends: each pass removes a word.
  for (std::string_view word = next_word(&text); !word.empty(); word = next_word(&text)) {
    if (word[0] != '-') continue;
    std::string_view name = word.substr(word.starts_with("--") ? 2 : 1);
    std::optional<std::string_view> value;
    if (std::size_t const equals = name.find('='); equals != std::string_view::npos) {
      value = name.substr(equals + 1);
      name = name.substr(0, equals);
    } else if (name.size() > 1 && name[0] == 'O') {
      value = name.substr(1);
      name = name.substr(0, 1);
    }
    bool const is_bound = name == "maxrregcount";
    bool const is_level = name == "O" || name == "opt-level";
    if (is_bound || is_level) {
      auto const number = number_in(value ? *value : next_word(&text));
      if (is_bound && number.value_or(0) > 0) {
        found.most_registers = found.most_registers == 0 ? *number : std::min(found.most_registers, *number);
      }
      if (is_level && number && *number <= highest_level) found.level = *number;
    }
    found.debug |= name == "g" || name == "device-debug";
    found.line_info |= name == "lineinfo" || name == "generate-line-info";
  }
  return found;
}

}  // namespace gpuheap::unchanged
