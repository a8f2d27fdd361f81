// The service without a device: a driver and a provider that only remember what they were asked.
#include "tools/malloc/service.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tools/malloc/report_text.hpp"

namespace gpuheap::device_malloc {
namespace {

// What the fakes are set to, and what they saw.
struct world {
  std::uint64_t current = 0;  // the context's address and id; 0: none
  std::size_t limit = std::size_t{8} << 20;
  bool capturing = false, makes = true, grows = true;
  std::vector<std::uint64_t> limits_given;
  std::map<void const*, bool> refused;
  int grown = 0, forgotten = 0, reported = 0;
};
world* now = nullptr;
char heaps[16];

provider fake_provider() {
  provider table{};
  table.version = provider_version;
  table.state_bytes = 32;
  table.allocator = "fake";
  table.make = [](provider_settings const* settings, void* state, provider_text* why) -> void* {
    now->limits_given.push_back(settings->malloc_limit);
    std::memset(state, 7, 32);
    if (!now->makes) {
      std::strcpy(why->words, "no memory here");
      return nullptr;
    }
    return &heaps[now->limits_given.size()];
  };
  table.refused = [](void const* heap) { return now->refused[heap]; };
  table.grow = [](void* heap, provider_text* why) {
    ++now->grown;
    now->refused[heap] = false;
    if (now->grows) return grow_answer::grown;
    std::strcpy(why->words, "the device is full");
    return grow_answer::failed;
  };
  table.report = [](void*, provider_report* out, provider_live* live, std::size_t room, provider_text*) {
    ++now->reported;
    *out = {};
    out->live_blocks = 3;
    if (room > 0) live[0] = {64, 3};
    return 1L;
  };
  table.destroy = [](void*) {};
  table.forget = [](void*) { ++now->forgotten; };
  return table;
}

driver_calls fake_driver() {
  driver_calls calls{};
  calls.context_current = [](CUcontext* context) {
    *context = reinterpret_cast<CUcontext>(now->current);
    return CUDA_SUCCESS;
  };
  calls.context_id = [](CUcontext context, unsigned long long* id) {
    *id = reinterpret_cast<std::uint64_t>(context);
    return CUDA_SUCCESS;
  };
  calls.context_limit = [](std::size_t* value, CUlimit) {
    *value = now->limit;
    return CUDA_SUCCESS;
  };
  calls.context_device = [](CUdevice* device) {
    *device = static_cast<CUdevice>(now->current / 100);
    return CUDA_SUCCESS;
  };
  calls.device_name = [](char* name, int, CUdevice) {
    std::strcpy(name, "Fake");
    return CUDA_SUCCESS;
  };
  calls.primary_state = [](CUdevice, unsigned*, int* active) {
    *active = 0;
    return CUDA_SUCCESS;
  };
  calls.is_capturing = [](CUstream, CUstreamCaptureStatus* status) {
    *status = now->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  return calls;
}

class MallocService : public testing::Test {
 protected:
  void SetUp() override {
    now = &seen;
    unsetenv("GPUHEAP_STATS");
  }
  world seen;
  provider table = fake_provider();
};

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
  EXPECT_EQ(at_exit.find("device 3"), std::string::npos) << at_exit;
}

TEST_F(MallocService, FindingsAreToldWithoutBeingAskedFor) {
  table.findings = [](void* heap, void (*say)(void*, char const*), void* to, provider_text* why) {
    if (now->current == 200) {
      std::strcpy(why->words, "the device is lost");
      return -1L;
    }
    EXPECT_EQ(heap, &heaps[1]);
    say(to, "double free: somebody freed a block");
    return 1L;
  };
  service s{table, fake_driver()};
  seen.current = 100;
  (void)s.before_launch(nullptr);
  testing::internal::CaptureStderr();
  s.process_ends();
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "gpuheap: device 1 (Fake): double free: somebody freed a block\ngpuheap: device 1 (Fake): 1 misuse of the heap's blocks found\n");
  EXPECT_EQ(seen.reported, 0) << "GPUHEAP_STATS is not set";
  seen.current = 200;
  (void)s.before_launch(nullptr);
  testing::internal::CaptureStderr();
  s.context_ends();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "gpuheap: device 2 (Fake): the heap cannot be asked what was misused: the device is lost\n");
}

TEST(MallocReport, WhatAnAllocatorDoesNotTellIsLeftOut) {
  provider_report report{};
  report.heap_bytes = 3 << 20;
  report.held_bytes = report.peak_held_bytes = report.metadata_bytes = provider_report::untold;
  report.double_frees = report.foreign_frees = report.live_blocks = report.live_bytes = provider_report::untold;
  EXPECT_EQ(report_text("head", "some", report, {}), "head: allocator some, heap of 3 MiB\nhead: 0 requests found no memory\n");
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
