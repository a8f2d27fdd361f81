// The decision on an image that a program gives the driver: pass it on, or link its PTX with the device code that serves malloc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fat_binary.hpp"
#include "machine_code.hpp"

namespace gpuheap::unchanged {

/// One input of a link.
struct link_input {
  bool is_ptx = false;           // if so, the bytes end in a zero byte
  std::vector<std::byte> bytes;  // PTX of the program, or relocatable machine code that uses no name of served_names
  std::string options;           // options for ptxas that nvcc recorded, and those that the program gives
};

enum class verdict {
  untouched,  // the image uses no function of served_names, or defines its own: the driver gets it as it is
  link,
  cannot,  // the image uses such a function and has nothing to link: the driver gets it as it is, and the reason is reported
};

struct decision {
  verdict what = verdict::untouched;
  std::vector<link_input> inputs;      // for verdict::link
  std::optional<machine_code> before;  // the machine code that the driver would run on this device, if there is any
  std::string why;                     // for verdict::cannot, one clause

  static decision untouched() { return {}; }
  static decision cannot(std::string clause) { return {verdict::cannot, {}, std::nullopt, std::move(clause)}; }
};

/// @param image The program's image: a wrapper of nvcc, a fat binary, a cubin, or PTX that ends in a zero byte. All bytes that the lengths
/// in its headers count must be readable, as the driver requires too.
/// @param architecture The device's architecture: 90 for compute capability 9.0.
[[nodiscard]] decision decide(void const* image, std::uint32_t architecture);

/// @param file All bytes of a file with such an image, but not a wrapper. Nothing outside of them is read.
[[nodiscard]] decision decide(bytes_view file, std::uint32_t architecture);

}  // namespace gpuheap::unchanged
