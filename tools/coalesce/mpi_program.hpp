// `gpuheap coalesce --mpi`: a C program of MPI becomes a CUDA program, whose allocations are then coalesced as those of any other.
#pragma once

#include "facts.hpp"
#include "options.hpp"

#include <string>
#include <vector>

namespace coalesce {

// Translates the program, coalesces its allocations, and writes the result. `c`: the files named on the command line, which have been read.
// Returns an exit code.
[[nodiscard]] int run_mpi(options const& asked, program& c, std::vector<std::string> const& sources);

}  // namespace coalesce
