// Recordings: any recording that the reader accepts can be replayed.
#include "workloads/trace/trace_file.hpp"

#include "reads.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  namespace trace = gpuheap::bench::trace;
  return fuzz::read_bytes(
      data, size, [](std::istream& in, std::string const& name) { return trace::read_trace(in, name); },
      [](trace::program const& p) {
        fuzz::require(p.threads != 0 && !p.sizes.empty() && p.freed.size() == p.sizes.size());
        auto const check = [&](trace::kernel const& k) {
          fuzz::require(k.begins.size() == std::size_t{p.threads} + 1 && k.begins.back() == k.operations.size());
          for (auto const& o : k.operations) fuzz::require(o.allocation < p.sizes.size());
        };
        for (auto const& k : p.kernels) check(k);
        check(trace::leftovers(p));
      });
}
