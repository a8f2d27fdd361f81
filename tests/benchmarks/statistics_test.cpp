#include "harness/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>

using gpuheap::bench::percentile;
using gpuheap::bench::summarise;

TEST(Statistics, MedianOfOddCountIsTheMiddleSample) { EXPECT_DOUBLE_EQ(percentile({9, 1, 5}, 0.5), 5); }
TEST(Statistics, MedianOfEvenCountIsBetweenTheMiddleOnes) { EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 0.5), 2.5); }
TEST(Statistics, EndsAreTheExtremes) {
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 1), 4);
}
TEST(Statistics, PercentilesAreLinearBetweenSamples) { EXPECT_DOUBLE_EQ(percentile({0, 10}, 0.05), 0.5); }
TEST(Statistics, OneSampleIsEveryPercentile) {
  auto const s = summarise({7});
  EXPECT_DOUBLE_EQ(s.median, 7);
  EXPECT_DOUBLE_EQ(s.p5, 7);
  EXPECT_DOUBLE_EQ(s.p95, 7);
}
TEST(Statistics, NoSamplesGiveNoNumber) { EXPECT_TRUE(std::isnan(percentile({}, 0.5))); }
