// Real code on the double: fat binaries, cubins and PTX, as libraries and modules. Nothing of it runs; what is loaded and what a launch
// would have found is in the log.
//
//   DOUBLE_CODE=FOLDER  gets each image of machine code that is loaded, 1.cubin and so on
//   DOUBLE_ARCHITECTURE=90  the compute capability of the devices; DOUBLE_LAST_ARCHITECTURE: of the last one
//   DOUBLE_NO_LINK=222  the error that a link ends with
//   DOUBLE_NVJITLINK=libnvJitLink.so.13  what links
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cudaTypedefs.h>

namespace driver_double {

// nullptr: it is none, and the double's own modules are meant.
void* load_code(void const* image);
[[nodiscard]] bool is_code(void const* handle);
CUresult variable_of(void const* code, void const* context, CUdeviceptr* out, std::size_t* bytes, char const* name);
// A kernel's handle, or nullptr.
void* kernel_of(void const* code, char const* name);
[[nodiscard]] bool is_code_kernel(void const* handle);
void launch_code(void const* kernel, void const* context);

// The functions that other parts of the double provide.
void const* context_now();
int architecture_of(int device);

}  // namespace driver_double
