// A token around a ring, messages that are probed, posted receives, a halo exchange. Rank 0 says what came.
#include "program.hpp"

RANK_FN void ring(int rank, int size) {
  long token = 1;
  MPI_Status status = {};
  if (rank == 0) {
    MPI_Send(&token, 1, MPI_LONG, 1, 5, MPI_COMM_WORLD);
    MPI_Recv(&token, 1, MPI_LONG, size - 1, 5, MPI_COMM_WORLD, &status);
    printf("ring: %ld from %d with tag %d\n", token, status.MPI_SOURCE, status.MPI_TAG);
  } else {
    MPI_Recv(&token, 1, MPI_LONG, rank - 1, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    token = 3 * token + rank;
    MPI_Send(&token, 1, MPI_LONG, (rank + 1) % size, 5, MPI_COMM_WORLD);
  }
}

RANK_FN void probed(int rank, int size) {
  double values[8] = {};
  if (rank != 0) {
    for (int i = 0; i <= rank; ++i) values[i] = rank + 0.5 * i;
    MPI_Send(values, rank + 1, MPI_DOUBLE, 0, 10 + rank, MPI_COMM_WORLD);
    return;
  }
  for (int from = 1; from < size; ++from) {
    MPI_Status status = {};
    int count = 0;
    MPI_Probe(from, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    MPI_Recv(values, count, MPI_DOUBLE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += values[i];
    printf("probed: %d doubles, tag %d, sum %.2f\n", count, status.MPI_TAG, sum);
  }
}

RANK_FN void posted(int rank, int size) {
  int got[3] = {}, sent[3] = {};
  MPI_Request requests[6];
  MPI_Status statuses[6];
  int const to = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Irecv(&got[0], 1, MPI_INT, from, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&got[1], 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[1]);
  MPI_Irecv(&got[2], 1, MPI_INT, from, 1, MPI_COMM_WORLD, &requests[2]);
  for (int i = 0; i < 3; ++i) {
    sent[i] = 100 * rank + i;
    MPI_Isend(&sent[i], 1, MPI_INT, to, i == 2 ? 2 : 1, MPI_COMM_WORLD, &requests[3 + i]);
  }
  MPI_Waitall(6, requests, statuses);
  int const all_null = requests[0] == MPI_REQUEST_NULL && requests[5] == MPI_REQUEST_NULL;
  if (rank == 0)
    printf("posted: %d %d %d, tags %d %d, null %d\n", got[0], got[1], got[2], statuses[0].MPI_TAG, statuses[1].MPI_TAG, all_null);
}

RANK_FN void halo(int rank, int size) {
  int const left = rank == 0 ? MPI_PROC_NULL : rank - 1, right = rank == size - 1 ? MPI_PROC_NULL : rank + 1;
  int from_left = -1, count = -1;
  MPI_Status status = {};
  MPI_Sendrecv(&rank, 1, MPI_INT, right, 0, &from_left, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_INT, &count);
  int const mine[2] = {from_left, count};
  int all[64];
  MPI_Gather(mine, 2, MPI_INT, all, 2, MPI_INT, 0, MPI_COMM_WORLD);
  for (int i = 0; i < size && rank == 0; ++i) printf("halo of %d: %d, %d element\n", i, all[2 * i], all[2 * i + 1]);
}

RANK_FN void rank_main() {
  MPI_Init(nullptr, nullptr);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double const began = MPI_Wtime();
  ring(rank, size);
  MPI_Barrier(MPI_COMM_WORLD);
  probed(rank, size);
  posted(rank, size);
  halo(rank, size);
  if (rank == 0) printf("%d ranks, time goes on: %d\n", size, MPI_Wtime() >= began);
  MPI_Finalize();
}
