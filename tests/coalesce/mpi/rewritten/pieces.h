// Made of pieces.h by gpuheap coalesce --mpi
#ifndef PIECES_H
#define PIECES_H
#include <stdlib.h>
#include <gpuheap/mpi/program.hpp>

struct piece {
  int length;
  float *values;
};

GPUHEAP_FN float *new_values(int n, bool coalesce = false);
GPUHEAP_FN void sort_piece(struct piece *p);
// Keeps the lower or the upper half of both.
GPUHEAP_FN void keep_half(struct piece *p, const float *theirs, int lower);
GPUHEAP_FN int merges(void);

#endif
