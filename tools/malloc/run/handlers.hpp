// The work around each driver call. A function's handler stands in its row of the table of entry points, gets the driver's own function as
// `real`, and makes the call.
#pragma once

#include <cstddef>
#include <exception>

#include "driver.hpp"
#include "served.hpp"
#include "substitute.hpp"
#include "times.hpp"
#include "tools/malloc/service.hpp"

namespace gpuheap::unchanged::handlers {

// cuGetProcAddress: if the function that the driver returns has a wrapper, the program gets the wrapper.
struct look_up {
  template <row Row, class Real, class... Status>
  static CUresult run(Real real, char const* base, void** function, int version, cuuint64_t flags, Status... status) {
    CUresult const result = real(base, function, version, flags, status...);
    if (result == CUDA_SUCCESS && base != nullptr && function != nullptr && *function != nullptr)
      *function = interpose::wrapper_for_lookup(base, *function);
    return result;
  }
};

// --- code: the driver gets linked code instead of the program's; if it does not load the linked code, it gets the program's

// Options of the PTX compiler apply to the program's PTX in the link. Loading linked code compiles nothing, so options through which the
// compiler returns values, such as a log, return empty ones.
template <class Load, class Otherwise, class Served>
CUresult load(substitute const& with, jit_options const& asked, Load load_linked, Otherwise load_own, Served served) {
  if (with.code != nullptr) {
    if (load_linked(with.code->data()) == CUDA_SUCCESS) {
      served();
      asked.answer_nothing();
      return CUDA_SUCCESS;
    }
    not_served("the driver does not load the linked code");
  }
  return load_own();
}

struct load_library_data {
  template <row Row, class Real>
  static CUresult run(Real real, CUlibrary* out, void const* code, CUjit_option* options, void** values, unsigned num, CUlibraryOption* own,
                      void** own_values, unsigned num_own) {
    jit_options const asked{num, options, values};
    return load(
        substitute_for(code, asked), asked,
        [&](void const* linked) { return real(out, linked, nullptr, nullptr, 0, own, own_values, num_own); },
        [&] { return real(out, code, options, values, num, own, own_values, num_own); }, [&] { served_library(*out); });
  }
};

struct load_library_file {
  template <row Row, class Real>
  static CUresult run(Real real, CUlibrary* out, char const* file, CUjit_option* options, void** values, unsigned num, CUlibraryOption* own,
                      void** own_values, unsigned num_own) {
    auto const from_data = unchanged::real<row::cuLibraryLoadData>();
    jit_options const asked{num, options, values};
    return load(
        from_data == nullptr ? substitute{} : substitute_for_file(file, asked), asked,
        [&](void const* linked) { return from_data(out, linked, nullptr, nullptr, 0, own, own_values, num_own); },
        [&] { return real(out, file, options, values, num, own, own_values, num_own); }, [&] { served_library(*out); });
  }
};

struct load_module_data {
  template <row Row, class Real, class... Options>
  static CUresult run(Real real, CUmodule* out, void const* image, Options... options) {
    auto const from_data = unchanged::real<row::cuModuleLoadData>();
    jit_options const asked{options...};
    return load(
        from_data == nullptr ? substitute{} : substitute_for(image, asked), asked,
        [&](void const* linked) { return from_data(out, linked); }, [&] { return real(out, image, options...); },
        [&] { served_module(*out); });
  }
};

struct load_module_file {
  template <row Row, class Real>
  static CUresult run(Real real, CUmodule* out, char const* file) {
    auto const from_data = unchanged::real<row::cuModuleLoadData>();
    return load(
        from_data == nullptr ? substitute{} : substitute_for_file(file, {}), {}, [&](void const* linked) { return from_data(out, linked); },
        [&] { return real(out, file); }, [&] { served_module(*out); });
  }
};

struct unload_library {
  template <row Row, class Real>
  static CUresult run(Real real, CUlibrary library) {
    forget_library(library);
    return real(library);
  }
};

struct unload_module {
  template <row Row, class Real>
  static CUresult run(Real real, CUmodule module) {
    forget_module(module);
    return real(module);
  }
};

// --- launches

// The stream that a call means. A null stream in the per-thread form of a function is CU_STREAM_PER_THREAD, a handle that every function
// accepts.
template <row Row>
CUstream stream_meant(CUstream named) {
  return named == nullptr && for_thread_streams(Row) ? CU_STREAM_PER_THREAD : named;
}

template <row Row, class Ask>
CUresult launch(CUstream named, Ask ask) {
  CUstream const stream = stream_meant<Row>(named);
  try {
    prepare_launch(stream);
  } catch (std::exception const&) {  // no host memory: the program's launch goes on
  }
  timed_launch timed{stream};
  CUresult const result = ask();
  timed.done(result == CUDA_SUCCESS);
  return result;
}

struct launch_kernel {
  template <row Row, class Real, class... Rest>
  static CUresult run(Real real, CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned x, unsigned y, unsigned z,
                      unsigned shared, CUstream stream, Rest... rest) {
    return launch<Row>(stream, [&] { return real(function, grid_x, grid_y, grid_z, x, y, z, shared, stream, rest...); });
  }
};

struct launch_configured {
  template <row Row, class Real, class... Rest>
  static CUresult run(Real real, CUlaunchConfig const* shape, Rest... rest) {
    return launch<Row>(shape == nullptr ? nullptr : shape->hStream, [&] { return real(shape, rest...); });
  }
};

struct launch_graph {
  template <row Row, class Real>
  static CUresult run(Real real, CUgraphExec graph, CUstream stream) {
    return launch<Row>(stream, [&] { return real(graph, stream); });
  }
};

// Captures. capture_begins() is called before the driver's function, so that no launch of another thread finds a count of 0 while the
// capture is open.
struct begin_capture {
  template <row Row, class Real, class... Arguments>
  static CUresult run(Real real, Arguments... arguments) {
    device_malloc::capture_begins();
    CUresult const result = real(arguments...);
    if (result != CUDA_SUCCESS) device_malloc::capture_ends();
    return result;
  }
};

struct end_capture {
  template <row Row, class Real>
  static CUresult run(Real real, CUstream stream, CUgraph* graph) {
    CUresult const result = real(stream, graph);
    bool const was_captured = result != CUDA_ERROR_ILLEGAL_STATE && result != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD &&
                              result != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (was_captured) device_malloc::capture_ends();
    return result;
  }
};

// Calls after which earlier launches have ended, so that their times can be read.
struct wait {
  template <row Row, class Real, class... Arguments>
  static CUresult run(Real real, Arguments... arguments) {
    CUresult const result = real(arguments...);
    collect_times();
    return result;
  }
};

// --- contexts

struct destroy_context {
  template <row Row, class Real>
  static CUresult run(Real real, CUcontext context) {
    context_ends(context);
    take_times_of(context);
    return real(context);
  }
};

struct reset_primary {
  template <row Row, class Real>
  static CUresult run(Real real, CUdevice device) {
    primary_ends(device);
    return real(device);
  }
};

}  // namespace gpuheap::unchanged::handlers
