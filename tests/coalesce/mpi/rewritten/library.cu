// Made of library.c by gpuheap coalesce --mpi
/* What ranks have of the C library: each rank writes a line about it, and rank 0 prints them. Functions are used before their declaration,
   headers are left out, and arrays have lengths that are known at run time, as in programs that people have. */
#include <ctype.h>
#include <errno.h>
#include <gpuheap/mpi/program.hpp>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE 400

/* The C library declares it, too. */
;

GPUHEAP_FN static int compare(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }

GPUHEAP_FN static int drawn(int rank, bool coalesce = false) {
  gpuheap::mpi::c::srand(rank + 1);
  int n = 6;
  int *numbers = (int*)gpuheap::coalesced::malloc(gpuheap::mpi::c::local_bytes<int>(n), coalesce), *copies = (int*)gpuheap::coalesced::malloc(gpuheap::mpi::c::local_bytes<int>(n + 1), coalesce); gpuheap::mpi::c::local_array numbers_ends{numbers}; gpuheap::mpi::c::local_array copies_ends{copies};
  for (int i = 0; i < n; ++i) numbers[i] = gpuheap::mpi::c::rand() % 1000;
  memcpy(copies, numbers, n * sizeof(int));
  copies[n] = -1;
  gpuheap::mpi::c::qsort(numbers, n, sizeof numbers[0], compare);
  int key = copies[3];
  int* found = (int*)gpuheap::mpi::c::bsearch(&key, numbers, n, sizeof(int), compare);
  return found == (int*)NULL ? -1 : numbers[0] + 1000 * numbers[n - 1] + 7 * copies[0];
}

/* Rows whose length is known at run time. */
GPUHEAP_FN static double trace_of(int rank, int size, bool coalesce = false) {
  double *square_all = (double*)gpuheap::coalesced::malloc(gpuheap::mpi::c::local_bytes<double>(size, size), coalesce); gpuheap::mpi::c::local_array square_ends{square_all}; gpuheap::mpi::c::local_rows<double> square{square_all, size};
  for (int i = 0; i < size; ++i) {
    for (int k = 0; k < size; ++k) square[i][k] = i == k ? rank + i : 0;
  }
  double sum = 0;
  for (int i = 0; i < size; ++i) sum += square[i][i];
  return sum;
}

GPUHEAP_FN static double sum_of(int n, double values[]) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += values[i];
  return sum;
}

GPUHEAP_FN static int words_of(char* text, char* longest) {
  int count = 0;
  for (char* word = gpuheap::mpi::c::strtok(text, " ,"); word != (char*)NULL; word = gpuheap::mpi::c::strtok(NULL, " ,")) {
    if (count == 0 || gpuheap::mpi::c::strlen(word) > gpuheap::mpi::c::strlen(longest)) gpuheap::mpi::c::strcpy(longest, word);
    ++count;
  }
  return count;
}

GPUHEAP_FN int rank_main(int argc, gpuheap::mpi::arguments argv) {
  const int most = 8;
  char name[most];
  char line[LINE], text[64] = "one, three two", longest[16] = "";
  int rank, size;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  gpuheap::mpi::c::snprintf(name, sizeof name, "r%d", rank);
  int words = words_of(text, longest);
  char* end;
  long number = gpuheap::mpi::c::strtol(" -0x1fz", &end, 0);
  double values[3] = {gpuheap::mpi::c::atof("2.5"), gpuheap::mpi::c::strtod("1e-3x", NULL), 1.0 / (rank + 1)};
  int first = 0;
  float second = 0;
  char rest[8];
  int read = gpuheap::mpi::c::sscanf("12 3.5abc ", "%d %f%7s", &first, &second, rest);
  gpuheap::mpi::c::srandom(rank);
  long drawn_long = gpuheap::mpi::c::random() % 1000 + gpuheap::mpi::c::random() % 10;
  gpuheap::mpi::c::srand48(rank);
  double drawn_double = gpuheap::mpi::c::drand48();
  gpuheap::mpi::c::error_number() = rank;
  FILE* none = gpuheap::mpi::c::fopen("no such file", "r");
  int before = gpuheap::mpi::c::sprintf(line, "%s|%5d|%-4d|%04d|%x|%c|%.3f|%8.2e|%g|%s", name, words, rank, drawn(rank, true) % 10000, 255 + rank,
                       gpuheap::mpi::c::toupper('a' + rank), sum_of(3, values), trace_of(rank, size, true), 0.5 + rank, longest);
  gpuheap::mpi::c::sprintf(line + before, "|%ld%s|%d %d %g %s|%ld %.6f|%d %d|%d", number, end, read, first, second, rest, drawn_long, drawn_double,
          none == (FILE*)NULL, gpuheap::mpi::c::error_number() == ENOENT, gpuheap::mpi::c::isdigit('0' + rank) && !gpuheap::mpi::c::isalpha('0'));
  gpuheap::mpi::c::strncat(line, gpuheap::mpi::c::strchr("x;end", ';'), 2);
  if (gpuheap::mpi::c::strcmp(argv[0], "") == 0 || gpuheap::mpi::c::strrchr(line, ';') == (char*)NULL || gpuheap::mpi::c::strstr(line, ";e") == (char*)NULL) gpuheap::mpi::c::exit(3);

  char *all = (char*)gpuheap::coalesced::malloc(gpuheap::mpi::c::local_bytes<char>(size * LINE), true); gpuheap::mpi::c::local_array all_ends{all};
  MPI_Gather(line, LINE, MPI_CHAR, all, LINE, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    for (int i = 0; i < size; ++i) gpuheap::mpi::c::puts(all + i * LINE);
    gpuheap::mpi::c::usleep(1);
  }
  MPI_Finalize();
  gpuheap::mpi::c::exit(0);
  return 0;
}

// The ranks are threads of one kernel.
struct rank_program {
  GPUHEAP_FN int operator()(int argc, gpuheap::mpi::arguments argv) const {
    return rank_main(argc, argv);
  }
};

int main(int argc, char** argv) {
  return gpuheap::mpi::run_main(argc, argv, rank_program{}, [] { gpuheap::coalesced::init(); }, {.files = true, .named = {"no such file"}});
}
