// The driver's memory behind pools, and work in a pool's context.
#pragma once

#include <cstdint>
#include <string>

#include "driver.hpp"
#include "plan_file.hpp"

namespace gpuheap::interpose {

template <class Pfn>
Pfn helper(char const* symbol) {
  return reinterpret_cast<Pfn>(symbol_in_driver(symbol));
}

// nullptr: none.
[[nodiscard]] CUcontext current_context();

// Errors of a call that came at a wrong moment: no context is current, the current one does not exist yet or any more (the runtime makes a
// primary context current before it retains it), or a capture is open.
[[nodiscard]] bool untimely(CUresult result);

// The reason for which the configured mode is not available on a device; empty if it is.
[[nodiscard]] std::string unsupported(CUdevice device);

struct backing {
  std::uint64_t base = 0;
  bool on_device = false;  // its bytes are the device's
  int file = -1;           // the file whose mapping `base` is; -1: none
};

// The memory of a pool, from the current context.
[[nodiscard]] CUresult reserve(planned_pool const& wanted, CUdevice device, bool capturing, backing* out);

// For a pool whose memory is a file's and whose context is gone.
void unmap(backing const& ended, std::uint64_t bytes);

// While an object of this type lives, `of` is the current context.
class in_context {
 public:
  explicit in_context(CUcontext of);
  ~in_context();
  in_context(in_context const&) = delete;
  in_context& operator=(in_context const&) = delete;

  // Deinitialised: the driver is gone.
  [[nodiscard]] CUresult entered() const { return entered_; }

 private:
  bool pushed_ = false;
  CUresult entered_ = CUDA_SUCCESS;
};

// While an object of this type lives, a stream capture of the process neither forbids this thread's calls nor takes them in: they concern
// streams of the library's own.
class apart_from_captures {
 public:
  apart_from_captures();
  ~apart_from_captures();
  apart_from_captures(apart_from_captures const&) = delete;
  apart_from_captures& operator=(apart_from_captures const&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // what the thread had
};

}  // namespace gpuheap::interpose
