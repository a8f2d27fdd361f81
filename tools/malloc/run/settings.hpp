// The library's settings, which `gpuheap run` passes in environment variables that child processes inherit, and the library's messages.
#pragma once

#include <cstdint>
#include <string>

namespace gpuheap::unchanged {

struct settings {
  std::string provider;           // GPUHEAP_RUN_PROVIDER: the allocator's library; "": nothing is served
  std::string times;              // GPUHEAP_RUN_TIMES: a folder that gets a file for each process that launched; "": launches are not timed
  std::string cache;              // GPUHEAP_RUN_CACHE: the folder of linked code; "": none is kept
  std::uint64_t cache_bytes = 0;  // GPUHEAP_RUN_CACHE_BYTES: the bound for all code in that folder

  [[nodiscard]] bool serves() const { return !provider.empty(); }
  [[nodiscard]] bool on() const { return serves() || !times.empty(); }
};

/// @return The settings, read once.
[[nodiscard]] settings const& configured();

/// @return The bytes that a text such as 512MiB, 8G or 4096 means; 0 if it is no such text.
[[nodiscard]] std::uint64_t bytes_in(std::string const& text);

/// Writes "gpuheap: " and the words to standard error as one line. Words that were written before are not written again.
void say(std::string const& words);

}  // namespace gpuheap::unchanged
