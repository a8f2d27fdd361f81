// gpuheap/mpi/program.hpp as the rewriter sees it: declarations without the library's definitions.
#pragma once

#include <gpuheap/coalesced.hpp>
#include "c_library.hpp"

namespace gpuheap::mpi {

struct communicator;
struct request;
enum class datatype : unsigned long;
enum class operation : unsigned long;
struct rank_list;
enum class error_handler : int;
struct status {
  int MPI_SOURCE;
  int MPI_TAG;
  int MPI_ERROR;
};
inline constexpr communicator* the_world = nullptr;

template <class Variables>
__attribute__((host)) __attribute__((device)) Variables& own();
template <class... Variables>
struct variables {
  static bool known();
  __attribute__((device)) static void start();
};
using arguments = char const* const* __restrict__;
struct reads {
  bool input = false, files = false, environment = false;
  struct names {
    template <class... Name>
    names(Name...) {}
  } named = {};
};
template <class Main, class MakeHeap>
int run_main(int, char**, Main, MakeHeap, reads const& = {}) {
  return 0;
}

}  // namespace gpuheap::mpi

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

#define MPI_COMM_WORLD (gpuheap::mpi::the_world)
#define MPI_COMM_NULL (static_cast<MPI_Comm>(nullptr))
#define MPI_REQUEST_NULL (static_cast<MPI_Request>(nullptr))
#define MPI_STATUS_IGNORE (static_cast<MPI_Status*>(nullptr))
#define MPI_STATUSES_IGNORE (static_cast<MPI_Status*>(nullptr))
#define MPI_GROUP_NULL (static_cast<MPI_Group>(nullptr))
#define MPI_GROUP_EMPTY (static_cast<MPI_Group>(nullptr))
#define MPI_INFO_NULL (static_cast<MPI_Info>(nullptr))
#define MPI_BOTTOM (static_cast<void*>(nullptr))
#define MPI_MAX_PROCESSOR_NAME 256
#define MPI_MAX_ERROR_STRING 64
#define MPI_MAX_OBJECT_NAME 64
#define MPI_BSEND_OVERHEAD 128
#define MPI_IN_PLACE (reinterpret_cast<void*>(1))

inline constexpr int MPI_SUCCESS = 0, MPI_ERR_BUFFER = 1, MPI_ERR_COUNT = 2, MPI_ERR_TYPE = 3, MPI_ERR_TAG = 4, MPI_ERR_COMM = 5,
                     MPI_ERR_RANK = 6, MPI_ERR_REQUEST = 7, MPI_ERR_ROOT = 8, MPI_ERR_OP = 9, MPI_ERR_ARG = 10, MPI_ERR_TRUNCATE = 11,
                     MPI_ERR_IN_STATUS = 12, MPI_ERR_NO_MEM = 13, MPI_ERR_OTHER = 14, MPI_ANY_SOURCE = -1, MPI_ANY_TAG = -1,
                     MPI_PROC_NULL = -2, MPI_UNDEFINED = -32766, MPI_THREAD_SINGLE = 0, MPI_THREAD_FUNNELED = 1, MPI_THREAD_SERIALIZED = 2,
                     MPI_THREAD_MULTIPLE = 3, MPI_IDENT = 0, MPI_CONGRUENT = 1, MPI_SIMILAR = 2, MPI_UNEQUAL = 3, MPI_ORDER_C = 0,
                     MPI_ORDER_FORTRAN = 1, MPI_CART = 1, MPI_COMM_TYPE_SHARED = 1, MPI_VERSION = 3, MPI_SUBVERSION = 1;
inline constexpr MPI_Op MPI_OP_NULL = MPI_Op{0}, MPI_SUM = MPI_Op{1}, MPI_PROD = MPI_Op{2}, MPI_MAX = MPI_Op{3}, MPI_MIN = MPI_Op{4},
                        MPI_LAND = MPI_Op{5}, MPI_LOR = MPI_Op{6}, MPI_LXOR = MPI_Op{7}, MPI_BAND = MPI_Op{8}, MPI_BOR = MPI_Op{9},
                        MPI_BXOR = MPI_Op{10}, MPI_MAXLOC = MPI_Op{11}, MPI_MINLOC = MPI_Op{12};
inline constexpr MPI_Datatype MPI_DATATYPE_NULL = MPI_Datatype{0}, MPI_CHAR = MPI_Datatype{1}, MPI_SIGNED_CHAR = MPI_Datatype{2},
                              MPI_UNSIGNED_CHAR = MPI_Datatype{3}, MPI_BYTE = MPI_Datatype{4}, MPI_SHORT = MPI_Datatype{5},
                              MPI_UNSIGNED_SHORT = MPI_Datatype{6}, MPI_INT = MPI_Datatype{7}, MPI_UNSIGNED = MPI_Datatype{8},
                              MPI_LONG = MPI_Datatype{9}, MPI_UNSIGNED_LONG = MPI_Datatype{10}, MPI_LONG_LONG = MPI_Datatype{11},
                              MPI_LONG_LONG_INT = MPI_Datatype{11}, MPI_UNSIGNED_LONG_LONG = MPI_Datatype{12}, MPI_FLOAT = MPI_Datatype{13},
                              MPI_DOUBLE = MPI_Datatype{14}, MPI_C_BOOL = MPI_Datatype{15}, MPI_INT8_T = MPI_Datatype{16},
                              MPI_UINT8_T = MPI_Datatype{17}, MPI_INT16_T = MPI_Datatype{18}, MPI_UINT16_T = MPI_Datatype{19},
                              MPI_INT32_T = MPI_Datatype{20}, MPI_UINT32_T = MPI_Datatype{21}, MPI_INT64_T = MPI_Datatype{22},
                              MPI_UINT64_T = MPI_Datatype{23}, MPI_FLOAT_INT = MPI_Datatype{24}, MPI_DOUBLE_INT = MPI_Datatype{25},
                              MPI_LONG_INT = MPI_Datatype{26}, MPI_2INT = MPI_Datatype{27}, MPI_SHORT_INT = MPI_Datatype{28},
                              MPI_PACKED = MPI_Datatype{29};
inline constexpr MPI_Errhandler MPI_ERRORS_ARE_FATAL = MPI_Errhandler{1}, MPI_ERRORS_RETURN = MPI_Errhandler{2};

#define GPUHEAP_STUB __attribute__((device))
#include "../../mpi/calls.h"
