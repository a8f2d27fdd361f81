// The kinds of heap in tables: under short names, and for the suite `kinds` alone.
#include "kinds/kinds.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

namespace bench = gpuheap::bench;
using gpuheap::sharded_spans;

TEST(Kinds, AreBaselinesWithShortNames) {
  EXPECT_EQ(std::string(bench::name_in_tables<gpuheap::checked<sharded_spans>>()), "checked");
  EXPECT_EQ(std::string(bench::name_in_tables<gpuheap::hardened<sharded_spans>>()), "hardened");
  EXPECT_EQ(std::string(bench::name_in_tables<sharded_spans>()), "sharded_spans");
  EXPECT_TRUE(bench::is_baseline<gpuheap::checked<sharded_spans>>());
  EXPECT_TRUE(bench::is_baseline<gpuheap::hardened<sharded_spans>>());
  EXPECT_FALSE(bench::is_baseline<sharded_spans>());
}

}  // namespace
