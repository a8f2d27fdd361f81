// launch() checks the kernel, derives the launch's seed, runs the kernel on one machine or on several OS threads, and composes the text of
// a failure.
#include <gpuheap_simulator/launch.hpp>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

#include "machine.hpp"
#include "parallel.hpp"
#include "random.hpp"
#include "settings_state.hpp"

namespace gpuheap::simulator {

namespace {

// Each host thread keeps its machine, with the machine's stacks, for later launches.
machine& thread_machine() {
  thread_local machine it;
  return it;
}

thread_local run_statistics last;

// The whole text of a failure: what failed, where, and the settings that replay it.
std::string report_of(failure const& f, settings const& s, std::uint64_t launch_number) {
  std::string text = "simulated kernel: " + std::string(f.what());
  if (text.back() != '\n') text += '\n';
  text += "  schedule: " + as_environment(s) + " (launch " + std::to_string(launch_number) + " of its scope";
  return text + (s.threads == 1 ? ")" : ", on several OS threads: not replayable)");
}

unsigned num_machines(settings const& s, grid const& g) {
  if (s.weak) return 1;
  unsigned const wanted = s.threads != 0 ? s.threads : std::max(1u, std::thread::hardware_concurrency());
  return std::min({wanted, s.num_sms, g.num_blocks});
}

void run_on_several(grid& g, settings const& s, unsigned machines, std::uint64_t seed) {
  std::vector<std::exception_ptr> thrown(machines);
  std::vector<run_statistics> counted(machines);
  run_in_parallel(machines, [&](unsigned i) {
    machine& m = thread_machine();
    try {
      m.run(g, s, {i, machines, mix(seed) + i});
    } catch (...) {
      thrown[i] = std::current_exception();
    }
    counted[i] = m.statistics();
  });
  last = {};
  for (run_statistics const& c : counted) {
    last.points += c.points;
    last.lanes += c.lanes;
  }
  for (std::exception_ptr const& e : thrown) {
    if (e != nullptr) std::rethrow_exception(e);
  }
}

}  // namespace

run_statistics const& last_run() { return last; }

void launch(kernel const& k) {
  if (current() != nullptr) throw std::logic_error("simulator: a kernel cannot launch a kernel");
  if (k.block_threads < 1 || k.block_threads > 1024) {
    throw std::invalid_argument("simulator: " + std::to_string(k.block_threads) + " threads per block: expected 1 to 1024");
  }
  if (k.num_threads == 0) return;
  settings_state& state = thread_settings();
  settings const s = state.now;
  std::uint64_t const number = state.launches++;
  std::uint64_t const seed = mix(s.seed) + number;

  grid g;
  g.what = k;
  g.id = static_cast<std::uint32_t>(number);
  g.num_blocks = (k.num_threads - 1) / k.block_threads + 1;
  unsigned const machines = num_machines(s, g);
  try {
    if (machines > 1) return run_on_several(g, s, machines, seed);
    machine& m = thread_machine();
    try {
      m.run(g, s, {0, 1, seed});
    } catch (...) {
      last = m.statistics();
      throw;
    }
    last = m.statistics();
  } catch (failure const& f) {
    throw failure(f.kind(), report_of(f, s, number));
  }
}

}  // namespace gpuheap::simulator
