// mpi_broadcast: one rank's values to all, by MPI_Bcast (harness/mpi_rounds.hpp).
#pragma once

#include "harness/mpi_rounds.hpp"

namespace gpuheap::bench {

struct mpi_broadcast {
  static constexpr case_description description{
      .name = "mpi_broadcast",
      .brief = "one rank's values to all, by MPI_Bcast",
      .section = "MPI on the device",
      .parameters = mpi_parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return run_mpi<A>(s, p, mpi_call::broadcast);
  }
};

}  // namespace gpuheap::bench
