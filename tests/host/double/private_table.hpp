// The table that the double gives a runtime through cuGetExportTable, as the driver gives the CUDA runtime tables of functions without
// names.
#pragma once

#include <cudaTypedefs.h>

#include <cstddef>

namespace driver_double {

inline constexpr CUuuid private_table_id{{'d', 'r', 'i', 'v', 'e', 'r', ' ', 'd', 'o', 'u', 'b', 'l', 'e', ' ', '0', '1'}};

struct private_table {
  std::size_t bytes;
  CUresult (*primary)(CUcontext*, CUdevice);  // the handle, retained or not
  CUresult (*set_current)(CUcontext);
  CUresult (*reset)(CUdevice);
};

}  // namespace driver_double
