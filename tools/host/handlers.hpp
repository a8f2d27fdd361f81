// The handlers: each does what this library does when the program calls one function of the driver. If a pool serves the call, the handler
// does not call the driver; otherwise it does, through `real`. In both cases it fills in the event for the trace. The row of a function in
// the table of entry points names its handler. The handlers that use allocate() and release() ask the pools first.
#pragma once

#include <atomic>

#include "call_stack.hpp"
#include "driver.hpp"
#include "kernels.hpp"
#include "merging.hpp"
#include "pool_service.hpp"
#include "trace_file.hpp"

namespace gpuheap::interpose::handlers {

// The first argument of a handler: the event to fill in, and the call site, if the call's stack was walked.
struct call {
  event record{};
  call_site from;
  bool keep = true;  // whether the event goes into the trace

  void is(interpose::kind what) { record.kind = static_cast<std::uint16_t>(what); }
  void in(CUstream stream) {
    record.stream = reinterpret_cast<std::uint64_t>(stream);
    record.flags |= flag_async;
  }
};

inline std::uint64_t number(void const* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }
inline std::uint64_t number(CUdeviceptr pointer) { return pointer; }
inline void set(void** out, std::uint64_t address) { *out = reinterpret_cast<void*>(address); }
inline void set(CUdeviceptr* out, std::uint64_t address) { *out = address; }
inline std::uint8_t device_number() {
  int const device = context_used();
  return device < 0 || device >= no_device ? no_device : static_cast<std::uint8_t>(device);
}

// The calls whose stack is walked. for_trace: those whose event goes into the trace. always: all of them, because pools serve a request by
// its call site. never: none.
enum class stack_use { for_trace, always, never };
struct sited {
  static constexpr stack_use use = stack_use::for_trace;
  static constexpr device_use works = device_use::none;
};
struct placed : sited {
  static constexpr stack_use use = stack_use::always;
};
struct unsited : sited {
  static constexpr stack_use use = stack_use::never;
};
// Calls that may change device memory.
struct works_in_stream : sited {
  static constexpr device_use works = device_use::in_stream;
};

struct logged : unsited {
  template <class Real, class... Arguments>
  static CUresult run(call& c, Real real, Arguments... arguments) {
    c.is(kind::other);
    return real(arguments...);
  }
};

struct logged_work : logged {
  static constexpr device_use works = device_use::anywhere;
};

// cuGetProcAddress: if the function that the driver returns has a wrapper, the program gets the wrapper.
struct look_up : unsited {
  template <class Real, class... Status>
  static CUresult run(call& c, Real real, char const* base, void** function, int version, cuuint64_t flags, Status... status) {
    c.keep = false;
    count(counter::lookups);
    CUresult const result = real(base, function, version, flags, status...);
    if (result == CUDA_SUCCESS && base != nullptr && function != nullptr && *function != nullptr)
      *function = wrapper_for_lookup(base, *function);
    return result;
  }
};

// --- memory

// Handles a request for memory: a pool serves it, refuses it, or leaves it to the driver.
template <class Pointer, class Ask>
CUresult allocate(call& c, memory what, Pointer* out, std::size_t bytes, bool poolable, Ask ask) {
  c.is(kind::allocate);
  c.record.detail = static_cast<std::uint16_t>(what);
  c.record.bytes = bytes;
  verdict said = verdict::driver;
  if (pools_on() && out != nullptr) {
    std::uint64_t address = 0;
    said = pool_allocate(what, c.from, bytes, poolable, &address);
    if (said == verdict::refused) return CUDA_ERROR_OUT_OF_MEMORY;
    if (said == verdict::served) {
      set(out, address);
      c.record.address = address;
      c.record.device = device_number();
      c.record.flags |= flag_pooled;
      return CUDA_SUCCESS;
    }
  }
  CUresult const result = ask();
  if (result == CUDA_SUCCESS && out != nullptr) {
    c.record.address = number(*out);
    if (said == verdict::untimely) pool_passed_by(what, c.from, bytes);
  }
  c.record.device = device_number();
  return result;
}

// Handles a free of a block, which is a pool's or the driver's.
template <class Ask>
CUresult release(call& c, memory what, std::uint64_t address, CUstream const* stream, Ask ask) {
  c.is(kind::release);
  c.record.detail = static_cast<std::uint16_t>(what);
  c.record.address = address;
  if (pools_on()) {
    CUresult result = CUDA_SUCCESS;
    if (pool_release(what, address, stream, &result)) {
      c.record.flags |= flag_pooled;
      return result;
    }
  }
  return ask();
}

struct allocate_device : placed {
  template <class Real>
  static CUresult run(call& c, Real real, CUdeviceptr* out, std::size_t bytes) {
    return allocate(c, memory::device, out, bytes, true, [&] { return real(out, bytes); });
  }
};

struct allocate_pitched : placed {
  template <class Real>
  static CUresult run(call& c, Real real, CUdeviceptr* out, std::size_t* pitch, std::size_t width, std::size_t height, unsigned element) {
    // The pitch is known before the request only if the driver rounds the width up to the pools' alignment. The pools' plan (plan_file.hpp)
    // has only requests for which the driver does so.
    std::size_t const own = (width + pool_alignment - 1) / pool_alignment * pool_alignment;
    CUresult const result = allocate(c, memory::device, out, own * height, pitch != nullptr && element <= 16,
                                     [&] { return real(out, pitch, width, height, element); });
    if (result != CUDA_SUCCESS || pitch == nullptr) return result;
    if ((c.record.flags & flag_pooled) != 0) *pitch = own;
    c.record.other = *pitch;
    c.record.bytes = *pitch * height;
    return result;
  }
};

struct allocate_managed : placed {
  template <class Real>
  static CUresult run(call& c, Real real, CUdeviceptr* out, std::size_t bytes, unsigned flags) {
    c.record.other = flags;
    return allocate(c, memory::managed, out, bytes, flags == CU_MEM_ATTACH_GLOBAL, [&] { return real(out, bytes, flags); });
  }
};

struct allocate_pinned : placed {
  template <class Real>
  static CUresult run(call& c, Real real, void** out, std::size_t bytes, unsigned flags) {
    c.record.other = flags;
    // The pool's memory is portable and mapped, so it serves requests with or without these flags. It is not write-combined.
    bool const poolable = (flags & ~unsigned{CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP}) == 0;
    return allocate(c, memory::pinned, out, bytes, poolable, [&] { return real(out, bytes, flags); });
  }
  template <class Real>
  static CUresult run(call& c, Real real, void** out, std::size_t bytes) {
    return allocate(c, memory::pinned, out, bytes, true, [&] { return real(out, bytes); });
  }
};

struct allocate_ordered : placed {
  template <class Real>
  static CUresult run(call& c, Real real, CUdeviceptr* out, std::size_t bytes, CUstream stream) {
    c.in(stream);
    return allocate(c, memory::stream_ordered, out, bytes, false, [&] { return real(out, bytes, stream); });
  }
  template <class Real>
  static CUresult run(call& c, Real real, CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool, CUstream stream) {
    c.in(stream);
    return allocate(c, memory::stream_ordered, out, bytes, false, [&] { return real(out, bytes, pool, stream); });
  }
};

struct free_device : sited {
  template <class Real>
  static CUresult run(call& c, Real real, CUdeviceptr address) {
    return release(c, memory::device, address, nullptr, [&] { return real(address); });
  }
};

struct free_pinned : sited {
  template <class Real>
  static CUresult run(call& c, Real real, void* address) {
    return release(c, memory::pinned, number(address), nullptr, [&] { return real(address); });
  }
};

struct free_ordered : sited {
  template <class Real>
  static CUresult run(call& c, Real real, CUdeviceptr address, CUstream stream) {
    c.in(stream);
    return release(c, memory::stream_ordered, address, &stream, [&] { return real(address, stream); });
  }
};

struct register_host : sited {
  template <class Real>
  static CUresult run(call& c, Real real, void* address, std::size_t bytes, unsigned flags) {
    c.is(kind::allocate);
    c.record.detail = static_cast<std::uint16_t>(memory::registered);
    c.record.address = number(address);
    c.record.bytes = bytes;
    merging_registered(address, bytes);
    return real(address, bytes, flags);
  }
};

struct unregister_host : sited {
  template <class Real>
  static CUresult run(call& c, Real real, void* address) {
    c.is(kind::release);
    c.record.detail = static_cast<std::uint16_t>(memory::registered);
    c.record.address = number(address);
    return real(address);
  }
};

// The bytes of an array's element. 0 for a format that is not of plain integers or floats: if it has several planes or compressed blocks,
// its elements have no size of their own.
inline std::uint64_t element_bytes(CUarray_format format, unsigned channels) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2U * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4U * channels;
    default:
      return 0;
  }
}

struct create_array : sited {
  template <class Real, class Array, class Description, class... Levels>
  static CUresult run(call& c, Real real, Array* out, Description const* wanted, Levels... levels) {
    c.is(kind::allocate);
    c.record.detail = static_cast<std::uint16_t>(memory::array);
    if (wanted != nullptr) {
      std::uint64_t const rows = wanted->Height == 0 ? 1 : wanted->Height;
      std::uint64_t depth = 1;
      if constexpr (requires { wanted->Depth; }) depth = wanted->Depth == 0 ? 1 : wanted->Depth;
      c.record.bytes = wanted->Width * rows * depth * element_bytes(wanted->Format, wanted->NumChannels);
    }
    CUresult const result = real(out, wanted, levels...);
    if (result == CUDA_SUCCESS && out != nullptr) c.record.address = number(*out);
    c.record.device = device_number();
    return result;
  }
};

struct destroy_array : sited {
  template <class Real, class Array>
  static CUresult run(call& c, Real real, Array array) {
    c.is(kind::release);
    c.record.detail = static_cast<std::uint16_t>(memory::array);
    c.record.address = number(array);
    return real(array);
  }
};

struct create_physical : sited {
  template <class Real>
  static CUresult run(call& c, Real real, CUmemGenericAllocationHandle* out, std::size_t bytes, CUmemAllocationProp const* properties,
                      unsigned long long flags) {
    c.is(kind::allocate);
    c.record.detail = static_cast<std::uint16_t>(memory::physical);
    c.record.bytes = bytes;
    if (properties != nullptr && properties->location.id >= 0 && properties->location.id < no_device) {
      c.record.device = static_cast<std::uint8_t>(properties->location.id);
    }
    CUresult const result = real(out, bytes, properties, flags);
    if (result == CUDA_SUCCESS && out != nullptr) c.record.address = *out;
    return result;
  }
};

struct release_physical : sited {
  template <class Real>
  static CUresult run(call& c, Real real, CUmemGenericAllocationHandle handle) {
    c.is(kind::release);
    c.record.detail = static_cast<std::uint16_t>(memory::physical);
    c.record.address = handle;
    return real(handle);
  }
};

// --- queries of the program about memory: a block of a pool gets the answers that an allocation of the driver would get

struct query_free_memory : unsited {
  template <class Real>
  static CUresult run(call& c, Real real, std::size_t* free, std::size_t* total) {
    c.keep = false;
    CUresult const result = real(free, total);
    if (result == CUDA_SUCCESS && pools_on() && free != nullptr) *free = pool_free_bytes(*free);
    return result;
  }
};

struct query_range : unsited {
  template <class Real>
  static CUresult run(call& c, Real real, CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
    c.keep = false;
    CUresult const result = real(base, bytes, address);
    // Pools may be made of registered memory, for which a driver may report no range.
    if (!pools_on() || (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_FOUND && result != CUDA_ERROR_INVALID_VALUE)) return result;
    pool_block const block = pool_block_of(address);
    if (block.bytes == 0) return result;
    if (base != nullptr) *base = block.address;
    if (bytes != nullptr) *bytes = block.bytes;
    return CUDA_SUCCESS;
  }
};

struct query_pointer : unsited {
  static void correct(CUpointer_attribute attribute, void* value, CUdeviceptr address) {
    if (value == nullptr || (attribute != CU_POINTER_ATTRIBUTE_RANGE_START_ADDR && attribute != CU_POINTER_ATTRIBUTE_RANGE_SIZE)) return;
    pool_block const block = pool_block_of(address);
    if (block.bytes == 0) return;
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) {
      *static_cast<std::size_t*>(value) = block.bytes;
    } else {
      *static_cast<CUdeviceptr*>(value) = block.address;
    }
  }
  template <class Real>
  static CUresult run(call& c, Real real, void* value, CUpointer_attribute attribute, CUdeviceptr address) {
    c.keep = false;
    CUresult const result = real(value, attribute, address);
    if (result == CUDA_SUCCESS && pools_on()) correct(attribute, value, address);
    return result;
  }
  template <class Real>
  static CUresult run(call& c, Real real, unsigned num, CUpointer_attribute* attributes, void** values, CUdeviceptr address) {
    c.keep = false;
    CUresult const result = real(num, attributes, values, address);
    if (result == CUDA_SUCCESS && pools_on()) {
      for (unsigned i = 0; i < num; ++i) correct(attributes[i], values[i], address);
    }
    return result;
  }
};

struct export_memory : unsited {
  template <class Real>
  static CUresult run(call& c, Real real, CUipcMemHandle* handle, CUdeviceptr address) {
    c.is(kind::other);
    c.record.address = address;
    if (pools_on() && pool_refuses_export(address)) return CUDA_ERROR_NOT_SUPPORTED;
    return real(handle, address);
  }
};

struct import_memory : sited {
  template <class Real>
  static CUresult run(call& c, Real real, CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
    c.is(kind::allocate);
    c.record.detail = static_cast<std::uint16_t>(memory::imported);
    CUresult const result = real(out, handle, flags);
    if (result == CUDA_SUCCESS && out != nullptr) c.record.address = *out;
    return result;
  }
};

struct close_imported : sited {
  template <class Real>
  static CUresult run(call& c, Real real, CUdeviceptr address) {
    c.is(kind::release);
    c.record.detail = static_cast<std::uint16_t>(memory::imported);
    c.record.address = address;
    return real(address);
  }
};

// --- synchronisation, captures and contexts

struct synchronise : unsited {
  template <class Real, class... What>
  static CUresult run(call& c, Real real, What... what) {
    c.is(kind::synchronise);
    ((c.record.stream = number(what)), ...);
    return real(what...);
  }
};

struct begin_capture : unsited {
  template <class Real, class... Arguments>
  static CUresult run(call& c, Real real, CUstream stream, Arguments... arguments) {
    c.is(kind::capture);
    CUresult const result = real(stream, arguments...);
    c.in(stream);
    c.record.flags = 1;
    if (result == CUDA_SUCCESS && pools_on()) pool_capture_begins();
    return result;
  }
};

struct end_capture : unsited {
  template <class Real>
  static CUresult run(call& c, Real real, CUstream stream, CUgraph* graph) {
    c.is(kind::capture);
    // Whatever the driver answers, the capture of this stream is over.
    CUresult const result = real(stream, graph);
    c.in(stream);
    c.record.flags = 2;
    if (pools_on()) pool_capture_ends();
    return result;
  }
};

struct make_context : unsited {
  template <class Real, class... Arguments>
  static CUresult run(call& c, Real real, CUcontext* out, Arguments... arguments) {
    c.is(kind::context);
    CUresult const result = real(out, arguments...);
    if (result != CUDA_SUCCESS) return result;
    c.record.address = number(*out);
    if (pools_on()) pool_context_made(*out);
    context_used();
    return result;
  }
};

struct use_context : unsited {
  template <class Real>
  static CUresult run(call& c, Real real, CUcontext context) {
    c.keep = false;
    CUresult const result = real(context);
    if (result == CUDA_SUCCESS && context != nullptr) context_used();
    return result;
  }
};

struct destroy_context : unsited {
  template <class Real>
  static CUresult run(call& c, Real real, CUcontext context) {
    c.is(kind::context);
    c.record.address = number(context);
    c.record.flags = 2;
    CUresult const result = real(context);
    if (result == CUDA_SUCCESS && pools_on()) pool_context_gone(context);
    return result;
  }
};

// The CUDA runtime resets a device through a function of the driver that has no name, so it cannot be wrapped. The loss of the primary
// context is noticed when the program retains it again.
struct retain_primary : unsited {
  template <class Real>
  static CUresult run(call& c, Real real, CUcontext* out, CUdevice device) {
    static std::atomic<std::uint64_t> made{0};  // the devices whose primary context was made before, one bit each
    std::uint64_t const bit = std::uint64_t{1} << (device & 63);
    c.is(kind::other);
    if ((made.load() & bit) != 0 && !primary_exists(device)) {
      c.is(kind::context);
      c.record.device = static_cast<std::uint8_t>(device);
      c.record.flags = 3;
      if (pools_on()) pool_device_reset(device);
    }
    CUresult const result = real(out, device);
    if (result == CUDA_SUCCESS) made.fetch_or(bit);
    return result;
  }
};

struct release_primary : unsited {
  template <class Real>
  static CUresult run(call& c, Real real, CUdevice device) {
    c.is(kind::context);
    c.record.device = static_cast<std::uint8_t>(device);
    c.record.flags = 2;
    CUresult const result = real(device);
    if (result == CUDA_SUCCESS && pools_on()) pool_primary_released(device);
    return result;
  }
};

struct reset_primary : unsited {
  template <class Real>
  static CUresult run(call& c, Real real, CUdevice device) {
    c.is(kind::context);
    c.record.device = static_cast<std::uint8_t>(device);
    c.record.flags = 3;
    CUresult const result = real(device);
    if (result == CUDA_SUCCESS && pools_on()) pool_device_reset(device);
    return result;
  }
};

}  // namespace gpuheap::interpose::handlers
