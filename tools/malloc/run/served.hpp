// The served code: the libraries and modules that were linked with the serving device code, and the heaps' state in their variables.
#pragma once

#include "driver.hpp"

namespace gpuheap::unchanged {

/// Called when a library or module has been loaded from linked code. A library is in every context, a module in the current one.
void served_library(CUlibrary library);
void served_module(CUmodule module);
/// Called when a library or module is unloaded, served or not.
void forget_library(CUlibrary library);
void forget_module(CUmodule module);

/// Called before a launch. Makes the current context's heap if there is none, and writes its state into every served module there. If the
/// stream is being captured, the state of new modules is written only when the graph is launched.
void prepare_launch(CUstream stream);

/// Called before a context ends, or the primary context of a device, if the device has one.
void context_ends(CUcontext context);
void primary_ends(CUdevice device);

/// Called in a child process after fork. Forgets everything, because the parent's contexts do not exist there.
void forget_served_after_fork();

}  // namespace gpuheap::unchanged
