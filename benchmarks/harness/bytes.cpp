#include "harness/bytes.hpp"

#include <charconv>

#include "harness/error.hpp"

namespace gpuheap::bench {

std::uint64_t parse_bytes(std::string_view what, std::string_view text) {
  auto const refuse = [&]() -> std::uint64_t {
    throw usage_error(std::string(what) + ": expected a size such as 65536, 64MiB or 8GiB, got '" + std::string(text) + "'");
  };
  std::uint64_t number = 0;
  auto const [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{}) return refuse();
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.empty() || unit == "B") return number;
  auto const prefix = std::string_view{"KMGT"}.find(unit[0]);
  unit.remove_prefix(1);
  if (prefix == std::string_view::npos || !(unit.empty() || unit == "iB")) return refuse();
  unsigned const shift = 10 * static_cast<unsigned>(prefix + 1);
  if (number > ~std::uint64_t{0} >> shift) return refuse();
  return number << shift;
}

}  // namespace gpuheap::bench
