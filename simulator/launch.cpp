// A launch: checks it, gives it a seed, runs it on one machine or on several OS threads, and words its failure.
#include <gpuheap_simulator/launch.hpp>

#include <stdexcept>
#include <utility>

#include "machine.hpp"
#include "random.hpp"
#include "settings_state.hpp"

namespace gpuheap::simulator {

namespace {

// A host thread's machine and its stacks stay for later launches.
machine& thread_machine() {
  thread_local machine it;
  return it;
}

thread_local run_statistics last;

}  // namespace

run_statistics const& last_run() { return last; }

void launch(kernel const& k) {
  if (current() != nullptr) throw std::logic_error("simulator: a kernel cannot launch a kernel");
  if (k.block_threads < 1 || k.block_threads > 1024) {
    throw std::invalid_argument("simulator: " + std::to_string(k.block_threads) + " threads per block: expected 1 to 1024");
  }
  if (k.num_threads == 0) return;
  settings_state& state = thread_settings();
  std::uint64_t const number = state.launches++;

  grid g;
  g.what = k;
  g.num_blocks = (k.num_threads - 1) / k.block_threads + 1;
  machine& m = thread_machine();
  try {
    m.run(g, state.now, {0, 1, mix(state.now.seed) + number});
  } catch (failure const& f) {
    last = m.statistics();
    throw failure(f.kind(), "simulated kernel: " + std::string(f.what()) +
                                (f.what()[std::string(f.what()).size() - 1] == '\n' ? "" : "\n") +
                                "  schedule: " + as_environment(state.now) + " (launch " + std::to_string(number) + " of its scope)");
  }
  last = m.statistics();
}

}  // namespace gpuheap::simulator
