#include "cases/leak_growth.hpp"

#include <utility>
#include <vector>

#include "harness/pace.hpp"
#include "harness/statistics.hpp"
#include "workloads/slots/slot_cases.hpp"

namespace gpuheap::bench {

outcome leak_growth::measure(slots::slot_heap& heap, session const& s, point const& p) {
  auto const count = static_cast<unsigned>(p.number("slots")), rounds = static_cast<unsigned>(p.number("rounds"));
  auto const freed = static_cast<unsigned>(100 - p.number("leak"));
  row kernel_us{"kernel_us", "us", {}}, slowdown{"slowdown", "ratio", {}}, failed_requests{"failed_requests", "count", {}};
  row footprint = slots::footprint_row();
  pace const timing(s);
  // Run 0 checks whole blocks and is not counted.
  for (unsigned run = 0; run == 0 || !timing.enough(kernel_us.samples.size()); ++run) {
    if (auto reason = timing.too_slow_after(run, kernel_us.samples.size()); !reason.empty()) return timed_out(std::move(reason));
    bool const whole = run == 0;
    heap.start(run);
    std::vector<double> times, first, last;  // of all rounds, of the first quarter, of the last
    for (unsigned round = 0; round < rounds; ++round) {
      // The slots of a round are its own: what is left in them at its end stays.
      slots::task work{.first = round * count, .count = count, .passes = count, .take_percent = 100};
      double us = heap.work(slots::of_sizes(slots::same_for_all(work), p.number("bytes"), whole));
      work.take_percent = 0;
      work.free_percent = freed;
      us += heap.work(slots::of_sizes(slots::same_for_all(work), p.number("bytes"), whole));
      times.push_back(us);
      if (round < rounds / 4) first.push_back(us);
      if (round >= rounds - rounds / 4) last.push_back(us);
    }
    auto const failed = heap.tally().failed_requests;
    if (!whole) slots::note_footprint(heap, footprint);
    slots::free_all(heap, count * rounds, whole);
    if (auto fault = slots::fault_of(heap, run); !fault.empty()) return wrong(std::move(fault));
    if (whole) continue;
    kernel_us.samples.push_back(percentile(times, 0.5));
    slowdown.samples.push_back(percentile(last, 0.5) / percentile(first, 0.5));
    failed_requests.samples.push_back(static_cast<double>(failed));
  }
  return slots::finished({std::move(kernel_us), std::move(slowdown), std::move(failed_requests)}, std::move(footprint));
}

}  // namespace gpuheap::bench
