// Plans of `gpuheap host pool`. The checksum at the end is made to fit, so that what is before it is looked at.
#include "plan_file.hpp"

#include <cstdio>
#include <sstream>
#include <utility>

#include "reads.hpp"

namespace {

// As the reader sums up a file's lines.
std::uint64_t checksum_of(std::string const& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (char const c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return 0;
  std::string text{reinterpret_cast<char const*>(data) + 1, size - 1};
  if (data[0] % 8 != 0) {
    if (!text.empty() && text.back() != '\n') text += '\n';
    char line[40];
    std::snprintf(line, sizeof line, "checksum %llx\n", static_cast<unsigned long long>(checksum_of(text)));
    text += line;
  }
  static std::istringstream in;
  in.clear();
  in.str(std::move(text));
  std::string why;
  auto const plan = gpuheap::interpose::read_plan(in, &why);
  if (!why.empty()) {
    fuzz::require(plan.pools.empty() && plan.devices.empty() && plan.pairs.empty());
    return 0;
  }
  for (auto const& pool : plan.pools) {
    fuzz::require(pool.bytes != 0 && pool.what != gpuheap::interpose::memory::unknown);
    for (auto const& slot : pool.slots)
      fuzz::require(slot.bytes != 0 && slot.offset <= pool.bytes && slot.bytes <= pool.bytes - slot.offset);
  }
  return 0;
}
