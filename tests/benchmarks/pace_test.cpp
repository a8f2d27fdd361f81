#include "harness/pace.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

using namespace gpuheap::bench;

namespace {
void let_pass(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
}  // namespace

TEST(Pace, APointMakesAllItsRuns) {
  pace const timing({.runs = 100, .graph_file = {}});
  EXPECT_FALSE(timing.enough(99));
  EXPECT_TRUE(timing.enough(100));
}
TEST(Pace, OneThatTakesLongMakesTheFewestThatCount) {
  pace const timing({.runs = 100, .graph_file = {}, .enough_s = 0.001});
  let_pass(5);
  EXPECT_FALSE(timing.enough(fewest_runs - 1));
  EXPECT_TRUE(timing.enough(fewest_runs));
  EXPECT_TRUE(timing.enough(1, fewest_runs));  // one run of so many samples
}
TEST(Pace, OneThatHasTheFewestThatCountEndsBeforeItsLimit) {
  pace const timing({.runs = 100, .graph_file = {}, .timeout_s = 0.05});
  EXPECT_FALSE(timing.enough(fewest_runs));
  let_pass(45);
  EXPECT_FALSE(timing.enough(fewest_runs - 1));
  EXPECT_TRUE(timing.enough(fewest_runs));
}
TEST(Pace, FewerRunsThanCountAreEnoughWhereFewerAreAskedFor) {
  pace const timing({.runs = 2, .graph_file = {}, .enough_s = 0.001});
  EXPECT_EQ(timing.lacking(0), 2u);
  EXPECT_TRUE(timing.enough(2));
}
TEST(Pace, WhatWillNotBeDoneInTimeIsToldEarly) {
  pace const timing({.runs = 100, .graph_file = {}, .timeout_s = 0.1});
  let_pass(20);
  EXPECT_EQ(timing.too_slow(0, 5), "");  // nothing is known
  EXPECT_EQ(timing.too_slow(1, 1), "");
  EXPECT_NE(timing.too_slow(1, 1000).find("longer than the 0.1 s that a point has"), std::string::npos);
  EXPECT_EQ(pace({.runs = 100, .graph_file = {}}).too_slow(1, 1000), "");  // without a limit nothing is too slow
}
