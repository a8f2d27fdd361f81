// The version of the library, as semantic versioning counts it. CMake and Python read it from here.
#pragma once

#define GPUHEAP_VERSION_MAJOR 0
#define GPUHEAP_VERSION_MINOR 1
#define GPUHEAP_VERSION_PATCH 0

#define GPUHEAP_JOIN_VERSION_(major, minor, patch) #major "." #minor "." #patch
#define GPUHEAP_SPELL_VERSION_(major, minor, patch) GPUHEAP_JOIN_VERSION_(major, minor, patch)
// The version as a string: "major.minor.patch".
#define GPUHEAP_VERSION_STRING GPUHEAP_SPELL_VERSION_(GPUHEAP_VERSION_MAJOR, GPUHEAP_VERSION_MINOR, GPUHEAP_VERSION_PATCH)
