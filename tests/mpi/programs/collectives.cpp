// Every collective call, on integers, floats and pairs. Rank 0 prints the values of each rank, as a sum that depends on their places.
#include "program.hpp"

// Prints the values of all ranks in one line of rank 0.
RANK_FN void say(char const* what, long const* values, int count) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long digest = 0, all[64];
  for (int i = 0; i < count; ++i) digest = (digest * 31 + values[i]) % 1000003;
  MPI_Gather(&digest, 1, MPI_LONG, all, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  for (int i = 0; i < size && rank == 0; ++i) printf("%s: rank %d has %ld\n", what, i, all[i]);
}

RANK_FN void rank_main() {
  MPI_Init(nullptr, nullptr);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long* const mine = static_cast<long*>(allocate(16 * size * sizeof(long)));
  long* const got = static_cast<long*>(allocate(16 * size * sizeof(long)));
  for (int i = 0; i < 16 * size; ++i) mine[i] = 1000 * rank + i;
  for (int i = 0; i < 16 * size; ++i) got[i] = -1;

  for (int root = 0; root < size; ++root) {
    long value[2] = {rank, 10 * rank};
    MPI_Bcast(value, 2, MPI_LONG, root, MPI_COMM_WORLD);
    say("bcast", value, 2);
  }
  MPI_Op const operations[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR};
  for (MPI_Op const op : operations) {
    long const values[3] = {rank + 1, 5 - rank, rank % 2};
    long result[3] = {-1, -1, -1};
    MPI_Reduce(values, result, 3, MPI_LONG, op, size - 1, MPI_COMM_WORLD);
    say("reduce", result, 3);
    MPI_Allreduce(values, result, 3, MPI_LONG, op, MPI_COMM_WORLD);
    say("allreduce", result, 3);
    MPI_Scan(values, result, 3, MPI_LONG, op, MPI_COMM_WORLD);
    say("scan", result, 3);
  }
  double quarter = 0.25 * rank, quarters = 0;
  MPI_Allreduce(&quarter, &quarters, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &quarter, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) printf("doubles: %.2f %.2f\n", quarters, quarter);
  struct {
    double value;
    int index;
  } const pair = {rank % 2 == 0 ? 1.5 : 2.5, rank};
  auto least = pair, most = pair;
  MPI_Allreduce(&pair, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
  MPI_Allreduce(&pair, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
  if (rank == 0) printf("places: %.1f at %d, %.1f at %d\n", least.value, least.index, most.value, most.index);

  MPI_Gather(mine, 3, MPI_LONG, got, 3, MPI_LONG, 1, MPI_COMM_WORLD);
  say("gather", got, 3 * size);
  MPI_Scatter(mine, 2, MPI_LONG, got, 2, MPI_LONG, 1, MPI_COMM_WORLD);
  say("scatter", got, 3 * size);
  MPI_Allgather(mine, 2, MPI_LONG, got, 2, MPI_LONG, MPI_COMM_WORLD);
  say("allgather", got, 3 * size);
  MPI_Alltoall(mine, 3, MPI_LONG, got, 3, MPI_LONG, MPI_COMM_WORLD);
  say("alltoall", got, 3 * size);

  int* const counts = static_cast<int*>(allocate(size * sizeof(int)));
  int* const places = static_cast<int*>(allocate(size * sizeof(int)));
  int* const my_counts = static_cast<int*>(allocate(size * sizeof(int)));
  for (int i = 0; i < size; ++i) {
    counts[i] = i + 1;
    places[i] = 5 * (size - 1 - i);
  }
  MPI_Gatherv(mine, rank + 1, MPI_LONG, got, counts, places, MPI_LONG, 0, MPI_COMM_WORLD);
  say("gatherv", got, 5 * size);
  MPI_Scatterv(mine, counts, places, MPI_LONG, got, rank + 1, MPI_LONG, 2 % size, MPI_COMM_WORLD);
  say("scatterv", got, 5 * size);
  for (int i = 0; i < size; ++i) {
    my_counts[i] = (rank + 2 * i) % 4;  // to i
    counts[i] = (i + 2 * rank) % 4;     // from i
  }
  MPI_Alltoallv(mine, my_counts, places, MPI_LONG, got, counts, places, MPI_LONG, MPI_COMM_WORLD);
  say("alltoallv", got, 5 * size);
  release(my_counts);
  release(places);
  release(counts);
  release(got);
  release(mine);
  MPI_Finalize();
}
