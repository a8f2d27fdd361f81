#include "harness/near_names.hpp"

#include <algorithm>
#include <numeric>

namespace gpuheap::bench {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t const replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string suggestion(std::string_view given, std::vector<std::string> const& known) {
  auto const nearest = std::min_element(known.begin(), known.end(),
                                        [&](auto const& a, auto const& b) { return edit_distance(given, a) < edit_distance(given, b); });
  if (nearest != known.end() && edit_distance(given, *nearest) <= 1 + given.size() / 4) return " (did you mean " + *nearest + "?)";
  std::string list = " (known: ";
  for (std::size_t i = 0; i < known.size(); ++i) list += (i == 0 ? "" : ", ") + known[i];
  return list + ")";
}

}  // namespace gpuheap::bench
