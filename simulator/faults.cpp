#include <gpuheap_simulator/faults.hpp>

#include <utility>

namespace gpuheap::simulator {

namespace {
thread_local scoped_fault* active = nullptr;
}

scoped_fault::scoped_fault(std::uint64_t nth, bool ever_after) : nth_{nth}, ever_after_{ever_after}, before_{std::exchange(active, this)} {}
scoped_fault::~scoped_fault() { active = before_; }

bool call_fails() noexcept {
  if (active == nullptr) return false;
  scoped_fault& fault = *active;
  std::uint64_t const number = fault.calls_++;
  bool const fails = number == fault.nth_ || (fault.ever_after_ && number > fault.nth_);
  fault.happened_ = fault.happened_ || fails;
  return fails;
}

}  // namespace gpuheap::simulator
