/* The header that C programs get in place of <mpi.h>: the calls of gpuheap/mpi, and no others (docs/mpi.md). */
#pragma once

typedef struct gpuheap_mpi_communicator* MPI_Comm;
typedef struct gpuheap_mpi_datatype* MPI_Datatype;
typedef struct gpuheap_mpi_operation* MPI_Op;
typedef struct gpuheap_mpi_request* MPI_Request;
typedef struct gpuheap_mpi_error_handler* MPI_Errhandler;
typedef struct gpuheap_mpi_group* MPI_Group;
typedef struct gpuheap_mpi_info* MPI_Info;
typedef long MPI_Aint;
typedef void MPI_User_function(void*, void*, int*, MPI_Datatype*);
typedef struct {
  int MPI_SOURCE;
  int MPI_TAG;
  int MPI_ERROR;
} MPI_Status;

#define MPI_COMM_WORLD ((MPI_Comm)1)
#define MPI_COMM_NULL ((MPI_Comm)0)
#define MPI_REQUEST_NULL ((MPI_Request)0)
#define MPI_STATUS_IGNORE ((MPI_Status*)0)
#define MPI_STATUSES_IGNORE ((MPI_Status*)0)
#define MPI_GROUP_NULL ((MPI_Group)0)
#define MPI_GROUP_EMPTY ((MPI_Group)0)
#define MPI_INFO_NULL ((MPI_Info)0)
#define MPI_BOTTOM ((void*)0)
#define MPI_MAX_PROCESSOR_NAME 256
#define MPI_MAX_ERROR_STRING 64
#define MPI_MAX_OBJECT_NAME 64
#define MPI_BSEND_OVERHEAD 128
#define MPI_IN_PLACE ((void*)1)
#define MPI_ERRORS_ARE_FATAL ((MPI_Errhandler)1)
#define MPI_ERRORS_RETURN ((MPI_Errhandler)2)

enum {
  MPI_SUCCESS,
  MPI_ERR_BUFFER,
  MPI_ERR_COUNT,
  MPI_ERR_TYPE,
  MPI_ERR_TAG,
  MPI_ERR_COMM,
  MPI_ERR_RANK,
  MPI_ERR_REQUEST,
  MPI_ERR_ROOT,
  MPI_ERR_OP,
  MPI_ERR_ARG,
  MPI_ERR_TRUNCATE,
  MPI_ERR_IN_STATUS,
  MPI_ERR_NO_MEM,
  MPI_ERR_OTHER,
  MPI_ANY_SOURCE = -1,
  MPI_ANY_TAG = -1,
  MPI_PROC_NULL = -2,
  MPI_UNDEFINED = -32766,
  MPI_THREAD_SINGLE = 0,
  MPI_THREAD_FUNNELED,
  MPI_THREAD_SERIALIZED,
  MPI_THREAD_MULTIPLE,
  MPI_IDENT = 0,
  MPI_CONGRUENT,
  MPI_SIMILAR,
  MPI_UNEQUAL,
  MPI_ORDER_C = 0,
  MPI_ORDER_FORTRAN,
  MPI_CART = 1,
  MPI_COMM_TYPE_SHARED = 1,
  MPI_VERSION = 3,
  MPI_SUBVERSION = 1
};

#define MPI_OP_NULL ((MPI_Op)0)
#define MPI_SUM ((MPI_Op)1)
#define MPI_PROD ((MPI_Op)2)
#define MPI_MAX ((MPI_Op)3)
#define MPI_MIN ((MPI_Op)4)
#define MPI_LAND ((MPI_Op)5)
#define MPI_LOR ((MPI_Op)6)
#define MPI_LXOR ((MPI_Op)7)
#define MPI_BAND ((MPI_Op)8)
#define MPI_BOR ((MPI_Op)9)
#define MPI_BXOR ((MPI_Op)10)
#define MPI_MAXLOC ((MPI_Op)11)
#define MPI_MINLOC ((MPI_Op)12)

#define MPI_DATATYPE_NULL ((MPI_Datatype)0)
#define MPI_CHAR ((MPI_Datatype)1)
#define MPI_SIGNED_CHAR ((MPI_Datatype)2)
#define MPI_UNSIGNED_CHAR ((MPI_Datatype)3)
#define MPI_BYTE ((MPI_Datatype)4)
#define MPI_SHORT ((MPI_Datatype)5)
#define MPI_UNSIGNED_SHORT ((MPI_Datatype)6)
#define MPI_INT ((MPI_Datatype)7)
#define MPI_UNSIGNED ((MPI_Datatype)8)
#define MPI_LONG ((MPI_Datatype)9)
#define MPI_UNSIGNED_LONG ((MPI_Datatype)10)
#define MPI_LONG_LONG ((MPI_Datatype)11)
#define MPI_LONG_LONG_INT ((MPI_Datatype)11)
#define MPI_UNSIGNED_LONG_LONG ((MPI_Datatype)12)
#define MPI_FLOAT ((MPI_Datatype)13)
#define MPI_DOUBLE ((MPI_Datatype)14)
#define MPI_C_BOOL ((MPI_Datatype)15)
#define MPI_INT8_T ((MPI_Datatype)16)
#define MPI_UINT8_T ((MPI_Datatype)17)
#define MPI_INT16_T ((MPI_Datatype)18)
#define MPI_UINT16_T ((MPI_Datatype)19)
#define MPI_INT32_T ((MPI_Datatype)20)
#define MPI_UINT32_T ((MPI_Datatype)21)
#define MPI_INT64_T ((MPI_Datatype)22)
#define MPI_UINT64_T ((MPI_Datatype)23)
#define MPI_FLOAT_INT ((MPI_Datatype)24)
#define MPI_DOUBLE_INT ((MPI_Datatype)25)
#define MPI_LONG_INT ((MPI_Datatype)26)
#define MPI_2INT ((MPI_Datatype)27)
#define MPI_SHORT_INT ((MPI_Datatype)28)
#define MPI_PACKED ((MPI_Datatype)29)

#include "calls.h"
