// A matrix whose rows are spread over ranks, turned: with MPI_Alltoallv, where ranks have different numbers of rows.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define N 13
#define NEW(type, n) malloc((n) * sizeof(type))  // one text for all its uses: these are not coalesced

static int rows_of(int rank, int ranks) { return N / ranks + (rank < N % ranks); }

int main(int argc, char **argv) {
  int rank, ranks, i, j, r, at;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int *sent = malloc(ranks * sizeof(int)), *to = malloc(ranks * sizeof(int)), *received = malloc(ranks * sizeof(int));
  int *from = NEW(int, ranks), *first = NEW(int, ranks);
  int rows = rows_of(rank, ranks);
  for (r = 0, at = 0; r < ranks; r++) {
    first[r] = at;
    at += rows_of(r, ranks);
  }
  double *mine = malloc(rows * N * sizeof(double)), *packed = malloc(rows * N * sizeof(double)), *turned = malloc(rows * N * sizeof(double));
  for (i = 0; i < rows; i++)
    for (j = 0; j < N; j++) mine[i * N + j] = (first[rank] + i) * 100 + j;
  for (r = 0, at = 0; r < ranks; r++) {
    sent[r] = received[r] = rows * rows_of(r, ranks);
    to[r] = from[r] = at;
    for (j = first[r]; j < first[r] + rows_of(r, ranks); j++)
      for (i = 0; i < rows; i++) packed[at++] = mine[i * N + j];
  }
  MPI_Alltoallv(packed, sent, to, MPI_DOUBLE, mine, received, from, MPI_DOUBLE, MPI_COMM_WORLD);
  for (r = 0; r < ranks; r++)
    for (i = 0; i < rows; i++)
      for (j = 0; j < rows_of(r, ranks); j++) turned[i * N + first[r] + j] = mine[from[r] + i * rows_of(r, ranks) + j];
  double sum = 0;
  int wrong = 0, all_wrong = 0;
  for (i = 0; i < rows; i++)
    for (j = 0; j < N; j++) {
      wrong += turned[i * N + j] != j * 100 + first[rank] + i;
      sum += turned[i * N + j] * (i + 1);
    }
  MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  double *sums = NULL;
  if (rank == 0) sums = malloc(ranks * sizeof(double));
  MPI_Gather(&sum, 1, MPI_DOUBLE, sums, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (r = 0; rank == 0 && r < ranks; r++) printf("rank %d: %.1f\n", r, sums[r]);
  if (rank == 0) printf("%d wrong\n", all_wrong);
  free(sums);
  free(turned);
  free(packed);
  free(mine);
  free(first);
  free(from);
  free(received);
  free(to);
  free(sent);
  MPI_Finalize();
  return 0;
}
