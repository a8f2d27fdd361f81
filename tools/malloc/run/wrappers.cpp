// One wrapper for each row of the table of entry points, and the facts about this library that tools/interposer needs.

#include <pthread.h>

#include <array>
#include <type_traits>

#include "handlers.hpp"
#include "settings.hpp"
#include "tools/interposer/inside.hpp"

namespace gpuheap::unchanged {

namespace {

using interpose::entry_point;

constexpr std::array<entry_point, num_rows> rows{{
#define GPUHEAP_RUN_ROW(symbol, base, version, suffix, handler) {#symbol, #base, version, sizeof(#suffix) > 1},
    GPUHEAP_RUN_ENTRY_POINTS(GPUHEAP_RUN_ROW)
#undef GPUHEAP_RUN_ROW
}};

template <row Row, class Handler, class Signature>
struct wrapper;

template <row Row, class Handler, class... Arguments>
struct wrapper<Row, Handler, CUresult (*)(Arguments...)> {
  static CUresult call(Arguments... arguments) {
    auto const function = real<Row>();
    if (function == nullptr) return CUDA_ERROR_NOT_FOUND;
    if (interpose::depth > 0 || !configured().on()) return function(arguments...);
    interpose::inside const here;
    return Handler::template run<Row>(function, arguments...);
  }
};

template <row Row, class Handler>
typename signature<Row>::type address() {
  return &wrapper<Row, Handler, typename signature<Row>::type>::call;
}

void* const wrappers[num_rows] = {
#define GPUHEAP_RUN_ROW(symbol, base, version, suffix, handler) reinterpret_cast<void*>(address<row::symbol, handlers::handler>()),
    GPUHEAP_RUN_ENTRY_POINTS(GPUHEAP_RUN_ROW)
#undef GPUHEAP_RUN_ROW
};

void in_child() {
  forget_served_after_fork();
  forget_times_after_fork();
}

// Makes no driver call and opens no file, because the library is also loaded into shells, compilers and wrappers.
__attribute__((constructor)) void loaded() {
  if (configured().on()) pthread_atfork(nullptr, nullptr, in_child);
}

}  // namespace

bool for_thread_streams(row which) { return rows[static_cast<std::size_t>(which)].per_thread; }

}  // namespace gpuheap::unchanged

gpuheap::interpose::interposed_library const& gpuheap::interpose::this_library() {
  static interposed_library const library{unchanged::rows, unchanged::wrappers, [] { return unchanged::configured().on(); },
                                          [](std::size_t) {}};
  return library;
}

// The driver's symbols, for programs linked with libcuda: the dynamic linker finds these first. Each symbol is resolved at load time to its
// row's wrapper.
#define GPUHEAP_RUN_ROW(symbol, base, version, suffix, handler)                                                                            \
  extern "C" {                                                                                                                             \
  static PFN_##base##_v##version##suffix gpuheap_resolve_##symbol() {                                                                      \
    using gpuheap::unchanged::row;                                                                                                         \
    return gpuheap::unchanged::address<row::symbol, gpuheap::unchanged::handlers::handler>();                                              \
  }                                                                                                                                        \
  __attribute__((visibility("default"), ifunc("gpuheap_resolve_" #symbol))) std::remove_pointer_t<PFN_##base##_v##version##suffix> symbol; \
  }
GPUHEAP_RUN_ENTRY_POINTS(GPUHEAP_RUN_ROW)
#undef GPUHEAP_RUN_ROW
