// The device time of one kernel.
#pragma once

#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::bench {

// Keeps the stream busy for about 20 us at GPU clocks. Behind it the host queues event, kernel and event, so that the time between the
// events is the device's and not that of the host's launch call.
struct keep_busy {
  GPUHEAP_FN void operator()(unsigned) const {
    constexpr unsigned cycles = 40'000;
    constexpr unsigned most_looks = 4'096;
    auto const start = simt::clock_cycles();
    // The loop waits for no other thread.
    for (unsigned look = 0; look < most_looks && simt::clock_cycles() - start < cycles; ++look) {
    }
  }
};

class kernel_timer {
 public:
  explicit kernel_timer(stream_ref stream) : stream_{stream} {}

  // Microseconds that the stream took for what `launch_one` put on it. Waits for it, and throws what it did wrong.
  template <class LaunchOne>
  [[nodiscard]] double time_us(LaunchOne&& launch_one) {
    simt::synchronize(stream_);
    launch(1, keep_busy{}, {.block_threads = 32, .stream = stream_});
    watch_.start(stream_);
    launch_one();
    watch_.stop(stream_);
    double const us = watch_.elapsed_us();
    simt::synchronize(stream_);
    return us;
  }

 private:
  stream_ref stream_;
  simt::stopwatch watch_;
};

}  // namespace gpuheap::bench
