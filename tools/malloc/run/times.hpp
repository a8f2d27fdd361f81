// Measures how long kernels run: one event before and one event after each launch, in the launch's stream. The report is the sum over all
// launches. Launches that overlap all count in full. A graph counts as one launch. Launches that a stream captures are not timed.
#pragma once

#include "driver.hpp"

namespace gpuheap::unchanged {

/// Lives around one launch, and times it. Does nothing unless GPUHEAP_RUN_TIMES names a folder.
class timed_launch {
 public:
  explicit timed_launch(CUstream stream);
  /// @param launched whether the driver accepted the launch. A refused launch has no time.
  void done(bool launched);

 private:
  CUstream stream_;
  std::uint64_t context_ = 0;  // 0: not timed
  CUevent begin_ = nullptr;
  CUevent end_ = nullptr;
};

/// Adds up the times of launches that have ended. Called when the program has waited for the device. Adding up only before a reset is not
/// possible: the CUDA runtime resets a device through a function of the driver that has no name and so cannot be wrapped. Launches that
/// were not added up before a reset have no time.
void collect_times();

/// Called before a context is destroyed: waits for its launches, adds up their times, and never uses the context again.
void take_times_of(CUcontext context);

/// Called in a child process after fork. Drops the parent's launches.
void forget_times_after_fork();

}  // namespace gpuheap::unchanged
