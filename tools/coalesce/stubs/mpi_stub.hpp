// The declarations in front of a C program with MPI that has been translated to CUDA: the C library's headers, with their functions as host
// and device functions. The translation has already renamed the calls of functions that device code does not have. No toolkit is needed.
#pragma once

#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define GPUHEAP_FN __attribute__((device))

#pragma clang force_cuda_host_device begin
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#pragma clang force_cuda_host_device end
