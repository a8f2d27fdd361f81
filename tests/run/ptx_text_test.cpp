#include "tools/malloc/run/ptx_text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

using namespace gpuheap::unchanged;

std::string const head = ".version 9.0\n.target sm_90\n.address_size 64\n";
std::string const asked_malloc = ".extern .func  (.param .b64 func_retval0) malloc\n(\n\t.param .b64 malloc_param_0\n)\n;\n";
std::string const asked_free = ".extern .func free\n(\n\t.param .b64 free_param_0\n)\n;\n";

ptx_facts facts(std::string const& text) {
  auto const found = facts_of(text);
  EXPECT_TRUE(found.has_value()) << text;
  return found.value_or(ptx_facts{});
}

TEST(PtxText, TellsWhatTheDriverIsAskedFor) {
  EXPECT_FALSE(facts(head).asks());
  EXPECT_TRUE(facts(head + asked_malloc).asks());
  EXPECT_TRUE(facts(head + asked_free).asks());
  EXPECT_TRUE(facts(head + ".extern .func (.param .b64 r) __cuda_syscall_aligned_malloc (.param .b64 a, .param .b64 b);").asks());
  EXPECT_FALSE(facts(head + ".extern .func (.param .b64 r) my_malloc (.param .b64 a);").asks());
  EXPECT_FALSE(facts(head + "// .extern .func malloc\n/* .extern .func free */").asks());
  EXPECT_FALSE(facts(head + ".extern .global .align 4 .b8 malloc[];").asks());
}

TEST(PtxText, AFunctionOfTheProgramsOwnIsNotAsked) {
  auto const own = facts(head + asked_malloc + ".visible .func (.param .b64 r) malloc (.param .b64 a)\n{ ret; }");
  EXPECT_TRUE(own.defines());
  EXPECT_TRUE(facts(head + ".visible .entry malloc() { ret; }").defines());
  EXPECT_TRUE(facts(head + ".weak .func .attribute(.unified(1, 2)) free (.param .b64 a) { ret; }").defines());
  EXPECT_FALSE(facts(head + asked_malloc).defines());
}

TEST(PtxText, ReadsTargets) {
  EXPECT_EQ(facts(head).architecture, 90U);
  EXPECT_EQ(facts(head).family, 0);
  EXPECT_EQ(facts(".version 8.0\n.target sm_90a, debug\n.address_size 64\n").family, 'a');
  EXPECT_EQ(facts(".version 8.8\n.target sm_100f\n.address_size 64\n").family, 'f');
  EXPECT_FALSE(facts_of("no PTX at all").has_value());
  EXPECT_FALSE(facts_of("").has_value());
  EXPECT_FALSE(facts_of(".target").has_value());
  EXPECT_FALSE(facts_of(".target sm_").has_value());
}

TEST(PtxText, RunsWhereTheDriverWouldRunIt) {
  auto const target = [](char const* name) { return facts(std::string{".target "} + name + "\n.address_size 64\n"); };
  EXPECT_TRUE(runs_on(target("sm_75"), 90));
  EXPECT_TRUE(runs_on(target("sm_90"), 90));
  EXPECT_FALSE(runs_on(target("sm_100"), 90));
  EXPECT_TRUE(runs_on(target("sm_90a"), 90));
  EXPECT_FALSE(runs_on(target("sm_90a"), 100));
  EXPECT_TRUE(runs_on(target("sm_100f"), 103));
  EXPECT_FALSE(runs_on(target("sm_100f"), 120));
  EXPECT_FALSE(runs_on(facts(".target sm_30\n.address_size 32\n"), 90));
}

TEST(PtxText, RenamesWholeIdentifiersAlone) {
  EXPECT_EQ(renamed("call.uni (r), malloc, (p);"), "call.uni (r), gpuheap_malloc, (p);");
  EXPECT_EQ(renamed("call free,(p);"), "call gpuheap_free,(p);");
  EXPECT_EQ(renamed("mov.u64 %rd1, malloc;"), "mov.u64 %rd1, gpuheap_malloc;");
  EXPECT_EQ(renamed("malloc"), "gpuheap_malloc");
  for (char const* same : {"malloc_param_0", "_malloc", "$malloc", "malloc$", "malloc1", "%malloc", "mallocfree", "free_param_0", ".malloc",
                           "my.free", "// malloc\n", "/* free */", "\"malloc\"", "\"a\\\"", "1malloc"}) {
    EXPECT_EQ(renamed(same), same);
  }
  EXPECT_EQ(renamed("\"C:\\dir\\\" malloc"), "\"C:\\dir\\\" gpuheap_malloc") << "ptxas takes a backslash for a character of its own";
}

TEST(PtxText, EndsAtAnyCut) {
  std::string const whole =
      head + asked_malloc + asked_free + "/* a */ .file 1 \"free.cu\"\n.visible .entry k() { call.uni (r), malloc, (p); // c\n }";
  EXPECT_TRUE(facts(whole).asks());
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    std::string const cut = whole.substr(0, length);
    static_cast<void>(facts_of(cut));
    EXPECT_GE(renamed(cut).size(), cut.size());
  }
}

TEST(PtxText, ZeroBytesEndNothing) {
  std::string text = head + asked_malloc;
  text += '\0';
  EXPECT_TRUE(facts(text).asks());
  EXPECT_EQ(renamed(text).back(), '\0');
}

}  // namespace
