// The decision on an image that a program gives the driver: pass it on, or link its PTX with the device code that serves malloc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fat_binary.hpp"
#include "machine_code.hpp"

namespace gpuheap::unchanged {

/// One thing that goes into a link.
struct link_input {
  bool is_ptx = false;           // then the bytes end in a zero byte
  std::vector<std::byte> bytes;  // PTX with the names of served_names replaced, or relocatable machine code that uses none of them
  std::string options;           // what nvcc noted for ptxas, and what the program asks for
};

enum class verdict {
  untouched,  // the image uses no function of served_names, or has its own: the driver gets it as it is
  link,
  cannot,  // the image uses them and there is nothing to link: the driver gets it as it is, and the reason is told
};

struct decision {
  verdict what = verdict::untouched;
  std::vector<link_input> inputs;      // of verdict::link
  std::optional<machine_code> before;  // what the driver would run on this device, where it is machine code
  std::string why;                     // of verdict::cannot, one clause

  static decision untouched() { return {}; }
  static decision cannot(std::string clause) { return {verdict::cannot, {}, std::nullopt, std::move(clause)}; }
};

/// @param image What the program gave: a wrapper of nvcc's, a fat binary, a cubin, or PTX that ends in a zero byte. As for the driver, what
/// its
///   heads say of lengths must be there to read.
/// @param architecture Of the device: 90 for compute capability 9.0.
[[nodiscard]] decision decide(void const* image, std::uint32_t architecture);

/// @param file All bytes of a file that is such an image but for the wrapper: nothing outside them is read.
[[nodiscard]] decision decide(bytes_view file, std::uint32_t architecture);

}  // namespace gpuheap::unchanged
