// Handlers of copies, sets and launches. handlers.hpp says what a handler is.
#pragma once

#include <tuple>

#include "handlers.hpp"

namespace gpuheap::interpose::handlers {

template <class To, class From>
void note_copy(call& c, direction which, To to, From from, std::size_t bytes) {
  c.is(kind::copy);
  c.record.detail = static_cast<std::uint16_t>(which);
  c.record.address = number(to);
  c.record.other = number(from);
  c.record.bytes = bytes;
}

// A copy with a stream or without one.
template <direction Which>
struct copy : sited {
  static constexpr device_use works = Which == direction::device_to_host ? device_use::none : device_use::in_stream;
  template <class Real, class To, class From>
  static CUresult run(call& c, Real real, To to, From from, std::size_t bytes) {
    note_copy(c, Which, to, from, bytes);
    bool const download = Which == direction::device_to_host && merging_on();
    bool const of_thread = of_thread_stream(static_cast<row>(c.record.entry));
    if (download && !of_thread && download_merged(number(to), number(from), bytes)) {
      c.record.flags |= flag_elided;
      return CUDA_SUCCESS;
    }
    CUresult const result = real(to, from, bytes);
    if (result == CUDA_SUCCESS && pools_on()) pool_copied(c.record.address, bytes, nullptr);
    if (result == CUDA_SUCCESS && download) download_made(number(to), number(from), bytes, of_thread);
    return result;
  }
  template <class Real, class To, class From>
  static CUresult run(call& c, Real real, To to, From from, std::size_t bytes, CUstream stream) {
    note_copy(c, Which, to, from, bytes);
    c.in(stream);
    CUresult const result = real(to, from, bytes, stream);
    if (result == CUDA_SUCCESS && pools_on()) pool_copied(c.record.address, bytes, stream);
    return result;
  }
};
using copy_any = copy<direction::by_address>;
using copy_to_device = copy<direction::host_to_device>;
using copy_to_host = copy<direction::device_to_host>;
using copy_on_device = copy<direction::device_to_device>;

struct copy_peer : works_in_stream {
  template <class Real, class... Stream>
  static CUresult run(call& c, Real real, CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, std::size_t bytes,
                      Stream... stream) {
    note_copy(c, direction::peer, to, from, bytes);
    (c.in(stream), ...);
    return real(to, to_context, from, from_context, bytes, stream...);
  }
};

template <class Side>
constexpr direction direction_to_array = direction::device_to_device;
template <>
inline constexpr direction direction_to_array<void const*> = direction::host_to_device;

struct copy_to_array : works_in_stream {
  template <class Real, class From, class... Stream>
  static CUresult run(call& c, Real real, CUarray to, std::size_t at, From from, std::size_t bytes, Stream... stream) {
    note_copy(c, direction_to_array<From>, to, from, bytes);
    c.record.flags |= flag_array;
    (c.in(stream), ...);
    return real(to, at, from, bytes, stream...);
  }
};

struct copy_from_array : works_in_stream {
  template <class Real, class... Stream>
  static CUresult run(call& c, Real real, void* to, CUarray from, std::size_t at, std::size_t bytes, Stream... stream) {
    note_copy(c, direction::device_to_host, to, from, bytes);
    c.record.flags |= flag_array;
    (c.in(stream), ...);
    return real(to, from, at, bytes, stream...);
  }
  template <class Real>
  static CUresult run(call& c, Real real, CUdeviceptr to, CUarray from, std::size_t at, std::size_t bytes) {
    note_copy(c, direction::device_to_device, to, from, bytes);
    c.record.flags |= flag_array;
    return real(to, from, at, bytes);
  }
  template <class Real>
  static CUresult run(call& c, Real real, CUarray to, std::size_t to_at, CUarray from, std::size_t from_at, std::size_t bytes) {
    note_copy(c, direction::device_to_device, to, from, bytes);
    c.record.flags |= flag_array;
    return real(to, to_at, from, from_at, bytes);
  }
};

// Copies of rectangles and boxes, which a struct of the driver describes.
struct copy_described : works_in_stream {
  template <class Description>
  static void note(call& c, Description const& wanted) {
    std::uint64_t depth = 1;
    if constexpr (requires { wanted.Depth; }) depth = wanted.Depth;
    // Reads the member of each side that its memory type selects, as the driver does.
    auto const side = [](CUmemorytype type, void const* host, CUdeviceptr device, CUarray array) -> std::uint64_t {
      if (type == CU_MEMORYTYPE_HOST) return number(host);
      if (type == CU_MEMORYTYPE_ARRAY) return number(array);
      return device;
    };
    auto const to_type = wanted.dstMemoryType;
    auto const from_type = wanted.srcMemoryType;
    bool const to_host = to_type == CU_MEMORYTYPE_HOST;
    bool const from_host = from_type == CU_MEMORYTYPE_HOST;
    direction which = from_host ? (to_host ? direction::host_to_host : direction::host_to_device)
                                : (to_host ? direction::device_to_host : direction::device_to_device);
    if (to_type == CU_MEMORYTYPE_UNIFIED || from_type == CU_MEMORYTYPE_UNIFIED) which = direction::by_address;
    if constexpr (requires { wanted.dstContext; }) which = direction::peer;
    note_copy(c, which, side(to_type, wanted.dstHost, wanted.dstDevice, wanted.dstArray),
              side(from_type, wanted.srcHost, wanted.srcDevice, wanted.srcArray), wanted.WidthInBytes * wanted.Height * depth);
    if (to_type == CU_MEMORYTYPE_ARRAY || from_type == CU_MEMORYTYPE_ARRAY) c.record.flags |= flag_array;
  }
  template <class Real, class Description, class... Stream>
  static CUresult run(call& c, Real real, Description const* wanted, Stream... stream) {
    c.is(kind::copy);
    if (wanted != nullptr) note(c, *wanted);
    (c.in(stream), ...);
    return real(wanted, stream...);
  }
};

// Each copy of a batch is an event. The first event has the duration of the whole call, and the others have none.
struct copy_batch : works_in_stream {
  template <class Real, class... Rest>
  static CUresult run(call& c, Real real, CUdeviceptr* to, CUdeviceptr* from, std::size_t* bytes, std::size_t num, Rest... rest) {
    c.is(kind::copy);
    if (num > 0) note_copy(c, direction::by_address, to[0], from[0], bytes[0]);
    c.in(std::get<sizeof...(Rest) - 1>(std::tie(rest...)));
    CUresult const result = real(to, from, bytes, num, rest...);
    c.record.result = static_cast<std::int32_t>(result);
    for (std::size_t i = 1; c.keep && i < num; ++i) {
      call further = c;
      note_copy(further, direction::by_address, to[i], from[i], bytes[i]);
      append(further.record);
    }
    return result;
  }
};

struct set_row : works_in_stream {
  template <class Real, class Value, class... Stream>
  static CUresult run(call& c, Real real, CUdeviceptr to, Value value, std::size_t num, Stream... stream) {
    c.is(kind::set);
    c.record.address = to;
    c.record.bytes = num * sizeof(Value);
    (c.in(stream), ...);
    return real(to, value, num, stream...);
  }
};

struct set_rows : works_in_stream {
  template <class Real, class Value, class... Stream>
  static CUresult run(call& c, Real real, CUdeviceptr to, std::size_t pitch, Value value, std::size_t width, std::size_t height,
                      Stream... stream) {
    c.is(kind::set);
    c.record.address = to;
    c.record.bytes = width * height * sizeof(Value);
    (c.in(stream), ...);
    return real(to, pitch, value, width, height, stream...);
  }
};

struct name_kernel : unsited {
  template <class Real, class Function, class Module>
  static CUresult run(call& c, Real real, Function* out, Module module, char const* name) {
    bool const traced = c.keep;
    c.keep = false;
    CUresult const result = real(out, module, name);
    if (result == CUDA_SUCCESS && traced && name != nullptr) kernel_named(number(*out), name);
    return result;
  }
};

struct launch : works_in_stream {
  static void note(call& c, CUfunction kernel, std::uint64_t blocks, std::uint64_t threads, std::uint64_t shared_bytes, CUstream stream) {
    c.is(kind::launch);
    c.record.address = number(kernel);
    c.record.other = blocks;
    c.record.detail = static_cast<std::uint16_t>(threads);
    c.record.bytes = shared_bytes;
    c.record.stream = number(stream);
    if (c.keep) kernel_launched(c.record.address);
  }
  template <class Real, class... Rest>
  static CUresult run(call& c, Real real, CUfunction kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared_bytes, CUstream stream, Rest... rest) {
    note(c, kernel, std::uint64_t{gx} * gy * gz, std::uint64_t{bx} * by * bz, shared_bytes, stream);
    return real(kernel, gx, gy, gz, bx, by, bz, shared_bytes, stream, rest...);
  }
  template <class Real>
  static CUresult run(call& c, Real real, CUlaunchConfig const* config, CUfunction kernel, void** parameters, void** extra) {
    c.is(kind::launch);
    if (config != nullptr) {
      note(c, kernel, std::uint64_t{config->gridDimX} * config->gridDimY * config->gridDimZ,
           std::uint64_t{config->blockDimX} * config->blockDimY * config->blockDimZ, config->sharedMemBytes, config->hStream);
    }
    return real(config, kernel, parameters, extra);
  }
};

}  // namespace gpuheap::interpose::handlers
