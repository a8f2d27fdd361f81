// A search for the known names that a person may have meant by an unknown one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpuheap::bench {

// The number of letters to insert, remove or replace that turn `a` into `b`.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// " (did you mean NAME?)" for the nearest of `known`, or " (known: A, B, C)" when none is near.
[[nodiscard]] std::string suggestion(std::string_view given, std::vector<std::string> const& known);

}  // namespace gpuheap::bench
