// replay: a recorded program's requests and frees, thread by thread and kernel by kernel, without the program.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/launch.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "harness/case.hpp"
#include "harness/device_array.hpp"
#include "harness/free_or_release.hpp"
#include "harness/heap_under_test.hpp"
#include "harness/kernel_timer.hpp"
#include "harness/pace.hpp"
#include "workloads/trace/replay_kernel.hpp"
#include "workloads/trace/trace_file.hpp"

namespace gpuheap::bench {

struct replay {
  static constexpr parameter parameters[] = {
      trace::trace_parameter,
      number_parameter("copies", "1", 1, 1u << 20),  // of the program, side by side
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "replay",
      .brief = "the requests and frees of a recorded program, thread by thread and kernel by kernel",
      .section = "Stress",
      .parameters = parameters,
      .check = &trace::check_trace,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    if (auto reason = why_no_heap<A>(s); !reason.empty()) return unsupported(std::move(reason));
    if (std::string reason = why_no_single_frees<A>(); !reason.empty()) return unsupported(std::move(reason));
    auto const program = trace::load_trace(s, p);
    std::uint64_t const copies = p.number("copies");
    if (auto reason = why_not(*program, s, copies, A::traits.overwrites); !reason.empty()) return unsupported(std::move(reason));
    constexpr bool never_frees = A::traits.free == frees::never;

    owned_stream stream;
    heap_under_test<A> heap(s.heap_bytes, stream);
    kernel_timer timer(stream);
    device_program const device(*program, stream);
    device_array<simt::uint64_t> blocks(program->sizes.size() * copies);
    device_array<block_tally> tally(1);
    launch_config const config{.block_threads = p.block_threads(), .stream = stream};
    row kernel_us{"kernel_us", "us", {}}, throughput{"throughput", "1/s", {}}, failed_requests{"failed_requests", "count", {}};

    pace const timing(s);
    // Run 0 checks whole blocks and is not counted; neither is run 1, which warms up.
    for (unsigned n = 0; !timing.enough(kernel_us.samples.size()); ++n) {
      if (auto reason = timing.too_slow_after(n, kernel_us.samples.size()); !reason.empty()) return timed_out(std::move(reason));
      if (never_frees && n != 0) heap.renew();
      blocks.zero(stream);
      tally.zero(stream);
      auto const go = [&](trace_kernel const& k) {
        trace::replay_operations<typename heap_under_test<A>::ref_type> const kernel{
            .heap = heap.ref(),
            .threads = program->threads,
            .allocations = static_cast<simt::uint32_t>(program->sizes.size()),
            .begins = k.begins.data(),
            .operations = k.operations.data(),
            .sizes = device.sizes.data(),
            .blocks = blocks.data(),
            .whole_contents = n == 0,
            .tally = tally.data()};
        launch(static_cast<unsigned>(program->threads * copies), kernel, config);
      };
      double const us = timer.time_us([&] {
        for (auto const& k : device.kernels) go(k);
      });
      go(device.last);
      auto const counted = tally.download(stream)[0];
      if (auto fault = counted.fault(); !fault.empty()) return wrong("run " + std::to_string(n) + ": " + fault);
      if (never_frees && counted.failed_requests != 0) {
        return unsupported("this allocator never reuses freed memory: the program's requests do not fit into a heap of " +
                           memory::format_bytes(s.heap_bytes));
      }
      if (n < 2) continue;
      kernel_us.samples.push_back(us);
      throughput.samples.push_back(static_cast<double>(program->num_events * copies) / (us * 1e-6));
      failed_requests.samples.push_back(static_cast<double>(counted.failed_requests));
    }
    if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
    return {outcome_status::ok, "", {std::move(kernel_us), std::move(throughput), std::move(failed_requests)}};
  }

 private:
  struct trace_kernel {
    device_array<simt::uint32_t> begins;
    device_array<trace::device_operation> operations;
    trace_kernel(trace::kernel const& k, stream_ref stream) : begins{on_device(k.begins, stream)}, operations{k.operations.size()} {
      std::vector<trace::device_operation> list;
      list.reserve(k.operations.size());
      for (auto const& o : k.operations) list.push_back({o.allocation, o.bytes});
      operations.upload(list, stream);
    }
  };
  struct device_program {
    std::vector<trace_kernel> kernels;
    trace_kernel last;  // frees what the program left
    device_array<simt::uint32_t> sizes;
    device_program(trace::program const& p, stream_ref stream) : last{trace::leftovers(p), stream}, sizes{on_device(p.sizes, stream)} {
      for (auto const& k : p.kernels) kernels.emplace_back(k, stream);
    }
  };

  static std::string why_not(trace::program const& program, session const& s, std::uint64_t copies, bool overwrites) {
    if (program.threads * copies > std::uint64_t{1} << 30 || program.sizes.size() * copies > std::uint64_t{1} << 30)
      return "these copies of the program have more than 2^30 threads or allocations, the most that the case takes";
    std::uint64_t asked = 0;
    for (auto const bytes : program.sizes) asked += (bytes + std::uint64_t{31}) & ~std::uint64_t{15};
    if (overwrites && asked * copies > s.heap_bytes)
      return "this allocator overwrites live memory once " + memory::format_bytes(s.heap_bytes) + " have been asked for";
    return "";
  }
};

}  // namespace gpuheap::bench
