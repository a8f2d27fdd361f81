// Made of spmv.c by gpuheap coalesce --mpi
/* A sparse matrix times a vector, again and again: each rank has rows of the matrix and a piece of the vector, asks the others for the
   elements that its columns name, and gets them in each pass. */
#include <gpuheap/mpi/program.hpp>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 24          /* of a rank */
#define EACH 5           /* elements of a row */
#define PASSES 6

typedef struct matrix {
  int *begin, *column;
  double *value;
} matrix;

/* What is asked of whom. */
typedef struct {
  int *asked, *ask_from, *wanted, *wanted_from;
  int num_asked, num_wanted;
  int *names;   /* elements that others want of this rank */
} halo;

GPUHEAP_FN static matrix *new_matrix(int rows, int each, bool coalesce = false) {
  matrix *m = (matrix*)gpuheap::coalesced::malloc(sizeof *m, coalesce);
  m->begin = (int*)gpuheap::coalesced::calloc(rows + 1, sizeof(int), coalesce);
  m->column = (int*)gpuheap::coalesced::malloc(rows * each * sizeof(int), coalesce);
  m->value = (double*)gpuheap::coalesced::malloc(rows * each * sizeof(double), coalesce);
  return m;
}

GPUHEAP_FN static void delete_matrix(matrix *m) {
  gpuheap::coalesced::free(m->value);
  gpuheap::coalesced::free(m->column);
  gpuheap::coalesced::free(m->begin);
  gpuheap::coalesced::free(m);
}

GPUHEAP_FN static void sums_before(const int *counts, int *before, int n) {
  before[0] = 0;
  for (int i = 1; i < n; i++) before[i] = before[i - 1] + counts[i - 1];
}

/* Columns that other ranks have are numbered from ROWS on, in the order of the ranks. */
GPUHEAP_FN static halo find_halo(matrix *m, int rank, int ranks, bool coalesce = false) {
  halo h;
  h.asked = (int*)gpuheap::coalesced::calloc(ranks, sizeof(int), coalesce);
  h.ask_from = (int*)gpuheap::coalesced::calloc(ranks, sizeof(int), coalesce);
  h.wanted = (int*)gpuheap::coalesced::calloc(ranks, sizeof(int), coalesce);
  h.wanted_from = (int*)gpuheap::coalesced::calloc(ranks, sizeof(int), coalesce);
  int elements = m->begin[ROWS], *ask, *fill;
  for (int i = 0; i < elements; i++) h.asked[m->column[i] / ROWS] += m->column[i] / ROWS != rank;
  sums_before(h.asked, h.ask_from, ranks);
  h.num_asked = h.ask_from[ranks - 1] + h.asked[ranks - 1];
  ask = (int*)gpuheap::coalesced::malloc((h.num_asked + 1) * sizeof(int));
  fill = (int*)gpuheap::coalesced::malloc(ranks * sizeof(int), coalesce);
  for (int r = 0; r < ranks; r++) fill[r] = h.ask_from[r];
  for (int i = 0; i < elements; i++) {
    int owner = m->column[i] / ROWS;
    if (owner == rank) {
      m->column[i] -= rank * ROWS;
    } else {
      ask[fill[owner]] = m->column[i] % ROWS;
      m->column[i] = ROWS + fill[owner]++;
    }
  }
  MPI_Alltoall(h.asked, 1, MPI_INT, h.wanted, 1, MPI_INT, MPI_COMM_WORLD);
  sums_before(h.wanted, h.wanted_from, ranks);
  h.num_wanted = h.wanted_from[ranks - 1] + h.wanted[ranks - 1];
  h.names = (int*)gpuheap::coalesced::malloc((h.num_wanted + 1) * sizeof(int));
  MPI_Alltoallv(ask, h.asked, h.ask_from, MPI_INT, h.names, h.wanted, h.wanted_from, MPI_INT, MPI_COMM_WORLD);
  gpuheap::coalesced::free(fill);
  gpuheap::coalesced::free(ask);
  return h;
}

GPUHEAP_FN int rank_main(int argc, gpuheap::mpi::arguments argv) {
  int rank, ranks, pass, i, k;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  matrix *m = new_matrix(ROWS, EACH, true);
  for (i = 0; i < ROWS; i++) {
    for (k = 0; k < EACH; k++) {
      m->column[m->begin[i] + k] = (rank * ROWS + i + k * k * 7) % (ranks * ROWS);
      m->value[m->begin[i] + k] = k == 0 ? 2 : -0.125 * k;
    }
    m->begin[i + 1] = m->begin[i] + EACH;
  }
  halo h = find_halo(m, rank, ranks, true);
  double *x = (double*)gpuheap::coalesced::malloc((ROWS + h.num_asked) * sizeof(double)), *y = (double*)gpuheap::coalesced::malloc(ROWS * sizeof(double), true);
  double *out = (double*)gpuheap::coalesced::malloc((h.num_wanted + 1) * sizeof(double)), norm = 0, all = 0;
  for (i = 0; i < ROWS; i++) x[i] = 1 + (rank * ROWS + i) % 4;
  for (pass = 0; pass < PASSES; pass++) {
    for (i = 0; i < h.num_wanted; i++) out[i] = x[h.names[i]];
    MPI_Alltoallv(out, h.wanted, h.wanted_from, MPI_DOUBLE, x + ROWS, h.asked, h.ask_from, MPI_DOUBLE, MPI_COMM_WORLD);
    for (i = 0; i < ROWS; i++) {
      y[i] = 0;
      for (k = m->begin[i]; k < m->begin[i + 1]; k++) y[i] += m->value[k] * x[m->column[k]];
    }
    norm = 0;
    for (i = 0; i < ROWS; i++) {
      x[i] = y[i] / 2;
      norm += x[i] * x[i];
    }
    MPI_Allreduce(&norm, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("pass %d: %.6f\n", pass, all);
  }
  gpuheap::coalesced::free(out);
  gpuheap::coalesced::free(y);
  gpuheap::coalesced::free(x);
  gpuheap::coalesced::free(h.asked);
  gpuheap::coalesced::free(h.ask_from);
  gpuheap::coalesced::free(h.wanted);
  gpuheap::coalesced::free(h.wanted_from);
  gpuheap::coalesced::free(h.names);
  delete_matrix(m);
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
