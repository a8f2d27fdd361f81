// The values that MPI calls take and return: datatypes, operations, error classes, wildcards, statuses. Host and device; no state.
//
// Their meanings are those of the MPI standard, version 3.1. Their numbers are this library's own.
#pragma once

#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

// Predefined datatypes. names.hpp has their names in MPI. Any other value is a derived datatype: the address of a type_layout
// (datatypes.hpp).
enum class datatype : simt::uintptr_t {
  null,
  char_type,
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float32,
  float64,
  boolean,
  byte,
  float_int,
  double_int,
  long_int,
  two_int,
  short_int,
  packed,
  num_predefined,
};

// A value and its index: an element for the operations min_loc and max_loc.
template <class T>
struct located {
  T value;
  int index;
};

// The bytes of an element of a predefined datatype; 0 if the value is not one.
[[nodiscard]] GPUHEAP_HD constexpr simt::size_t bytes_of_predefined(datatype type) {
  switch (type) {
    case datatype::char_type:
    case datatype::int8:
    case datatype::uint8:
    case datatype::boolean:
    case datatype::byte:
    case datatype::packed:
      return 1;
    case datatype::int16:
    case datatype::uint16:
      return 2;
    case datatype::int32:
    case datatype::uint32:
    case datatype::float32:
      return 4;
    case datatype::int64:
    case datatype::uint64:
    case datatype::float64:
      return 8;
    case datatype::float_int:
      return sizeof(located<float>);
    case datatype::double_int:
      return sizeof(located<double>);
    case datatype::long_int:
      return sizeof(located<long>);
    case datatype::two_int:
      return sizeof(located<int>);
    case datatype::short_int:
      return sizeof(located<short>);
    case datatype::null:
    case datatype::num_predefined:
      break;
  }
  return 0;
}

// Predefined operations. All of them but `replace` are reductions, which are associative and commutative, except for the rounding of
// floating-point numbers. `replace` is defined for no datatype (is_defined()). Any other value is an operation that the program defines:
// the address of a user_operation (operations.hpp).
enum class operation : simt::uintptr_t {
  null,
  sum,
  prod,
  max,
  min,
  land,
  lor,
  lxor,
  band,
  bor,
  bxor,
  max_loc,
  min_loc,
  replace,
  num_predefined
};

// Error classes. A call returns its error's class if the error handler of the communicator is `return_`. Otherwise the first error ends all
// ranks.
enum error_class : int {
  success = 0,
  err_buffer,
  err_count,
  err_type,
  err_tag,
  err_comm,
  err_rank,
  err_request,
  err_root,
  err_op,
  err_arg,
  err_truncate,   // a message is longer than the buffer of its receive: the buffer has the part that fits, and the rest is lost
  err_in_status,  // one of several requests failed: the statuses say which
  err_no_mem,     // the heap has no memory for the message, the request, the datatype or the group of the call
  err_other,      // a call before init or after finalize, or a second init
};

// @brief The name of an error class in MPI, and a description. Host or device.
// @param code the class; any other number counts as err_other
// @return a text with static lifetime
[[nodiscard]] GPUHEAP_HD constexpr char const* words_of(int code) {
  switch (code) {
    case success:
      return "MPI_SUCCESS: no errors";
    case err_buffer:
      return "MPI_ERR_BUFFER: invalid buffer pointer";
    case err_count:
      return "MPI_ERR_COUNT: invalid count argument";
    case err_type:
      return "MPI_ERR_TYPE: invalid datatype";
    case err_tag:
      return "MPI_ERR_TAG: invalid tag";
    case err_comm:
      return "MPI_ERR_COMM: invalid communicator";
    case err_rank:
      return "MPI_ERR_RANK: invalid rank";
    case err_request:
      return "MPI_ERR_REQUEST: invalid request";
    case err_root:
      return "MPI_ERR_ROOT: invalid root";
    case err_op:
      return "MPI_ERR_OP: invalid reduce operation";
    case err_arg:
      return "MPI_ERR_ARG: invalid argument of some other kind";
    case err_truncate:
      return "MPI_ERR_TRUNCATE: message truncated";
    case err_in_status:
      return "MPI_ERR_IN_STATUS: error code in status";
    case err_no_mem:
      return "MPI_ERR_NO_MEM: out of memory";
    default:
      return "MPI_ERR_OTHER: known error not in list";
  }
}

// any_source and any_tag match every rank and tag. proc_null stands for no rank. `undefined` stands for no index, count or rank; as a color
// it says that a rank gets no communicator.
inline constexpr int any_source = -1;
inline constexpr int any_tag = -1;
inline constexpr int proc_null = -2;
inline constexpr int undefined = -32766;

// The status of a received or probed message. The first three members are MPI's; `bytes` is for get_count.
struct status {
  int MPI_SOURCE;
  int MPI_TAG;
  int MPI_ERROR;
  simt::size_t bytes;
};

// The effect of an error of a call on a communicator.
enum class error_handler : int {
  fatal,   // the first error ends all ranks, as abort() does
  return_  // the call returns the error class
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi
