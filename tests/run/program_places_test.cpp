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
                            ".func (.param .b64 o) helper(.param .b64 i) {\n{ " + call("malloc") + "}\n" + call("malloc") + "}\n");
  EXPECT_EQ(texts(found), (std::set<std::string>{"in build(node*)", "in helper"}));
  EXPECT_EQ(found.places.size(), 2U);
  EXPECT_EQ(found.text.find("malloc, (p)"), std::string::npos);
  EXPECT_FALSE(facts_of(found.text)->asks());
}

// The names that nvcc 13 gives to static functions, and to those of a namespace without a name.
TEST(ProgramPlaces, NamesOfStaticFunctionsLackTheirUnit) {
  std::string program = head + asked;
  for (char const* name : {
           "__nv_static_32__c17c422d_11_my_Zfile_cu__Z3reci__Z6hiddenPPv",
           "__nv_static_23__5c81cd32_5_10_cu_scale__Z6hiddenPP4node",
           "_ZN41_INTERNAL_c17c422d_11_my_Zfile_cu__Z3reci3ownEi",
           "__nv_static_32__c17c422d_11_my_Zfile_cu__Z3reci__Z2byIXadL_ZN41_INTERNAL_c17c422d_11_my_Zfile_cu__Z3reci43_GLOBAL__N__c17c422d_"
           "11"
           "_my_Zfile_cu__Z3reci5anondEiEEEvPPv",
           "__nv_static_32__c17c422d_11_my_Zfile_cu__Z3reci__ZN43_GLOBAL__N__c17c422d_11_my_Zfile_cu__Z3reci4anonEPPv",
           "__nv_static_99999999999999999999__x",
           "__nv_static_18446744073709551615__x",
           "__nv_static_18446744073709551600__x",
           "__nv_static_4_",
       }) {
    program += std::string{".entry "} + name + "() {\n" + call("malloc") + "}\n";
  }
  EXPECT_EQ(
      texts(placed(program)),
      (std::set<std::string>{"in hidden(void**)", "in hidden(node**)", "in own(int)", "in void by<&(anonymous namespace)::anond>(void**)",
                             "in (anonymous namespace)::anon(void**)", "in __nv_static_99999999999999999999__x",
                             "in __nv_static_18446744073709551615__x", "in __nv_static_18446744073709551600__x", "in __nv_static_4_"}));
}

TEST(ProgramPlaces, AreTheLastArgumentsOfCalls) {
  auto const found = placed(head + asked + ".entry k() {\ncall (x), malloc, (x);\n@!%p1 call.uni free, (\n%rd1\n);\ncall other, (x);\n}\n");
  ASSERT_EQ(found.places.size(), 1U);
  std::string const number = std::to_string(found.places[0].number);
  EXPECT_NE(found.text.find("\ncall (x), gpuheap_malloc_at, (x, " + number + ");\n"), std::string::npos);
  EXPECT_NE(found.text.find("\n@!%p1 call.uni gpuheap_free_at, (\n%rd1\n, " + number + ");\n"), std::string::npos);
  EXPECT_NE(found.text.find("\ncall other, (x);\n"), std::string::npos);
  EXPECT_TRUE(found.text.starts_with(head.substr(0, head.size() - 1) +
                                     "\n.extern .func (.param .b64 result) gpuheap_malloc_at (.param .b64 p0, .param .b64 p1);\n"
                                     ".extern .func gpuheap_free_at (.param .b64 p0, .param .b64 p1);\n"));
}

// ptxas takes all of these for names of their own, and a name that is not called is the same in all functions.
TEST(ProgramPlaces, NamesThatAreNotCalledStayPlain) {
  for (char const* body : {
           "bra free;\nfree:\nret;\n",
           ".reg .b64 free;\n.loc 1 3 1\nmov.b64 free, 5;\n.loc 1 4 1\nadd.u64 free, free, 1;\n",
           ".extern .func free (.param .b64 p);\n",
           "mov.u64 %rd1, malloc;\ncall (r), %rd1, (p), prototype;\n",
           "call (malloc), other, (free);\n",
           "call malloc;\n",
           "call (r), malloc, ((8));\n",
           "ld.param.b64 %rd1, [free];\n",
       }) {
    std::string const program = head + asked + files + ".func (.param .b64 malloc) k(.param .b64 free) {\n" + body + "}\n";
    auto const found = placed(program);
    EXPECT_EQ(found.text, renamed(program));
    EXPECT_TRUE(found.places.empty());
  }
  std::string const text = placed(head + asked + ".entry k() {\ncall (malloc), malloc, (free);\n}\n").text;
  EXPECT_NE(text.find("call (gpuheap_malloc), gpuheap_malloc_at, (gpuheap_free, "), std::string::npos);
}

TEST(ProgramPlaces, DeclarationsWithOtherArgumentsKeepTheirCalls) {
  for (char const* other : {
           ".extern .func malloc (.param .b64 p);\n",
           ".extern .func (.param .b32 r) malloc (.param .b32 p);\n",
           ".extern .func (.param .align 8 .b8 r[8]) malloc (.param .align 8 .b8 p[8]);\n",
           ".extern .func (.reg .b64 r) malloc (.reg .b64 p);\n",
           ".extern .func (.param .b64 r) malloc (.param .b64 p, .param .b64 q);\n",
           ".extern .func (.param .b64 r) malloc;\n",
       }) {
    std::string const program = head + other + ".entry k() {\n" + call("malloc") + "}\n";
    EXPECT_EQ(placed(program).text, renamed(program)) << other;
  }
  for (char const* fitting : {".extern .func (.param .u64 r) malloc (.param .align 8 .s64 p);\n",
                              ".extern .func (.param .b64 r) .attribute(.unified(1, 2)) malloc (.param .b64 p) .noreturn;\n"}) {
    EXPECT_EQ(placed(head + fitting + ".entry k() {\n" + call("malloc") + "}\n").places.size(), 1U) << fitting;
  }
}

TEST(ProgramPlaces, DeclarationsStandBehindTheAddressSize) {
  std::string const begin = ".version 9.0\n.target sm_90\n" + asked, kernel = "\n.entry k() {\n" + call("free") + "}\n";
  EXPECT_NE(placed(begin + ".address_size 64" + kernel).text.find(".address_size 64\n.extern .func gpuheap_free_at ("), std::string::npos);
  for (char const* end : {"", ".address_size", ".address_size 64\n"})
    EXPECT_EQ(placed(begin + kernel + end).text, renamed(begin + kernel + end));
}

TEST(ProgramPlaces, AreLinesWhereThePtxHasThem) {
  auto const found = placed(head + asked + ".entry k() {\n.loc 1 45 3\n" + call("malloc") + ".loc 1 0 3\n" + call("malloc") +
                            ".loc 2 7 1, function_name $L__info_string0, inlined_at 1 50 3\n" + call("free") + ".loc 9 1 1\n" +
                            call("free") + "}\n.entry next() {\n" + call("malloc") + "}\n" + files);
  EXPECT_EQ(texts(found), (std::set<std::string>{"at tree.cu:45 in k", "at list.cuh:7 in k", "in k", "in next"}));
  auto const other = placed(head + asked + ".file 1 \"C:\\dir\\\"\n.entry k() {\n.loc 1 4 1\n" + call("malloc") + "}\n");
  EXPECT_EQ(texts(other), (std::set<std::string>{"at C:\\dir\\:4 in k"})) << "ptxas takes a backslash for a character of its own";
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
    EXPECT_NE(one.text.find(", " + std::to_string(place.number) + ")"), std::string::npos);
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
