// The semaphore whose units are made in batches: alone, contended, under many schedules.
#include "batch_semaphore_checks.hpp"

namespace structures_test {
namespace {

TEST(BatchSemaphore, CountsUnitsAndDemandApart) { EXPECT_EQ(mistakes_with_units<batch_semaphore>(), 0u); }

TEST(BatchSemaphore, GivesEveryUnitOnce) {
  EXPECT_EQ(units_are_acquired_once<batch_semaphore>(many_threads, 64, 10000), "");
  EXPECT_EQ(units_are_acquired_once<batch_semaphore>(many_threads, 64, 50), "");
  expect_passes(700, [] { return units_are_acquired_once<batch_semaphore>(explored_threads, 4, 500); });
  expect_passes(700, [] { return units_are_acquired_once<batch_semaphore>(explored_threads, 4, 20); });
}

}  // namespace
}  // namespace structures_test
