#include "machine_code.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "ptx_text.hpp"

namespace gpuheap::unchanged {

namespace {

constexpr unsigned char is_kernel = 0x10;  // a bit of a symbol's st_other, which CUDA uses beyond the two bits of visibility

// The `count` objects of type T in `all`, from the offset `at` on; empty if they do not fit.
template <class T>
std::vector<T> read_many(bytes_view all, std::uint64_t at, std::uint64_t count) {
  if (at > all.size() || count > (all.size() - at) / sizeof(T)) return {};
  std::vector<T> out(count);
  if (count > 0) std::memcpy(out.data(), all.data() + at, count * sizeof(T));
  return out;
}

std::string_view text_at(bytes_view all, Elf64_Shdr const& strings, std::uint64_t at) {
  if (strings.sh_offset > all.size() || strings.sh_size > all.size() - strings.sh_offset || at >= strings.sh_size) return {};
  std::string_view const rest{reinterpret_cast<char const*>(all.data()) + strings.sh_offset + at, strings.sh_size - at};
  return rest.substr(0, rest.find('\0'));
}

// The register counts in the section .nv.info. The section is a list of attributes. Each has a form, a name and 16 bits, which are its
// value or, in form 4, the number of bytes that follow.
struct attribute {
  std::uint8_t form;
  std::uint8_t name;
  std::uint16_t bytes;
};
constexpr std::uint8_t has_bytes = 4;
constexpr std::uint8_t register_count = 0x2f;  // its bytes are the number of a symbol, and the symbol's register count

std::map<std::uint32_t, std::uint32_t> register_counts(bytes_view elf, Elf64_Shdr const& section) {
  std::map<std::uint32_t, std::uint32_t> found;
  std::uint64_t at = section.sh_offset;
  std::uint64_t const end = section.sh_offset + section.sh_size;
  if (end < at || end > elf.size()) return found;
  while (end - at >= sizeof(attribute)) {
    auto const each = read_many<attribute>(elf, at, 1).front();
    at += sizeof each;
    if (each.form != has_bytes) continue;
    if (end - at < each.bytes) break;
    auto const pair = read_many<std::uint32_t>(elf, at, 2);
    if (each.name == register_count && each.bytes == 8 && pair.size() == 2) found[pair[0]] = pair[1];
    at += each.bytes;
  }
  return found;
}

std::vector<Elf64_Shdr> sections_of(bytes_view elf) {
  auto const head = read_many<Elf64_Ehdr>(elf, 0, 1);
  if (head.empty() || std::memcmp(head[0].e_ident, ELFMAG, SELFMAG) != 0 || head[0].e_ident[EI_CLASS] != ELFCLASS64) return {};
  if (head[0].e_shentsize != sizeof(Elf64_Shdr)) return {};
  return read_many<Elf64_Shdr>(elf, head[0].e_shoff, head[0].e_shnum);
}

}  // namespace

std::uint64_t elf_bytes(void const* image) {
  auto const* const first = static_cast<std::byte const*>(image);
  Elf64_Ehdr head;
  std::memcpy(&head, first, sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64) return 0;
  std::uint64_t end = std::max<std::uint64_t>(sizeof head, head.e_phoff + std::uint64_t{head.e_phnum} * head.e_phentsize);
  end = std::max(end, head.e_shoff + std::uint64_t{head.e_shnum} * head.e_shentsize);
  for (std::uint64_t i = 0; i < head.e_shnum && head.e_shentsize == sizeof(Elf64_Shdr); ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, first + head.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS) end = std::max(end, section.sh_offset + section.sh_size);
  }
  return end;
}

std::optional<machine_code> read_machine_code(bytes_view elf) {
  std::vector<Elf64_Shdr> const sections = sections_of(elf);
  auto const table = std::find_if(sections.begin(), sections.end(), [](Elf64_Shdr const& each) { return each.sh_type == SHT_SYMTAB; });
  if (table == sections.end() || table->sh_link >= sections.size()) return std::nullopt;
  auto const head = read_many<Elf64_Ehdr>(elf, 0, 1).front();
  std::map<std::uint32_t, std::uint32_t> registers;
  for (Elf64_Shdr const& each : sections) {
    if (head.e_shstrndx < sections.size() && text_at(elf, sections[head.e_shstrndx], each.sh_name) == ".nv.info")
      registers = register_counts(elf, each);
  }
  machine_code found;
  std::uint32_t number = 0;
  for (Elf64_Sym const& symbol : read_many<Elf64_Sym>(elf, table->sh_offset, table->sh_size / sizeof(Elf64_Sym))) {
    auto const used = registers.find(number++);
    std::string name{text_at(elf, sections[table->sh_link], symbol.st_name)};
    unsigned const type = ELF64_ST_TYPE(symbol.st_info);
    if (name.empty() || (type != STT_FUNC && type != STT_OBJECT)) continue;
    if (symbol.st_shndx == SHN_UNDEF) {
      found.asked.insert(std::move(name));
    } else if (type == STT_OBJECT) {
      found.variables.emplace(std::move(name), symbol.st_size);
    } else {
      if (used != registers.end()) found.registers[name] = used->second;
      if ((symbol.st_other & is_kernel) != 0) found.kernels.insert(name);
      found.functions.insert(std::move(name));
    }
  }
  return found;
}

bool asks_driver(machine_code const& code) {
  return std::any_of(std::begin(served_names), std::end(served_names),
                     [&](served_name const& each) { return code.asked.contains(each.from); });
}

std::uint32_t register_bound(machine_code const& linked, machine_code const& before) {
  // A multiprocessor has 65,536 registers. The largest possible block changes at these register counts per thread: 168 allow 384 threads,
  // 128 allow 512, 96 allow 640, 80 allow 768, 72 allow 896, and 64 allow 1,024.
  std::uint32_t bound = 0;
  for (std::string const& name : before.kernels) {
    auto const was = before.registers.find(name);
    auto const is = linked.registers.find(name);
    if (was == before.registers.end() || is == linked.registers.end()) continue;
    for (std::uint32_t const most : {168U, 128U, 96U, 80U, 72U, 64U}) {
      if (was->second <= most && is->second > most) bound = bound == 0 ? most : std::min(bound, most);
    }
  }
  return bound;
}

std::string lack(machine_code const& linked, machine_code const& before) {
  for (std::string const& name : before.kernels) {
    if (!linked.kernels.contains(name)) return "the kernel " + name + " is not in its PTX";
  }
  for (auto const& [name, bytes] : before.variables) {
    if (name.starts_with(".nv.")) continue;  // a variable of the compiler's own
    auto const found = linked.variables.find(name);
    if (found == linked.variables.end()) return "the variable " + name + " is not in its PTX";
    if (found->second != bytes) return "the variable " + name + " has another size in its PTX";
  }
  for (served_name const& each : served_names) {
    if (linked.asked.contains(each.from)) return "its code still asks the driver for " + std::string{each.from};
  }
  return {};
}

}  // namespace gpuheap::unchanged
