#include "cases/producer_consumer.hpp"

#include <utility>

#include "harness/pace.hpp"
#include "workloads/slots/slot_cases.hpp"

namespace gpuheap::bench {

outcome producer_consumer::measure(slots::slot_heap& heap, session const& s, point const& p) {
  auto const count = static_cast<unsigned>(p.number("slots"));
  row kernel_us{"kernel_us", "us", {}}, throughput{"throughput", "1/s", {}}, failed_requests{"failed_requests", "count", {}};
  row footprint = slots::footprint_row();
  pace const timing(s);
  std::size_t passes = 0;
  // Run 0 checks whole blocks, for a few kernels; run 1 is measured, a sample for each kernel after the first two.
  for (unsigned run = 0; run < 2; ++run) {
    bool const whole = run == 0;
    heap.start(run);
    std::uint64_t failed_before = 0;
    for (unsigned kernel = 0; whole ? kernel < 3 : !timing.enough(kernel_us.samples.size()); ++kernel) {
      if (auto reason = timing.too_slow_after(passes++, kernel_us.samples.size()); !reason.empty()) return timed_out(std::move(reason));
      // Even blocks fill one half of their sets' slots; odd ones empty the other half of the set that the block before them has.
      slots::slot_launch what;
      what.tasks[0] = {.first = kernel % 2 * count, .count = count, .passes = count, .take_percent = 100};
      what.tasks[1] = {.shift = p.threads() - p.block_threads(),
                       .first = (kernel + 1) % 2 * count,
                       .count = count,
                       .passes = count,
                       .free_percent = 100};
      double const us = heap.work(slots::of_sizes(what, p.number("bytes"), whole));
      auto const now = heap.tally().failed_requests;
      if (!whole && kernel >= 2) {
        kernel_us.samples.push_back(us);
        throughput.samples.push_back(static_cast<double>(p.number("threads")) * count / (us * 1e-6));
        failed_requests.samples.push_back(static_cast<double>(now - failed_before));
      }
      failed_before = now;
    }
    if (!whole) slots::note_footprint(heap, footprint);
    slots::free_all(heap, 2 * count, whole);
    if (auto fault = slots::fault_of(heap, run); !fault.empty()) return wrong(std::move(fault));
  }
  return slots::finished({std::move(kernel_us), std::move(throughput), std::move(failed_requests)}, std::move(footprint));
}

}  // namespace gpuheap::bench
