// The sanitizer that watches this translation unit, and the macros that hide the simulator's own inline code from it.
//
// ThreadSanitizer sees each lane as a thread. The scheduler's hand-over from lane to lane is no synchronisation of the program, so
// everything that belongs to the scheduler is unchecked, and so is the library itself (built without -fsanitize=thread).
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
