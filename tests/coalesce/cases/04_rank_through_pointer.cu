using MPI_Comm = int;
__device__ int MPI_Comm_rank(MPI_Comm comm, int* rank);
__global__ void kernel(MPI_Comm world, void** out) {
  int rank;
  MPI_Comm_rank(world, &rank);
  out[threadIdx.x] = malloc(16 + 4 * rank);  // pattern: dynamic W4; flow: dynamic W4
}
