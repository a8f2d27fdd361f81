// The version of the library, as semantic versioning counts it. CMake reads it from here.
#pragma once

#define GPUHEAP_VERSION_MAJOR 0
#define GPUHEAP_VERSION_MINOR 1
#define GPUHEAP_VERSION_PATCH 0
#define GPUHEAP_VERSION_STRING "0.1.0"
