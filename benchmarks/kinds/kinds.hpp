// The default allocator in heaps of other kinds (docs/misuse.md). Built with GPUHEAP_BENCH_KINDS, for the suite `kinds`.
//
// The kinds are baselines to the benchmark, so that no other suite takes them for allocators.
#pragma once

#include <gpuheap/allocators/sharded_spans.hpp>
#include <gpuheap/checked.hpp>
#include <gpuheap/hardened.hpp>

#include "harness/baseline.hpp"

namespace gpuheap::bench {

template <>
constexpr bool is_baseline<checked<sharded_spans>>() {
  return true;
}
template <>
constexpr bool is_baseline<hardened<sharded_spans>>() {
  return true;
}
template <>
constexpr char const* name_in_tables<checked<sharded_spans>>() {
  return "checked";
}
template <>
constexpr char const* name_in_tables<hardened<sharded_spans>>() {
  return "hardened";
}

}  // namespace gpuheap::bench
