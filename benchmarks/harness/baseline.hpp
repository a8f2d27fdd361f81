// Which types are baselines: bounds to compare allocators with, that hand out addresses without managing them.
#pragma once

namespace gpuheap::bench {

// A baseline models the allocator concept and has `static constexpr bool is_baseline = true`.
template <class A>
[[nodiscard]] constexpr bool is_baseline() {
  if constexpr (requires { A::is_baseline; }) {
    return A::is_baseline;
  } else {
    return false;
  }
}

}  // namespace gpuheap::bench
