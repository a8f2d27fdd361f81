#include "allocator.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

#include "program_places.hpp"
#include "settings.hpp"
#include "tools/interposer/inside.hpp"

namespace gpuheap::unchanged {

namespace {

// Loads the allocator's library, which has a CUDA runtime of its own. Every thread that calls that library has interpose::depth above 0. So
// the runtime finds the driver's own functions, and its calls of the driver do not count as the program's.
device_malloc::provider const* load() {
  std::string const& path = configured().provider;
  auto const refuse = [](std::string const& why) {
    say(why + ": the program runs with CUDA's malloc");
    return nullptr;
  };
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    char const* const said = dlerror();
    return refuse(said == nullptr ? path + " cannot be loaded" : said);
  }
  auto const entry = reinterpret_cast<device_malloc::provider_entry>(interpose::linker_dlsym(library, device_malloc::provider_entry_point));
  if (entry == nullptr || entry() == nullptr || entry()->version != device_malloc::provider_version) {
    return refuse(path + " is not a provider of this version of gpuheap, build it again");
  }
  if (entry()->refusal != nullptr)
    return refuse(std::string{"the allocator '"} + entry()->allocator + "' cannot serve: " + entry()->refusal);
  return entry();
}

pid_t owner = 0;  // the process that has the heaps; a child of fork() has no heaps

// Runs at exit, before the driver's own handler, because it is registered after the driver was initialised.
void at_exit() {
  if (getpid() != owner) return;
  interpose::inside const here;
  heaps().process_ends();
}

}  // namespace

device_malloc::provider const* provider() {
  static device_malloc::provider const* const only = load();
  return only;
}

serving_code const& serving() {
  static serving_code const* const only = [] {
    auto const* const table = provider();
    return new serving_code{{static_cast<std::byte const*>(table->image), table->image_bytes}, device_malloc::state_name};
  }();
  return *only;
}

device_malloc::driver_calls const& calls_for_heaps() {
  static device_malloc::driver_calls const found = [] {
    driver_calls const& calls = driver();
    return device_malloc::driver_calls{.context_current = calls.context_current,
                                       .context_id = calls.context_id,
                                       .context_limit = calls.context_limit,
                                       .context_device = calls.context_device,
                                       .device_name = calls.device_name,
                                       .push_context = calls.context_push,
                                       .pop_context = calls.context_pop,
                                       .primary_state = calls.primary_state,
                                       .primary_retain = calls.primary_retain,
                                       .primary_release = calls.primary_release,
                                       .is_capturing = calls.stream_captures,
                                       .capture_mode = calls.capture_mode,
                                       .thread_begins = [] { ++interpose::depth; },
                                       .text_of_place = text_of_place};
  }();
  return found;
}

device_malloc::service& heaps() {
  static device_malloc::service* const only = [] {
    // Never destroyed, since calls come after static destruction too.
    auto* const made = new device_malloc::service{*provider(), calls_for_heaps()};
    owner = getpid();
    std::atexit(at_exit);
    return made;
  }();
  return *only;
}

}  // namespace gpuheap::unchanged
