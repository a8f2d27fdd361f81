#ifndef PIECES_H
#define PIECES_H
#include <stdlib.h>

struct piece {
  int length;
  float *values;
};

float *new_values(int n);
void sort_piece(struct piece *p);
// Keeps the lower or the upper half of both.
void keep_half(struct piece *p, const float *theirs, int lower);
int merges(void);

#endif
