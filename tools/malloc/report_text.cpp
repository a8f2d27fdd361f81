#include "tools/malloc/report_text.hpp"

#include <cstdio>

namespace gpuheap::device_malloc {

namespace {

// "512 B", "1.5 MiB"
std::string format_bytes(std::uint64_t bytes) {
  static constexpr char const* units[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  unsigned unit = 0;
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.4g %s", value, units[unit]);
  return text;
}

std::string counted(std::uint64_t n, char const* one, char const* more) { return std::to_string(n) + " " + (n == 1 ? one : more); }

bool known(std::uint64_t number) { return number != provider_report::untold; }

}  // namespace

std::string report_text(std::string const& head, char const* allocator, provider_report const& report,
                        std::vector<provider_live> const& live) {
  std::string text = head + ": allocator " + allocator + ", heap of " + format_bytes(report.heap_bytes);
  if (known(report.peak_held_bytes)) text += ", at most " + format_bytes(report.peak_held_bytes) + " of it held";
  if (known(report.held_bytes)) text += ", " + format_bytes(report.held_bytes) + " now";
  if (known(report.metadata_bytes)) text += ", metadata " + format_bytes(report.metadata_bytes);
  text += "\n" + head + ": " + counted(report.failed_requests, "request", "requests") + " found no memory";
  if (report.failed_requests != 0) text += ", the first asked for " + format_bytes(report.first_failed_bytes);
  if (known(report.double_frees)) text += "; refused frees: " + std::to_string(report.double_frees) + " of free blocks";
  if (known(report.foreign_frees)) text += ", " + std::to_string(report.foreign_frees) + " of other pointers";
  text += "\n";
  if (!known(report.live_blocks)) return text;
  if (report.live_blocks == 0) return text + head + ": everything was freed\n";
  text += head + ": not freed: " + counted(report.live_blocks, "block", "blocks") + ", " + format_bytes(report.live_bytes) + "\n";
  std::uint64_t shown = 0;
  for (provider_live const& size : live) {
    text += head + ":   " + counted(size.blocks, "block", "blocks") + " of " + format_bytes(size.block_bytes) + "\n";
    shown += size.blocks;
  }
  if (shown != report.live_blocks) text += head + ":   " + std::to_string(report.live_blocks - shown) + " of other sizes\n";
  return text;
}

}  // namespace gpuheap::device_malloc
