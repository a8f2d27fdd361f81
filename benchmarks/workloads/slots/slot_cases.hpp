// The common part of the cases on slots: the ends of their runs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "workloads/slots/slot_heap.hpp"

namespace gpuheap::bench::slots {

// Sizes of a launch, from the point's `bytes` at most.
[[nodiscard]] inline slot_launch of_sizes(slot_launch what, std::uint64_t largest_bytes, bool whole_contents) {
  what.largest_bytes = static_cast<simt::uint32_t>(largest_bytes);
  what.whole_contents = whole_contents;
  return what;
}

// Frees what is left in the slots first .. first + count - 1 of every set.
inline void free_all(slot_heap& heap, unsigned count, bool whole_contents) {
  heap.work(of_sizes(same_for_all({.count = count, .passes = count, .free_percent = 100}), tagged_smallest_bytes, whole_contents));
}

// "" or what is wrong with the memory so far.
[[nodiscard]] inline std::string fault_of(slot_heap& heap, unsigned run) {
  std::string fault = heap.tally().fault();
  if (fault.empty()) fault = heap.refused_frees();
  return fault.empty() ? "" : "run " + std::to_string(run) + ": " + fault;
}

// Adds the heap's footprint to `footprint`, if the allocator says what it holds.
inline void note_footprint(slot_heap& heap, row& footprint) {
  if (auto const ratio = heap.footprint_ratio(); ratio) footprint.samples.push_back(*ratio);
}
[[nodiscard]] inline row footprint_row() { return {"footprint_ratio", "ratio", {}}; }

// The outcome of a case that ended well. Allocators that do not say what they hold have no row of footprints.
[[nodiscard]] inline outcome finished(std::vector<row> rows, row footprint) {
  if (!footprint.samples.empty()) rows.push_back(std::move(footprint));
  return {outcome_status::ok, "", std::move(rows)};
}

}  // namespace gpuheap::bench::slots
