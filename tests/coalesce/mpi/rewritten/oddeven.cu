// Made of oddeven.c by gpuheap coalesce --mpi
// Odd-even sort: neighbours exchange their pieces, and keep the lower or the upper half. Pieces are sorted and merged in sort_pieces.c.
#include <gpuheap/mpi/program.hpp>
#include <stdio.h>

#include "pieces.h"

GPUHEAP_FN int rank_main(int argc, gpuheap::mpi::arguments argv) {
  MPI_Init(NULL, NULL);
  struct piece mine = {.length = argc > 1 ? gpuheap::mpi::c::atoi(argv[1]) : 10};
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  mine.values = new_values(mine.length, true);
  if (!mine.values) {
    printf("no memory\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (int i = 0; i < mine.length; i++) mine.values[i] = (float)((rank * 37 + i * 101) % 251) / 4;
  sort_piece(&mine);
  for (int phase = 0; phase < ranks; phase++) {
    int other = (rank + phase) % 2 == 0 ? rank + 1 : rank - 1;
    if (other < 0 || other >= ranks) other = MPI_PROC_NULL;
    float *theirs = new_values(mine.length);
    MPI_Status status;
    MPI_Sendrecv(mine.values, mine.length, MPI_FLOAT, other, phase, theirs, mine.length, MPI_FLOAT, other, phase, MPI_COMM_WORLD, &status);
    if (other != MPI_PROC_NULL) keep_half(&mine, theirs, rank < other);
    gpuheap::coalesced::free(theirs);
  }
  float *all = NULL;
  if (rank == 0) all = new_values(ranks * mine.length);
  MPI_Gather(mine.values, mine.length, MPI_FLOAT, all, mine.length, MPI_FLOAT, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    for (int i = 0; i < ranks * mine.length; i += 3) printf("%lu: %.2f\n", (size_t)i, all[i]);
    printf("merges: %d\n", merges());
  }
  gpuheap::coalesced::free(all);
  gpuheap::coalesced::free(mine.values);
  MPI_Finalize();
  return 0;
}

// The ranks are threads of one kernel.
GPUHEAP_FN void start_variables_of_sort_pieces();
struct rank_program {
  GPUHEAP_FN int operator()(int argc, gpuheap::mpi::arguments argv) const {
    start_variables_of_sort_pieces();
    return rank_main(argc, argv);
  }
};

int main(int argc, char** argv) {
  return gpuheap::mpi::run_main(argc, argv, rank_program{}, [] { gpuheap::coalesced::init(); });
}
