// From C++20 on, the C++ library's <math.h> declares std::lerp in the global namespace as well, where programs have a lerp of their own.
// nvcc distinguishes the two, and Clang does not. This header keeps std::lerp out of the global namespace.
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
