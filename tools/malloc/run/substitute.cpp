#include "substitute.hpp"

#include <unistd.h>

#include <exception>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "allocator.hpp"
#include "choose.hpp"
#include "driver.hpp"
#include "program_places.hpp"
#include "ptx_text.hpp"
#include "settings.hpp"

namespace gpuheap::unchanged {

namespace {

// The file name of this process's program.
std::string program_name() {
  char path[4096];
  ssize_t const length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) return "the program";
  std::string const all{path, static_cast<std::size_t>(length)};
  return all.substr(all.rfind('/') + 1);
}

// The architecture of all devices, as in ptx_facts; 0: nothing is served.
std::uint32_t architecture() {
  static std::uint32_t const all = []() -> std::uint32_t {
    if (driver().missing != nullptr) {
      not_served(std::string{"this driver lacks "} + driver().missing + ", it is older than CUDA 12");
      return 0;
    }
    char const* why = nullptr;
    std::uint32_t const found = architecture_of_devices(&why);
    if (found == 0) not_served(why);
    return found;
  }();
  return all;
}

// Replaces the names of malloc and free in the program's PTX.
void rename(link_input& input) {
  std::string_view const ptx{reinterpret_cast<char const*>(input.bytes.data()), input.bytes.size() - 1};
  std::string text;
  if (provider()->takes_places != 0) {
    placed_ptx made = placed(ptx);
    note_places(made.places);
    text = std::move(made.text);
  } else {
    text = renamed(ptx);
  }
  auto const* const first = reinterpret_cast<std::byte const*>(text.c_str());
  input.bytes.assign(first, first + text.size() + 1);
}

template <class Decide>
substitute find(Decide decide_for, jit_options const& asked) noexcept {
  try {
    if (!configured().serves() || architecture() == 0) return {};
    decision made = decide_for(architecture());
    if (made.what == verdict::cannot) not_served(made.why);
    if (made.what != verdict::link || provider() == nullptr) return {};
    for (link_input& input : made.inputs) {
      if (!input.is_ptx) continue;
      rename(input);
      input.options += asked.words();
    }
    std::string why;
    substitute found{code_for(made, serving(), architecture(), &why)};
    if (found.code == nullptr) not_served(why);
    return found;
  } catch (std::exception const& error) {
    not_served(error.what());
    return {};
  }
}

std::vector<std::byte> bytes_of(char const* path) {
  std::ifstream file{path, std::ios::binary};
  std::string const text{std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
  auto const* const first = reinterpret_cast<std::byte const*>(text.data());
  return {first, first + text.size()};
}

}  // namespace

substitute substitute_for(void const* image, jit_options const& asked) noexcept {
  return find([&](std::uint32_t device) { return decide(image, device); }, asked);
}

substitute substitute_for_file(char const* path, jit_options const& asked) noexcept {
  if (path == nullptr) return {};
  return find([&](std::uint32_t device) { return decide(bytes_view{bytes_of(path)}, device); }, asked);
}

void not_served(std::string const& why) { say("device code of " + program_name() + " keeps CUDA's malloc: " + why); }

}  // namespace gpuheap::unchanged
