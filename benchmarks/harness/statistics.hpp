// Order statistics of a set of samples, for the summary that --summary prints. The tables of results are computed by the runner from the
// samples.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace gpuheap::bench {

// The value below which a fraction of the samples lies, linear between neighbours. `fraction` in 0..1. NaN for no samples.
[[nodiscard]] inline double percentile(std::vector<double> samples, double fraction) {
  if (samples.empty()) return std::nan("");
  std::sort(samples.begin(), samples.end());
  double const position = fraction * static_cast<double>(samples.size() - 1);
  auto const below = static_cast<std::size_t>(position);
  auto const above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (position - static_cast<double>(below)) * (samples[above] - samples[below]);
}

struct sample_summary {
  double median, p5, p95;
};
[[nodiscard]] inline sample_summary summarise(std::vector<double> const& samples) {
  return {percentile(samples, 0.5), percentile(samples, 0.05), percentile(samples, 0.95)};
}

}  // namespace gpuheap::bench
