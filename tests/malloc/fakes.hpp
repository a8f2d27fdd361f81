// A driver and a provider that only record their calls, for tests of the service without a device. A context that has ended fails the test
// if it is asked.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tools/malloc/service.hpp"

namespace gpuheap::device_malloc::fakes {

// The settings of the fakes, and the calls that they saw.
struct world {
  std::uint64_t current = 0;                   // the context's address; 0: none
  std::map<std::uint64_t, std::uint64_t> ids;  // of contexts whose id is not their address
  std::set<std::uint64_t> ended;               // contexts that the driver refuses
  std::size_t limit = std::size_t{8} << 20;
  bool capturing = false, makes = true, grows = true;
  std::vector<std::uint64_t> limits_given;
  std::map<void const*, bool> refused;
  int grown = 0, forgotten = 0, reported = 0;
  std::atomic<int> sampled{0};
  std::atomic<bool> answers{true};        // a sample is answered
  std::atomic<bool> is_primary{false};    // the context is its device's primary one, which others can have too
  std::atomic<std::uint64_t> primary{0};  // its address
  std::atomic<int> retained{0};
  bool tells = true;  // the driver tells the primary context's state
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};
inline world* now = nullptr;
inline char heaps[16];
inline std::atomic<int> threads_begun{0};
inline thread_local std::uint64_t pushed = 0;  // by this thread

inline provider fake_provider() {
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
  table.sample = [](void*, provider_report* out, provider_text* why) {
    int const number = ++now->sampled;
    *out = {};
    out->heap_bytes = 1 << 20;
    out->held_bytes = 1024 * static_cast<std::uint64_t>(number);
    out->live_blocks = out->live_bytes = out->metadata_bytes = provider_report::untold;
    std::strcpy(why->words, "the device is lost");
    return now->answers.load();
  };
  table.destroy = [](void*) {};
  table.forget = [](void*) { ++now->forgotten; };
  return table;
}

inline driver_calls fake_driver() {
  driver_calls calls{};
  calls.context_current = [](CUcontext* context) {
    static std::thread::id const program = std::this_thread::get_id();
    // The program's context is current on its own thread alone.
    *context = reinterpret_cast<CUcontext>(pushed != 0                                                 ? pushed
                                           : std::this_thread::get_id() == program || !now->is_primary ? now->current
                                                                                                       : 0);
    return CUDA_SUCCESS;
  };
  calls.context_id = [](CUcontext context, unsigned long long* id) {
    auto const asked = reinterpret_cast<std::uint64_t>(context);
    EXPECT_FALSE(now->ended.contains(asked)) << "a context that has ended is asked";
    auto const known = now->ids.find(asked);
    *id = known == now->ids.end() ? asked : known->second;
    return now->ended.contains(asked) ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
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
  calls.primary_state = [](CUdevice device, unsigned*, int* active) {
    if (!now->tells) return CUDA_ERROR_UNKNOWN;
    *active = now->is_primary && device == static_cast<CUdevice>(now->primary / 100) ? 1 : 0;
    return CUDA_SUCCESS;
  };
  calls.primary_retain = [](CUcontext* context, CUdevice device) {
    EXPECT_TRUE(now->is_primary && device == static_cast<CUdevice>(now->primary / 100)) << "a context is made";
    ++now->retained;
    *context = reinterpret_cast<CUcontext>(now->primary.load());
    return CUDA_SUCCESS;
  };
  calls.primary_release = [](CUdevice) {
    --now->retained;
    return CUDA_SUCCESS;
  };
  calls.push_context = [](CUcontext context) {
    EXPECT_FALSE(now->ended.contains(reinterpret_cast<std::uint64_t>(context))) << "a context that has ended is entered";
    pushed = reinterpret_cast<std::uint64_t>(context);
    return CUDA_SUCCESS;
  };
  calls.pop_context = [](CUcontext*) {
    pushed = 0;
    return CUDA_SUCCESS;
  };
  calls.capture_mode = [](CUstreamCaptureMode* mode) {
    std::swap(*mode, now->mode);
    return CUDA_SUCCESS;
  };
  calls.thread_begins = [] { ++threads_begun; };
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
    for (char const* name : {"GPUHEAP_STATS", "GPUHEAP_WATCH", "GPUHEAP_WATCH_FILE"}) unsetenv(name);
  }
  void TearDown() override {
    EXPECT_EQ(seen.retained, 0);
    EXPECT_EQ(seen.mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  }
  world seen;
  provider table = fake_provider();
};

}  // namespace gpuheap::device_malloc::fakes
