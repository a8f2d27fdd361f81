// Host-side errors. Each text says what was asked, what was there, and what to do.
#pragma once

#include <gpuheap/simt/config.hpp>

#if GPUHEAP_HAS_HOST
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

namespace simt {
using ::gpuheap::GPUHEAP_BACKEND_NAMESPACE::error;
using ::gpuheap::GPUHEAP_BACKEND_NAMESPACE::out_of_memory;
}  // namespace simt

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
#endif
