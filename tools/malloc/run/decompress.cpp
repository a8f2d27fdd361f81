#include "decompress.hpp"

#include <dlfcn.h>

#include <limits>

namespace gpuheap::unchanged {

namespace {

using zstd_function = std::size_t (*)(void* to, std::size_t room, void const* from, std::size_t bytes);
using lz4_function = int (*)(char const* from, char* to, int bytes, int room);

template <class Function>
Function load(char const* library, char const* symbol) {
  void* const opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  return opened == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(opened, symbol));
}

}  // namespace

bool decompress(compression how, bytes_view from, std::span<std::byte> out, std::string* why) {
  if (how == compression::zstandard) {
    static auto const run = load<zstd_function>("libzstd.so.1", "ZSTD_decompress");
    if (run == nullptr) {
      *why = "its code is packed by Zstandard, and libzstd.so.1 is not there: install the package libzstd1";
      return false;
    }
    if (run(out.data(), out.size(), from.data(), from.size()) == out.size()) return true;  // an error code is larger than any size
    *why = "an entry is packed by Zstandard and does not unpack";
    return false;
  }
  static auto const run = load<lz4_function>("liblz4.so.1", "LZ4_decompress_safe");
  if (run == nullptr) {
    *why = "its code is packed by LZ4, and liblz4.so.1 is not there: install the package liblz4-1";
    return false;
  }
  constexpr std::size_t most = std::numeric_limits<int>::max();
  if (from.size() <= most && out.size() <= most) {
    int const got = run(reinterpret_cast<char const*>(from.data()), reinterpret_cast<char*>(out.data()), static_cast<int>(from.size()),
                        static_cast<int>(out.size()));
    if (got >= 0 && static_cast<std::size_t>(got) == out.size()) return true;
  }
  *why = "an entry is packed by LZ4 and does not unpack";
  return false;
}

}  // namespace gpuheap::unchanged
