// A program's ranks as processes of Open MPI.
#pragma once

#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#define RANK_FN

RANK_FN void rank_main();

inline void* allocate(std::size_t bytes) { return std::malloc(bytes); }
inline void release(void* p) { std::free(p); }

int main() {
  rank_main();
  return 0;
}
