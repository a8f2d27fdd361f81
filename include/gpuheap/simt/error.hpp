// The exceptions of host code. Each message says what was asked, what was there, and what to do.
#pragma once

#include <gpuheap/simt/config.hpp>

#if GPUHEAP_HAS_HOST
#include <cstdarg>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief The base of this library's errors, for programs to catch: the library could not do what was asked. what() says what was asked,
// what was there, and what to do.
// @note Each error is a standard exception too: out_of_memory is a std::bad_alloc, the others are std::runtime_error. This class does not
// derive from std::exception: an error would then have that base twice, and `catch (std::exception const&)` would not catch it.
class error {
 public:
  [[nodiscard]] virtual char const* what() const noexcept = 0;

 protected:
  error() = default;
  error(error const&) = default;
  error& operator=(error const&) = default;
  ~error() = default;
};

// @brief Thrown for every failure but a lack of memory.
class plain_error : public std::runtime_error, public error {
 public:
  using std::runtime_error::runtime_error;
  [[nodiscard]] char const* what() const noexcept override { return std::runtime_error::what(); }
};

// @brief Thrown when a call of the driver or the runtime failed, or when a kernel failed. Other arguments would not have helped.
class device_error : public plain_error {
 public:
  using plain_error::plain_error;
};

// @brief Thrown when less memory was available than the call needed.
class out_of_memory : public std::bad_alloc, public error {
 public:
  explicit out_of_memory(std::string const& text) : text_{text} {}
  [[nodiscard]] char const* what() const noexcept override { return text_.what(); }

 private:
  std::runtime_error text_;  // a std::runtime_error copies its text without throwing
};

// Formats a message as printf does. Concatenating strings at each place that throws would compile to far more machine code.
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
using ::gpuheap::GPUHEAP_BACKEND_NAMESPACE::device_error;
using ::gpuheap::GPUHEAP_BACKEND_NAMESPACE::error;
using ::gpuheap::GPUHEAP_BACKEND_NAMESPACE::out_of_memory;
using ::gpuheap::GPUHEAP_BACKEND_NAMESPACE::plain_error;
}  // namespace simt

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
#endif
