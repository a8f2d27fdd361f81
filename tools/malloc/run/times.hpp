// How long kernels ran: an event before and one after each launch, in the launch's own stream. The sum over launches is what is told.
// Launches that overlap count each for itself; a graph is one launch; what a stream captures is not timed.
#pragma once

#include "driver.hpp"

namespace gpuheap::unchanged {

/// Around one launch. Does nothing unless GPUHEAP_RUN_TIMES names a folder.
class timed_launch {
 public:
  explicit timed_launch(CUstream stream);
  /// Ends the time of a launch that the driver took; a refused one is none.
  void done(bool launched);

 private:
  CUstream stream_;
  std::uint64_t context_ = 0;  // 0: not timed
  CUevent begin_ = nullptr;
  CUevent end_ = nullptr;
};

/// After the program waited for the device: takes the times of launches that have ended. The CUDA runtime resets a device by a function of
/// the driver that has no name, and what was not taken by then has no time.
void collect_times();

/// Before a context is destroyed: waits for its launches, takes their times, and never touches the context again.
void take_times_of(CUcontext context);

/// In the child after fork: its launches are its own.
void forget_times_after_fork();

}  // namespace gpuheap::unchanged
