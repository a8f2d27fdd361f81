#include "cases/burst.hpp"

#include <algorithm>
#include <utility>

#include "harness/pace.hpp"
#include "workloads/slots/slot_cases.hpp"

namespace gpuheap::bench {

outcome burst::measure(slots::slot_heap& heap, session const& s, point const& p) {
  auto const count = static_cast<unsigned>(p.number("slots"));
  // The second burst asks for about the bytes that were freed: half of the first.
  auto const second_percent = static_cast<unsigned>(std::min<std::uint64_t>(100, 100 * p.number("bytes") / p.number("then")));
  row malloc_us{"malloc_us", "us", {}}, free_us{"free_us", "us", {}}, kernel_us{"kernel_us", "us", {}},
      failed_requests{"failed_requests", "count", {}};
  row footprint = slots::footprint_row();
  pace const timing(s);
  // Run 0 checks whole blocks and is not counted.
  for (unsigned run = 0; run == 0 || !timing.enough(malloc_us.samples.size()); ++run) {
    if (auto reason = timing.too_slow_after(run, malloc_us.samples.size()); !reason.empty()) return timed_out(std::move(reason));
    bool const whole = run == 0;
    heap.start(run);
    slots::task const take{.count = count, .passes = count, .take_percent = 100};
    slots::task const free_half{.count = count, .passes = count, .free_percent = 50};
    slots::task const refill{.count = count, .passes = count, .take_percent = second_percent};
    double const first = heap.work(slots::of_sizes(slots::same_for_all(take), p.number("bytes"), whole));
    double const freed = heap.work(slots::of_sizes(slots::same_for_all(free_half), p.number("bytes"), whole));
    double const second = heap.work(slots::of_sizes(slots::same_for_all(refill), p.number("then"), whole));
    auto const failed = heap.tally().failed_requests;
    if (!whole) slots::note_footprint(heap, footprint);
    slots::free_all(heap, count, whole);
    if (auto fault = slots::fault_of(heap, run); !fault.empty()) return wrong(std::move(fault));
    if (whole) continue;
    malloc_us.samples.push_back(first);
    free_us.samples.push_back(freed);
    kernel_us.samples.push_back(second);
    failed_requests.samples.push_back(static_cast<double>(failed));
  }
  return slots::finished({std::move(malloc_us), std::move(free_us), std::move(kernel_us), std::move(failed_requests)},
                         std::move(footprint));
}

}  // namespace gpuheap::bench
