#include <memory>

#include "heap_library.hpp"

#include <dlfcn.h>

#include "driver.hpp"
#include "heap_blocks.hpp"
#include "messages.hpp"
#include "settings.hpp"

namespace gpuheap::interpose {

namespace {

// The allocator's library has a CUDA runtime of its own, which looks up the driver's functions while this thread is inside a wrapper. So
// the runtime gets the driver's own functions, and its calls do not count as the program's.
heap_functions const* load(std::string* why) {
  std::string const& path = configured().heap_library;
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    char const* const said = dlerror();
    *why = said == nullptr ? path + " cannot be loaded" : said;
    return nullptr;
  }
  auto const entry = reinterpret_cast<heap_functions const* (*)()>(linker_dlsym(library, heap_entry_point));
  if (entry == nullptr || entry()->version != heap_interface_version) {
    *why = path + " is not a heap library of this version: build it again";
    return nullptr;
  }
  if (entry()->refusal != nullptr) {
    *why = std::string{"the allocator '"} + entry()->allocator + "' cannot serve: " + entry()->refusal;
    return nullptr;
  }
  return entry();
}

}  // namespace

std::unique_ptr<block_source> make_heap(std::uint64_t base, std::uint64_t bytes, std::string* why) {
  static std::string kept;
  static heap_functions const* const functions = load(&kept);
  if (functions == nullptr) {
    *why = kept;
    return nullptr;
  }
  heap_text said{};
  void* const heap = functions->make(reinterpret_cast<void*>(base), bytes, &said);
  if (heap == nullptr) {
    *why = said.words;
    return nullptr;
  }
  return std::make_unique<heap_blocks>(*functions, heap, base, bytes, &say);
}

}  // namespace gpuheap::interpose
