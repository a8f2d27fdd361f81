// Made of histogram.c by gpuheap coalesce --mpi
// A histogram of random numbers, and how many each rank has of those before it: reductions, prefix sums and a broadcast, with variables
// that live as long as the program.
#include <gpuheap/mpi/program.hpp>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum kind { even, odd, kinds };

struct state_of_histogram { uint64_t state = 88172645463325252ull; };
struct names_of_histogram { const char *names[2] = {"even", "odd"}; };
struct total_of_histogram { struct {
  long drawn, per_kind[kinds];
} total; };
constexpr const int bins = 16;
struct new_of_histogram { int new_ = 3, *class_; };  // words of C++

struct next_number_calls_of_histogram { int calls = 0, jump[3] = {1, 2, 1}; };
GPUHEAP_FN static unsigned next_number(void) {
  // next_number_calls_of_histogram
  gpuheap::mpi::own<next_number_calls_of_histogram>().calls += gpuheap::mpi::own<next_number_calls_of_histogram>().jump[gpuheap::mpi::own<next_number_calls_of_histogram>().calls % 3];
  gpuheap::mpi::own<state_of_histogram>().state ^= gpuheap::mpi::own<state_of_histogram>().state << 13;
  gpuheap::mpi::own<state_of_histogram>().state ^= gpuheap::mpi::own<state_of_histogram>().state >> 7;
  gpuheap::mpi::own<state_of_histogram>().state ^= gpuheap::mpi::own<state_of_histogram>().state << 17;
  gpuheap::mpi::own<total_of_histogram>().total.drawn++;
  return (unsigned)(gpuheap::mpi::own<state_of_histogram>().state >> 40) + gpuheap::mpi::own<next_number_calls_of_histogram>().calls;
}

GPUHEAP_FN static enum kind kind_of(unsigned number) {
  enum kind k = (enum kind)(number % 2);
  return k;
}

GPUHEAP_FN static bool is_sorted_up(const long *values, int n) {
  for (int i = 1; i < n; i++)
    if (values[i] < values[i - 1]) return false;
  return true;
}

GPUHEAP_FN int rank_main(void) {
  int rank, ranks, n = 0;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == 0) n = 100;
  MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);

  gpuheap::mpi::own<state_of_histogram>().state += rank * 7919;
  unsigned *numbers = (unsigned int*)gpuheap::coalesced::malloc(n * sizeof *numbers, true);
  int *counts = (int*)gpuheap::coalesced::calloc(bins, sizeof *counts, true), *sums = (int*)gpuheap::coalesced::calloc(bins, sizeof *sums, true);
  gpuheap::mpi::own<new_of_histogram>().class_ = (int*)gpuheap::coalesced::malloc(gpuheap::mpi::own<new_of_histogram>().new_ * sizeof *gpuheap::mpi::own<new_of_histogram>().class_);
  for (int i = 0; i < n; i++) {
    numbers[i] = next_number();
    counts[numbers[i] % bins]++;
    gpuheap::mpi::own<total_of_histogram>().total.per_kind[kind_of(numbers[i])]++;
    gpuheap::mpi::own<new_of_histogram>().class_[numbers[i] % gpuheap::mpi::own<new_of_histogram>().new_] = i;
  }
  MPI_Reduce(counts, sums, bins, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  long before = 0, large = 0;
  for (int i = 0; i < n; i++) large += numbers[i] > (1u << 23);
  MPI_Scan(&large, &before, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);

  long *all = (long*)(rank == 0 ? gpuheap::coalesced::malloc(ranks * sizeof(long)) : NULL);
  MPI_Gather(&before, 1, MPI_LONG, all, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    for (int i = 0; i < bins; i++) printf("bin %2d: %d\n", i, sums[i]);
    for (int i = 0; i < ranks; i++) printf("large ones up to rank %d: %ld\n", i, all[i]);
    printf("sorted: %d, drawn %ld\n", is_sorted_up(all, ranks), gpuheap::mpi::own<total_of_histogram>().total.drawn);
    for (enum kind k = even; k < kinds; k = (enum kind)(k + 1)) printf("%s: %ld\n", gpuheap::mpi::own<names_of_histogram>().names[k], gpuheap::mpi::own<total_of_histogram>().total.per_kind[k]);
    gpuheap::mpi::c::puts("done");
    (void)0;
  }
  gpuheap::coalesced::free(all);
  gpuheap::coalesced::free(gpuheap::mpi::own<new_of_histogram>().class_);
  gpuheap::coalesced::free(sums);
  gpuheap::coalesced::free(counts);
  gpuheap::coalesced::free(numbers);
  MPI_Finalize();
  return 0;
}

// The variables that each rank has for itself in this file.
using variables_of_histogram = gpuheap::mpi::variables<state_of_histogram, names_of_histogram, total_of_histogram, new_of_histogram, next_number_calls_of_histogram>;
[[maybe_unused]] static bool const variables_of_histogram_known = variables_of_histogram::known();
GPUHEAP_FN void start_variables_of_histogram() { variables_of_histogram::start(); }

// The ranks are threads of one kernel.
struct rank_program {
  GPUHEAP_FN int operator()(int, gpuheap::mpi::arguments) const {
    start_variables_of_histogram();
    return rank_main();
  }
};

int main(int argc, char** argv) {
  return gpuheap::mpi::run_main(argc, argv, rank_program{}, [] { gpuheap::coalesced::init(); });
}
