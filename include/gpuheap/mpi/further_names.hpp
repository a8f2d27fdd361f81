// The names of MPI for datatypes, groups, grids and less common calls. names.hpp has the other names, and describes all of them.
#pragma once

#include <gpuheap/mpi/names.hpp>

// Messages, waiting, collective calls.
GPUHEAP_COLD inline int MPI_Ssend(void const* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return gpuheap::mpi::here().ssend(buffer, count, type, to, tag, comm);
}
GPUHEAP_COLD inline int MPI_Rsend(void const* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return gpuheap::mpi::here().send(buffer, count, type, to, tag, comm);
}
GPUHEAP_COLD inline int MPI_Bsend(void const* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return gpuheap::mpi::here().send(buffer, count, type, to, tag, comm);
}
GPUHEAP_COLD inline int MPI_Irsend(void const* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  return gpuheap::mpi::here().isend(buffer, count, type, to, tag, comm, request);
}
GPUHEAP_COLD inline int MPI_Ibsend(void const* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  return gpuheap::mpi::here().isend(buffer, count, type, to, tag, comm, request);
}
GPUHEAP_COLD inline int MPI_Buffer_attach(void* buffer, int bytes) { return gpuheap::mpi::here().buffer_attach(buffer, bytes); }
GPUHEAP_COLD inline int MPI_Buffer_detach(void* buffer, int* bytes) {
  return gpuheap::mpi::here().buffer_detach(static_cast<void**>(buffer), bytes);
}
GPUHEAP_COLD inline int MPI_Sendrecv_replace(void* buffer, int count, MPI_Datatype type, int to, int sent_tag, int from, int received_tag,
                                             MPI_Comm comm, MPI_Status* status) {
  return gpuheap::mpi::here().sendrecv_replace(buffer, count, type, to, sent_tag, from, received_tag, comm, status);
}
GPUHEAP_COLD inline int MPI_Waitany(int count, MPI_Request* requests, int* index, MPI_Status* status) {
  return gpuheap::mpi::here().waitany(count, requests, index, status);
}
GPUHEAP_COLD inline int MPI_Waitsome(int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses) {
  return gpuheap::mpi::here().waitsome(count, requests, done, indices, statuses);
}
GPUHEAP_COLD inline int MPI_Testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  return gpuheap::mpi::here().testall(count, requests, flag, statuses);
}
GPUHEAP_COLD inline int MPI_Testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  return gpuheap::mpi::here().testany(count, requests, index, flag, status);
}
GPUHEAP_COLD inline int MPI_Exscan(void const* values, void* result, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return gpuheap::mpi::here().exscan(values, result, count, type, op, comm);
}
GPUHEAP_COLD inline int MPI_Reduce_scatter(void const* values, void* result, int const* counts, MPI_Datatype type, MPI_Op op,
                                           MPI_Comm comm) {
  return gpuheap::mpi::here().reduce_scatter(values, result, counts, 0, type, op, comm);
}
GPUHEAP_COLD inline int MPI_Reduce_scatter_block(void const* values, void* result, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return gpuheap::mpi::here().reduce_scatter(values, result, nullptr, count, type, op, comm);
}
GPUHEAP_COLD inline int MPI_Allgatherv(void const* sent, int num_sent, MPI_Datatype sent_type, void* received, int const* counts,
                                       int const* displacements, MPI_Datatype received_type, MPI_Comm comm) {
  return gpuheap::mpi::here().allgatherv(sent, num_sent, sent_type, received, counts, displacements, received_type, comm);
}
GPUHEAP_COLD inline int MPI_Alltoallw(void const* sent, int const* sent_counts, int const* sent_displacements,
                                      MPI_Datatype const* sent_types, void* received, int const* received_counts,
                                      int const* received_displacements, MPI_Datatype const* received_types, MPI_Comm comm) {
  return gpuheap::mpi::here().alltoallw(sent, sent_counts, sent_displacements, sent_types, received, received_counts,
                                        received_displacements, received_types, comm);
}
GPUHEAP_COLD inline int MPI_Op_create(MPI_User_function* function, int commutes, MPI_Op* made) {
  return gpuheap::mpi::here().op_create(function, commutes, made);
}
GPUHEAP_COLD inline int MPI_Op_free(MPI_Op* op) { return gpuheap::mpi::here().op_free(op); }

// Derived datatypes.
GPUHEAP_COLD inline int MPI_Type_contiguous(int count, MPI_Datatype old, MPI_Datatype* made) {
  return gpuheap::mpi::here().type_contiguous(count, old, made);
}
GPUHEAP_COLD inline int MPI_Type_vector(int count, int length, int stride, MPI_Datatype old, MPI_Datatype* made) {
  return gpuheap::mpi::here().type_vector(count, length, stride, old, made);
}
GPUHEAP_COLD inline int MPI_Type_create_hvector(int count, int length, MPI_Aint stride, MPI_Datatype old, MPI_Datatype* made) {
  return gpuheap::mpi::here().type_hvector(count, length, stride, old, made);
}
GPUHEAP_COLD inline int MPI_Type_indexed(int count, int const* lengths, int const* displacements, MPI_Datatype old, MPI_Datatype* made) {
  return gpuheap::mpi::here().type_indexed(count, lengths, displacements, old, made);
}
GPUHEAP_COLD inline int MPI_Type_create_hindexed(int count, int const* lengths, MPI_Aint const* displacements, MPI_Datatype old,
                                                 MPI_Datatype* made) {
  return gpuheap::mpi::here().type_hindexed(count, lengths, displacements, old, made);
}
GPUHEAP_COLD inline int MPI_Type_create_indexed_block(int count, int length, int const* displacements, MPI_Datatype old,
                                                      MPI_Datatype* made) {
  return gpuheap::mpi::here().type_indexed_block(count, length, displacements, old, made);
}
GPUHEAP_COLD inline int MPI_Type_create_struct(int count, int const* lengths, MPI_Aint const* displacements, MPI_Datatype const* types,
                                               MPI_Datatype* made) {
  return gpuheap::mpi::here().type_struct(count, lengths, displacements, types, made);
}
GPUHEAP_COLD inline int MPI_Type_create_subarray(int dimensions, int const* sizes, int const* parts, int const* starts, int order,
                                                 MPI_Datatype old, MPI_Datatype* made) {
  return gpuheap::mpi::here().type_subarray(dimensions, sizes, parts, starts, order == MPI_ORDER_C, old, made);
}
GPUHEAP_COLD inline int MPI_Type_create_resized(MPI_Datatype old, MPI_Aint lower, MPI_Aint extent, MPI_Datatype* made) {
  return gpuheap::mpi::here().type_resized(old, lower, extent, made);
}
GPUHEAP_COLD inline int MPI_Type_dup(MPI_Datatype old, MPI_Datatype* made) { return gpuheap::mpi::here().type_dup(old, made); }
GPUHEAP_COLD inline int MPI_Type_commit(MPI_Datatype* type) { return gpuheap::mpi::here().type_commit(type); }
GPUHEAP_COLD inline int MPI_Type_free(MPI_Datatype* type) { return gpuheap::mpi::here().type_free(type); }
GPUHEAP_COLD inline int MPI_Type_size(MPI_Datatype type, int* bytes) { return gpuheap::mpi::here().type_size(type, bytes); }
GPUHEAP_COLD inline int MPI_Type_get_extent(MPI_Datatype type, MPI_Aint* lower, MPI_Aint* extent) {
  return gpuheap::mpi::here().type_get_extent(type, lower, extent);
}
GPUHEAP_COLD inline int MPI_Pack(void const* from, int count, MPI_Datatype type, void* to, int room, int* at, MPI_Comm comm) {
  return gpuheap::mpi::here().pack(from, count, type, to, room, at, comm);
}
GPUHEAP_COLD inline int MPI_Unpack(void const* from, int room, int* at, void* to, int count, MPI_Datatype type, MPI_Comm comm) {
  return gpuheap::mpi::here().unpack(from, room, at, to, count, type, comm);
}
GPUHEAP_COLD inline int MPI_Pack_size(int count, MPI_Datatype type, MPI_Comm comm, int* bytes) {
  return gpuheap::mpi::here().pack_size(count, type, comm, bytes);
}

// Groups, communicators, grids.
GPUHEAP_COLD inline int MPI_Comm_group(MPI_Comm comm, MPI_Group* made) { return gpuheap::mpi::here().comm_group(comm, made); }
GPUHEAP_COLD inline int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* made) {
  return gpuheap::mpi::here().comm_create(comm, group, made);
}
GPUHEAP_COLD inline int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made) {
  return gpuheap::mpi::here().comm_create_group(comm, group, tag, made);
}
GPUHEAP_COLD inline int MPI_Comm_compare(MPI_Comm a, MPI_Comm b, int* result) { return gpuheap::mpi::here().comm_compare(a, b, result); }
GPUHEAP_COLD inline int MPI_Group_size(MPI_Group group, int* size) { return gpuheap::mpi::here().group_size(group, size); }
GPUHEAP_COLD inline int MPI_Group_rank(MPI_Group group, int* rank) { return gpuheap::mpi::here().group_rank(group, rank); }
GPUHEAP_COLD inline int MPI_Group_incl(MPI_Group group, int count, int const* ranks, MPI_Group* made) {
  return gpuheap::mpi::here().group_some(group, count, ranks, true, made);
}
GPUHEAP_COLD inline int MPI_Group_excl(MPI_Group group, int count, int const* ranks, MPI_Group* made) {
  return gpuheap::mpi::here().group_some(group, count, ranks, false, made);
}
GPUHEAP_COLD inline int MPI_Group_range_incl(MPI_Group group, int count, int ranges[][3], MPI_Group* made) {
  return gpuheap::mpi::here().group_ranges(group, count, ranges, true, made);
}
GPUHEAP_COLD inline int MPI_Group_range_excl(MPI_Group group, int count, int ranges[][3], MPI_Group* made) {
  return gpuheap::mpi::here().group_ranges(group, count, ranges, false, made);
}
GPUHEAP_COLD inline int MPI_Group_union(MPI_Group a, MPI_Group b, MPI_Group* made) {
  return gpuheap::mpi::here().group_of_two(a, b, decltype(gpuheap::mpi::here())::set::all_of_both, made);
}
GPUHEAP_COLD inline int MPI_Group_intersection(MPI_Group a, MPI_Group b, MPI_Group* made) {
  return gpuheap::mpi::here().group_of_two(a, b, decltype(gpuheap::mpi::here())::set::in_both, made);
}
GPUHEAP_COLD inline int MPI_Group_difference(MPI_Group a, MPI_Group b, MPI_Group* made) {
  return gpuheap::mpi::here().group_of_two(a, b, decltype(gpuheap::mpi::here())::set::in_first_alone, made);
}
GPUHEAP_COLD inline int MPI_Group_translate_ranks(MPI_Group from, int count, int const* ranks, MPI_Group to, int* found) {
  return gpuheap::mpi::here().group_translate_ranks(from, count, ranks, to, found);
}
GPUHEAP_COLD inline int MPI_Group_compare(MPI_Group a, MPI_Group b, int* result) {
  return gpuheap::mpi::here().group_compare(a, b, result);
}
GPUHEAP_COLD inline int MPI_Group_free(MPI_Group* group) { return gpuheap::mpi::here().group_free(group); }
GPUHEAP_COLD inline int MPI_Cart_create(MPI_Comm comm, int dimensions, int const* sizes, int const* periodic, int, MPI_Comm* made) {
  return gpuheap::mpi::here().cart_create(comm, dimensions, sizes, periodic, made);
}
GPUHEAP_COLD inline int MPI_Cart_coords(MPI_Comm comm, int rank, int most, int* place) {
  return gpuheap::mpi::here().cart_coords(comm, rank, most, place);
}
GPUHEAP_COLD inline int MPI_Cart_rank(MPI_Comm comm, int const* place, int* rank) {
  return gpuheap::mpi::here().cart_rank(comm, place, rank);
}
GPUHEAP_COLD inline int MPI_Cart_shift(MPI_Comm comm, int dimension, int by, int* before, int* behind) {
  return gpuheap::mpi::here().cart_shift(comm, dimension, by, before, behind);
}
GPUHEAP_COLD inline int MPI_Cart_get(MPI_Comm comm, int most, int* sizes, int* periodic, int* place) {
  return gpuheap::mpi::here().cart_get(comm, most, sizes, periodic, place);
}
GPUHEAP_COLD inline int MPI_Cartdim_get(MPI_Comm comm, int* dimensions) { return gpuheap::mpi::here().cartdim_get(comm, dimensions); }
GPUHEAP_COLD inline int MPI_Cart_sub(MPI_Comm comm, int const* keeps, MPI_Comm* made) {
  return gpuheap::mpi::here().cart_sub(comm, keeps, made);
}
GPUHEAP_COLD inline int MPI_Dims_create(int places, int dimensions, int* sizes) {
  return gpuheap::mpi::here().dims_create(places, dimensions, sizes);
}

// Facts about the process.
template <class Argc, class Argv>
GPUHEAP_COLD inline int MPI_Init_thread(Argc, Argv, int, int* provided) {
  // A rank is one thread, which makes all of its calls. So every level of thread support is provided.
  *provided = MPI_THREAD_MULTIPLE;
  return gpuheap::mpi::here().init();
}
GPUHEAP_FN inline int MPI_Query_thread(int* provided) {
  *provided = MPI_THREAD_MULTIPLE;
  return MPI_SUCCESS;
}
GPUHEAP_FN inline int MPI_Is_thread_main(int* flag) {
  *flag = 1;
  return MPI_SUCCESS;
}
GPUHEAP_FN inline double MPI_Wtick() { return 1e-9; }
GPUHEAP_FN inline int MPI_Get_version(int* version, int* subversion) {
  *version = MPI_VERSION;
  *subversion = MPI_SUBVERSION;
  return MPI_SUCCESS;
}
// Ignores the name, since there is no MPI_Comm_get_name to read it.
GPUHEAP_FN inline int MPI_Comm_set_name(MPI_Comm, char const*) { return MPI_SUCCESS; }
// MPI_COMM_TYPE_SHARED, the only type, yields all ranks of `comm`, since all of them share the device's memory.
GPUHEAP_FN inline int MPI_Comm_split_type(MPI_Comm comm, int, int key, MPI_Info, MPI_Comm* made) {
  return gpuheap::mpi::here().comm_split(comm, 0, key, made);
}
GPUHEAP_FN inline int MPI_Get_address(void const* of, MPI_Aint* address) {
  *address = reinterpret_cast<MPI_Aint>(of);
  return MPI_SUCCESS;
}
GPUHEAP_FN inline int MPI_Topo_test(MPI_Comm comm, int* result) {
  *result = comm != nullptr && comm->grid != nullptr ? MPI_CART : MPI_UNDEFINED;
  return MPI_SUCCESS;
}
GPUHEAP_FN inline int MPI_Error_class(int code, int* error) {
  *error = code;
  return MPI_SUCCESS;
}
GPUHEAP_COLD inline int MPI_Error_string(int code, char* text, int* length) {
  char const* const from = gpuheap::mpi::words_of(code);
  *length = 0;
  // Ends: at the end of the text.
  for (; from[*length] != '\0'; ++*length) text[*length] = from[*length];
  text[*length] = '\0';
  return MPI_SUCCESS;
}
