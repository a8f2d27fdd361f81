// Tells AddressSanitizer and ThreadSanitizer about fibers. In other builds the functions are empty.
//
// The library itself is never built with -fsanitize=thread, so the build defines macros that say which sanitizer the program has:
// GPUHEAP_SIMULATOR_TSAN, GPUHEAP_SIMULATOR_ASAN (0 or 1).
#pragma once

#include <gpuheap_simulator/lane.hpp>

#include "stack_pool.hpp"

#ifndef GPUHEAP_SIMULATOR_TSAN
#define GPUHEAP_SIMULATOR_TSAN 0
#endif
#ifndef GPUHEAP_SIMULATOR_ASAN
#define GPUHEAP_SIMULATOR_ASAN 0
#endif

#if GPUHEAP_SIMULATOR_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if GPUHEAP_SIMULATOR_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace gpuheap::simulator::hooks {

inline constexpr bool under_tsan = GPUHEAP_SIMULATOR_TSAN != 0;
inline constexpr bool under_asan = GPUHEAP_SIMULATOR_ASAN != 0;

// Called before a jump from `from` to `to`. `from` is null if the fiber that jumps never runs again.
inline void leaving([[maybe_unused]] resumable* from, [[maybe_unused]] resumable const& to) {
#if GPUHEAP_SIMULATOR_ASAN
  __sanitizer_start_switch_fiber(from != nullptr ? &from->on->fake_frames : nullptr, to.on->bottom,
                                 static_cast<std::size_t>(to.on->top - to.on->bottom));
#endif
#if GPUHEAP_SIMULATOR_TSAN
  __tsan_switch_to_fiber(to.on->fiber, __tsan_switch_to_fiber_no_sync);
#endif
}

// Called after a jump, on the stack of `me`. `left_host` is the host's stack if the jump came from there, and null otherwise. The function
// records that stack's bounds.
inline void arrived([[maybe_unused]] resumable const& me, [[maybe_unused]] stack* left_host) {
#if GPUHEAP_SIMULATOR_ASAN
  void const* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(me.on->fake_frames, &bottom, &bytes);
  if (left_host != nullptr) {
    left_host->bottom = static_cast<std::byte const*>(bottom);
    left_host->top = const_cast<std::byte*>(left_host->bottom) + bytes;
  }
#endif
}

// Called before a stack serves a new lane. An abandoned lane may have left frames on it.
inline void renew([[maybe_unused]] stack& s) {
  s.fake_frames = nullptr;
#if GPUHEAP_SIMULATOR_ASAN
  __asan_unpoison_memory_region(s.bottom, static_cast<std::size_t>(s.top - s.bottom));
#endif
}

[[nodiscard]] inline void* host_fiber() {
#if GPUHEAP_SIMULATOR_TSAN
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}
[[nodiscard]] inline void* make_fiber() {
#if GPUHEAP_SIMULATOR_TSAN
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}
inline void destroy_fiber([[maybe_unused]] void* fiber) {
#if GPUHEAP_SIMULATOR_TSAN
  __tsan_destroy_fiber(fiber);
#endif
}
// Everything that the running fiber did before release(p) happens before what a fiber does after a later acquire(p).
inline void release([[maybe_unused]] void* p) {
#if GPUHEAP_SIMULATOR_TSAN
  __tsan_release(p);
#endif
}
// Does release(p) in the name of `fiber`, which will not run again.
inline void release_as([[maybe_unused]] void* fiber, [[maybe_unused]] void* p) {
#if GPUHEAP_SIMULATOR_TSAN
  void* const self = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync);
  __tsan_release(p);
  __tsan_switch_to_fiber(self, __tsan_switch_to_fiber_no_sync);
#endif
}
inline void acquire([[maybe_unused]] void* p) {
#if GPUHEAP_SIMULATOR_TSAN
  __tsan_acquire(p);
#endif
}

// While an object of this type lives, ThreadSanitizer takes the lane's fiber for the host. The scheduler's own containers need that:
// although the scheduler is not instrumented, the sanitizer intercepts the malloc and memmove that the containers call.
class as_host {
 public:
  explicit as_host([[maybe_unused]] resumable const& host) {
#if GPUHEAP_SIMULATOR_TSAN
    before_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(host.on->fiber, __tsan_switch_to_fiber_no_sync);
#endif
  }
  ~as_host() {
#if GPUHEAP_SIMULATOR_TSAN
    __tsan_switch_to_fiber(before_, __tsan_switch_to_fiber_no_sync);
#endif
  }
  as_host(as_host const&) = delete;
  as_host& operator=(as_host const&) = delete;

 private:
  [[maybe_unused]] void* before_ = nullptr;
};

}  // namespace gpuheap::simulator::hooks
