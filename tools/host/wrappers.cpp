// One wrapper for each row of the table of entry points: it takes the call stack and the time, has the row's handler make the call, and
// appends the event.

#include <algorithm>
#include <limits>
#include <type_traits>

#include "driver.hpp"
#include "facts.hpp"
#include "settings.hpp"
#include "tools/interposer/inside.hpp"
#include "transfer_handlers.hpp"

namespace gpuheap::interpose {

namespace {

template <row Row, class Handler, class Signature>
struct wrapper;

template <row Row, class Handler, class... Arguments>
struct wrapper<Row, Handler, CUresult (*)(Arguments...)> {
  static CUresult call(Arguments... arguments) {
    auto const function = real<Row>();
    if (function == nullptr) return CUDA_ERROR_NOT_FOUND;
    if (depth > 0 || !configured().on) return function(arguments...);
    inside const here;
    record_facts_once();
    handlers::call made;
    made.keep = configured().events;
    if constexpr (Handler::use != handlers::stack_use::never) {
      if (made.keep || Handler::use == handlers::stack_use::always) made.from = where_from();
    }
    made.record.entry = static_cast<std::uint16_t>(Row);
    made.record.stack = made.from.stack;
    made.record.device = no_device;
    made.record.begin_ns = now_ns();
    CUresult result = CUDA_SUCCESS;
    {
      device_work work{Handler::works};
      result = Handler::run(made, function, arguments...);
      work.was_in(made.record.stream, of_thread_stream(Row));
    }
    if (made.keep) {
      std::uint64_t const took_ns = now_ns() - made.record.begin_ns;
      made.record.duration_ns = static_cast<std::uint32_t>(std::min<std::uint64_t>(took_ns, std::numeric_limits<std::uint32_t>::max()));
      made.record.result = static_cast<std::int32_t>(result);
      append(made.record);
    }
    return result;
  }
};

template <row Row, class Handler>
typename signature<Row>::type address() {
  return &wrapper<Row, Handler, typename signature<Row>::type>::call;
}

}  // namespace

void* const wrappers[num_rows] = {
#define GPUHEAP_ROW(symbol, base, version, suffix, handler) reinterpret_cast<void*>(address<row::symbol, handlers::handler>()),
    GPUHEAP_ENTRY_POINTS(GPUHEAP_ROW)
#undef GPUHEAP_ROW
};

}  // namespace gpuheap::interpose

// The driver's symbols, for programs linked with libcuda: the dynamic linker finds these first. Each symbol is resolved at load time to its
// row's wrapper.
#define GPUHEAP_ROW(symbol, base, version, suffix, handler)                                                                                \
  extern "C" {                                                                                                                             \
  static PFN_##base##_v##version##suffix gpuheap_resolve_##symbol() {                                                                      \
    using gpuheap::interpose::row;                                                                                                         \
    return gpuheap::interpose::address<row::symbol, gpuheap::interpose::handlers::handler>();                                              \
  }                                                                                                                                        \
  __attribute__((visibility("default"), ifunc("gpuheap_resolve_" #symbol))) std::remove_pointer_t<PFN_##base##_v##version##suffix> symbol; \
  }
GPUHEAP_ENTRY_POINTS(GPUHEAP_ROW)
#undef GPUHEAP_ROW
