// The names of MPI for device code, so that the source of a C program of MPI compiles as the code of one rank. A program includes this
// header in place of <mpi.h>.
//
//   host     gpuheap::coalesced::init(), then gpuheap::mpi::run_program(num_ranks, main functor)
//   device   MPI_Init, MPI_Send, ...: the calling thread is the rank; messages lie in the program's heap (coalesced.hpp)
//
// A process runs one program at a time. rank.hpp and messenger.hpp describe the calls, and work with any heap and with several worlds.
#pragma once

#include <gpuheap/coalesced.hpp>
#include <gpuheap/mpi/world.hpp>
#include <gpuheap/simt/program.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

namespace detail {
using program_heap_ref = heap_ref<coalesced::allocator>;
// The state that the calls below read. All zeros mean that no program runs.
struct program_world {
  world_state* world = nullptr;
  program_heap_ref heap;
};
[[maybe_unused]] static bool const world_known_here = simt::has_program_value<program_world>();

template <class Main>
struct run_named {
  static constexpr unsigned largest_block = 1024;  // for launch(): limits the registers, so that blocks of this size can run
  Main main;
  GPUHEAP_FN void operator()(unsigned) const { main(); }
};
}  // namespace detail

// The rank of the calling thread. Device code of a main functor.
[[nodiscard]] GPUHEAP_FN inline rank<detail::program_heap_ref> here() {
  detail::program_world const& program = simt::program_value<detail::program_world>();
  return {program.world, simt::block_id() * simt::threads_per_block() + simt::thread_in_block(), program.heap};
}

// @brief Runs main() as the ranks of one world, one rank in each thread of one cooperative kernel. Messages are allocated from the heap
// that coalesced::init() made. Host, one call at a time; waits for the kernel.
// @param num_ranks the number of ranks: at least 1, and at most as many threads as can be resident at once
// @param main a trivially copyable functor. Its call operator is a GPUHEAP_FN without parameters, which calls the functions MPI_...
// @param config the number of threads of a block, and the stream. The launch is cooperative, whatever config.cooperative says
// @return the outcome: whether a rank aborted, and the number and the code of the first one that did
// @throws gpuheap::error before the launch if coalesced::init() was not called, or if `num_ranks` is 0 or more than can be resident
// @throws out_of_memory if the device does not have the memory for the state of the ranks
// @throws device_error if the kernel fails
template <class Main>
[[nodiscard]] result run_program(unsigned num_ranks, Main main, launch_config config = {}) {
  using functor = detail::run_named<Main>;
  auto* const heap = coalesced::program_heap();
  if (heap == nullptr)
    throw plain_error("gpuheap: MPI ranks need the program's heap for their messages: call gpuheap::coalesced::init() first");
  detail::require_resident<functor>(num_ranks, config.block_threads);
  detail::world_memory const world{num_ranks, config.stream};
  simt::program_values<detail::program_world>::set({world.state(), heap->ref()});
  config.cooperative = true;
  launch(num_ranks, functor{main}, config);
  result const ended = world.read(config.stream);
  simt::program_values<detail::program_world>::set({});
  return ended;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi

// The types of MPI.
using MPI_Comm = gpuheap::mpi::communicator*;
using MPI_Datatype = gpuheap::mpi::datatype;
using MPI_Op = gpuheap::mpi::operation;
using MPI_Request = gpuheap::mpi::request*;
using MPI_Status = gpuheap::mpi::status;
using MPI_Errhandler = gpuheap::mpi::error_handler;
using MPI_Group = gpuheap::mpi::rank_list*;
using MPI_Info = void*;
using MPI_Aint = long;
using MPI_User_function = void(void*, void*, int*, MPI_Datatype*);

// These are macros, as in other implementations of MPI: programs test for them by #ifdef, and MPI_COMM_WORLD is not a constant here.
#define MPI_COMM_WORLD (::gpuheap::mpi::here().world())
#define MPI_GROUP_NULL (static_cast<MPI_Group>(nullptr))
#define MPI_GROUP_EMPTY (static_cast<MPI_Group>(nullptr))
#define MPI_INFO_NULL (static_cast<MPI_Info>(nullptr))
#define MPI_BOTTOM (static_cast<void*>(nullptr))
#define MPI_COMM_NULL (static_cast<MPI_Comm>(nullptr))
#define MPI_REQUEST_NULL (static_cast<MPI_Request>(nullptr))
#define MPI_STATUS_IGNORE (static_cast<MPI_Status*>(nullptr))
#define MPI_STATUSES_IGNORE (static_cast<MPI_Status*>(nullptr))
#define MPI_IN_PLACE (::gpuheap::mpi::in_place())

// The constants of MPI.
inline constexpr int MPI_SUCCESS = gpuheap::mpi::success, MPI_ERR_BUFFER = gpuheap::mpi::err_buffer,
                     MPI_ERR_COUNT = gpuheap::mpi::err_count, MPI_ERR_TYPE = gpuheap::mpi::err_type, MPI_ERR_TAG = gpuheap::mpi::err_tag,
                     MPI_ERR_COMM = gpuheap::mpi::err_comm, MPI_ERR_RANK = gpuheap::mpi::err_rank,
                     MPI_ERR_REQUEST = gpuheap::mpi::err_request, MPI_ERR_ROOT = gpuheap::mpi::err_root, MPI_ERR_OP = gpuheap::mpi::err_op,
                     MPI_ERR_ARG = gpuheap::mpi::err_arg, MPI_ERR_TRUNCATE = gpuheap::mpi::err_truncate,
                     MPI_ERR_IN_STATUS = gpuheap::mpi::err_in_status, MPI_ERR_NO_MEM = gpuheap::mpi::err_no_mem,
                     MPI_ERR_OTHER = gpuheap::mpi::err_other;
inline constexpr int MPI_ANY_SOURCE = gpuheap::mpi::any_source, MPI_ANY_TAG = gpuheap::mpi::any_tag,
                     MPI_PROC_NULL = gpuheap::mpi::proc_null, MPI_UNDEFINED = gpuheap::mpi::undefined;
inline constexpr int MPI_THREAD_SINGLE = 0, MPI_THREAD_FUNNELED = 1, MPI_THREAD_SERIALIZED = 2, MPI_THREAD_MULTIPLE = 3, MPI_IDENT = 0,
                     MPI_CONGRUENT = 1, MPI_SIMILAR = 2, MPI_UNEQUAL = 3, MPI_ORDER_C = 0, MPI_ORDER_FORTRAN = 1, MPI_CART = 1,
                     MPI_COMM_TYPE_SHARED = 1, MPI_VERSION = 3, MPI_SUBVERSION = 1;
// Lengths of arrays, as macros, as in a C header of MPI.
#define MPI_MAX_PROCESSOR_NAME 256
#define MPI_MAX_ERROR_STRING 64
#define MPI_MAX_OBJECT_NAME 64
#define MPI_BSEND_OVERHEAD 128
inline constexpr MPI_Errhandler MPI_ERRORS_ARE_FATAL = gpuheap::mpi::error_handler::fatal,
                                MPI_ERRORS_RETURN = gpuheap::mpi::error_handler::return_;
inline constexpr MPI_Op MPI_OP_NULL = gpuheap::mpi::operation::null, MPI_SUM = gpuheap::mpi::operation::sum,
                        MPI_PROD = gpuheap::mpi::operation::prod, MPI_MAX = gpuheap::mpi::operation::max,
                        MPI_MIN = gpuheap::mpi::operation::min, MPI_LAND = gpuheap::mpi::operation::land,
                        MPI_LOR = gpuheap::mpi::operation::lor, MPI_LXOR = gpuheap::mpi::operation::lxor,
                        MPI_BAND = gpuheap::mpi::operation::band, MPI_BOR = gpuheap::mpi::operation::bor,
                        MPI_BXOR = gpuheap::mpi::operation::bxor, MPI_MAXLOC = gpuheap::mpi::operation::max_loc,
                        MPI_MINLOC = gpuheap::mpi::operation::min_loc;
inline constexpr MPI_Datatype MPI_DATATYPE_NULL = gpuheap::mpi::datatype::null, MPI_CHAR = gpuheap::mpi::datatype::char_type,
                              MPI_SIGNED_CHAR = gpuheap::mpi::datatype::int8, MPI_UNSIGNED_CHAR = gpuheap::mpi::datatype::uint8,
                              MPI_BYTE = gpuheap::mpi::datatype::byte, MPI_SHORT = gpuheap::mpi::datatype::int16,
                              MPI_UNSIGNED_SHORT = gpuheap::mpi::datatype::uint16, MPI_INT = gpuheap::mpi::datatype::int32,
                              MPI_UNSIGNED = gpuheap::mpi::datatype::uint32,
                              MPI_LONG = sizeof(long) == 8 ? gpuheap::mpi::datatype::int64 : gpuheap::mpi::datatype::int32,
                              MPI_UNSIGNED_LONG = sizeof(long) == 8 ? gpuheap::mpi::datatype::uint64 : gpuheap::mpi::datatype::uint32,
                              MPI_LONG_LONG = gpuheap::mpi::datatype::int64, MPI_LONG_LONG_INT = gpuheap::mpi::datatype::int64,
                              MPI_UNSIGNED_LONG_LONG = gpuheap::mpi::datatype::uint64, MPI_FLOAT = gpuheap::mpi::datatype::float32,
                              MPI_DOUBLE = gpuheap::mpi::datatype::float64, MPI_C_BOOL = gpuheap::mpi::datatype::boolean,
                              MPI_INT8_T = gpuheap::mpi::datatype::int8, MPI_UINT8_T = gpuheap::mpi::datatype::uint8,
                              MPI_INT16_T = gpuheap::mpi::datatype::int16, MPI_UINT16_T = gpuheap::mpi::datatype::uint16,
                              MPI_INT32_T = gpuheap::mpi::datatype::int32, MPI_UINT32_T = gpuheap::mpi::datatype::uint32,
                              MPI_INT64_T = gpuheap::mpi::datatype::int64, MPI_UINT64_T = gpuheap::mpi::datatype::uint64,
                              MPI_FLOAT_INT = gpuheap::mpi::datatype::float_int, MPI_DOUBLE_INT = gpuheap::mpi::datatype::double_int,
                              MPI_LONG_INT = gpuheap::mpi::datatype::long_int, MPI_2INT = gpuheap::mpi::datatype::two_int,
                              MPI_SHORT_INT = gpuheap::mpi::datatype::short_int, MPI_PACKED = gpuheap::mpi::datatype::packed;

// The parameters are those of main, or nullptr. They are ignored.
template <class Argc, class Argv>
GPUHEAP_COLD inline int MPI_Init(Argc, Argv) {
  return gpuheap::mpi::here().init();
}

// The other calls forward to rank.hpp and messenger.hpp. Calls with much code are out of line, since programs make them in many places.
GPUHEAP_COLD inline int MPI_Finalize() { return gpuheap::mpi::here().finalize(); }
GPUHEAP_FN inline int MPI_Initialized(int* flag) {
  *flag = gpuheap::mpi::here().is_initialized();
  return MPI_SUCCESS;
}
GPUHEAP_FN inline int MPI_Finalized(int* flag) {
  *flag = gpuheap::mpi::here().is_finalized();
  return MPI_SUCCESS;
}
GPUHEAP_FN inline int MPI_Comm_rank(MPI_Comm comm, int* rank) { return gpuheap::mpi::here().comm_rank(comm, rank); }
GPUHEAP_FN inline int MPI_Comm_size(MPI_Comm comm, int* size) { return gpuheap::mpi::here().comm_size(comm, size); }
GPUHEAP_COLD inline int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
  return gpuheap::mpi::here().comm_split(comm, color, key, made);
}
GPUHEAP_COLD inline int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) { return gpuheap::mpi::here().comm_dup(comm, made); }
GPUHEAP_COLD inline int MPI_Comm_free(MPI_Comm* comm) { return gpuheap::mpi::here().comm_free(comm); }
GPUHEAP_COLD inline int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler what) {
  return gpuheap::mpi::here().comm_set_errhandler(comm, what);
}
GPUHEAP_COLD inline int MPI_Barrier(MPI_Comm comm) { return gpuheap::mpi::here().barrier(comm); }
GPUHEAP_COLD inline int MPI_Send(void const* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return gpuheap::mpi::here().send(buffer, count, type, to, tag, comm);
}
GPUHEAP_COLD inline int MPI_Recv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  return gpuheap::mpi::here().recv(buffer, count, type, from, tag, comm, status);
}
GPUHEAP_COLD inline int MPI_Isend(void const* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  return gpuheap::mpi::here().isend(buffer, count, type, to, tag, comm, request);
}
GPUHEAP_COLD inline int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  return gpuheap::mpi::here().irecv(buffer, count, type, from, tag, comm, request);
}
GPUHEAP_COLD inline int MPI_Wait(MPI_Request* request, MPI_Status* status) { return gpuheap::mpi::here().wait(request, status); }
GPUHEAP_COLD inline int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  return gpuheap::mpi::here().waitall(count, requests, statuses);
}
GPUHEAP_COLD inline int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  return gpuheap::mpi::here().test(request, flag, status);
}
GPUHEAP_COLD inline int MPI_Sendrecv(void const* sent, int num_sent, MPI_Datatype sent_type, int to, int sent_tag, void* received,
                                     int num_received, MPI_Datatype received_type, int from, int received_tag, MPI_Comm comm,
                                     MPI_Status* status) {
  return gpuheap::mpi::here().sendrecv(sent, num_sent, sent_type, to, sent_tag, received, num_received, received_type, from, received_tag,
                                       comm, status);
}
GPUHEAP_COLD inline int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status* status) {
  return gpuheap::mpi::here().probe(from, tag, comm, status);
}
GPUHEAP_COLD inline int MPI_Iprobe(int from, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  return gpuheap::mpi::here().iprobe(from, tag, comm, flag, status);
}
GPUHEAP_COLD inline int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  return gpuheap::mpi::here().bcast(buffer, count, type, root, comm);
}
GPUHEAP_COLD inline int MPI_Reduce(void const* values, void* result, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  return gpuheap::mpi::here().reduce(values, result, count, type, op, root, comm);
}
GPUHEAP_COLD inline int MPI_Allreduce(void const* values, void* result, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return gpuheap::mpi::here().allreduce(values, result, count, type, op, comm);
}
GPUHEAP_COLD inline int MPI_Scan(void const* values, void* result, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return gpuheap::mpi::here().scan(values, result, count, type, op, comm);
}
GPUHEAP_COLD inline int MPI_Gather(void const* sent, int num_sent, MPI_Datatype sent_type, void* received, int num_received,
                                   MPI_Datatype received_type, int root, MPI_Comm comm) {
  return gpuheap::mpi::here().gather(sent, num_sent, sent_type, received, num_received, received_type, root, comm);
}
GPUHEAP_COLD inline int MPI_Gatherv(void const* sent, int num_sent, MPI_Datatype sent_type, void* received, int const* counts,
                                    int const* displacements, MPI_Datatype received_type, int root, MPI_Comm comm) {
  return gpuheap::mpi::here().gatherv(sent, num_sent, sent_type, received, counts, displacements, received_type, root, comm);
}
GPUHEAP_COLD inline int MPI_Scatter(void const* sent, int num_sent, MPI_Datatype sent_type, void* received, int num_received,
                                    MPI_Datatype received_type, int root, MPI_Comm comm) {
  return gpuheap::mpi::here().scatter(sent, num_sent, sent_type, received, num_received, received_type, root, comm);
}
GPUHEAP_COLD inline int MPI_Scatterv(void const* sent, int const* counts, int const* displacements, MPI_Datatype sent_type, void* received,
                                     int num_received, MPI_Datatype received_type, int root, MPI_Comm comm) {
  return gpuheap::mpi::here().scatterv(sent, counts, displacements, sent_type, received, num_received, received_type, root, comm);
}
GPUHEAP_COLD inline int MPI_Allgather(void const* sent, int num_sent, MPI_Datatype sent_type, void* received, int num_received,
                                      MPI_Datatype received_type, MPI_Comm comm) {
  return gpuheap::mpi::here().allgather(sent, num_sent, sent_type, received, num_received, received_type, comm);
}
GPUHEAP_COLD inline int MPI_Alltoall(void const* sent, int num_sent, MPI_Datatype sent_type, void* received, int num_received,
                                     MPI_Datatype received_type, MPI_Comm comm) {
  return gpuheap::mpi::here().alltoall(sent, num_sent, sent_type, received, num_received, received_type, comm);
}
GPUHEAP_COLD inline int MPI_Alltoallv(void const* sent, int const* sent_counts, int const* sent_displacements, MPI_Datatype sent_type,
                                      void* received, int const* received_counts, int const* received_displacements,
                                      MPI_Datatype received_type, MPI_Comm comm) {
  return gpuheap::mpi::here().alltoallv(sent, sent_counts, sent_displacements, sent_type, received, received_counts, received_displacements,
                                        received_type, comm);
}
GPUHEAP_FN inline int MPI_Abort(MPI_Comm, int code) { gpuheap::mpi::here().abort(code); }
GPUHEAP_FN inline double MPI_Wtime() { return gpuheap::mpi::here().wtime(); }
GPUHEAP_FN inline int MPI_Get_count(MPI_Status const* status, MPI_Datatype type, int* count) {
  *count = gpuheap::mpi::get_count(*status, type);
  return MPI_SUCCESS;
}
