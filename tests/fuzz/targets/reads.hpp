// Common parts of the targets for files: a reader either returns something or refuses with one line that names the file.
#pragma once

#include "harness/error.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

namespace fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

// Calls read(stream, name), then use(what it gave).
template <class Read, class Use>
int read_bytes(std::uint8_t const* data, std::size_t size, Read read, Use use) {
  static std::istringstream in;  // made once: a stream of its own for each input takes a tenth of the time
  in.clear();
  in.str(std::string{reinterpret_cast<char const*>(data), size});
  try {
    use(read(in, "file"));
  } catch (gpuheap::bench::usage_error const& refused) {
    std::string const text = refused.what();
    require(text.rfind("file:", 0) == 0 && text.find('\n') == std::string::npos);
  }
  return 0;
}

}  // namespace fuzz
