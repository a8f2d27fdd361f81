using MPI_Comm = int;
__device__ int MPI_Comm_rank(MPI_Comm comm, int* rank);
__global__ void kernel(MPI_Comm world, void** out) {
  int rank;
  MPI_Comm_rank(world, &rank);
  out[rank] = rank == 0 ? malloc(8) : nullptr;  // pattern: dynamic W1; flow: dynamic W1
}
