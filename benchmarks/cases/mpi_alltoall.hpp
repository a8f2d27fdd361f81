// mpi_alltoall: every rank sends values to every rank: its arrays, its messages, and one without malloc beside it (harness/mpi_rounds.hpp).
#pragma once

#include "harness/mpi_rounds.hpp"

namespace gpuheap::bench {

struct mpi_alltoall {
  static constexpr case_description description{
      .name = "mpi_alltoall",
      .brief = "every rank sends values to every rank: its arrays, its messages, and one without malloc beside it",
      .section = "MPI on the device",
      .parameters = mpi_parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return run_mpi<A>(s, p, mpi_call::alltoall);
  }
};

}  // namespace gpuheap::bench
