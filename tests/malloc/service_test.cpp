// The service without a device.
#include "tools/malloc/service.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/malloc/fakes.hpp"
#include "tools/malloc/report_text.hpp"

namespace gpuheap::device_malloc {
namespace {

using namespace fakes;

TEST_F(MallocService, NothingIsMadeWithoutAContext) {
  service s{table, fake_driver()};
  EXPECT_EQ(s.before_launch(nullptr), nullptr);
  s.context_ends();
  s.process_ends();
  EXPECT_TRUE(seen.limits_given.empty());
}

TEST_F(MallocService, EachContextHasOneHeap) {
  service s{table, fake_driver()};
  seen.current = 100;
  served_context const* const first = s.before_launch(nullptr);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->state, std::vector<std::byte>(32, std::byte{7}));
  EXPECT_EQ(s.before_launch(nullptr), first);
  served_context const* of_thread = nullptr;
  std::thread{[&] { of_thread = s.before_launch(nullptr); }}.join();
  EXPECT_EQ(of_thread, first);
  seen.current = 200;
  served_context const* const second = s.before_launch(nullptr);
  EXPECT_NE(second, first);
  EXPECT_EQ(second->device, 2);
  seen.current = 100;
  EXPECT_EQ(s.before_launch(nullptr), first);
  EXPECT_EQ(seen.limits_given, (std::vector<std::uint64_t>{0, 0}));
}

TEST_F(MallocService, TheProgramsLimitIsHandedOnUnlessItIsTheDriversDefault) {
  service s{table, fake_driver()};
  seen.current = 100;
  seen.limit = 123 << 20;
  (void)s.before_launch(nullptr);
  EXPECT_EQ(seen.limits_given, std::vector<std::uint64_t>{123 << 20});
}

TEST_F(MallocService, AHeapGrowsBeforeTheNextLaunchOutsideOfCaptures) {
  service s{table, fake_driver()};
  seen.current = 100;
  served_context const* const served = s.before_launch(nullptr);
  seen.refused[served->heap] = true;
  seen.capturing = true;
  EXPECT_EQ(s.before_launch(nullptr), served);
  EXPECT_EQ(seen.grown, 0);
  seen.capturing = false;
  EXPECT_EQ(s.before_launch(nullptr), served);
  EXPECT_EQ(seen.grown, 1);
  EXPECT_EQ(s.before_launch(nullptr), served);
  EXPECT_EQ(seen.grown, 1);
}

TEST_F(MallocService, NoHeapGrowsWhileAnyStreamCaptures) {
  service s{table, fake_driver()};
  seen.current = 100;
  served_context const* const served = s.before_launch(nullptr);
  seen.refused[served->heap] = true;
  capture_begins();  // of another stream than the launch's
  EXPECT_EQ(s.before_launch(nullptr), served);
  EXPECT_EQ(seen.grown, 0);
  capture_ends();
  EXPECT_EQ(s.before_launch(nullptr), served);
  EXPECT_EQ(seen.grown, 1);
}

TEST_F(MallocService, AHeapThatCannotBeMadeIsToldOnceAndLeavesTheStateZero) {
  service s{table, fake_driver()};
  seen.makes = false;
  testing::internal::CaptureStderr();
  seen.current = 100;
  served_context const* const served = s.before_launch(nullptr);
  seen.current = 200;
  (void)s.before_launch(nullptr);
  seen.current = 100;
  EXPECT_EQ(s.before_launch(nullptr), served);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "gpuheap: the program's device malloc answers nullptr, since its heap cannot be made: no memory here\n");
  EXPECT_EQ(served->heap, nullptr);
  EXPECT_EQ(served->state, std::vector<std::byte>(32, std::byte{0}));
  EXPECT_EQ(seen.limits_given.size(), 2u);
}

TEST_F(MallocService, ADeviceThatIsFullIsToldOnce) {
  service s{table, fake_driver()};
  seen.grows = false;
  seen.current = 100;
  served_context const* const served = s.before_launch(nullptr);
  testing::internal::CaptureStderr();
  for (int k = 0; k < 2; ++k) {
    seen.refused[served->heap] = true;
    (void)s.before_launch(nullptr);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "gpuheap: the heap of the program's device malloc does not grow: the device is full\n");
  EXPECT_EQ(seen.grown, 2);
}

TEST_F(MallocService, AContextThatEndsIsForgottenAndItsSuccessorHasAHeapOfItsOwn) {
  service s{table, fake_driver()};
  seen.current = 100;
  served_context const* const first = s.before_launch(nullptr);
  s.context_ends();
  EXPECT_EQ(seen.forgotten, 1);
  EXPECT_EQ(seen.reported, 0);
  seen.current = 101;  // the same device, another id
  EXPECT_NE(s.before_launch(nullptr), first);
  s.context_ends();
  s.context_ends();
  EXPECT_EQ(seen.forgotten, 2);
}

TEST_F(MallocService, StatisticsAreToldAtTheEndOfContextsAndOfTheProcess) {
  setenv("GPUHEAP_STATS", "1", 1);
  service s{table, fake_driver()};
  seen.current = 100;
  (void)s.before_launch(nullptr);
  testing::internal::CaptureStderr();
  s.context_ends();
  std::string const at_reset = testing::internal::GetCapturedStderr();
  EXPECT_NE(at_reset.find("gpuheap: device 1 (Fake): not freed: 3 blocks"), std::string::npos) << at_reset;
  EXPECT_NE(at_reset.find("3 blocks of 64 B"), std::string::npos) << at_reset;
  seen.current = 300;
  (void)s.before_launch(nullptr);
  seen.current = 200;
  (void)s.before_launch(nullptr);
  testing::internal::CaptureStderr();
  s.process_ends();
  std::string const at_exit = testing::internal::GetCapturedStderr();
  EXPECT_NE(at_exit.find("device 2 (Fake)"), std::string::npos) << at_exit;
  // Neither current nor a device's primary context: it may be gone, and is not touched.
  EXPECT_NE(at_exit.find("gpuheap: device 3 (Fake): 1 heap cannot be asked, since its context ended unseen"), std::string::npos) << at_exit;
  EXPECT_EQ(seen.reported, 2);
}

TEST_F(MallocService, HeapsWhoseContextEndedUnseenAreCountedAtTheEnd) {
  for (char const* wanted : {"1", "json", "0"}) {
    setenv("GPUHEAP_STATS", wanted, 1);
    seen.reported = 0;
    service s{table, fake_driver()};
    for (std::uint64_t const id : {100, 101, 102}) {  // the same device
      seen.current = id;
      (void)s.before_launch(nullptr);
    }
    seen.current = 0;
    testing::internal::CaptureStderr();
    s.process_ends();
    std::string const said = testing::internal::GetCapturedStderr();
    std::string const why =
        "3 heaps cannot be asked, since their contexts ended unseen, as by cudaDeviceReset, or cannot be entered at the "
        "program's end; GPUHEAP_WATCH=1 (--watch) asks while the program runs, and a program relinked with "
        "gpuheap::malloc reports before each cudaDeviceReset";
    EXPECT_EQ(said, std::string_view{wanted} == "1"      ? "gpuheap: device 1 (Fake): " + why + "\n"
                    : std::string_view{wanted} == "json" ? "{\"gpuheap\": \"no heap\", \"device\": 1, \"why\": \"" + why + "\"}\n"
                                                         : "");
    EXPECT_EQ(seen.reported, 0);
  }
}

TEST_F(MallocService, AHeapThatDoesNotAnswerIsToldInTheFormThatIsAskedFor) {
  table.report = [](void*, provider_report*, provider_live*, std::size_t, provider_text* why) {
    std::strcpy(why->words, "the device is lost");
    return -1L;
  };
  for (char const* wanted : {"1", "json"}) {
    setenv("GPUHEAP_STATS", wanted, 1);
    service s{table, fake_driver()};
    seen.current = 100;
    (void)s.before_launch(nullptr);
    testing::internal::CaptureStderr();
    s.process_ends();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), std::string_view{wanted} == "json"
                                                          ? "{\"gpuheap\": \"no heap\", \"device\": 1, \"why\": \"the device is lost\"}\n"
                                                          : "gpuheap: device 1 (Fake): the heap cannot be asked: the device is lost\n");
  }
}

TEST_F(MallocService, FindingsAreToldWithoutBeingAskedFor) {
  table.findings = [](void* heap, provider_place_text* text_of, void (*say)(void*, char const*), void* to, provider_text* why) {
    if (now->current == 200) {
      std::strcpy(why->words, "the device is lost");
      return -1L;
    }
    EXPECT_EQ(heap, &heaps[1]);
    say(to, (std::string{"double free: somebody freed a block "} + text_of(7)).c_str());
    return 1L;
  };
  driver_calls driver = fake_driver();
  driver.text_of_place = [](std::uint64_t number) { return number == 7 ? "in a kernel" : "elsewhere"; };
  service s{table, driver};
  seen.current = 100;
  (void)s.before_launch(nullptr);
  testing::internal::CaptureStderr();
  s.process_ends();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "gpuheap: device 1 (Fake): double free: somebody freed a block in a kernel\ngpuheap: device 1 (Fake): 1 misuse of the heap's "
            "blocks found\n");
  EXPECT_EQ(seen.reported, 0) << "GPUHEAP_STATS is not set";
  seen.current = 200;
  (void)s.before_launch(nullptr);
  testing::internal::CaptureStderr();
  s.context_ends();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "gpuheap: device 2 (Fake): the heap cannot be asked what was misused: the device is lost\n");
}

TEST_F(MallocService, StatisticsAreJsonIfAskedFor) {
  setenv("GPUHEAP_STATS", "json", 1);
  service s{table, fake_driver()};
  seen.current = 100;
  (void)s.before_launch(nullptr);
  testing::internal::CaptureStderr();
  s.process_ends();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "{\"gpuheap\": \"heap\", \"device\": 1, \"name\": \"Fake\", \"allocator\": \"fake\", \"heap_bytes\": 0, \"held_bytes\": 0, "
            "\"peak_held_bytes\": 0, \"metadata_bytes\": 0, \"live_blocks\": 3, \"live_bytes\": 0, \"failed_requests\": 0, "
            "\"double_frees\": 0, \"foreign_frees\": 0, \"sizes\": [{\"block_bytes\": 64, \"blocks\": 3}]}\n");
}

// Waits until `wanted`, for at most ten seconds.
template <class Wanted>
bool comes_true(Wanted wanted) {
  auto const end = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  // Ends: when it is true, or the time is over.
  while (!wanted()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return true;
}
std::vector<std::string> lines_of(std::string const& path) {
  std::vector<std::string> lines;
  std::ifstream file{path};
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

class WatchedMallocService : public MallocService {
 protected:
  void SetUp() override {
    MallocService::SetUp();
    threads_begun = 0;
    setenv("GPUHEAP_WATCH", "0.002", 1);
    setenv("GPUHEAP_WATCH_FILE", path.c_str(), 1);
    seen.is_primary = true;
    seen.current = seen.primary = 100;
  }
  void TearDown() override {
    MallocService::TearDown();
    std::filesystem::remove(path);
  }
  std::string const path = std::string{testing::UnitTest::GetInstance()->current_test_info()->name()} + "." + std::to_string(getpid());
};

TEST_F(WatchedMallocService, SamplesComeWhileTheProgramRunsAndOneAtItsEnd) {
  service s{table, fake_driver()};
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  EXPECT_EQ(threads_begun, 0) << "there is no heap yet";
  (void)s.before_launch(nullptr);
  ASSERT_TRUE(comes_true([&] { return seen.sampled > 3; }));
  EXPECT_EQ(threads_begun, 1);
  s.process_ends();
  int const at_end = seen.sampled;
  auto const lines = lines_of(path);
  EXPECT_EQ(lines.size(), static_cast<std::size_t>(at_end));
  EXPECT_EQ(lines.front().rfind("{\"gpuheap\": \"sample\", \"seconds\": ", 0), 0u) << lines.front();
  EXPECT_NE(
      lines.front().find("\"device\": 1, \"name\": \"Fake\", \"allocator\": \"fake\", \"heap_bytes\": 1048576, \"held_bytes\": 1024,"),
      std::string::npos);
  EXPECT_EQ(lines.front().find("live_blocks"), std::string::npos) << "the allocator does not tell";
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  EXPECT_EQ(seen.sampled, at_end) << "the thread has ended";
}

TEST_F(WatchedMallocService, LinesForAReaderGoToTheStandardError) {
  unsetenv("GPUHEAP_WATCH_FILE");
  testing::internal::CaptureStderr();
  {
    service s{table, fake_driver()};
    (void)s.before_launch(nullptr);
    ASSERT_TRUE(comes_true([&] { return seen.sampled > 0; }));
  }
  std::string const said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(" s: 1 KiB of 1 MiB held, 0 requests found no memory\n"), std::string::npos) << said;
}

TEST_F(WatchedMallocService, NothingIsAskedWhileAStreamCapturesOrOnceTheContextHasGone) {
  service s{table, fake_driver()};
  capture_begins();
  (void)s.before_launch(nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds{30});
  EXPECT_EQ(seen.sampled, 0);
  capture_ends();
  ASSERT_TRUE(comes_true([&] { return seen.sampled > 0; }));
  s.context_ends();
  int const then = seen.sampled;
  std::this_thread::sleep_for(std::chrono::milliseconds{30});
  EXPECT_EQ(seen.sampled, then);
}

TEST_F(WatchedMallocService, AContextThatWasReplacedUnseenIsLeftAlone) {
  service s{table, fake_driver()};
  (void)s.before_launch(nullptr);
  ASSERT_TRUE(comes_true([&] { return seen.sampled > 0; }));
  seen.primary = 101;  // another one of the same device
  std::this_thread::sleep_for(std::chrono::milliseconds{10});
  int const then = seen.sampled;
  std::this_thread::sleep_for(std::chrono::milliseconds{30});
  EXPECT_EQ(seen.sampled, then);
}

TEST_F(WatchedMallocService, ADeviceThatDoesNotAnswerIsTold) {
  seen.answers = false;
  service s{table, fake_driver()};
  (void)s.before_launch(nullptr);
  ASSERT_TRUE(comes_true([&] { return seen.sampled > 1; }));
  EXPECT_EQ(lines_of(path).front(), "{\"gpuheap\": \"no sample\", \"device\": 1, \"why\": \"the device is lost\"}");
}

TEST_F(WatchedMallocService, WhatMakesNoSenseIsToldAndNothingIsWatched) {
  for (char const* wrong : {"often", "-1", "1s", "1e9"}) {
    setenv("GPUHEAP_WATCH", wrong, 1);
    testing::internal::CaptureStderr();
    service s{table, fake_driver()};
    (void)s.before_launch(nullptr);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              std::string{"gpuheap: GPUHEAP_WATCH is '"} + wrong +
                  "': nothing is watched: give the seconds between two samples, from 0.001 to 86400\n");
  }
  EXPECT_EQ(threads_begun, 0);
  setenv("GPUHEAP_WATCH", "0.002", 1);
  setenv("GPUHEAP_WATCH_FILE", "/nonexistent/folder/file", 1);
  testing::internal::CaptureStderr();
  {
    service s{table, fake_driver()};
    (void)s.before_launch(nullptr);
    ASSERT_TRUE(comes_true([&] { return seen.sampled > 0; }));
  }
  EXPECT_NE(testing::internal::GetCapturedStderr().find("samples of the heap go to the standard error, since '/nonexistent/folder/file'"),
            std::string::npos);
}

TEST(MallocReport, WhatAnAllocatorDoesNotTellIsLeftOut) {
  provider_report report{};
  report.heap_bytes = 3 << 20;
  report.held_bytes = report.peak_held_bytes = report.metadata_bytes = provider_report::untold;
  report.double_frees = report.foreign_frees = report.live_blocks = report.live_bytes = provider_report::untold;
  EXPECT_EQ(report_text("head", "some", report, {}), "head: allocator some, heap of 3 MiB\nhead: 0 requests found no memory\n");
}

TEST(MallocReport, AHeapThatNobodyAskedIsToldFromOneThatGotAllBack) {
  provider_report report{};
  report.peak_held_bytes = provider_report::untold;
  EXPECT_NE(report_text("h", "a", report, {}).find("h: no kernel asked this heap for memory"), std::string::npos);
  report.failed_requests = 1;
  EXPECT_NE(report_text("h", "a", report, {}).find("h: everything was freed\n"), std::string::npos);
  report.failed_requests = 0;
  report.peak_held_bytes = 4096;
  EXPECT_NE(report_text("h", "a", report, {}).find("h: everything was freed\n"), std::string::npos);
}

TEST(MallocReport, SizesBeyondThoseListedAreSummedUp) {
  provider_report report{};
  report.live_blocks = 10;
  report.live_bytes = 1000;
  report.failed_requests = 1;
  report.first_failed_bytes = 2048;
  std::string const text = report_text("h", "a", report, {{16, 4}});
  EXPECT_NE(text.find("h: 1 request found no memory, the first asked for 2 KiB"), std::string::npos) << text;
  EXPECT_NE(text.find("h: not freed: 10 blocks, 1000 B\nh:   4 blocks of 16 B\nh:   6 of other sizes\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace gpuheap::device_malloc
