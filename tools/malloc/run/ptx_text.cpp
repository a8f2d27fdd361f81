#include "ptx_text.hpp"

#include <algorithm>
#include <charconv>

#include "ptx_reader.hpp"

namespace gpuheap::unchanged {

namespace {

// Reads a target such as sm_90, sm_90a or sm_100f.
void read_target(std::string_view word, ptx_facts& out) {
  if (!word.starts_with("sm_")) return;
  char const* const end = word.data() + word.size();
  auto const [rest, error] = std::from_chars(word.data() + 3, end, out.architecture);
  if (error == std::errc{} && rest != end) out.family = *rest;
}

}  // namespace

served_name const* served(std::string_view word) {
  auto const* const found =
      std::find_if(std::begin(served_names), std::end(served_names), [&](served_name const& each) { return each.from == word; });
  return found == std::end(served_names) ? nullptr : found;
}

bool ptx_facts::asks() const {
  return std::any_of(std::begin(uses), std::end(uses), [](name_use use) { return use == name_use::asked; });
}

bool ptx_facts::defines() const {
  return std::any_of(std::begin(uses), std::end(uses), [](name_use use) { return use == name_use::defined; });
}

std::optional<ptx_facts> facts_of(std::string_view ptx) {
  ptx_facts found;
  ptx_reader from{ptx};
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
  ptx_reader from{ptx};
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
