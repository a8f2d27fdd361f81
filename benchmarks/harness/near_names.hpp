// Which of the known names a person probably meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpuheap::bench {

// How many letters have to be inserted, removed or replaced to make `b` of `a`.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// " (did you mean NAME?)" for the nearest of `known`, or " (known: A, B, C)" when none is near.
[[nodiscard]] std::string suggestion(std::string_view given, std::vector<std::string> const& known);

}  // namespace gpuheap::bench
