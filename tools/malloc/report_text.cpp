#include "tools/malloc/report_text.hpp"

#include <cstdio>

namespace gpuheap::device_malloc {

namespace {

// A size as text, such as "512 B" or "1.5 MiB".
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

// A text of the driver or of a provider as a string in JSON. Quotes and backslashes are escaped, and control characters become blanks.
std::string quoted(char const* text) {
  std::string made = "\"";
  for (; *text != '\0'; ++text) {
    auto const c = static_cast<unsigned char>(*text);
    if (c == '"' || c == '\\') made += '\\';
    made += c < 0x20 ? ' ' : *text;
  }
  return made + "\"";
}

}  // namespace

std::string report_json(char const* what, double seconds, int device, char const* name, char const* allocator,
                        provider_report const& report, std::vector<provider_live> const* live) {
  std::string text = "{\"gpuheap\": " + quoted(what);
  char number[64];
  if (seconds >= 0) {
    std::snprintf(number, sizeof number, ", \"seconds\": %.3f", seconds);
    text += number;
  }
  text += ", \"device\": " + std::to_string(device) + ", \"name\": " + quoted(name) + ", \"allocator\": " + quoted(allocator);
  auto const add = [&](char const* field, std::uint64_t value) {
    if (known(value)) text += std::string{", \""} + field + "\": " + std::to_string(value);
  };
  add("heap_bytes", report.heap_bytes);
  add("held_bytes", report.held_bytes);
  add("peak_held_bytes", report.peak_held_bytes);
  add("metadata_bytes", report.metadata_bytes);
  add("live_blocks", report.live_blocks);
  add("live_bytes", report.live_bytes);
  add("failed_requests", report.failed_requests);
  if (report.failed_requests != 0) add("first_failed_bytes", report.first_failed_bytes);
  add("double_frees", report.double_frees);
  add("foreign_frees", report.foreign_frees);
  if (live != nullptr) {
    text += ", \"sizes\": [";
    for (provider_live const& size : *live) {
      text += (text.back() == '[' ? "" : ", ") + ("{\"block_bytes\": " + std::to_string(size.block_bytes)) +
              ", \"blocks\": " + std::to_string(size.blocks) + "}";
    }
    text += "]";
  }
  return text + "}";
}

std::string no_answer_json(char const* what, int device, char const* why) {
  return "{\"gpuheap\": " + quoted(what) + ", \"device\": " + std::to_string(device) + ", \"why\": " + quoted(why) + "}";
}

std::string sample_text(double seconds, provider_report const& report) {
  char number[32];
  std::snprintf(number, sizeof number, "%.1f s: ", seconds);
  std::string text = number;
  text += known(report.held_bytes) ? format_bytes(report.held_bytes) + " of " + format_bytes(report.heap_bytes) + " held"
                                   : "heap of " + format_bytes(report.heap_bytes);
  if (known(report.live_blocks)) text += ", " + counted(report.live_blocks, "live block", "live blocks");
  if (known(report.live_blocks) && known(report.live_bytes)) text += " of " + format_bytes(report.live_bytes) + " in all";
  return text + ", " + counted(report.failed_requests, "request", "requests") + " found no memory";
}

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
  // The default allocator tells no highest value until a kernel has asked it for memory. Some allocators never tell one, hence the second
  // half of the sentence.
  bool const unused = report.live_blocks == 0 && report.held_bytes == 0 && !known(report.peak_held_bytes) && report.failed_requests == 0;
  if (unused)
    return text + head +
           ": no kernel asked this heap for memory, or all of it was given back; in a relinked program, kernels that were compiled without "
           "-rdc=true ask CUDA's heap\n";
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
