// The C++ library's <math.h> brings std::lerp into the global namespace as of C++20, where programs have a lerp of their own; nvcc tells
// the two apart, and Clang does not. That one name is left where it is.
#if !defined(__cplusplus) || __cplusplus <= 201703L || defined(_GLIBCXX_INCLUDE_NEXT_C_HEADERS)
#include_next <math.h>
#else
#include <cmath>
namespace std {
void gpuheap_stub_lerp();
}
#define lerp gpuheap_stub_lerp
#include_next <math.h>
#undef lerp
#endif
