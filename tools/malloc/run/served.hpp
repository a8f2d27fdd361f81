// The served code: the libraries and modules that were linked with the serving device code, and the heaps' state in their variables.
#pragma once

#include "driver.hpp"

namespace gpuheap::unchanged {

/// Called when a library or module has been loaded from linked code. A library serves every context, a module only the current one.
void served_library(CUlibrary library);
void served_module(CUmodule module);
/// Called when a library or module is unloaded, served or not.
void forget_library(CUlibrary library);
void forget_module(CUmodule module);

/// Called before a launch. Makes the current context's heap if there is none, and writes the heap's state into every served library and
/// module of that context. If the stream is being captured, the state of new modules is written only when the graph is launched.
void prepare_launch(CUstream stream);

/// Called before a context ends; primary_ends() is called before a device's primary context ends, and does nothing if there is none.
void context_ends(CUcontext context);
void primary_ends(CUdevice device);

/// Called in a child process after fork. Forgets everything, because the parent's contexts do not exist there.
void forget_served_after_fork();

}  // namespace gpuheap::unchanged
