// A grid of ranks: sums along rows and columns, ranks in reverse order, ranks in no communicator, copies.
#include "program.hpp"

RANK_FN void rank_main() {
  MPI_Init(nullptr, nullptr);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm row, column, backwards, first_row, copy;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &row);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &column);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &backwards);
  MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 7 : MPI_UNDEFINED, 0, &first_row);
  MPI_Comm_dup(column, &copy);

  int facts[6] = {};
  MPI_Allreduce(&rank, &facts[0], 1, MPI_INT, MPI_SUM, row);
  MPI_Allreduce(&rank, &facts[1], 1, MPI_INT, MPI_SUM, column);
  MPI_Comm_rank(backwards, &facts[2]);
  facts[3] = first_row == MPI_COMM_NULL;
  MPI_Scan(&rank, &facts[4], 1, MPI_INT, MPI_SUM, backwards);
  // The same envelope in two contexts.
  int column_rank = 0, column_size = 0, to_column = 10 + rank, to_copy = 20 + rank, a = 0, b = 0;
  MPI_Comm_rank(column, &column_rank);
  MPI_Comm_size(column, &column_size);
  int const to = (column_rank + 1) % column_size, from = (column_rank + column_size - 1) % column_size;
  MPI_Request requests[2];
  MPI_Isend(&to_column, 1, MPI_INT, to, 0, column, &requests[0]);
  MPI_Isend(&to_copy, 1, MPI_INT, to, 0, copy, &requests[1]);
  MPI_Recv(&b, 1, MPI_INT, from, 0, copy, MPI_STATUS_IGNORE);
  MPI_Recv(&a, 1, MPI_INT, from, 0, column, MPI_STATUS_IGNORE);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  facts[5] = 100 * a + b;

  int all[6 * 16];
  MPI_Gather(facts, 6, MPI_INT, all, 6, MPI_INT, 0, MPI_COMM_WORLD);
  for (int i = 0; i < size && rank == 0; ++i) {
    int const* const f = all + 6 * i;
    printf("rank %d: row %d, column %d, backwards %d, none %d, scan %d, messages %d\n", i, f[0], f[1], f[2], f[3], f[4], f[5]);
  }
  if (first_row != MPI_COMM_NULL) MPI_Comm_free(&first_row);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&backwards);
  MPI_Comm_free(&column);
  MPI_Comm_free(&row);
  MPI_Finalize();
}
