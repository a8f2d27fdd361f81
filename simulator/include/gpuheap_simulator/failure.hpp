// The failures of a simulated kernel, which launch() throws on the host.
#pragma once

#include <stdexcept>
#include <string>

namespace gpuheap::simulator {

enum class failure_kind {
  deadlock,   // no lane can run
  livelock,   // the step budget was spent and no lane finished
  misuse,     // an operation called in a way that the hardware does not define
  data_race,  // weak mode: happens-before does not order two plain accesses, or a plain and an atomic one
  trap,       // device code called trap()
};

[[nodiscard]] char const* name_of(failure_kind kind);

// The exception that launch() throws when a kernel fails. The text names the block, the warp and the lanes, the operation with its mask,
// the line of source, and the settings that replay the run.
class failure : public std::runtime_error {
 public:
  failure(failure_kind kind, std::string const& text) : std::runtime_error(text), kind_{kind} {}
  [[nodiscard]] failure_kind kind() const { return kind_; }

 private:
  failure_kind kind_;
};

}  // namespace gpuheap::simulator
