// Calls of the simulated runtime that fail, so that a test sees what their callers do then.
//
// The calls are those of the host that can fail on a GPU: taking memory and addresses, copies, fills, launches, waits, questions. A call
// that gives something back does not fail.
#pragma once

#include <cstdint>

namespace gpuheap::simulator {

// @brief While it lives, counts the calls of the host thread that made it, and lets one of them fail, or that one and all later ones.
// @note Scopes do not nest: a second one on the same thread takes the first one's place until it ends.
class scoped_fault {
 public:
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  // @param nth which call fails, counted from 0; none: calls are counted only
  // @param ever_after whether all later calls fail too, as in a context that was lost
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

// @brief Counts a call of this thread's. For the machine's own runtime.
// @return whether the call is to fail
[[nodiscard]] bool call_fails() noexcept;

}  // namespace gpuheap::simulator
