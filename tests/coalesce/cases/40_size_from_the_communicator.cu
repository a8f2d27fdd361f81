using MPI_Comm = int;
__device__ int MPI_Comm_size(MPI_Comm comm, int* size);
__device__ int MPI_Comm_rank(MPI_Comm comm, int* rank);
__device__ int rank_main(int argc, char** argv, MPI_Comm world) {
  int size, rank;
  MPI_Comm_size(world, &size);
  MPI_Comm_rank(world, &rank);
  int* counts = (int*)malloc(size * sizeof(int));  // pattern: dynamic W4; flow: collective R1
  if (rank == 0) counts[0] = argc;
  free(counts);
  return 0;
}
