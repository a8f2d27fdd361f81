// Every entry point of the interposer's table that the double does not implement answers "not supported". No driver header here: its types
// do not matter.

#include "tools/host/entry_table.hpp"

extern "C" {
int driver_double_unsupported() { return 801; }  // CUDA_ERROR_NOT_SUPPORTED
#define GPUHEAP_ROW(symbol, base, version, suffix, handler) __attribute__((weak, alias("driver_double_unsupported"))) int symbol();
GPUHEAP_ENTRY_POINTS(GPUHEAP_ROW)
#undef GPUHEAP_ROW
}
