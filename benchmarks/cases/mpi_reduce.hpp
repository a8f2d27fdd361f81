// mpi_reduce: a sum over all ranks at one of them, by MPI_Reduce (harness/mpi_rounds.hpp).
#pragma once

#include "harness/mpi_rounds.hpp"

namespace gpuheap::bench {

struct mpi_reduce {
  static constexpr case_description description{
      .name = "mpi_reduce",
      .brief = "a sum over all ranks at one of them, by MPI_Reduce",
      .section = "MPI on the device",
      .parameters = mpi_parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return run_mpi<A>(s, p, mpi_call::reduce);
  }
};

}  // namespace gpuheap::bench
