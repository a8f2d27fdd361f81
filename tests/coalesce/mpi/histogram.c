// A histogram of random numbers, and how many each rank has of those before it: reductions, prefix sums and a broadcast, with variables
// that live as long as the program.
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum kind { even, odd, kinds };

static uint64_t state = 88172645463325252ull;
static const char *names[] = {"even", "odd"};
static struct {
  long drawn, per_kind[kinds];
} total;
const int bins = 16;
int new = 3, *class;  // words of C++

static unsigned next_number(void) {
  static int calls = 0, jump[] = {1, 2, 1};
  calls += jump[calls % 3];
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  total.drawn++;
  return (unsigned)(state >> 40) + calls;
}

static enum kind kind_of(unsigned number) {
  enum kind k = number % 2;
  return k;
}

static bool is_sorted_up(const long *values, int n) {
  for (int i = 1; i < n; i++)
    if (values[i] < values[i - 1]) return false;
  return true;
}

int main(void) {
  int rank, ranks, n = 0;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == 0) n = 100;
  MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);

  state += rank * 7919;
  unsigned *numbers = malloc(n * sizeof *numbers);
  int *counts = calloc(bins, sizeof *counts), *sums = calloc(bins, sizeof *sums);
  class = malloc(new * sizeof *class);
  for (int i = 0; i < n; i++) {
    numbers[i] = next_number();
    counts[numbers[i] % bins]++;
    total.per_kind[kind_of(numbers[i])]++;
    class[numbers[i] % new] = i;
  }
  MPI_Reduce(counts, sums, bins, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  long before = 0, large = 0;
  for (int i = 0; i < n; i++) large += numbers[i] > (1u << 23);
  MPI_Scan(&large, &before, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);

  long *all = rank == 0 ? malloc(ranks * sizeof(long)) : NULL;
  MPI_Gather(&before, 1, MPI_LONG, all, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    for (int i = 0; i < bins; i++) printf("bin %2d: %d\n", i, sums[i]);
    for (int i = 0; i < ranks; i++) printf("large ones up to rank %d: %ld\n", i, all[i]);
    printf("sorted: %d, drawn %ld\n", is_sorted_up(all, ranks), total.drawn);
    for (enum kind k = even; k < kinds; k = (enum kind)(k + 1)) printf("%s: %ld\n", names[k], total.per_kind[k]);
    puts("done");
    fflush(stdout);
  }
  free(all);
  free(class);
  free(sums);
  free(counts);
  free(numbers);
  MPI_Finalize();
  return 0;
}
