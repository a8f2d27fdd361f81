#include "cases/soak.hpp"

#include <chrono>
#include <random>

#include "workloads/slots/slot_cases.hpp"

namespace gpuheap::bench {
namespace {

// The launches of a soak, one after the other, as the seed has them.
class soak_plan {
 public:
  soak_plan(session const& s, point const& p)
      : draws_{s.seed},
        block_threads_{p.block_threads()},
        num_blocks_{p.threads() / p.block_threads()},
        num_slots_{static_cast<unsigned>(p.number("slots"))},
        largest_bytes_{p.number("bytes")} {}

  slots::slot_launch next() {
    slots::task task{.shift = below(num_blocks_) * block_threads_, .count = num_slots_, .passes = num_slots_, .at_random = below(2) != 0};
    slots::slot_launch what;
    // Both go to sets that no other thread works on, since they are shifted alike.
    for (slots::task& of_half : what.tasks) of_half = mixed(task);
    std::uint64_t largest = tagged_smallest_bytes;
    // Ends: doubles each time.
    while (largest * 2 <= largest_bytes_ && below(12) != 0) largest *= 2;
    return slots::of_sizes(what, largest, true);
  }

 private:
  unsigned below(unsigned bound) { return static_cast<unsigned>(draws_() % bound); }

  // A chance to be freed, and one to be filled: all kinds from a fill to a drain.
  slots::task mixed(slots::task task) {
    static constexpr unsigned percents[][2] = {{100, 100}, {50, 100}, {0, 100}, {50, 50}, {80, 20}, {70, 0}, {100, 0}};
    auto const& [freed, taken] = percents[below(std::size(percents))];
    task.free_percent = freed;
    task.take_percent = taken;
    return task;
  }

  std::mt19937_64 draws_;
  unsigned block_threads_, num_blocks_, num_slots_;
  std::uint64_t largest_bytes_;
};

}  // namespace

outcome soak::measure(slots::slot_heap& heap, session const& s, point const& p) {
  using clock = std::chrono::steady_clock;
  constexpr unsigned burst_bytes = 1024;
  auto const num_slots = static_cast<unsigned>(p.number("slots"));
  std::chrono::duration<double> const part{static_cast<double>(p.number("seconds")) / s.runs};
  row kernel_us{"kernel_us", "us", {}}, slowdown{"slowdown", "ratio", {}}, failed_requests{"failed_requests", "count", {}};
  soak_plan plan(s, p);
  heap.start(0);
  double first = 0;
  // Part 0 is the heap before it has seen anything, whose burst the others are compared with.
  for (unsigned n = 0; n <= s.runs; ++n) {
    auto const end = clock::now() + part;
    // Ends: when the part's time is up.
    while (n != 0 && clock::now() < end) heap.work(plan.next());
    slots::free_all(heap, num_slots, true);
    std::string fault = slots::fault_of(heap, n);
    if (fault.empty()) fault = heap.why_not_empty();
    if (!fault.empty()) return wrong("part " + std::to_string(n) + ": " + fault);

    // The same burst each time, twice: the first makes sure of runs and lists that the second finds.
    double us = 0;
    auto failed = heap.tally().failed_requests;
    for (unsigned i = 0; i < 2; ++i) {
      slots::task const take{.count = num_slots, .passes = num_slots, .take_percent = 100};
      us = heap.work(slots::of_sizes(slots::same_for_all(take), burst_bytes, true));
      slots::free_all(heap, num_slots, true);
    }
    failed = heap.tally().failed_requests - failed;
    if (n == 0) {
      first = us;
      continue;
    }
    kernel_us.samples.push_back(us);
    slowdown.samples.push_back(us / first);
    failed_requests.samples.push_back(static_cast<double>(failed));
  }
  return {outcome_status::ok, "", {std::move(kernel_us), std::move(slowdown), std::move(failed_requests)}};
}

}  // namespace gpuheap::bench
