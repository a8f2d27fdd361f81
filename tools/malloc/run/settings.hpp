// The settings that `gpuheap run` passes to the library, through environment variables that a child process inherits; and the messages of
// the library.
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

/// Writes one line to standard error, "gpuheap: " before it. The same words are written once.
void say(std::string const& words);

}  // namespace gpuheap::unchanged
