// The driver's memory behind pools, and work in a pool's context.
#pragma once

#include <cstdint>
#include <string>

#include "driver.hpp"
#include "plan_file.hpp"

namespace gpuheap::interpose {

// A function of the driver that need not be in the table of entry points; null if the driver does not have it.
template <class Pfn>
Pfn helper(char const* symbol) {
  return reinterpret_cast<Pfn>(symbol_in_driver(symbol));
}

// The calling thread's current context, or nullptr.
[[nodiscard]] CUcontext current_context();

// Whether an error means that a call came at a wrong moment: no context is current, the current context does not exist yet or any more (the
// runtime makes a primary context current before it retains the context), or a capture is open.
[[nodiscard]] bool untimely(CUresult result);

// The reason why the configured mode is not available on a device; empty if it is available.
[[nodiscard]] std::string unsupported(CUdevice device);

struct backing {
  std::uint64_t base = 0;
  bool on_device = false;  // it is device or managed memory
  int file = -1;           // the file that is mapped at `base`; -1: none
};

// Reserves the memory of a pool in the current context. `capturing`: a stream capture is open.
[[nodiscard]] CUresult reserve(planned_pool const& wanted, CUdevice device, bool capturing, backing* out);

// Unmaps the memory of a pool if it is the mapping of a file. Called when the pool's context is gone.
void unmap(backing const& ended, std::uint64_t bytes);

// While an object of this type lives, `of` is the current context.
class in_context {
 public:
  explicit in_context(CUcontext of);
  ~in_context();
  in_context(in_context const&) = delete;
  in_context& operator=(in_context const&) = delete;

  // The driver's answer to the change of context. CUDA_ERROR_DEINITIALIZED: the driver has ended.
  [[nodiscard]] CUresult entered() const { return entered_; }

 private:
  bool pushed_ = false;
  CUresult entered_ = CUDA_SUCCESS;
};

// While an object of this type lives, a stream capture of the process neither forbids this thread's calls nor captures them. The calls use
// streams of this library only.
class apart_from_captures {
 public:
  apart_from_captures();
  ~apart_from_captures();
  apart_from_captures(apart_from_captures const&) = delete;
  apart_from_captures& operator=(apart_from_captures const&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // the mode to set, then the mode that the thread had
};

}  // namespace gpuheap::interpose
