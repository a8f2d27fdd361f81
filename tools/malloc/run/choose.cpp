#include "choose.hpp"

#include <cstring>
#include <string_view>

#include "ptx_text.hpp"

namespace gpuheap::unchanged {

namespace {

// The struct of the CUDA toolkit's fatbinary_section.h. Version 2 describes a linked image, and has a list of the fat binaries that it was
// linked from.
struct wrapper {
  std::uint32_t magic;
  std::uint32_t version;
  void const* data;
  void const* const* linked_from;  // in version 2: a list that ends with null
};
constexpr std::uint32_t linked_version = 2;

constexpr char only_machine_code[] =
    "it brings machine code alone, no PTX that this device can run: build it with PTX (-arch=sm_XX without code=)";

struct ptx_found {
  std::string text;
  ptx_facts facts;
  std::string options;
};

// The contents of a fat binary that one device can use.
struct contents {
  std::optional<std::vector<std::byte>> code;  // the machine code that the driver takes
  std::optional<machine_code> symbols;         // the symbols of `code`
  std::optional<ptx_found> ptx;                // the PTX of the highest architecture that the device runs
  bool has_other = false;                      // entries that are neither: code for link-time optimisation
};

std::string_view text_of(std::vector<std::byte> const& bytes) {
  std::string_view const all{reinterpret_cast<char const*>(bytes.data()), bytes.size()};
  return all.substr(0, all.find('\0'));
}

// Machine code runs on its own compute capability and on later minors of the same major.
bool machine_code_runs_on(std::uint32_t code, std::uint32_t device) { return code / 10 == device / 10 && code <= device; }

// The contents for one device. If the fat binary is damaged, returns nothing and sets `why` to the reason.
std::optional<contents> contents_of(bytes_view fat_binary, std::uint32_t device, std::string* why) {
  auto const entries = entries_of(fat_binary, why);
  if (!entries) return std::nullopt;
  contents found;
  std::uint32_t best_code = 0;
  for (fat_entry const& entry : *entries) {
    if (entry.kind == entry_kind::other) {
      found.has_other = true;
      continue;
    }
    bool const is_code = entry.kind == entry_kind::machine_code;
    if (is_code && (!machine_code_runs_on(entry.architecture, device) || entry.architecture < best_code)) continue;
    if (!is_code && entry.architecture > device) continue;
    auto bytes = unpacked(entry, why);
    if (!bytes) return std::nullopt;
    if (is_code) {
      best_code = entry.architecture;
      found.symbols = read_machine_code(*bytes);
      found.code = std::move(*bytes);
      continue;
    }
    auto const facts = facts_of(text_of(*bytes));
    if (!facts || !runs_on(*facts, device) || (found.ptx && found.ptx->facts.architecture > facts->architecture)) continue;
    found.ptx = ptx_found{std::string{text_of(*bytes)}, *facts, entry.options};
  }
  return found;
}

link_input input_of(ptx_found const& ptx) {
  link_input made{true, {}, ptx.options};
  auto const* const first = reinterpret_cast<std::byte const*>(ptx.text.c_str());
  made.bytes.assign(first, first + ptx.text.size() + 1);
  return made;
}

// Whether the machine code calls malloc or free, as far as its symbols show; nothing if there is no machine code.
std::optional<bool> code_asks(contents const& found) {
  if (!found.symbols) return std::nullopt;
  return asks_driver(*found.symbols);
}

decision decide_ptx(ptx_found const& ptx, std::optional<machine_code> before) {
  if (!ptx.facts.asks() || ptx.facts.defines()) return decision::untouched();
  decision made{verdict::link, {}, std::move(before), {}};
  made.inputs.push_back(input_of(ptx));
  return made;
}

decision decide_single(bytes_view fat_binary, std::uint32_t device) {
  std::string why;
  auto found = contents_of(fat_binary, device, &why);
  if (!found) return decision::cannot(std::move(why));
  if (code_asks(*found) == false) return decision::untouched();
  if (found->ptx) return decide_ptx(*found->ptx, std::move(found->symbols));
  return found->symbols ? decision::cannot(only_machine_code) : decision::untouched();
}

// Decides about an image that nvlink made of several parts. Takes the machine code of each part that uses no function of served_names, and
// the PTX of each other part.
decision decide_linked(bytes_view image, std::vector<bytes_view> const& parts, std::uint32_t device) {
  std::string why;
  auto whole = contents_of(image, device, &why);
  if (!whole) return decision::cannot(std::move(why));
  if (code_asks(*whole) == false) return decision::untouched();
  decision made{verdict::link, {}, std::move(whole->symbols), {}};
  bool any_asks = false;
  for (bytes_view const part : parts) {
    auto found = contents_of(part, device, &why);
    if (!found) return decision::cannot(std::move(why));
    if (found->ptx && found->ptx->facts.defines()) return decision::untouched();
    if (code_asks(*found) == false) {
      made.inputs.push_back({false, std::move(*found->code), {}});
    } else if (found->ptx) {
      any_asks = any_asks || found->ptx->facts.asks();
      made.inputs.push_back(input_of(*found->ptx));
    } else if (found->has_other || found->code) {
      return decision::cannot(found->has_other ? "it was built for link-time optimisation (-dlto): build it without" : only_machine_code);
    }
  }
  if (!any_asks) return made.before ? decision::cannot(only_machine_code) : decision::untouched();
  return made;
}

decision decide_code(bytes_view elf) {
  auto const symbols = read_machine_code(elf);
  return symbols && asks_driver(*symbols) ? decision::cannot(only_machine_code) : decision::untouched();
}

decision decide_text(std::string_view text, std::uint32_t device) {
  auto const facts = facts_of(text);
  if (!facts || !runs_on(*facts, device)) return decision::untouched();
  return decide_ptx({std::string{text}, *facts, {}}, std::nullopt);
}

bytes_view fat_binary_at(void const* first) {
  bytes_view const head{static_cast<std::byte const*>(first), 16};
  return {head.data(), fat_binary_bytes(head)};
}

std::uint32_t magic_of(void const* image) {
  std::uint32_t magic;
  std::memcpy(&magic, image, sizeof magic);
  return magic;
}

}  // namespace

decision decide(void const* image, std::uint32_t architecture) {
  if (image == nullptr) return decision::untouched();
  auto const* const text = static_cast<char const*>(image);
  if (strnlen(text, 4) < 4) return decision::untouched();  // shorter than any image: no more may be read
  switch (magic_of(image)) {
    case wrapper_magic: {
      wrapper found;
      std::memcpy(&found, image, sizeof found);
      if (found.data == nullptr || magic_of(found.data) != fat_binary_magic) return decision::untouched();
      if (found.version != linked_version || found.linked_from == nullptr) return decide_single(fat_binary_at(found.data), architecture);
      std::vector<bytes_view> parts;
      for (void const* const* part = found.linked_from; *part != nullptr; ++part) parts.push_back(fat_binary_at(*part));
      return decide_linked(fat_binary_at(found.data), parts, architecture);
    }
    case fat_binary_magic:
      return decide_single(fat_binary_at(image), architecture);
    case elf_magic:
      return decide_code({static_cast<std::byte const*>(image), elf_bytes(image)});
    default:
      return decide_text(text, architecture);
  }
}

decision decide(bytes_view file, std::uint32_t architecture) {
  if (file.size() < 16) return decision::untouched();
  switch (magic_of(file.data())) {
    case fat_binary_magic:
      return decide_single(file, architecture);
    case elf_magic:
      return decide_code(file);
    default: {
      std::string_view const text{reinterpret_cast<char const*>(file.data()), file.size()};
      return decide_text(text.substr(0, text.find('\0')), architecture);
    }
  }
}

}  // namespace gpuheap::unchanged
