// Declarations that nvcc's headers have and Clang's do not: min and max of host code, and surfaces. Included in front of every CUDA file
// that is read with a toolkit.
#pragma once

#include <assert.h>

// Clang knows managed variables for HIP only. To device code they are as other variables of the device.
#undef __managed__
#define __managed__ __attribute__((device))

extern "C" __attribute__((device)) void* __nv_aligned_device_malloc(__SIZE_TYPE__, __SIZE_TYPE__);

#define GPUHEAP_STUB_LEAST(A, B, R)                                      \
  inline __attribute__((host)) R min(A a, B b) { return a < b ? a : b; } \
  inline __attribute__((host)) R max(A a, B b) { return a < b ? b : a; }
GPUHEAP_STUB_LEAST(int, int, int)
GPUHEAP_STUB_LEAST(unsigned, unsigned, unsigned)
GPUHEAP_STUB_LEAST(int, unsigned, unsigned)
GPUHEAP_STUB_LEAST(unsigned, int, unsigned)
GPUHEAP_STUB_LEAST(long, long, long)
GPUHEAP_STUB_LEAST(unsigned long, unsigned long, unsigned long)
GPUHEAP_STUB_LEAST(long, unsigned long, unsigned long)
GPUHEAP_STUB_LEAST(unsigned long, long, unsigned long)
GPUHEAP_STUB_LEAST(long long, long long, long long)
GPUHEAP_STUB_LEAST(unsigned long long, unsigned long long, unsigned long long)
GPUHEAP_STUB_LEAST(float, float, float)
GPUHEAP_STUB_LEAST(double, double, double)
GPUHEAP_STUB_LEAST(float, double, double)
GPUHEAP_STUB_LEAST(double, float, double)
#undef GPUHEAP_STUB_LEAST

#define GPUHEAP_STUB_SURFACE(NAME, PLACE)                                                                                  \
  template <class T>                                                                                                       \
  __attribute__((device)) T NAME##read(cudaSurfaceObject_t, PLACE, cudaSurfaceBoundaryMode = cudaBoundaryModeTrap);        \
  template <class T>                                                                                                       \
  __attribute__((device)) void NAME##read(T*, cudaSurfaceObject_t, PLACE, cudaSurfaceBoundaryMode = cudaBoundaryModeTrap); \
  template <class T>                                                                                                       \
  __attribute__((device)) void NAME##write(T, cudaSurfaceObject_t, PLACE, cudaSurfaceBoundaryMode = cudaBoundaryModeTrap);
#define GPUHEAP_STUB_TWO int, int
#define GPUHEAP_STUB_THREE int, int, int
#define GPUHEAP_STUB_FOUR int, int, int, int
GPUHEAP_STUB_SURFACE(surf1D, int)
GPUHEAP_STUB_SURFACE(surf2D, GPUHEAP_STUB_TWO)
GPUHEAP_STUB_SURFACE(surf3D, GPUHEAP_STUB_THREE)
GPUHEAP_STUB_SURFACE(surf1DLayered, GPUHEAP_STUB_TWO)
GPUHEAP_STUB_SURFACE(surf2DLayered, GPUHEAP_STUB_THREE)
GPUHEAP_STUB_SURFACE(surfCubemap, GPUHEAP_STUB_THREE)
GPUHEAP_STUB_SURFACE(surfCubemapLayered, GPUHEAP_STUB_FOUR)
#undef GPUHEAP_STUB_SURFACE
#undef GPUHEAP_STUB_TWO
#undef GPUHEAP_STUB_THREE
#undef GPUHEAP_STUB_FOUR
