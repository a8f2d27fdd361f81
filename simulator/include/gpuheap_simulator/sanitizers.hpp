// Whether ThreadSanitizer checks this translation unit, and the attribute that excludes the simulator's own inline functions from its
// checks.
//
// ThreadSanitizer sees each lane as a thread. A switch of the scheduler from lane to lane must not count as synchronisation between the
// lanes. So no function of the scheduler is checked: the inline ones carry GPUHEAP_SIMULATOR_UNCHECKED, and the library is built without
// -fsanitize=thread.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define GPUHEAP_SIMULATOR_TSAN_CALLER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GPUHEAP_SIMULATOR_TSAN_CALLER 1
#endif
#endif

#if defined(GPUHEAP_SIMULATOR_TSAN_CALLER)
#define GPUHEAP_SIMULATOR_UNCHECKED __attribute__((no_sanitize("thread"), noinline))
#else
#define GPUHEAP_SIMULATOR_TSAN_CALLER 0
#define GPUHEAP_SIMULATOR_UNCHECKED
#endif
