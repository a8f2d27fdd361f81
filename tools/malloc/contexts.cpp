#include "tools/malloc/contexts.hpp"

#include "tools/malloc/service.hpp"

namespace gpuheap::device_malloc {

namespace {

// Retains the device's primary context. One that does not exist is not retained, because that would make it: `found` is null then.
// Returns whether the driver told.
bool retain_primary(driver_calls const& driver, CUdevice device, CUcontext& found) {
  unsigned flags = 0;
  int active = 0;
  found = nullptr;
  if (driver.primary_state(device, &flags, &active) != CUDA_SUCCESS) return false;
  return active == 0 || driver.primary_retain(&found, device) == CUDA_SUCCESS;
}

// Whether the current context is surely not the primary one of its device.
bool is_own(driver_calls const& driver, CUcontext current, CUdevice device) {
  CUcontext primary = nullptr;
  if (!retain_primary(driver, device, primary)) return false;
  if (primary != nullptr) (void)driver.primary_release(device);
  return primary != current;
}

}  // namespace

known_context known(driver_calls const& driver, CUcontext current, std::uint64_t id) {
  known_context made{.context = current, .id = id};
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool const changed = driver.capture_mode(&mode) == CUDA_SUCCESS;
  if (driver.context_device(&made.device) == CUDA_SUCCESS) made.is_own = is_own(driver, current, made.device);
  if (changed) (void)driver.capture_mode(&mode);
  return made;
}

entered_context::entered_context(driver_calls const& driver, known_context const& wanted, own_contexts own)
    : driver_{driver}, device_{wanted.device} {
  if (wanted.is_own) {
    CUcontext current = nullptr;
    bool const exists = own == own_contexts::exist || (driver_.context_current(&current) == CUDA_SUCCESS && current == wanted.context);
    if (exists) enter(wanted.context, wanted.id);
    return;
  }
  CUcontext found = nullptr;
  is_retained_ = retain_primary(driver_, device_, found) && found != nullptr;
  if (is_retained_) enter(found, wanted.id);
}

void entered_context::enter(CUcontext context, std::uint64_t id) {
  unsigned long long has = 0;
  there_ = driver_.context_id(context, &has) == CUDA_SUCCESS && has == id && driver_.push_context(context) == CUDA_SUCCESS;
}

entered_context::~entered_context() {
  CUcontext popped = nullptr;
  if (there_) (void)driver_.pop_context(&popped);
  if (is_retained_) (void)driver_.primary_release(device_);
}

}  // namespace gpuheap::device_malloc
