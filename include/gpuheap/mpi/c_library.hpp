// Functions of the C library that MPI programs call and device code lacks, with the C library's meanings. Device code; `gpuheap coalesce
// --mpi` writes these names.
#pragma once

#include <gpuheap/mpi/c/format.hpp>
#include <gpuheap/mpi/c/getopt.hpp>
#include <gpuheap/mpi/c/local_arrays.hpp>
#include <gpuheap/mpi/c/numbers.hpp>
#include <gpuheap/mpi/c/process.hpp>
#include <gpuheap/mpi/c/streams.hpp>
#include <gpuheap/mpi/c/text.hpp>
