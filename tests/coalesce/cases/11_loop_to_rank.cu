using MPI_Comm = int;
__device__ int MPI_Comm_rank(MPI_Comm comm, int* rank);
__global__ void kernel(MPI_Comm world, void** out) {
  int rank;
  MPI_Comm_rank(world, &rank);
  for (int i = 0; i < rank; i++) out[i] = malloc(8);  // pattern: dynamic W6; flow: dynamic W6
}
