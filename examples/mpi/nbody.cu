// Made of nbody.c by gpuheap coalesce --mpi
// Bodies that attract one another. Each rank has some of them, sends their positions to all ranks, and moves its own.
// Arguments: the number of bodies of each rank, the number of steps, and `time` to print the times in malloc, in free, and in all.
#include <math.h>
#include <gpuheap/mpi/program.hpp>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct body {
  double x, y, z, mass;
};

struct in_malloc_of_nbody { double in_malloc, in_free; };

GPUHEAP_FN static void *allocate(size_t bytes, bool coalesce = false) {
  double began = MPI_Wtime();
  void *memory = gpuheap::coalesced::malloc(bytes, coalesce);
  gpuheap::mpi::own<in_malloc_of_nbody>().in_malloc += MPI_Wtime() - began;
  return memory;
}

GPUHEAP_FN static void release(void *memory) {
  double began = MPI_Wtime();
  gpuheap::coalesced::free(memory);
  gpuheap::mpi::own<in_malloc_of_nbody>().in_free += MPI_Wtime() - began;
}

// Gathers the bodies of all ranks, `each` from every rank, by a message from every rank to every other. The caller releases them.
GPUHEAP_FN static struct body *gather_bodies(const struct body *own, int each, int ranks, bool coalesce = false) {
  int *counts = (int*)allocate(ranks * sizeof(int), coalesce), *from = (int*)allocate(ranks * sizeof(int), coalesce);
  MPI_Request *requests = (MPI_Request*)allocate(2 * ranks * sizeof(MPI_Request), coalesce);
  struct body *all = (struct body*)allocate(ranks * each * sizeof(struct body), coalesce);
  for (int r = 0; r < ranks; ++r) {
    counts[r] = each * (int)(sizeof(struct body) / sizeof(double));
    from[r] = r * each;
  }
  for (int r = 0; r < ranks; ++r) MPI_Irecv(&all[from[r]], counts[r], MPI_DOUBLE, r, 0, MPI_COMM_WORLD, &requests[r]);
  for (int r = 0; r < ranks; ++r) MPI_Isend(own, counts[r], MPI_DOUBLE, r, 0, MPI_COMM_WORLD, &requests[ranks + r]);
  MPI_Waitall(2 * ranks, requests, MPI_STATUSES_IGNORE);
  release(requests);
  release(from);
  release(counts);
  return all;
}

// One time step: changes the speeds, then the positions.
GPUHEAP_FN static void move(struct body *own, double (*speeds)[3], int each, const struct body *all, int n) {
  const double dt = 1.0 / 64, softening = 0.125;
  for (int i = 0; i < each; ++i) {
    double pull[3] = {0, 0, 0};
    for (int j = 0; j < n; ++j) {
      double d[3] = {all[j].x - own[i].x, all[j].y - own[i].y, all[j].z - own[i].z};
      double square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + softening;
      double force = all[j].mass / (square * sqrt(square));
      for (int k = 0; k < 3; ++k) pull[k] += force * d[k];
    }
    for (int k = 0; k < 3; ++k) speeds[i][k] += dt * pull[k];
  }
  for (int i = 0; i < each; ++i) {
    own[i].x += dt * speeds[i][0];
    own[i].y += dt * speeds[i][1];
    own[i].z += dt * speeds[i][2];
  }
}

GPUHEAP_FN int rank_main(int argc, gpuheap::mpi::arguments argv) {
  MPI_Init(NULL, NULL);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int each = argc > 1 ? gpuheap::mpi::c::atoi(argv[1]) : 4;
  int steps = argc > 2 ? gpuheap::mpi::c::atoi(argv[2]) : 8;
  MPI_Barrier(MPI_COMM_WORLD);
  double began = MPI_Wtime();

  struct body *own = (struct body*)allocate(each * sizeof(struct body), true);
  double(*speeds)[3] = (double (*)[3])allocate(each * sizeof(*speeds), true);
  if (own == (struct body*)NULL || speeds == (double (*)[3])NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int i = 0; i < each; ++i) {
    int n = rank * each + i;
    struct body at = {(double)(n % 7), (double)(n % 5), (double)(n % 3), (double)(1 + n % 2)};
    own[i] = at;
    memset(speeds[i], 0, sizeof(speeds[i]));
  }

  for (int s = 0; s < steps; ++s) {
    struct body *all = gather_bodies(own, each, ranks, true);
    move(own, speeds, each, all, ranks * each);
    release(all);
  }

  double mine[3] = {0, 0, 0}, sum[3];
  for (int i = 0; i < each; ++i) {
    for (int k = 0; k < 3; ++k) mine[k] += own[i].mass * speeds[i][k] * speeds[i][k];
  }
  release(speeds);
  release(own);
  double in_all = MPI_Wtime() - began;
  MPI_Reduce(mine, sum, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%d bodies, %d steps: %.6f %.6f %.6f\n", ranks * each, steps, sum[0], sum[1], sum[2]);

  if (argc > 3 && gpuheap::mpi::c::strcmp(argv[3], "time") == 0) {
    double spent[3] = {gpuheap::mpi::own<in_malloc_of_nbody>().in_malloc, gpuheap::mpi::own<in_malloc_of_nbody>().in_free, in_all}, most[3];
    MPI_Reduce(spent, most, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("slowest rank: %.1f us in malloc, %.1f us in free, %.1f us in all\n", 1e6 * most[0], 1e6 * most[1], 1e6 * most[2]);
  }
  MPI_Finalize();
  return 0;
}

// The variables that each rank has for itself in this file.
using variables_of_nbody = gpuheap::mpi::variables<in_malloc_of_nbody>;
[[maybe_unused]] static bool const variables_of_nbody_known = variables_of_nbody::known();
GPUHEAP_FN void start_variables_of_nbody() { variables_of_nbody::start(); }

// The ranks are threads of one kernel.
struct rank_program {
  GPUHEAP_FN int operator()(int argc, gpuheap::mpi::arguments argv) const {
    start_variables_of_nbody();
    return rank_main(argc, argv);
  }
};

int main(int argc, char** argv) {
  return gpuheap::mpi::run_main(argc, argv, rank_program{}, [] { gpuheap::coalesced::init(); });
}
