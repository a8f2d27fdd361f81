// Makes calls of the simulated runtime fail, so that a test sees how the callers handle the failure.
//
// The calls that can fail are the host's calls that can fail on a GPU: reserving memory and addresses, copies, fills, launches, waits and
// queries. A call that releases something does not fail.
#pragma once

#include <cstdint>

namespace gpuheap::simulator {

// @brief While an object of this class lives, it counts the runtime calls of the host thread that constructed it, and makes one of them
// fail, or that one and all later ones.
// @note Only the newest scope of a thread acts. Earlier ones neither count nor fail calls until it is destroyed.
class scoped_fault {
 public:
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  // @param nth the number of the call that fails, from 0; with `none`, no call fails, and the calls are only counted
  // @param ever_after whether all later calls fail too, as after an error that corrupts a CUDA context
  explicit scoped_fault(std::uint64_t nth, bool ever_after = false);
  ~scoped_fault();
  scoped_fault(scoped_fault const&) = delete;
  scoped_fault& operator=(scoped_fault const&) = delete;

  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  // @return whether a call has failed
  [[nodiscard]] bool happened() const { return happened_; }

 private:
  friend bool call_fails() noexcept;

  std::uint64_t nth_, calls_ = 0;
  bool ever_after_, happened_ = false;
  scoped_fault* before_;
};

// @brief Counts one call of the calling thread. The simulated runtime asks it at the start of each call that can fail.
// @return whether the call must fail
[[nodiscard]] bool call_fails() noexcept;

}  // namespace gpuheap::simulator
