#include "tools/malloc/run/fat_binary.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "tools/malloc/run/choose.hpp"

namespace {

using namespace gpuheap::unchanged;

template <class T>
void put(std::string& to, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof bytes);
}

struct wanted_entry {
  std::uint16_t kind = 1;
  std::uint32_t architecture = 90;
  std::string payload = {};
  std::uint64_t flags = 0x11;
  std::uint64_t unpacked_bytes = 0;
  std::uint32_t packed_bytes = 0;
  std::string options = {};
};

std::string entry(wanted_entry const& wanted) {
  std::string made;
  std::uint32_t const head = wanted.options.empty() ? 64U : static_cast<std::uint32_t>((72 + wanted.options.size() + 7) / 8 * 8);
  std::uint64_t const padded = (wanted.payload.size() + 7) / 8 * 8;
  put(made, wanted.kind);
  put(made, std::uint16_t{0x101});
  put(made, head);
  put(made, padded);
  put(made, wanted.packed_bytes);
  put(made, wanted.options.empty() ? 0U : 64U);
  put(made, std::uint16_t{0});
  put(made, std::uint16_t{9});
  put(made, wanted.architecture);
  put(made, std::uint64_t{0});
  put(made, wanted.flags);
  put(made, std::uint64_t{0});
  put(made, wanted.unpacked_bytes);
  if (!wanted.options.empty()) {
    put(made, 72U);
    put(made, static_cast<std::uint32_t>(wanted.options.size()));
    made += wanted.options;
    made.resize(head);
  }
  made += wanted.payload;
  made.resize(head + padded);
  return made;
}

std::string fat_binary(std::initializer_list<wanted_entry> entries) {
  std::string body;
  for (wanted_entry const& each : entries) body += entry(each);
  std::string made;
  put(made, fat_binary_magic);
  put(made, std::uint16_t{1});
  put(made, std::uint16_t{16});
  put(made, std::uint64_t{body.size()});
  return made + body;
}

bytes_view view(std::string const& bytes) { return std::as_bytes(std::span{bytes}); }

std::string text_of(fat_entry const& from) {
  std::string why;
  auto const bytes = unpacked(from, &why);
  EXPECT_TRUE(bytes.has_value()) << why;
  if (!bytes) return why;
  std::string const all{reinterpret_cast<char const*>(bytes->data()), bytes->size()};
  return all.substr(0, all.find('\0'));
}

// "abcd" a hundred times, as liblz4 packs it: four literals, and a match at offset 4 of all but the last bytes.
std::string packed_by_lz4() {
  return std::string{
      "\x4f"
      "abcd"
      "\x04\x00"
      "\xff\x75"
      "\x50"
      "dabcd",
      15};
}

std::string const asks =
    ".version 8.0\n.target sm_80\n.address_size 64\n.extern .func (.param .b64 r) malloc (.param .b64 p);\n.visible .entry k() { ret; }\n";
std::string const asks_not = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";

TEST(FatBinary, ReadsItsEntries) {
  std::string const all = fat_binary(
      {{.kind = 2, .architecture = 80, .payload = "code"}, {.payload = "text", .options = " -maxrregcount=40 -g "}, {.kind = 9}});
  std::string why;
  auto const found = entries_of(view(all), &why);
  ASSERT_TRUE(found.has_value()) << why;
  ASSERT_EQ(found->size(), 3U);
  EXPECT_EQ((*found)[0].kind, entry_kind::machine_code);
  EXPECT_EQ((*found)[0].architecture, 80U);
  EXPECT_EQ((*found)[1].kind, entry_kind::ptx);
  EXPECT_EQ((*found)[1].options, " -maxrregcount=40 -g ");
  EXPECT_EQ(text_of((*found)[1]), "text");
  EXPECT_EQ((*found)[2].kind, entry_kind::other);
}

TEST(FatBinary, UnpacksLz4) {
  std::string const packed = packed_by_lz4();
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += "abcd";
  for (std::uint64_t const told : {std::uint64_t{400}, std::uint64_t{399}, std::uint64_t{401}, std::uint64_t{0}, ~std::uint64_t{0}}) {
    std::string const all = fat_binary(
        {{.payload = packed, .flags = 0x2011, .unpacked_bytes = told, .packed_bytes = static_cast<std::uint32_t>(packed.size())}});
    std::string why;
    auto const found = entries_of(view(all), &why);
    ASSERT_TRUE(found.has_value()) << why;
    auto const bytes = unpacked(found->front(), &why);
    EXPECT_EQ(bytes.has_value(), told == 400) << told;
    EXPECT_TRUE(bytes ? std::memcmp(bytes->data(), expected.data(), expected.size()) == 0 : !why.empty());
  }
}

TEST(FatBinary, RefusesWhatIsCutOff) {
  std::string const all = fat_binary({{.payload = "first text"}, {.payload = "second", .options = "-g"}});
  for (std::size_t length = 0; length < all.size(); ++length) {
    std::string why;
    EXPECT_FALSE(entries_of(view(all).first(length), &why).has_value()) << length;
    EXPECT_FALSE(why.empty());
  }
}

TEST(FatBinary, RefusesLengthsThatOverflow) {
  std::string const good = fat_binary({{.payload = "text"}});
  for (std::uint64_t const bad :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 15, ~std::uint64_t{0} - 63, std::uint64_t{1} << 63, std::uint64_t{1} << 32}) {
    for (std::size_t const at : {std::size_t{8}, std::size_t{16 + 8}}) {  // of the whole, of an entry's payload
      std::string all = good;
      std::memcpy(all.data() + at, &bad, sizeof bad);
      std::string why;
      EXPECT_FALSE(entries_of(view(all), &why).has_value()) << bad << " at " << at;
    }
  }
  for (std::uint32_t const bad : {0U, 8U, 63U, 1000U, ~0U}) {  // of an entry's head
    std::string all = good;
    std::memcpy(all.data() + 16 + 4, &bad, sizeof bad);
    std::string why;
    EXPECT_FALSE(entries_of(view(all), &why).has_value()) << bad;
  }
}

// Whatever the bytes are, the reader reads nothing outside of them (checked by the address sanitizer) and throws nothing.
TEST(FatBinary, SurvivesAnyDamage) {
  std::string const packed = packed_by_lz4();
  std::string const good = fat_binary({{.kind = 2,
                                        .architecture = 90,
                                        .payload = "\x7f"
                                                   "ELF and no more"},
                                       {.payload = asks, .options = "-maxrregcount=3"},
                                       {.payload = packed, .flags = 0x2011, .unpacked_bytes = 400, .packed_bytes = 15},
                                       {.payload = packed, .flags = 0x8011, .unpacked_bytes = 400, .packed_bytes = 15}});
  std::mt19937 random{1};
  for (int round = 0; round < 20000; ++round) {
    std::string all = good;
    for (unsigned changes = 1 + random() % 4; changes > 0; --changes) all[random() % all.size()] = static_cast<char>(random());
    all.resize(random() % 4 == 0 ? random() % all.size() : all.size());
    static_cast<void>(decide(view(all), 90));
  }
}

TEST(Choose, TakesTheBestPtxThatTheDeviceRuns) {
  auto const for_target = [](char const* target, char const* mark) {
    return ".version 9.0\n.target " + std::string{target} + "\n.address_size 64\n.extern .func free (.param .b64 p);\n// " + mark + "\n";
  };
  std::string const all = fat_binary({{.architecture = 75, .payload = for_target("sm_75", "old")},
                                      {.architecture = 90, .payload = for_target("sm_90a", "special")},
                                      {.architecture = 86, .payload = for_target("sm_86", "middle")},
                                      {.architecture = 100, .payload = for_target("sm_100", "new")}});
  auto const chosen = [&](std::uint32_t device) {
    decision const made = decide(view(all), device);
    if (made.what != verdict::link) return std::string{"none"};
    std::string const text{reinterpret_cast<char const*>(made.inputs.at(0).bytes.data())};
    return text.substr(text.find("// ") + 3);
  };
  EXPECT_EQ(chosen(70), "none");
  EXPECT_EQ(chosen(80), "old\n");
  EXPECT_EQ(chosen(89), "middle\n");
  EXPECT_EQ(chosen(90), "special\n");
  EXPECT_EQ(chosen(95), "middle\n");
  EXPECT_EQ(chosen(120), "new\n");
}

TEST(Choose, PassesOnWhatNeedsNothing) {
  EXPECT_EQ(decide(view(fat_binary({{.payload = asks_not}})), 90).what, verdict::untouched);
  EXPECT_EQ(decide(view(fat_binary({})), 90).what, verdict::untouched);
  EXPECT_EQ(decide(view(fat_binary({{.payload = asks}})), 90).what, verdict::link);
  EXPECT_EQ(decide(view(asks), 90).what, verdict::link);
  EXPECT_EQ(decide(view(asks_not), 90).what, verdict::untouched);
  EXPECT_EQ(decide(view(asks), 75).what, verdict::untouched);
  EXPECT_EQ(decide(bytes_view{}, 90).what, verdict::untouched);
  EXPECT_EQ(decide(static_cast<void const*>(nullptr), 90).what, verdict::untouched);
  EXPECT_EQ(decide(static_cast<void const*>("abc"), 90).what, verdict::untouched);
  EXPECT_EQ(decide(static_cast<void const*>(asks.c_str()), 90).what, verdict::link);
}

TEST(Choose, SaysWhatIsDamaged) {
  std::string all = fat_binary({{.payload = asks, .flags = 0x8011, .unpacked_bytes = 100}});
  decision const made = decide(view(all), 90);
  EXPECT_EQ(made.what, verdict::cannot);
  EXPECT_NE(made.why.find("Zstandard"), std::string::npos) << made.why;
}

}  // namespace
