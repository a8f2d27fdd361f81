#include "settings.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>

namespace gpuheap::unchanged {

namespace {

constexpr std::uint64_t default_cache_bytes = std::uint64_t{256} << 20;

std::string variable(char const* name) {
  char const* const value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string{value};
}

settings read() {
  settings found;
  found.provider = variable("GPUHEAP_RUN_PROVIDER");
  found.times = variable("GPUHEAP_RUN_TIMES");
  found.cache = variable("GPUHEAP_RUN_CACHE");
  found.cache_bytes = bytes_in(variable("GPUHEAP_RUN_CACHE_BYTES"));
  if (found.cache_bytes == 0) found.cache_bytes = default_cache_bytes;
  return found;
}

}  // namespace

settings const& configured() {
  // Never destroyed: driver calls come after static destruction too.
  static settings const* const only = new settings{read()};
  return *only;
}

std::uint64_t bytes_in(std::string const& text) {
  std::uint64_t number = 0;
  char const* const end = text.data() + text.size();
  auto const [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{}) return 0;
  std::string_view const unit{rest, static_cast<std::size_t>(end - rest)};
  struct named {
    std::string_view name;
    int shift;
  };
  for (named const each :
       {named{"", 0}, {"B", 0}, {"K", 10}, {"KiB", 10}, {"M", 20}, {"MiB", 20}, {"G", 30}, {"GiB", 30}, {"T", 40}, {"TiB", 40}}) {
    if (unit == each.name) return number > (~std::uint64_t{0} >> each.shift) ? 0 : number << each.shift;
  }
  return 0;
}

void say(std::string const& words) {
  static std::mutex& lock = *new std::mutex;
  static std::set<std::string>& said = *new std::set<std::string>;
  std::lock_guard const held{lock};
  if (!said.insert(words).second) return;
  std::string const line = "gpuheap: " + words + "\n";
  // One write, so that lines of several processes stay whole.
  [[maybe_unused]] ssize_t const written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace gpuheap::unchanged
