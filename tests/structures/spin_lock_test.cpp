// The lock: mutual exclusion, also among diverged lanes of one warp.
#include "spin_lock_checks.hpp"

namespace structures_test {

// Kernel, one thread: tries within a try, and after it.
struct try_twice {
  spin_lock lock;
  unsigned* seen;
  GPUHEAP_FN void operator()(unsigned) const {
    seen[0] = lock.is_open();
    seen[1] = lock.try_run([&] {
      seen[2] = lock.is_open();
      seen[3] = lock.try_run([&] { seen[4] = 1; });
    });
    seen[5] = lock.is_open();
    seen[6] = lock.try_run([] {});
  }
};

namespace {

TEST(SpinLock, ATryFailsWhileSomebodyHoldsIt) {
  test::device_array<unsigned> word(1), seen(7);
  gpuheap::launch(1, try_twice{{word.data()}, seen.data()});
  EXPECT_EQ(seen.read(), (std::vector<unsigned>{1, 1, 0, 0, 0, 1, 1}));
}

TEST(SpinLock, HoldersAreAlone) {
  EXPECT_EQ(holders_are_alone<spin_lock>(1, 5), "");
  EXPECT_EQ(holders_are_alone<spin_lock>(many_threads, 2), "");
}
TEST(SpinLock, HoldersAreAloneUnderManySchedules) {
  expect_passes(700, [] { return holders_are_alone<spin_lock>(explored_threads, 2); });
}

}  // namespace
}  // namespace structures_test
