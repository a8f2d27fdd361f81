#include "jit_options.hpp"

#include <cstdint>

namespace gpuheap::unchanged {

namespace {

// The driver reads and writes the low half of an option's value.
std::uint32_t number_in(void* value) { return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(value)); }

}  // namespace

std::string jit_options::words() const {
  std::string all;
  for (unsigned i = 0; i < num; ++i) {
    std::uint32_t const value = number_in(values[i]);
    if (names[i] == CU_JIT_MAX_REGISTERS && value != 0) all += " -maxrregcount=" + std::to_string(value);
    if (names[i] == CU_JIT_OPTIMIZATION_LEVEL) all += " --opt-level=" + std::to_string(value);
    if (names[i] == CU_JIT_GENERATE_DEBUG_INFO && value != 0) all += " -g";
    if (names[i] == CU_JIT_GENERATE_LINE_INFO && value != 0) all += " -lineinfo";
  }
  return all;
}

void jit_options::answer_nothing() const {
  auto const end_log = [&](CUjit_option buffer, CUjit_option size) {
    char* log = nullptr;
    void** bytes = nullptr;
    for (unsigned i = 0; i < num; ++i) {
      if (names[i] == buffer) log = static_cast<char*>(values[i]);
      if (names[i] == size) bytes = &values[i];
    }
    if (bytes == nullptr) return;
    if (log != nullptr && number_in(*bytes) != 0) *log = '\0';
    *bytes = nullptr;
  };
  end_log(CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
  end_log(CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
  for (unsigned i = 0; i < num; ++i) {
    if (names[i] == CU_JIT_WALL_TIME) values[i] = nullptr;  // a float of 0
  }
}

}  // namespace gpuheap::unchanged
