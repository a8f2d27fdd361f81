// Functions of the C library that MPI programs call and CUDA does not have. They do the same as in the C library, apart from differences
// that the included headers name. Device code; `gpuheap coalesce --mpi` writes these names into programs.
#pragma once

#include <gpuheap/mpi/c/format.hpp>
#include <gpuheap/mpi/c/getopt.hpp>
#include <gpuheap/mpi/c/local_arrays.hpp>
#include <gpuheap/mpi/c/numbers.hpp>
#include <gpuheap/mpi/c/process.hpp>
#include <gpuheap/mpi/c/streams.hpp>
#include <gpuheap/mpi/c/text.hpp>
