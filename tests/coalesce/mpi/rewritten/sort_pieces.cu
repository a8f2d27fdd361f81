// Made of sort_pieces.c by gpuheap coalesce --mpi
#include <gpuheap/mpi/program.hpp>
#include "pieces.h"

#include <string.h>

struct merges_made_of_sort_pieces { int merges_made; };

GPUHEAP_FN float *new_values(int n, bool coalesce) { return (float*)gpuheap::coalesced::malloc(n * sizeof(float), coalesce); }

GPUHEAP_FN static int less(float a, float b) { return a < b; }

GPUHEAP_FN void sort_piece(struct piece *p) {
  int (*before)(float, float) = less;
  for (int i = 1; i < p->length; i++) {
    float v = p->values[i];
    int k = i;
    for (; k > 0 && before(v, p->values[k - 1]); k--) p->values[k] = p->values[k - 1];
    p->values[k] = v;
  }
}

GPUHEAP_FN void keep_half(struct piece *p, const float *theirs, int lower) {
  int n = p->length, i = lower ? 0 : n - 1, j = i;
  float *kept = (float*)gpuheap::coalesced::malloc(n * sizeof *kept);
  for (int k = 0; k < n; k++) {
    if (lower)
      kept[k] = p->values[i] <= theirs[j] ? p->values[i++] : theirs[j++];
    else
      kept[n - 1 - k] = p->values[i] > theirs[j] ? p->values[i--] : theirs[j--];
  }
  gpuheap::mpi::c::memmove(p->values, kept, n * sizeof *kept);
  gpuheap::coalesced::free(kept);
  gpuheap::mpi::own<merges_made_of_sort_pieces>().merges_made++;
}

GPUHEAP_FN int merges(void) { return gpuheap::mpi::own<merges_made_of_sort_pieces>().merges_made; }

// The variables that each rank has for itself in this file.
using variables_of_sort_pieces = gpuheap::mpi::variables<merges_made_of_sort_pieces>;
[[maybe_unused]] static bool const variables_of_sort_pieces_known = variables_of_sort_pieces::known();
GPUHEAP_FN void start_variables_of_sort_pieces() { variables_of_sort_pieces::start(); }
