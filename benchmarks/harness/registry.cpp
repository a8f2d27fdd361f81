#include "harness/registry.hpp"

#include "allocator_list.hpp"
#include "cases/all.hpp"

namespace gpuheap::bench {

#define GPUHEAP_BENCH_DECLARE(name) allocator_entry entry_of_##name();
GPUHEAP_BENCH_ALLOCATORS(GPUHEAP_BENCH_DECLARE)
#undef GPUHEAP_BENCH_DECLARE

std::vector<allocator_entry> const& all_allocators() {
#define GPUHEAP_BENCH_ENTRY(name) entry_of_##name(),
  static std::vector<allocator_entry> const entries{GPUHEAP_BENCH_ALLOCATORS(GPUHEAP_BENCH_ENTRY)};
#undef GPUHEAP_BENCH_ENTRY
  return entries;
}

namespace {
template <class... Cases>
std::vector<case_description const*> describe(case_list<Cases...>) {
  return {&Cases::description...};
}
}  // namespace

std::vector<case_description const*> const& case_descriptions() {
  static std::vector<case_description const*> const descriptions = describe(all_cases{});
  return descriptions;
}

}  // namespace gpuheap::bench
