#include "tools/malloc/run/ptxas_options.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

using namespace gpuheap::unchanged;

// The texts that nvcc 13.0 records, read from its fat binaries.
TEST(PtxasOptions, OfNvcc) {
  EXPECT_TRUE(ptxas_options_in(" --generate-line-info ").line_info) << "-lineinfo";
  auto const debug = ptxas_options_in(" -g --dont-merge-basicblocks --return-at-end ");
  EXPECT_TRUE(debug.debug && !debug.line_info) << "-G";
  EXPECT_EQ(ptxas_options_in(" -maxrregcount=40 ").most_registers, 40U) << "-maxrregcount=40";
  for (unsigned level : {0u, 1u, 2u, 3u}) {
    EXPECT_EQ(ptxas_options_in("-O" + std::to_string(level) + "  ").level, level) << "-Xptxas -O" << level;
  }
  auto const several = ptxas_options_in("-O1 --compile-only  -maxrregcount=40 --generate-line-info ");
  EXPECT_TRUE(several.level == 1U && several.most_registers == 40 && several.line_info && !several.debug);
  EXPECT_EQ(ptxas_options_in("--opt-level=1  ").level, 1U) << "-Xptxas --opt-level=1";
  EXPECT_EQ(ptxas_options_in("--opt-level 1  ").level, 1U) << "-Xptxas --opt-level,1";
  EXPECT_EQ(ptxas_options_in("-maxrregcount 32  ").most_registers, 32U) << "-Xptxas -maxrregcount,32";
  EXPECT_TRUE(ptxas_options_in("-lineinfo  ").line_info) << "-Xptxas -lineinfo";
  EXPECT_TRUE(ptxas_options_in("--device-debug  ").debug) << "-Xptxas --device-debug";
}

TEST(PtxasOptions, OfTheProgramAreAddedToThoseOfNvcc) {
  auto const found = ptxas_options_in("-O1  -maxrregcount=40  -maxrregcount=32 -maxrregcount=64 --opt-level=2 -lineinfo");
  EXPECT_EQ(found.most_registers, 32U);
  EXPECT_EQ(found.level, 2U);
  EXPECT_TRUE(found.line_info);
}

TEST(PtxasOptions, OthersAndDamagedTextAreLeftOut) {
  for (char const* text :
       {"", "   ", "-dlcm=cg  ", "-", "--", "generate-line-info O1 g", "--opt-level=", "--opt-level", "-O", "-O=", "-O9", "-O1x",
        "-Ofast-compile=max", "-maxrregcount=", "-maxrregcount=-3", "-maxrregcount=99999999999", "-maxrregcount=0", "-go -lineinfos"}) {
    auto const found = ptxas_options_in(text);
    EXPECT_TRUE(found.most_registers == 0 && !found.level && !found.debug && !found.line_info) << text;
  }
}

}  // namespace
