// A file with a program's device code, as `gpuheap run` decides about it.
#include "choose.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "program_places.hpp"
#include "ptx_text.hpp"
#include "reads.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace gpuheap::unchanged;
  if (size == 0) return 0;
  static constexpr std::uint32_t architectures[] = {75, 80, 90, 120};
  auto const* const bytes = reinterpret_cast<std::byte const*>(data);
  // A copy of the very length, so that a read past its end is seen.
  std::vector<std::byte> const file(bytes + 1, bytes + size);
  decision const made = decide(bytes_view{file.data(), file.size()}, architectures[data[0] % 4]);
  for (auto const& input : made.inputs) {
    if (!input.is_ptx) continue;
    fuzz::require(input.bytes.back() == std::byte{0});
    // The text that is handed to the linker asks for none of the functions any more.
    std::string_view const text{reinterpret_cast<char const*>(input.bytes.data()), input.bytes.size() - 1};
    for (std::string const& linked : {renamed(text), placed(text).text}) fuzz::require(renamed(linked) == linked);
  }
  return 0;
}
