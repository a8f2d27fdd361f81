// The lock: mutual exclusion, also among diverged lanes of one warp.
#include "spin_lock_checks.hpp"

namespace structures_test {
namespace {

TEST(SpinLock, HoldersAreAlone) {
  EXPECT_EQ(holders_are_alone<spin_lock>(1, 5), "");
  EXPECT_EQ(holders_are_alone<spin_lock>(many_threads, 2), "");
}
TEST(SpinLock, HoldersAreAloneUnderManySchedules) {
  expect_passes(700, [] { return holders_are_alone<spin_lock>(explored_threads, 2); });
}

}  // namespace
}  // namespace structures_test
