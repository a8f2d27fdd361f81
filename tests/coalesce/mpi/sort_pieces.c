#include "pieces.h"

#include <string.h>

static int merges_made;

float *new_values(int n) { return malloc(n * sizeof(float)); }

static int less(float a, float b) { return a < b; }

void sort_piece(struct piece *p) {
  int (*before)(float, float) = less;
  for (int i = 1; i < p->length; i++) {
    float v = p->values[i];
    int k = i;
    for (; k > 0 && before(v, p->values[k - 1]); k--) p->values[k] = p->values[k - 1];
    p->values[k] = v;
  }
}

void keep_half(struct piece *p, const float *theirs, int lower) {
  int n = p->length, i = lower ? 0 : n - 1, j = i;
  float *kept = malloc(n * sizeof *kept);
  for (int k = 0; k < n; k++) {
    if (lower)
      kept[k] = p->values[i] <= theirs[j] ? p->values[i++] : theirs[j++];
    else
      kept[n - 1 - k] = p->values[i] > theirs[j] ? p->values[i--] : theirs[j--];
  }
  memmove(p->values, kept, n * sizeof *kept);
  free(kept);
  merges_made++;
}

int merges(void) { return merges_made; }
