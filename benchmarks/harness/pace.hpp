// The length of a point: it ends when it has its runs, or, if the allocator is so slow that these would take too long, when it has enough.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "harness/case.hpp"

namespace gpuheap::bench {

// A row of results has at least so many runs, however slow they are, unless fewer are asked for.
inline constexpr unsigned fewest_runs = 5;

class pace {
 public:
  explicit pace(session const& s) : s_{s}, start_{clock::now()} {}

  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(clock::now() - start_).count(); }

  // Whether `runs` timed runs are all that the point needs. A run may give several samples. With the fewest that count a point ends
  // before its limit would end it: two more runs must fit.
  [[nodiscard]] bool enough(std::size_t runs, std::size_t samples) const {
    if (runs >= s_.runs) return true;
    if (samples < fewest()) return false;
    double const spent = seconds();
    bool const late = s_.timeout_s > 0 && runs > 0 && spent + 2 * spent / static_cast<double>(runs) >= s_.timeout_s;
    return late || (s_.enough_s > 0 && spent >= s_.enough_s);
  }
  [[nodiscard]] bool enough(std::size_t runs) const { return enough(runs, runs); }

  // Samples that are needed still, if the point takes so long that the fewest must do.
  [[nodiscard]] std::size_t lacking(std::size_t samples) const { return fewest() > samples ? fewest() - samples : 0; }

  // For a loop that has made `passes`, the first of which are not counted: why those that are left take too long, or "".
  [[nodiscard]] std::string too_slow_after(std::size_t passes, std::size_t samples) const {
    return too_slow(static_cast<double>(passes), static_cast<double>(lacking(samples)));
  }

  // Why the point will not be done within its time limit, or "": all the time so far went into `done` parts of the work, and `left` more
  // of them must follow. A point that the limit would end says so as soon as that can be told, and leaves its time to the others.
  [[nodiscard]] std::string too_slow(double done, double left) const {
    constexpr double least_share = 0.05;  // of the limit; before, a guess is worth nothing
    double const spent = seconds();
    if (s_.timeout_s <= 0 || done <= 0 || spent < least_share * s_.timeout_s) return "";
    double const expected = spent * (done + left) / done;
    if (expected <= s_.timeout_s) return "";
    char text[120];
    std::snprintf(text, sizeof text, "would take about %.0f s, longer than the %g s that a point has", expected, s_.timeout_s);
    return text;
  }

 private:
  using clock = std::chrono::steady_clock;
  [[nodiscard]] std::size_t fewest() const { return std::min(fewest_runs, s_.runs); }

  session s_;
  clock::time_point start_;
};

}  // namespace gpuheap::bench
