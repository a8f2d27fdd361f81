// Made of worlds.c by gpuheap coalesce --mpi
/* Groups, grids, the modes of sends, waiting for any of several, and reductions of the program's own. Each rank notes numbers, and rank 0
   prints them. */
#include <gpuheap/mpi/program.hpp>
#include <stdio.h>
#include <string.h>

#define MOST 40

typedef struct {
  double a, b;
} line;

/* x -> a x + b: one after the other, which does not commute. */
GPUHEAP_FN static void after(void* in, void* inout, int* count, MPI_Datatype* type) {
  line* first = (line*)in;
  line* then = (line*)inout;
  for (int i = 0; i < *count; ++i) {
    line both = {then[i].a * first[i].a, then[i].a * first[i].b + then[i].b};
    then[i] = both;
  }
}

struct notes_of_worlds { int notes[MOST], num_notes; };
GPUHEAP_FN static void note(int number) { gpuheap::mpi::own<notes_of_worlds>().notes[gpuheap::mpi::own<notes_of_worlds>().num_notes++] = number; }

GPUHEAP_FN static void groups(int rank, int size) {
  MPI_Group world, even, odd, all, last;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int ranges[1][3] = {{0, size - 1, 2}}, ranks[2] = {size - 1, 0}, both[2] = {0, 1}, found[2], relation, in_group;
  MPI_Group_range_incl(world, 1, ranges, &even);
  MPI_Group_difference(world, even, &odd);
  MPI_Group_union(odd, even, &all);
  MPI_Group_incl(world, 2, ranks, &last);
  MPI_Group_translate_ranks(last, 2, both, world, found);
  MPI_Group_compare(all, world, &relation);
  MPI_Group_rank(odd, &in_group);
  note(found[0]), note(found[1]), note(relation == MPI_SIMILAR), note(in_group == MPI_UNDEFINED ? -1 : in_group);
  MPI_Comm part, ends;
  MPI_Comm_create(MPI_COMM_WORLD, rank % 2 == 0 ? even : odd, &part);
  int sum;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, part);
  note(sum);
  if (rank == 0 || rank == size - 1) {
    MPI_Comm_create_group(MPI_COMM_WORLD, last, 5, &ends);
    int own;
    MPI_Comm_rank(ends, &own);
    note(own);
    MPI_Comm_free(&ends);
  } else {
    note(-1);
  }
  MPI_Comm_compare(part, MPI_COMM_WORLD, &relation);
  note(relation == MPI_UNEQUAL);
  MPI_Comm_free(&part);
  MPI_Group_free(&world), MPI_Group_free(&even), MPI_Group_free(&odd), MPI_Group_free(&all), MPI_Group_free(&last);
}

GPUHEAP_FN static void grids(int rank, int size) {
  int sizes[2] = {0, 0}, periodic[2] = {1, 0}, place[2], keeps[2] = {0, 1}, up, down, left, right, there, row_size;
  MPI_Dims_create(size, 2, sizes);
  MPI_Comm grid, row;
  MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periodic, 0, &grid);
  MPI_Cart_coords(grid, rank, 2, place);
  MPI_Cart_shift(grid, 0, 1, &up, &down);
  MPI_Cart_shift(grid, 1, 1, &left, &right);
  MPI_Cart_rank(grid, place, &there);
  MPI_Cart_sub(grid, keeps, &row);
  MPI_Comm_size(row, &row_size);
  note(sizes[0]), note(place[0]), note(place[1]), note(up), note(down), note(left == MPI_PROC_NULL ? -1 : left);
  note(right == MPI_PROC_NULL ? -1 : right), note(there), note(row_size);
  int moved = rank;
  MPI_Sendrecv_replace(&moved, 1, MPI_INT, down, 0, up, 0, grid, MPI_STATUS_IGNORE);
  note(moved);
  MPI_Comm_free(&row);
  MPI_Comm_free(&grid);
}

GPUHEAP_FN static void modes(int rank, int size) {
  int to = (rank + 1) % size, from = (rank + size - 1) % size, values[3], sent[3] = {rank, 10 * rank, 100 * rank}, order = 0;
  char room[256];
  MPI_Buffer_attach(room, sizeof room);
  MPI_Request requests[3];
  for (int i = 0; i < 3; ++i) MPI_Irecv(&values[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &requests[i]);
  MPI_Ssend(&sent[2], 1, MPI_INT, to, 2, MPI_COMM_WORLD);
  MPI_Rsend(&sent[0], 1, MPI_INT, to, 0, MPI_COMM_WORLD);
  MPI_Bsend(&sent[1], 1, MPI_INT, to, 1, MPI_COMM_WORLD);
  for (int i = 0; i < 3; ++i) {
    int index;
    MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE);
    order += index;
  }
  note(order), note(values[0] + values[1] + values[2]);
  void* back;
  int bytes;
  MPI_Buffer_detach(&back, &bytes);
  note(back == room && bytes == (int)sizeof room);
  int counts[16], places[16], all[64];
  for (int i = 0; i < size; ++i) counts[i] = i % 3, places[i] = i == 0 ? 0 : places[i - 1] + counts[i - 1];
  MPI_Allgatherv(sent, counts[rank], MPI_INT, all, counts, places, MPI_INT, MPI_COMM_WORLD);
  int sum = 0, before = 0, part;
  for (int i = 0; i < places[size - 1] + counts[size - 1]; ++i) sum += (i + 1) * all[i];
  MPI_Exscan(&rank, &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  int ones[16];
  for (int i = 0; i < size; ++i) ones[i] = rank + i;
  MPI_Reduce_scatter_block(ones, &part, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  note(sum), note(rank == 0 ? 0 : before), note(part);
}

GPUHEAP_FN static void operations(int rank, int size) {
  MPI_Op op;
  MPI_Datatype type;
  MPI_Type_contiguous(2, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  MPI_Op_create(after, 0, &op);
  line own = {(double)(1 + rank), (double)rank}, all = {0, 0}, so_far;
  MPI_Reduce(&own, &all, 1, type, op, size - 1, MPI_COMM_WORLD);
  MPI_Scan(&own, &so_far, 1, type, op, MPI_COMM_WORLD);
  note(rank == size - 1 ? (int)(100 * all.a + all.b) : 0), note((int)(100 * so_far.a + so_far.b));
  MPI_Op_free(&op);
  MPI_Type_free(&type);
}

GPUHEAP_FN int rank_main(int argc, gpuheap::mpi::arguments argv) {
  int rank, size, provided, length;
  char name[MPI_MAX_PROCESSOR_NAME];
  MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Get_processor_name(name, &length);
  note(provided >= MPI_THREAD_FUNNELED && length == (int)gpuheap::mpi::c::strlen(name) && MPI_Wtick() > 0);
  groups(rank, size);
  grids(rank, size);
  modes(rank, size);
  operations(rank, size);
  int all[16 * MOST];
  MPI_Gather(gpuheap::mpi::own<notes_of_worlds>().notes, MOST, MPI_INT, all, MOST, MPI_INT, 0, MPI_COMM_WORLD);
  for (int i = 0; i < size && rank == 0; ++i) {
    printf("rank %d:", i);
    for (int k = 0; k < gpuheap::mpi::own<notes_of_worlds>().num_notes; ++k) printf(" %d", all[i * MOST + k]);
    printf("\n");
  }
  MPI_Finalize();
  return 0;
}

// The variables that each rank has for itself in this file.
using variables_of_worlds = gpuheap::mpi::variables<notes_of_worlds>;
[[maybe_unused]] static bool const variables_of_worlds_known = variables_of_worlds::known();
GPUHEAP_FN void start_variables_of_worlds() { variables_of_worlds::start(); }

// The ranks are threads of one kernel.
struct rank_program {
  GPUHEAP_FN int operator()(int argc, gpuheap::mpi::arguments argv) const {
    start_variables_of_worlds();
    return rank_main(argc, argv);
  }
};

int main(int argc, char** argv) {
  return gpuheap::mpi::run_main(argc, argv, rank_program{}, [] { gpuheap::coalesced::init(); });
}
