/* A sparse matrix times a vector, again and again: each rank has rows of the matrix and a piece of the vector, asks the others for the
   elements that its columns name, and gets them in each pass. */
#include <mpi.h>
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

static matrix *new_matrix(int rows, int each) {
  matrix *m = malloc(sizeof *m);
  m->begin = calloc(rows + 1, sizeof(int));
  m->column = malloc(rows * each * sizeof(int));
  m->value = malloc(rows * each * sizeof(double));
  return m;
}

static void delete_matrix(matrix *m) {
  free(m->value);
  free(m->column);
  free(m->begin);
  free(m);
}

static void sums_before(const int *counts, int *before, int n) {
  before[0] = 0;
  for (int i = 1; i < n; i++) before[i] = before[i - 1] + counts[i - 1];
}

/* Columns that other ranks have are numbered from ROWS on, in the order of the ranks. */
static halo find_halo(matrix *m, int rank, int ranks) {
  halo h;
  h.asked = calloc(ranks, sizeof(int));
  h.ask_from = calloc(ranks, sizeof(int));
  h.wanted = calloc(ranks, sizeof(int));
  h.wanted_from = calloc(ranks, sizeof(int));
  int elements = m->begin[ROWS], *ask, *fill;
  for (int i = 0; i < elements; i++) h.asked[m->column[i] / ROWS] += m->column[i] / ROWS != rank;
  sums_before(h.asked, h.ask_from, ranks);
  h.num_asked = h.ask_from[ranks - 1] + h.asked[ranks - 1];
  ask = malloc((h.num_asked + 1) * sizeof(int));
  fill = malloc(ranks * sizeof(int));
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
  h.names = malloc((h.num_wanted + 1) * sizeof(int));
  MPI_Alltoallv(ask, h.asked, h.ask_from, MPI_INT, h.names, h.wanted, h.wanted_from, MPI_INT, MPI_COMM_WORLD);
  free(fill);
  free(ask);
  return h;
}

int main(int argc, char *argv[]) {
  int rank, ranks, pass, i, k;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  matrix *m = new_matrix(ROWS, EACH);
  for (i = 0; i < ROWS; i++) {
    for (k = 0; k < EACH; k++) {
      m->column[m->begin[i] + k] = (rank * ROWS + i + k * k * 7) % (ranks * ROWS);
      m->value[m->begin[i] + k] = k == 0 ? 2 : -0.125 * k;
    }
    m->begin[i + 1] = m->begin[i] + EACH;
  }
  halo h = find_halo(m, rank, ranks);
  double *x = malloc((ROWS + h.num_asked) * sizeof(double)), *y = malloc(ROWS * sizeof(double));
  double *out = malloc((h.num_wanted + 1) * sizeof(double)), norm = 0, all = 0;
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
  free(out);
  free(y);
  free(x);
  free(h.asked);
  free(h.ask_from);
  free(h.wanted);
  free(h.wanted_from);
  free(h.names);
  delete_matrix(m);
  MPI_Finalize();
  return 0;
}
