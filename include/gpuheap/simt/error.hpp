// Host-side errors. Each text says what was asked, what was there, and what to do.
#pragma once

#include <gpuheap/simt/config.hpp>

#if GPUHEAP_HAS_HOST
#include <cstdarg>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// Anything the library could not do.
class error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// There was not enough memory for what was asked.
class out_of_memory : public error {
  using error::error;
};

// The text of a message, as printf has it. Joining strings would compile into a page of machine code at each place.
[[gnu::format(printf, 1, 2), gnu::noinline, gnu::cold, nodiscard]] inline std::string text_of(char const* format, ...) {
  std::va_list values;
  va_start(values, format);
  std::va_list again;
  va_copy(again, values);
  int const length = std::vsnprintf(nullptr, 0, format, values);
  va_end(values);
  std::string text(length > 0 ? static_cast<std::size_t>(length) : 0, ' ');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

namespace simt {
using ::gpuheap::GPUHEAP_BACKEND_NAMESPACE::error;
using ::gpuheap::GPUHEAP_BACKEND_NAMESPACE::out_of_memory;
}  // namespace simt

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
#endif
