#include "tools/malloc/run/program_places.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tools/malloc/run/ptx_text.hpp"

namespace {

using namespace gpuheap::unchanged;

std::string const head = ".version 9.0\n.target sm_90\n.address_size 64\n";
std::string const asked = ".extern .func (.param .b64 r) malloc (.param .b64 p);\n.extern .func free (.param .b64 p);\n";
std::string const files = ".file 1 \"/home/user/tree.cu\"\n.file 2 \"list.cuh\", 17, 400\n";

std::string call(char const* name) { return std::string{"call.uni (r), "} + name + ", (p);\n"; }

std::set<std::string> texts(placed_ptx const& found) {
  std::set<std::string> all;
  for (program_place const& place : found.places) all.insert(place.text);
  return all;
}

TEST(ProgramPlaces, AreFunctionsWithReadableNames) {
  auto const found = placed(head + asked + ".visible .entry _Z5buildP4node() {\n" + call("malloc") + call("free") + "}\n" +
                            ".func (.param .b64 o) helper(.param .b64 i) {\n{ " + call("malloc") + "}\n" + call("malloc") + "}\n" +
                            ".entry __nv_static_17__3e320a3_5_10_cu_scale__Z6hiddenPP4node() {\n" + call("malloc") + "}\n");
  EXPECT_EQ(texts(found), (std::set<std::string>{"in build(node*)", "in helper", "in hidden(node**)"}));
  EXPECT_EQ(found.places.size(), 4U) << "one for each function that is called at each place";
  EXPECT_EQ(found.text.find("malloc, (p)"), std::string::npos);
  EXPECT_FALSE(facts_of(found.text)->asks());
}

TEST(ProgramPlaces, AreLinesWhereThePtxHasThem) {
  auto const found = placed(head + asked + ".entry k() {\n.loc 1 45 3\n" + call("malloc") + ".loc 1 0 3\n" + call("malloc") +
                            ".loc 2 7 1, function_name $L__info_string0, inlined_at 1 50 3\n" + call("free") + ".loc 9 1 1\n" +
                            call("free") + "}\n.entry next() {\n" + call("malloc") + "}\n" + files);
  EXPECT_EQ(texts(found), (std::set<std::string>{"at tree.cu:45 in k", "at list.cuh:7 in k", "in k", "in next"}));
}

TEST(ProgramPlaces, HaveNumbersThatFollowFromTheirTexts) {
  std::string const program = head + asked + ".entry k() {\n" + call("malloc") + "}\n.entry l() {\n" + call("free") + "}\n";
  auto const one = placed(program), two = placed(program);
  ASSERT_EQ(one.places.size(), 2U);
  EXPECT_EQ(one.text, two.text);
  EXPECT_NE(one.places[0].number, one.places[1].number);
  for (program_place const& place : one.places) {
    EXPECT_GE(place.number, 1U);
    EXPECT_LE(place.number, std::uint64_t{1} << 62);
    EXPECT_NE(one.text.find("_at_" + std::to_string(place.number)), std::string::npos);
    EXPECT_EQ(text_of_place(place.number), nullptr);
  }
  note_places(one.places);
  note_places(two.places);
  EXPECT_STREQ(text_of_place(one.places[0].number), "in k");
  EXPECT_STREQ(text_of_place(one.places[1].number), "in l");
}

TEST(ProgramPlaces, TextsOutsideOfFunctionsHaveThePlainNames) {
  std::string const plain =
      head + asked + ".global .u64 table[2] = {malloc, free};\n.entry k() { ret; }\n.section .debug_info { .b64 free }\n";
  auto const found = placed(plain);
  EXPECT_EQ(found.text, renamed(plain));
  EXPECT_TRUE(found.places.empty());
}

TEST(ProgramPlaces, LongNamesAreCut) {
  auto const found = placed(head + asked + ".entry " + std::string(5000, 'k') + "() {\n" + call("malloc") + "}\n");
  ASSERT_EQ(found.places.size(), 1U);
  EXPECT_EQ(found.places[0].text.size(), 3U + 160 + 3);
}

TEST(ProgramPlaces, TheTextEndsAtAnyCut) {
  std::string const whole =
      head + asked + files + ".entry k() {\n.loc 1 45 3\n" + call("malloc") + "}\n.func f() { " + call("free") + "}}}\n";
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    std::string const cut = whole.substr(0, length);
    EXPECT_GE(placed(cut).text.size(), cut.size());
  }
}

}  // namespace
