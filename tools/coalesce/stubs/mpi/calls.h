/* The calls of gpuheap/mpi/names.hpp as declarations, for C and for C++. GPUHEAP_STUB: what stands before each. */
#ifndef GPUHEAP_STUB
#define GPUHEAP_STUB
#endif

GPUHEAP_STUB int MPI_Init(int* count, char*** words);
GPUHEAP_STUB int MPI_Finalize(void);
GPUHEAP_STUB int MPI_Initialized(int* flag);
GPUHEAP_STUB int MPI_Finalized(int* flag);
GPUHEAP_STUB int MPI_Comm_rank(MPI_Comm comm, int* rank);
GPUHEAP_STUB int MPI_Comm_size(MPI_Comm comm, int* size);
GPUHEAP_STUB int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made);
GPUHEAP_STUB int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made);
GPUHEAP_STUB int MPI_Comm_free(MPI_Comm* comm);
GPUHEAP_STUB int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler what);
GPUHEAP_STUB int MPI_Barrier(MPI_Comm comm);
GPUHEAP_STUB int MPI_Send(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
GPUHEAP_STUB int MPI_Recv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status);
GPUHEAP_STUB int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request);
GPUHEAP_STUB int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request);
GPUHEAP_STUB int MPI_Wait(MPI_Request* request, MPI_Status* status);
GPUHEAP_STUB int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses);
GPUHEAP_STUB int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status);
GPUHEAP_STUB int MPI_Sendrecv(const void* sent, int num_sent, MPI_Datatype sent_type, int to, int sent_tag, void* received, int num_received, MPI_Datatype received_type, int from, int received_tag, MPI_Comm comm, MPI_Status* status);
GPUHEAP_STUB int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status* status);
GPUHEAP_STUB int MPI_Iprobe(int from, int tag, MPI_Comm comm, int* flag, MPI_Status* status);
GPUHEAP_STUB int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm);
GPUHEAP_STUB int MPI_Reduce(const void* values, void* result, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm);
GPUHEAP_STUB int MPI_Allreduce(const void* values, void* result, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
GPUHEAP_STUB int MPI_Scan(const void* values, void* result, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
GPUHEAP_STUB int MPI_Gather(const void* sent, int num_sent, MPI_Datatype sent_type, void* received, int num_received, MPI_Datatype received_type, int root, MPI_Comm comm);
GPUHEAP_STUB int MPI_Gatherv(const void* sent, int num_sent, MPI_Datatype sent_type, void* received, const int* counts, const int* displacements, MPI_Datatype received_type, int root, MPI_Comm comm);
GPUHEAP_STUB int MPI_Scatter(const void* sent, int num_sent, MPI_Datatype sent_type, void* received, int num_received, MPI_Datatype received_type, int root, MPI_Comm comm);
GPUHEAP_STUB int MPI_Scatterv(const void* sent, const int* counts, const int* displacements, MPI_Datatype sent_type, void* received, int num_received, MPI_Datatype received_type, int root, MPI_Comm comm);
GPUHEAP_STUB int MPI_Allgather(const void* sent, int num_sent, MPI_Datatype sent_type, void* received, int num_received, MPI_Datatype received_type, MPI_Comm comm);
GPUHEAP_STUB int MPI_Alltoall(const void* sent, int num_sent, MPI_Datatype sent_type, void* received, int num_received, MPI_Datatype received_type, MPI_Comm comm);
GPUHEAP_STUB int MPI_Alltoallv(const void* sent, const int* sent_counts, const int* sent_displacements, MPI_Datatype sent_type, void* received, const int* received_counts, const int* received_displacements, MPI_Datatype received_type, MPI_Comm comm);
GPUHEAP_STUB int MPI_Abort(MPI_Comm comm, int code);
GPUHEAP_STUB double MPI_Wtime(void);
GPUHEAP_STUB int MPI_Get_count(const MPI_Status* status, MPI_Datatype type, int* count);

#undef GPUHEAP_STUB
