#include "cases/phase_change.hpp"

#include <utility>

#include "harness/pace.hpp"
#include "workloads/slots/slot_cases.hpp"

namespace gpuheap::bench {

outcome phase_change::measure(slots::slot_heap& heap, session const& s, point const& p) {
  constexpr unsigned num_phases = 4;
  auto const rounds = static_cast<unsigned>(p.number("rounds"));
  row malloc_us{"malloc_us", "us", {}}, free_us{"free_us", "us", {}}, slowdown{"slowdown", "ratio", {}},
      failed_requests{"failed_requests", "count", {}};
  row footprint = slots::footprint_row();
  pace const timing(s);
  // Run 0 checks whole blocks and is not counted.
  for (unsigned run = 0; run == 0 || !timing.enough(malloc_us.samples.size()); ++run) {
    if (auto reason = timing.too_slow_after(run, malloc_us.samples.size()); !reason.empty()) return timed_out(std::move(reason));
    bool const whole = run == 0;
    heap.start(run);
    double first = 0, last = 0, malloc_sum = 0, free_sum = 0;
    for (unsigned round = 0; round < rounds; ++round) {
      last = 0;
      for (unsigned phase = 0; phase < num_phases; ++phase) {
        auto const count = static_cast<unsigned>(p.number("slots") << (2 * phase));
        slots::task work{.count = count, .passes = count, .take_percent = 100};
        double const taken = heap.work(slots::of_sizes(slots::same_for_all(work), p.number("bytes") >> (2 * phase), whole));
        if (!whole && round + 1 == rounds) slots::note_footprint(heap, footprint);
        work.take_percent = 0;
        work.free_percent = 100;
        double const freed = heap.work(slots::of_sizes(slots::same_for_all(work), p.number("bytes") >> (2 * phase), whole));
        malloc_sum += taken;
        free_sum += freed;
        last += taken + freed;
      }
      if (round == 0) first = last;
    }
    if (auto fault = slots::fault_of(heap, run); !fault.empty()) return wrong(std::move(fault));
    if (whole) continue;
    // The four phases of a round.
    malloc_us.samples.push_back(malloc_sum / rounds);
    free_us.samples.push_back(free_sum / rounds);
    slowdown.samples.push_back(last / first);
    failed_requests.samples.push_back(static_cast<double>(heap.tally().failed_requests));
  }
  return slots::finished({std::move(malloc_us), std::move(free_us), std::move(slowdown), std::move(failed_requests)}, std::move(footprint));
}

}  // namespace gpuheap::bench
