// An allocator's entry in the registry, made in the one translation unit that compiles the cases for it.
#pragma once

#include <gpuheap/simt/runtime.hpp>

#include "harness/baseline.hpp"
#include "harness/case.hpp"
#include "harness/registry.hpp"

namespace gpuheap::bench {

template <class A, class... Cases>
[[nodiscard]] allocator_entry make_entry(case_list<Cases...>) {
  allocator_entry entry{A::traits, is_baseline<A>(), "", {}};
  entry.traits.name = name_in_tables<A>();
  if (A::traits.process_wide && !simt::has_builtin_heap) entry.why_not = "this machine has no built-in device heap";
  // A baseline that hands out no memory is compiled only for the cases that take it, and cases without an allocator for nothing else.
  auto const add = [&]<class Case>(Case) {
    if constexpr (allocates_from_host<A>()              ? Case::description.takes_host_allocation
                  : Case::description.without_allocator ? !hands_out_memory<A>()
                                                        : hands_out_memory<A>() || Case::description.takes_baselines)
      entry.runners.push_back({&Case::description, &Case::template run<A>});
  };
  (add(Cases{}), ...);
  return entry;
}

}  // namespace gpuheap::bench
