#include "driver.hpp"

namespace gpuheap::unchanged {

driver_calls const& driver() {
  static driver_calls const* const found = [] {
    auto* const made = new driver_calls{};
#define GPUHEAP_RUN_CALL(member, symbol, type)                                       \
  made->member = reinterpret_cast<PFN_##type>(interpose::symbol_in_driver(#symbol)); \
  if (made->member == nullptr) made->missing = #symbol;
    GPUHEAP_RUN_CALLS(GPUHEAP_RUN_CALL)
#undef GPUHEAP_RUN_CALL
    return made;
  }();
  return *found;
}

std::uint64_t current_context() {
  CUcontext current = nullptr;
  unsigned long long id = 0;
  if (driver().context_current(&current) != CUDA_SUCCESS || current == nullptr) return 0;
  return driver().context_id(current, &id) == CUDA_SUCCESS ? id : 0;
}

relaxed_capture::relaxed_capture() { driver().capture_mode(&before_); }
relaxed_capture::~relaxed_capture() { driver().capture_mode(&before_); }

some_context::some_context() {
  CUcontext current = nullptr;
  if (driver().context_current(&current) != CUDA_SUCCESS) return;
  there_ = current != nullptr;
  if (there_ || driver().device_get(&device_, 0) != CUDA_SUCCESS || driver().primary_retain(&current, device_) != CUDA_SUCCESS) return;
  if (driver().context_push(current) != CUDA_SUCCESS) {
    driver().primary_release(device_);
    return;
  }
  there_ = own_ = true;
}

some_context::~some_context() {
  if (!own_) return;
  CUcontext own = nullptr;
  driver().context_pop(&own);
  driver().primary_release(device_);
}

std::uint32_t architecture_of_devices(char const** why) {
  int count = 0;
  if (driver().device_count(&count) != CUDA_SUCCESS || count == 0) {
    *why = "the driver reports no device";
    return 0;
  }
  std::uint32_t all = 0;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    int major = 0;
    int minor = 0;
    driver().device_get(&device, i);
    driver().device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    driver().device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    auto const each = static_cast<std::uint32_t>(10 * major + minor);
    if (all != 0 && each != all) {
      *why = "the devices are of different architectures: name devices of one kind in CUDA_VISIBLE_DEVICES";
      return 0;
    }
    all = each;
  }
  return all;
}

}  // namespace gpuheap::unchanged
