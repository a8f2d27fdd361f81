// Mistakes, with the errors returned: the classes are those of the standard.
#include "program.hpp"

RANK_FN char const* name_of(int error) {
  if (error == MPI_SUCCESS) return "success";
  if (error == MPI_ERR_BUFFER) return "buffer";
  if (error == MPI_ERR_COUNT) return "count";
  if (error == MPI_ERR_TYPE) return "type";
  if (error == MPI_ERR_TAG) return "tag";
  if (error == MPI_ERR_COMM) return "comm";
  if (error == MPI_ERR_RANK) return "rank";
  if (error == MPI_ERR_REQUEST) return "request";
  if (error == MPI_ERR_ROOT) return "root";
  if (error == MPI_ERR_OP) return "op";
  if (error == MPI_ERR_TRUNCATE) return "truncate";
  if (error == MPI_ERR_IN_STATUS) return "in status";
  return "another";
}

RANK_FN void rank_main() {
  MPI_Init(nullptr, nullptr);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (rank == 0) {
    int value[2] = {5, 6};
    printf("send beyond the last rank: %s\n", name_of(MPI_Send(value, 1, MPI_INT, size, 0, MPI_COMM_WORLD)));
    printf("send with tag -1: %s\n", name_of(MPI_Send(value, 1, MPI_INT, 0, -1, MPI_COMM_WORLD)));
    printf("send of -1 elements: %s\n", name_of(MPI_Send(value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD)));
    printf("send of no type: %s\n", name_of(MPI_Send(value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD)));
    printf("receive from rank -9: %s\n", name_of(MPI_Recv(value, 1, MPI_INT, -9, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)));
    printf("receive with tag -5: %s\n", name_of(MPI_Recv(value, 1, MPI_INT, 0, -5, MPI_COMM_WORLD, MPI_STATUS_IGNORE)));
    printf("broadcast from nobody: %s\n", name_of(MPI_Bcast(value, 1, MPI_INT, size, MPI_COMM_WORLD)));
    printf("reduce by no operation: %s\n", name_of(MPI_Reduce(value, value + 1, 1, MPI_INT, MPI_OP_NULL, 0, MPI_COMM_WORLD)));
    printf("send to nobody: %s\n", name_of(MPI_Send(value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD)));
    MPI_Request request = MPI_REQUEST_NULL;
    printf("wait for nothing: %s\n", name_of(MPI_Wait(&request, MPI_STATUS_IGNORE)));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  int two[2] = {1, 2}, one[2] = {-1, -1};
  if (rank == 1) MPI_Send(two, 2, MPI_INT, 0, 3, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("two elements into room for one: %s", name_of(MPI_Recv(one, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE)));
    printf(", and the next is %d\n", one[1]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}
