// Calls of the CUDA runtime that do not invalidate the captures of other streams.
#pragma once

#include <cuda_runtime_api.h>

namespace gpuheap::device_malloc {

// While an object of this type lives, this thread's calls do not invalidate the captures of other threads.
class beside_captures {
 public:
  beside_captures() : changed_{cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess} {}
  ~beside_captures() {
    if (changed_) (void)cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  beside_captures(beside_captures const&) = delete;
  beside_captures& operator=(beside_captures const&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  bool changed_;  // false: this thread's mode could not be changed
};

}  // namespace gpuheap::device_malloc
