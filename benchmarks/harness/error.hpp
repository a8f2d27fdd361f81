// A mistake of the person who called the program: the text goes to stderr as one line, and the exit code is 2.
#pragma once

#include <stdexcept>

namespace gpuheap::bench {

class usage_error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace gpuheap::bench
