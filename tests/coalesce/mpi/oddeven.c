// Odd-even sort: neighbours exchange their pieces, and keep the lower or the upper half. Pieces are sorted and merged in sort_pieces.c.
#include <mpi.h>
#include <stdio.h>

#include "pieces.h"

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  struct piece mine = {.length = argc > 1 ? atoi(argv[1]) : 10};
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  mine.values = new_values(mine.length);
  if (!mine.values) {
    fprintf(stderr, "no memory\n");
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
    free(theirs);
  }
  float *all = NULL;
  if (rank == 0) all = new_values(ranks * mine.length);
  MPI_Gather(mine.values, mine.length, MPI_FLOAT, all, mine.length, MPI_FLOAT, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    for (int i = 0; i < ranks * mine.length; i += 3) printf("%zu: %.2f\n", (size_t)i, all[i]);
    printf("merges: %d\n", merges());
  }
  free(all);
  free(mine.values);
  MPI_Finalize();
}
