// Made of datatypes.c by gpuheap coalesce --mpi
/* Derived datatypes: matrices by their columns, structs, parts of arrays, and what is packed. */
#include <gpuheap/mpi/program.hpp>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
  char kind;
  double place[3];
  int number;
} particle;

GPUHEAP_FN static void columns(int rank, int size) {
  double matrix[4][6];
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 6; ++k) matrix[i][k] = rank == 0 ? 10 * i + k : -1;
  }
  MPI_Datatype column, narrow;
  MPI_Type_vector(4, 1, 6, MPI_DOUBLE, &column);
  MPI_Type_create_resized(column, 0, sizeof(double), &narrow);
  MPI_Type_commit(&narrow);
  double mine[4];
  MPI_Scatter(matrix, 1, narrow, mine, 4, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (int i = 0; i < 4; ++i) mine[i] += 100 * rank;
  MPI_Gather(mine, 4, MPI_DOUBLE, &matrix[0][2], 1, narrow, 0, MPI_COMM_WORLD);
  int bytes;
  MPI_Aint lower, extent;
  MPI_Type_size(narrow, &bytes);
  MPI_Type_get_extent(column, &lower, &extent);
  if (rank == 0) {
    printf("columns: %d bytes, extent %ld\n", bytes, (long)extent);
    for (int i = 0; i < 4; ++i)
      printf("%g %g %g %g %g %g\n", matrix[i][0], matrix[i][1], matrix[i][2], matrix[i][3], matrix[i][4], matrix[i][5]);
  }
  MPI_Type_free(&column);
  MPI_Type_free(&narrow);
}

GPUHEAP_FN static void structs(int rank, int size) {
  int lengths[3] = {1, 3, 1};
  MPI_Aint places[3] = {offsetof(particle, kind), offsetof(particle, place), offsetof(particle, number)};
  MPI_Datatype kinds[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, type;
  MPI_Type_create_struct(3, lengths, places, kinds, &type);
  MPI_Type_commit(&type);
  particle own[2], all[16];
  for (int i = 0; i < 2; ++i) {
    own[i].kind = 'a' + rank + i;
    for (int k = 0; k < 3; ++k) own[i].place[k] = rank + 0.1 * k;
    own[i].number = 10 * rank + i;
  }
  MPI_Allgather(own, 2, type, all, 2, type, MPI_COMM_WORLD);
  MPI_Request request;
  MPI_Status status;
  int count;
  particle next[4];
  MPI_Irecv(next, 4, type, (rank + 1) % size, 3, MPI_COMM_WORLD, &request);
  MPI_Send(own, 2, type, (rank + size - 1) % size, 3, MPI_COMM_WORLD);
  MPI_Type_free(&type);
  MPI_Wait(&request, &status);
  MPI_Get_count(&status, MPI_BYTE, &count);
  if (rank == 0) {
    for (int i = 0; i < 2 * size; ++i) printf("%c %g %d\n", all[i].kind, all[i].place[1], all[i].number);
    printf("next: %c %d, %d bytes\n", next[1].kind, next[1].number, count);
  }
}

GPUHEAP_FN static void parts(int rank, int size) {
  int sizes[2] = {4, 5}, part[2] = {2, 3}, start[2] = {1, 1}, lengths[3] = {1, 2, 1}, at[3] = {0, 3, 7};
  MPI_Datatype square, some, pair;
  MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_INT, &square);
  MPI_Type_indexed(3, lengths, at, MPI_INT, &some);
  MPI_Type_contiguous(2, some, &pair);
  MPI_Type_commit(&square);
  MPI_Type_commit(&pair);
  int field[4][5], line[20];
  for (int i = 0; i < 20; ++i) field[i / 5][i % 5] = rank == 0 ? i : 0, line[i] = rank == 0 ? 100 + i : 0;
  MPI_Bcast(field, 1, square, 0, MPI_COMM_WORLD);
  MPI_Bcast(line, 1, pair, 0, MPI_COMM_WORLD);
  int sums[2] = {0, 0}, all[2];
  for (int i = 0; i < 20; ++i) sums[0] += field[i / 5][i % 5] * (i + 1), sums[1] += line[i] * (i + 1);
  MPI_Reduce(sums, all, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("parts: %d %d\n", all[0], all[1]);
  MPI_Type_free(&square);
  MPI_Type_free(&some);
  MPI_Type_free(&pair);
}

GPUHEAP_FN static void packs(int rank, int size) {
  char buffer[64];
  int at = 0, number = 5 * rank, room;
  double value = 0.5 + rank;
  MPI_Pack_size(1, MPI_DOUBLE, MPI_COMM_WORLD, &room);
  if (rank == 0) {
    number = 42;
    MPI_Pack(&number, 1, MPI_INT, buffer, sizeof buffer, &at, MPI_COMM_WORLD);
    MPI_Pack(&value, 1, MPI_DOUBLE, buffer, sizeof buffer, &at, MPI_COMM_WORLD);
  }
  MPI_Bcast(buffer, sizeof buffer, MPI_PACKED, 0, MPI_COMM_WORLD);
  if (rank != 0) {
    MPI_Unpack(buffer, sizeof buffer, &at, &number, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Unpack(buffer, sizeof buffer, &at, &value, 1, MPI_DOUBLE, MPI_COMM_WORLD);
  }
  double sum, own = number + value + at;
  MPI_Reduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("packs: %g, room for a double %d\n", sum, room);
}

GPUHEAP_FN int rank_main(int argc, gpuheap::mpi::arguments argv) {
  int rank, size;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  columns(rank, size);
  structs(rank, size);
  parts(rank, size);
  packs(rank, size);
  MPI_Finalize();
  return 0;
}

// The ranks are threads of one kernel.
struct rank_program {
  GPUHEAP_FN int operator()(int argc, gpuheap::mpi::arguments argv) const {
    return rank_main(argc, argv);
  }
};

int main(int argc, char** argv) {
  return gpuheap::mpi::run_main(argc, argv, rank_program{}, [] { gpuheap::coalesced::init(); });
}
