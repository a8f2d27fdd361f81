/* What ranks have of the C library: each rank writes a line about it, and rank 0 prints them. Functions are used before their declaration,
   headers are left out, and arrays have lengths that are known at run time, as in programs that people have. */
#include <ctype.h>
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE 400

/* The C library declares it, too. */
void srandom(unsigned seed);

static int compare(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }

static int drawn(int rank) {
  srand(rank + 1);
  int n = 6;
  int numbers[n], copies[n + 1];
  for (int i = 0; i < n; ++i) numbers[i] = rand() % 1000;
  memcpy(copies, numbers, n * sizeof(int));
  copies[n] = -1;
  qsort(numbers, n, sizeof numbers[0], compare);
  int key = copies[3];
  int* found = bsearch(&key, numbers, n, sizeof(int), compare);
  return found == NULL ? -1 : numbers[0] + 1000 * numbers[n - 1] + 7 * copies[0];
}

/* Rows whose length is known at run time. */
static double trace_of(int rank, int size) {
  double square[size][size];
  for (int i = 0; i < size; ++i) {
    for (int k = 0; k < size; ++k) square[i][k] = i == k ? rank + i : 0;
  }
  double sum = 0;
  for (int i = 0; i < size; ++i) sum += square[i][i];
  return sum;
}

static double sum_of(int n, double values[n]) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += values[i];
  return sum;
}

static int words_of(char* text, char* longest) {
  int count = 0;
  for (char* word = strtok(text, " ,"); word != NULL; word = strtok(NULL, " ,")) {
    if (count == 0 || strlen(word) > strlen(longest)) strcpy(longest, word);
    ++count;
  }
  return count;
}

int main(int argc, char* argv[]) {
  const int most = 8;
  char name[most];
  char line[LINE], text[64] = "one, three two", longest[16] = "";
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  snprintf(name, sizeof name, "r%d", rank);
  int words = words_of(text, longest);
  char* end;
  long number = strtol(" -0x1fz", &end, 0);
  double values[3] = {atof("2.5"), strtod("1e-3x", NULL), 1.0 / (rank + 1)};
  int first = 0;
  float second = 0;
  char rest[8];
  int read = sscanf("12 3.5abc ", "%d %f%7s", &first, &second, rest);
  srandom(rank);
  long drawn_long = random() % 1000 + random() % 10;
  srand48(rank);
  double drawn_double = drand48();
  errno = rank;
  FILE* none = fopen("no such file", "r");
  int before = sprintf(line, "%s|%5d|%-4d|%04d|%x|%c|%.3f|%8.2e|%g|%s", name, words, rank, drawn(rank) % 10000, 255 + rank,
                       toupper('a' + rank), sum_of(3, values), trace_of(rank, size), 0.5 + rank, longest);
  sprintf(line + before, "|%ld%s|%d %d %g %s|%ld %.6f|%d %d|%d", number, end, read, first, second, rest, drawn_long, drawn_double,
          none == NULL, errno == ENOENT, isdigit('0' + rank) && !isalpha('0'));
  strncat(line, strchr("x;end", ';'), 2);
  if (strcmp(argv[0], "") == 0 || strrchr(line, ';') == NULL || strstr(line, ";e") == NULL) exit(3);

  char all[size * LINE];
  MPI_Gather(line, LINE, MPI_CHAR, all, LINE, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    for (int i = 0; i < size; ++i) puts(all + i * LINE);
    usleep(1);
  }
  MPI_Finalize();
  exit(0);
}
