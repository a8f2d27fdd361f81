#include "tools/malloc/run/machine_code.hpp"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

namespace {

using namespace gpuheap::unchanged;

struct symbol {
  std::string name;
  unsigned char type;
  bool defined;
  std::uint64_t bytes = 0;
  bool kernel = false;
};

// A file of three sections: nothing, strings, symbols.
std::vector<std::byte> file_of(std::vector<symbol> const& symbols) {
  std::string strings(1, '\0');
  std::vector<Elf64_Sym> table(1);
  for (symbol const& each : symbols) {
    Elf64_Sym made{};
    made.st_name = static_cast<Elf64_Word>(strings.size());
    made.st_info = static_cast<unsigned char>(ELF64_ST_INFO(STB_GLOBAL, each.type));
    made.st_other = each.kernel ? 0x10 : 0;
    made.st_shndx = each.defined ? 1 : SHN_UNDEF;
    made.st_size = each.bytes;
    table.push_back(made);
    strings += each.name + '\0';
  }
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shnum = 3;
  head.e_shoff = sizeof head;
  Elf64_Shdr sections[3] = {};
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_offset = sizeof head + sizeof sections;
  sections[1].sh_size = strings.size();
  sections[2].sh_type = SHT_SYMTAB;
  sections[2].sh_link = 1;
  sections[2].sh_offset = sections[1].sh_offset + strings.size();
  sections[2].sh_size = table.size() * sizeof(Elf64_Sym);
  std::vector<std::byte> all(sections[2].sh_offset + sections[2].sh_size);
  if (all.size() < sizeof head + sizeof sections) return all;  // g++ 12 warns of an overflowed sum
  std::memcpy(all.data(), &head, sizeof head);
  std::memcpy(all.data() + sizeof head, sections, sizeof sections);
  std::memcpy(all.data() + sections[1].sh_offset, strings.data(), strings.size());
  std::memcpy(all.data() + sections[2].sh_offset, table.data(), sections[2].sh_size);
  return all;
}

std::vector<symbol> const program = {{"kernel", STT_FUNC, true, 128, true},
                                     {"helper", STT_FUNC, true, 64},
                                     {"table", STT_OBJECT, true, 40},
                                     {"malloc", STT_FUNC, false},
                                     {".nv.reservedSmem.offset0", STT_OBJECT, false}};

TEST(MachineCode, ReadsTheTableOfSymbols) {
  auto const all = file_of(program);
  EXPECT_EQ(elf_bytes(all.data()), all.size());
  auto const found = read_machine_code(all);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(asks_driver(*found));
  EXPECT_EQ(found->kernels, (std::set<std::string, std::less<>>{"kernel"}));
  EXPECT_EQ(found->functions.size(), 2U);
  EXPECT_EQ(found->variables.at("table"), 40U);
}

TEST(MachineCode, LinkedCodeHasAllThatTheProgramNames) {
  auto const before = read_machine_code(file_of(program)).value();
  std::vector<symbol> linked = {
      {"kernel", STT_FUNC, true, 256, true}, {"table", STT_OBJECT, true, 40}, {"gpuheap_malloc", STT_FUNC, true, 64}};
  EXPECT_EQ(lack(read_machine_code(file_of(linked)).value(), before), "");
  auto const without = [&](std::size_t which) {
    auto rest = linked;
    rest.erase(rest.begin() + static_cast<long>(which));
    return lack(read_machine_code(file_of(rest)).value(), before);
  };
  EXPECT_NE(without(0).find("kernel"), std::string::npos);
  EXPECT_NE(without(1).find("table"), std::string::npos);
  linked[1].bytes = 44;
  EXPECT_NE(lack(read_machine_code(file_of(linked)).value(), before).find("size"), std::string::npos);
  linked[1].bytes = 40;
  linked.push_back({"free", STT_FUNC, false});
  EXPECT_NE(lack(read_machine_code(file_of(linked)).value(), before).find("free"), std::string::npos);
}

TEST(MachineCode, SurvivesAnyDamage) {
  auto const good = file_of(program);
  std::mt19937 random{1};
  for (std::size_t length = 0; length < good.size(); ++length) static_cast<void>(read_machine_code(bytes_view{good}.first(length)));
  for (int round = 0; round < 50000; ++round) {
    auto all = good;
    for (unsigned changes = 1 + random() % 4; changes > 0; --changes) all[random() % all.size()] = static_cast<std::byte>(random());
    static_cast<void>(read_machine_code(all));
  }
}

}  // namespace
