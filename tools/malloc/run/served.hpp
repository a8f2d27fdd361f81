// The served code: the modules that were linked with the device code, in every context in which they are.
#pragma once

#include "driver.hpp"

namespace gpuheap::unchanged {

/// A library or module was loaded from linked code. A library is in every context, a module in the current one.
void served_library(CUlibrary library);
void served_module(CUmodule module);
/// A library or module is unloaded. It need not be one that is served.
void forget_library(CUlibrary library);
void forget_module(CUmodule module);

/// Before a launch: the current context has a heap, and every served module there has its state. A capture's first launches are
/// prepared when the graph is launched.
void prepare_launch(CUstream stream);

/// A context is about to end; or the primary context of a device, if the device has one.
void context_ends(CUcontext context);
void primary_ends(CUdevice device);

/// In the child after fork: forgets everything, as the parent's contexts do not exist there.
void forget_served_after_fork();

}  // namespace gpuheap::unchanged
