// Heat along a rod: each rank has a piece, exchanges its ends with its neighbours, and all stop together.
#include "program.hpp"

RANK_FN void rank_main() {
  MPI_Init(nullptr, nullptr);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  constexpr int cells = 16;
  // One cell more at each end: the neighbours'.
  double* now = static_cast<double*>(allocate((cells + 2) * sizeof(double)));
  double* next = static_cast<double*>(allocate((cells + 2) * sizeof(double)));
  for (int i = 0; i < cells + 2; ++i) now[i] = next[i] = 0;
  int const left = rank == 0 ? MPI_PROC_NULL : rank - 1, right = rank == size - 1 ? MPI_PROC_NULL : rank + 1;
  if (rank == 0) now[0] = next[0] = 64;
  int steps = 0;
  double most = 1;
  while (most > 0.03125 && steps < 200) {
    MPI_Sendrecv(&now[1], 1, MPI_DOUBLE, left, 0, &now[cells + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&now[cells], 1, MPI_DOUBLE, right, 1, &now[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double change = 0;
    for (int i = 1; i <= cells; ++i) {
      next[i] = 0.25 * now[i - 1] + 0.5 * now[i] + 0.25 * now[i + 1];
      double const d = next[i] < now[i] ? now[i] - next[i] : next[i] - now[i];
      change = d > change ? d : change;
    }
    MPI_Allreduce(&change, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    double* const before = now;
    now = next;
    next = before;
    next[0] = now[0];
    if (rank == 0) now[0] = next[0] = 64;
    ++steps;
  }
  double rod[cells * 16];
  MPI_Gather(now + 1, cells, MPI_DOUBLE, rod, cells, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%d steps, the last changed %.6f\n", steps, most);
    for (int i = 0; i < cells * size; i += 4) printf("cell %d: %.9f\n", i, rod[i]);
  }
  release(next);
  release(now);
  MPI_Finalize();
}
