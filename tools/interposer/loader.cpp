// The ways in which programs reach the driver. The CUDA runtime (static or shared) and every binding ask dlsym for cuGetProcAddress or for
// functions by name. Programs that are linked with libcuda call this library's exports instead.

#include <dlfcn.h>

#include "entry_points.hpp"

namespace gpuheap::interpose {

namespace {

struct answer {
  bool stands;  // false: the program gets dlsym's own answer
  void* wrapper;
};

// The answer for a program that looks up a symbol of the driver. The result comes in registers, because the last call of dlsym can only be
// a jump if no pointer to dlsym's frame exists.
__attribute__((noinline)) answer answer_for(void* handle, char const* name) {
  if (!this_library().on()) return {false, nullptr};
  // A real handle is searched as it is. Pseudo handles are relative to the caller, which is not this code, so RTLD_NEXT is searched like
  // RTLD_DEFAULT. If a pseudo handle finds a symbol of the driver, the program is linked with libcuda, and the wrapper looks the function
  // up in the driver itself.
  void* const found = linker_dlsym(handle == RTLD_NEXT ? RTLD_DEFAULT : handle, name);
  if (found == nullptr) return {false, nullptr};
  void* const wrapper = wrapper_for_symbol(name, found);
  return {wrapper != found, wrapper};
}

}  // namespace

}  // namespace gpuheap::interpose

// dlsym with a pseudo handle looks at its return address to find the caller. So for every name that is not the driver's, this function must
// jump to the original. The compiler makes a jump of the call because it is the last thing that the function does (tests/host checks it).
extern "C" __attribute__((visibility("default"), optimize("O2"))) void* dlsym(void* handle, char const* name) noexcept {
  if (name[0] == 'c' && name[1] == 'u') {
    auto const answer = gpuheap::interpose::answer_for(handle, name);
    if (answer.stands) return answer.wrapper;
  }
  return gpuheap::interpose::linker_dlsym(handle, name);
}
