#include "plan_file.hpp"

#include <fstream>
#include <sstream>

namespace gpuheap::interpose {

namespace {

constexpr char first_line[] = "gpuheap-host-plan 1";

std::uint64_t checksum_of(std::string const& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (char const c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

memory memory_named(std::string const& name) {
  if (name == "device") return memory::device;
  if (name == "managed") return memory::managed;
  if (name == "pinned") return memory::pinned;
  return memory::unknown;
}

bool read_line(std::string const& line, plan& into) {
  std::istringstream words{line};
  std::string what;
  words >> what;
  if (what == "driver") return static_cast<bool>(words >> into.driver);
  if (what == "device") {
    planned_device found;
    words >> found.ordinal >> found.total_bytes >> std::ws;
    std::getline(words, found.name);
    into.devices.push_back(found);
    return !found.name.empty();
  }
  if (what == "pool") {
    planned_pool found;
    std::size_t number = 0;
    std::string kind;
    words >> number >> kind >> found.device >> found.bytes;
    found.what = memory_named(kind);
    if (!words || number != into.pools.size() || found.what == memory::unknown || found.bytes == 0) return false;
    into.pools.push_back(found);
    return true;
  }
  if (what == "slot") {
    std::size_t pool = 0;
    planned_slot found{};
    words >> pool >> found.offset >> found.bytes >> std::hex >> found.site;
    if (!words || pool >= into.pools.size() || found.bytes == 0 || found.offset > into.pools[pool].bytes) return false;
    if (found.bytes > into.pools[pool].bytes - found.offset || into.pools[pool].slots.size() == index_set::limit) return false;
    into.pools[pool].slots.push_back(found);
    return true;
  }
  if (what == "pair") {
    proven_pair found;
    words >> std::hex >> found.host_site >> found.device_site;
    into.pairs.push_back(found);
    return static_cast<bool>(words);
  }
  return false;
}

}  // namespace

plan read_plan(std::string const& path, std::string* why) {
  std::ifstream file{path};
  if (!file) {
    *why = "cannot be read";
    return {};
  }
  return read_plan(file, why);
}

plan read_plan(std::istream& file, std::string* why) {
  plan found;
  std::string text;
  std::string line;
  int number = 0;
  while (std::getline(file, line)) {
    ++number;
    if (line.rfind("checksum ", 0) == 0) {
      if (std::strtoull(line.c_str() + 9, nullptr, 16) == checksum_of(text)) return found;
      *why = "its checksum does not fit: it was cut short or changed by hand";
      return {};
    }
    text += line + "\n";
    if (number == 1 ? line != first_line : !read_line(line, found)) {
      *why = number == 1 ? "it is not a plan of this version: its first line is '" + line + "', not '" + first_line + "'"
                         : "line " + std::to_string(number) + " is not understood: '" + line + "'";
      return {};
    }
  }
  *why = "it has no checksum: it was cut short";
  return {};
}

}  // namespace gpuheap::interpose
