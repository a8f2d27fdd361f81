// Whether a context of the program still exists. The driver answers a call about a context that has ended with an error, and tools such as
// compute-sanitizer report that error as the program's. So nothing is asked of a context before it is known to exist.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpuheap::device_malloc {

struct driver_calls;

/// A context that was current once.
struct known_context {
  CUcontext context = nullptr;  // a primary context that ended stays current by this handle, and one that follows it may have the same
  std::uint64_t id = 0;         // the context's id, which no other context of the process ever has
  CUdevice device = 0;
  bool is_own = false;  // it is not its device's primary context, but one of cuCtxCreate. False also if the driver does not tell
};

/// @return The current context, which exists. No capture of the program notices the calls.
[[nodiscard]] known_context known(driver_calls const& driver, CUcontext current, std::uint64_t id);

/// Whether the caller sees when a context that cuCtxCreate made ends. The driver does not find such a context by its device.
enum class own_contexts {
  end_unseen,  // one that is current is taken to exist, and of any other nothing is known
  exist,       // the caller has seen the ends of all, and asks for none that has ended
};

/// While an object of this type lives, a context is current, unless it has ended, or it is not known whether it has: then there() is false.
/// @note The driver finds a primary context by its device. No call waits for the device.
class entered_context {
 public:
  entered_context(driver_calls const& driver, known_context const& wanted, own_contexts own = own_contexts::end_unseen);
  ~entered_context();
  entered_context(entered_context const&) = delete;
  entered_context& operator=(entered_context const&) = delete;
  [[nodiscard]] bool there() const { return there_; }

 private:
  void enter(CUcontext context, std::uint64_t id);

  driver_calls const& driver_;
  CUdevice const device_;
  bool there_ = false;
  bool is_retained_ = false;
};

}  // namespace gpuheap::device_malloc
