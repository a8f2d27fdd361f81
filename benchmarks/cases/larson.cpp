#include "cases/larson.hpp"

#include <utility>

#include "harness/pace.hpp"
#include "workloads/slots/slot_cases.hpp"

namespace gpuheap::bench {

outcome larson::measure(slots::slot_heap& heap, session const& s, point const& p) {
  auto const count = static_cast<unsigned>(p.number("slots")), rounds = static_cast<unsigned>(p.number("rounds"));
  row kernel_us{"kernel_us", "us", {}}, throughput{"throughput", "1/s", {}}, failed_requests{"failed_requests", "count", {}};
  row footprint = slots::footprint_row();
  pace const timing(s);
  std::size_t passes = 0;
  // Run 0 checks whole blocks, for one generation; run 1 is measured, a sample for each generation after the first.
  for (unsigned run = 0; run < 2; ++run) {
    bool const whole = run == 0;
    heap.start(run);
    heap.work(slots::of_sizes(slots::same_for_all({.count = count, .passes = count, .take_percent = 100}), p.number("bytes"), whole));
    std::uint64_t failed_before = heap.tally().failed_requests;
    for (unsigned generation = 1; whole ? generation <= 2 : !timing.enough(kernel_us.samples.size()); ++generation) {
      if (auto reason = timing.too_slow_after(passes++, kernel_us.samples.size()); !reason.empty()) return timed_out(std::move(reason));
      // Neighbouring blocks of threads pass their slots on.
      double const us = heap.work(slots::of_sizes(slots::same_for_all({.shift = generation * p.block_threads(),
                                                                       .count = count,
                                                                       .passes = rounds,
                                                                       .at_random = true,
                                                                       .free_percent = 100,
                                                                       .take_percent = 100}),
                                                  p.number("bytes"), whole));
      auto const now = heap.tally().failed_requests;
      if (!whole && generation > 1) {
        kernel_us.samples.push_back(us);
        throughput.samples.push_back(static_cast<double>(p.number("threads")) * rounds / (us * 1e-6));
        failed_requests.samples.push_back(static_cast<double>(now - failed_before));
      }
      failed_before = now;
    }
    if (!whole) slots::note_footprint(heap, footprint);
    slots::free_all(heap, count, whole);
    if (auto fault = slots::fault_of(heap, run); !fault.empty()) return wrong(std::move(fault));
  }
  return slots::finished({std::move(kernel_us), std::move(throughput), std::move(failed_requests)}, std::move(footprint));
}

}  // namespace gpuheap::bench
