// A library that finds the next function of a name after its own, as interposers do: dlsym must see this library as its caller.

#include <dlfcn.h>

extern "C" int putw(int, void*) { return -7; }
extern "C" int next_is_another() {
  void* const next = dlsym(RTLD_NEXT, "putw");
  return next != nullptr && next != reinterpret_cast<void*>(&putw) ? 1 : 0;
}
