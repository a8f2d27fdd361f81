// The service and contexts that have ended: none of them is asked, because the driver answers that with an error.
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/malloc/fakes.hpp"

namespace gpuheap::device_malloc {
namespace {

using namespace fakes;

// A context that ended unseen, and stays current.
class EndedContext : public MallocService {
 protected:
  void SetUp() override {
    MallocService::SetUp();
    setenv("GPUHEAP_STATS", "1", 1);
  }
  void make_primary(std::uint64_t address) {
    seen.is_primary = true;
    seen.primary = address;
    seen.ended.erase(address);
  }
  void reset() {
    seen.is_primary = false;
    seen.ended.insert(seen.primary);
  }
  std::string said_at_end(service& s) {
    testing::internal::CaptureStderr();
    s.process_ends();
    return testing::internal::GetCapturedStderr();
  }
  static std::size_t heaps_unknown(std::string const& said, std::string const& device) {
    std::size_t const at = said.find("gpuheap: device " + device + " (Fake): ");
    if (at == std::string::npos || said.find("cannot be asked", at) == std::string::npos) return 0;
    return std::strtoul(said.c_str() + said.find("): ", at) + 3, nullptr, 10);
  }
};

TEST_F(EndedContext, APrimaryContextIsNotAskedAfterAReset) {
  service s{table, fake_driver()};
  make_primary(100);
  seen.current = 100;
  (void)s.before_launch(nullptr);
  reset();
  s.context_ends();
  EXPECT_EQ(heaps_unknown(said_at_end(s), "1"), 1u);
  EXPECT_EQ(seen.reported, 0);
}

TEST_F(EndedContext, APrimaryContextThatLivesIsAskedFromAnyThread) {
  service s{table, fake_driver()};
  make_primary(100);
  seen.current = 100;
  (void)s.before_launch(nullptr);
  std::string said;
  std::thread{[&] { said = said_at_end(s); }}.join();
  EXPECT_NE(said.find("device 1 (Fake): not freed: 3 blocks"), std::string::npos) << said;
  EXPECT_EQ(heaps_unknown(said, "1"), 0u);
}

TEST_F(EndedContext, TheSuccessorWithTheSameHandleIsAskedAlone) {
  for (bool const is_reset_again : {false, true}) {
    service s{table, fake_driver()};
    seen.reported = seen.forgotten = 0;
    seen.ids[100] = 7;
    make_primary(100);
    seen.current = 100;
    served_context const* const first = s.before_launch(nullptr);
    reset();
    make_primary(100);
    seen.ids[100] = 8;
    EXPECT_EQ(seen.limits_given.size() % 2, 1u);
    EXPECT_NE(s.before_launch(nullptr), first);
    if (is_reset_again) reset();
    testing::internal::CaptureStderr();
    s.context_ends();
    EXPECT_EQ(testing::internal::GetCapturedStderr().empty(), is_reset_again);
    EXPECT_EQ(seen.forgotten, is_reset_again ? 0 : 1);
    EXPECT_EQ(heaps_unknown(said_at_end(s), "1"), is_reset_again ? 2u : 1u);
    EXPECT_EQ(seen.reported, is_reset_again ? 0 : 1);
  }
}

TEST_F(EndedContext, TheResetOfAnotherDeviceChangesNothing) {
  service s{table, fake_driver()};
  make_primary(200);
  seen.current = 200;
  (void)s.before_launch(nullptr);
  reset();
  make_primary(100);
  seen.current = 100;
  (void)s.before_launch(nullptr);
  seen.current = 200;  // as after cudaSetDevice and cudaDeviceReset
  s.context_ends();
  EXPECT_EQ(seen.forgotten, 0);
  std::string const said = said_at_end(s);
  EXPECT_EQ(heaps_unknown(said, "2"), 1u) << said;
  EXPECT_NE(said.find("device 1 (Fake): not freed: 3 blocks"), std::string::npos) << said;
}

TEST_F(EndedContext, OfOwnContextsTheCurrentOneIsAskedAlone) {
  service s{table, fake_driver()};
  make_primary(100);
  for (std::uint64_t const own : {101, 102}) {
    seen.current = own;
    (void)s.before_launch(nullptr);
  }
  seen.ended.insert(101);
  reset();
  std::string const said = said_at_end(s);
  EXPECT_NE(said.find("device 1 (Fake): not freed: 3 blocks"), std::string::npos) << said;
  EXPECT_NE(said.find("device 1 (Fake): 1 heap cannot be asked"), std::string::npos) << said;
  EXPECT_EQ(seen.reported, 1);
}

TEST_F(EndedContext, AnOwnContextWhoseEndWasSeenIsNotAskedAgain) {
  service s{table, fake_driver()};
  seen.current = 100;
  (void)s.before_launch(nullptr);
  testing::internal::CaptureStderr();
  s.context_ends();
  EXPECT_FALSE(testing::internal::GetCapturedStderr().empty());
  seen.ended.insert(100);
  s.context_ends();
  EXPECT_EQ(said_at_end(s), "");
  EXPECT_EQ(seen.reported, 1);
}

TEST_F(EndedContext, AContextWithoutAHeapIsNotAsked) {
  service s{table, fake_driver()};
  seen.current = 100;
  seen.ended.insert(100);
  s.context_ends();
  EXPECT_EQ(said_at_end(s), "");
}

TEST_F(EndedContext, AContextOfWhichTheDriverDoesNotTellIsTakenForAPrimaryOne) {
  service s{table, fake_driver()};
  make_primary(100);
  seen.current = 100;
  seen.tells = false;
  (void)s.before_launch(nullptr);
  seen.tells = true;
  reset();
  EXPECT_EQ(heaps_unknown(said_at_end(s), "1"), 1u);
}

TEST_F(EndedContext, TheWatchDoesNotAskAPrimaryContextAfterAReset) {
  setenv("GPUHEAP_WATCH", "0.002", 1);
  make_primary(100);
  seen.current = 100;
  testing::internal::CaptureStderr();
  service s{table, fake_driver()};
  (void)s.before_launch(nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  seen.is_primary = false;
  std::this_thread::sleep_for(std::chrono::milliseconds{10});
  int const then = seen.sampled;
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  EXPECT_EQ(seen.sampled, then);
  s.process_ends();
  EXPECT_EQ(seen.sampled, then);
  (void)testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace gpuheap::device_malloc
