#include "settings.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace gpuheap::interpose {

namespace {

std::string variable(char const* name) {
  char const* const value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string{value};
}

pool_mode mode_named(std::string const& name) {
  if (name == "device") return pool_mode::device;
  if (name == "zero-copy") return pool_mode::zero_copy;
  if (name == "unified") return pool_mode::unified;
  if (name.rfind("heap:", 0) == 0) return pool_mode::heap;
  return pool_mode::none;
}

settings read() {
  settings found;
  found.folder = variable("GPUHEAP_HOST_TRACE");
  found.only = variable("GPUHEAP_HOST_ONLY");
  found.events = variable("GPUHEAP_HOST_EVENTS") != "0";
  std::string const mode = variable("GPUHEAP_HOST_POOL");
  found.mode = mode_named(mode);
  if (found.mode != pool_mode::none) found.mode_words = mode;
  found.heap_library = variable("GPUHEAP_HOST_HEAP_LIBRARY");
  found.heap_bytes = std::strtoull(variable("GPUHEAP_HOST_HEAP_BYTES").c_str(), nullptr, 10);
  found.plan = variable("GPUHEAP_HOST_PLAN");
  std::string const merge = variable("GPUHEAP_HOST_MERGE");
  if (found.mode == pool_mode::zero_copy && merge == "rehearse") found.merge = merge_use::rehearse;
  if (found.mode == pool_mode::zero_copy && merge == "elide") found.merge = merge_use::elide;
  found.strict = variable("GPUHEAP_HOST_STRICT") == "1";
  found.synchronise = variable("GPUHEAP_HOST_SYNC") != "0";
  std::string const poison = variable("GPUHEAP_HOST_POISON");
  if (!poison.empty()) found.poison = std::atoi(poison.c_str()) & 0xff;
  found.on = !found.folder.empty() && (found.only.empty() || found.only == program_name());
  return found;
}

}  // namespace

settings const& configured() {
  // Never destroyed: driver calls come after static destruction too.
  static settings const* const only = new settings{read()};
  return *only;
}

std::string program_name() {
  char path[4096];
  ssize_t const length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return "program";
  path[length] = '\0';
  char const* const slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

}  // namespace gpuheap::interpose
