// Shorthand of the simulator's tests. Device memory is the process's memory here, so kernels are lambdas over local variables.
#pragma once

#include <gpuheap/simt/simt.hpp>

#include <gtest/gtest.h>
#include <gpuheap_simulator/explore.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace test {

namespace simt = gpuheap::simt;
namespace simulator = gpuheap::simulator;

// Runs body(i) for i < num_threads.
template <class Body>
void run(unsigned num_threads, Body body, unsigned block_threads = 256) {
  gpuheap::launch(num_threads, body, {.block_threads = block_threads});
}

// Each in a block of its own, on multiprocessors of their own while there are enough.
template <class First, class Second>
void run_two(First first, Second second) {
  run(
      2, [=](unsigned i) { i == 0 ? first() : second(); }, 1);
}

[[nodiscard]] inline simulator::settings with(simulator::scheduler_kind kind, std::uint64_t seed = 0, bool weak = false) {
  simulator::settings s;
  s.scheduler = kind;
  s.seed = seed;
  s.weak = weak;
  s.step_budget = 10'000'000;
  return s;
}

// Counts what the test's threads find, unseen by the simulated machine: no scheduling point, no data race.
class tally {
 public:
  tally() = default;
  explicit tally(unsigned count) : count_{count} {}
  unsigned operator+=(unsigned n) { return __atomic_add_fetch(&count_, n, __ATOMIC_RELAXED); }
  operator unsigned() const { return __atomic_load_n(&count_, __ATOMIC_RELAXED); }

 private:
  unsigned count_ = 0;
};

inline constexpr simulator::scheduler_kind all_schedulers[] = {simulator::scheduler_kind::run_through,
                                                               simulator::scheduler_kind::round_robin, simulator::scheduler_kind::random,
                                                               simulator::scheduler_kind::pct};

// Calls f(seed) under every scheduler with a few seeds, strong and weak.
template <class F>
void under_all_schedulers(F f) {
  for (simulator::scheduler_kind kind : all_schedulers) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      simulator::settings const s = with(kind, seed, seed % 2 != 0);
      SCOPED_TRACE(simulator::as_environment(s));
      simulator::scoped_settings const scope(s);
      f();
    }
  }
}

// The failure that the kernel ends in. Adds a test failure if it does not fail.
template <class Body>
[[nodiscard]] std::string failure_of(simulator::failure_kind kind, Body body) {
  try {
    body();
  } catch (simt::kernel_failure const& f) {
    EXPECT_EQ(simulator::name_of(f.kind()), std::string(simulator::name_of(kind))) << f.what();
    return f.what();
  }
  ADD_FAILURE() << "the kernel ended without a failure";
  return "";
}

[[nodiscard]] inline bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

#define EXPECT_CONTAINS(text, part) EXPECT_TRUE(::test::contains(text, part)) << "in: " << (text) << "\nexpected: " << (part)

// Whether this build runs the weak mode: not under ThreadSanitizer, whose bookkeeping also makes launches a hundred times slower.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool has_weak_mode = false;
#else
inline constexpr bool has_weak_mode = true;
#endif

// Of so many seeds that correct code must pass, those that this build has the time for.
[[nodiscard]] constexpr std::uint64_t affordable(std::uint64_t seeds) { return has_weak_mode ? seeds : seeds / 20; }

}  // namespace test
