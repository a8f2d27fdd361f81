// Derived datatypes: the places of the bytes of an element. One rank makes and uses them; device code.
//
// A layout is one block of the heap: its header and the spans of bytes of one element, in the order in which they are sent. Adjacent spans
// are one. A message consists of the bytes of all spans of all elements, one after another, whatever the receiver's datatype is.
#pragma once

#include <gpuheap/mpi/state.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

// Bytes of an element that lie together.
struct byte_span {
  long long at;  // the distance from the buffer's address
  simt::size_t bytes;
};

// The header of a derived datatype; its spans follow.
struct alignas(16) type_layout {
  simt::size_t bytes;       // the bytes of data
  long long lower, extent;  // where an element begins, and how far the next one is from it
  simt::uint32_t num_spans;
  simt::uint32_t users;  // the handle, and receives that wait

  [[nodiscard]] GPUHEAP_FN byte_span* spans() { return reinterpret_cast<byte_span*>(this + 1); }
  [[nodiscard]] GPUHEAP_FN byte_span const* spans() const { return reinterpret_cast<byte_span const*>(this + 1); }
};

// Whether a datatype is derived, and then its layout.
[[nodiscard]] GPUHEAP_FN constexpr bool is_derived(datatype type) { return type >= datatype::num_predefined; }
[[nodiscard]] GPUHEAP_FN inline type_layout* layout_of(datatype type) { return reinterpret_cast<type_layout*>(type); }

// The bytes of data of an element; 0 if the value is no datatype.
[[nodiscard]] GPUHEAP_FN inline simt::size_t bytes_of(datatype type) {
  return is_derived(type) ? layout_of(type)->bytes : bytes_of_predefined(type);
}
// The distance from an element to the next one, in bytes.
[[nodiscard]] GPUHEAP_FN inline long long extent_of(datatype type) {
  return is_derived(type) ? layout_of(type)->extent : static_cast<long long>(bytes_of_predefined(type));
}
[[nodiscard]] GPUHEAP_FN inline bool is_datatype(datatype type) {
  return is_derived(type) || (type > datatype::null && type < datatype::num_predefined);
}
// Whether elements are bytes without gaps, as those of predefined datatypes.
[[nodiscard]] GPUHEAP_FN inline bool is_plain(datatype type) {
  if (!is_derived(type)) return true;
  auto const& layout = *layout_of(type);
  return layout.num_spans == 1 && layout.spans()->at == 0 && layout.extent == static_cast<long long>(layout.bytes);
}

// How many elements of `type` the message of a status had: `undefined` if it is not a whole number of them.
[[nodiscard]] GPUHEAP_FN inline int get_count(status const& s, datatype type) {
  simt::size_t const each = bytes_of(type);
  if (each == 0) return s.bytes == 0 && is_datatype(type) ? 0 : undefined;
  return s.bytes % each != 0 ? undefined : static_cast<int>(s.bytes / each);
}

namespace detail {
// Copies the data of `count` elements to `to`, one after another.
GPUHEAP_COLD inline void pack(void* to, void const* from, simt::size_t count, datatype type) {
  if (is_plain(type)) return copy_bytes(to, from, count * bytes_of(type));
  auto const& layout = *layout_of(type);
  auto* data = static_cast<char*>(to);
  for (simt::size_t i = 0; i < count; ++i) {
    auto const* const element = static_cast<char const*>(from) + static_cast<long long>(i) * layout.extent;
    for (simt::uint32_t k = 0; k < layout.num_spans; ++k) {
      copy_bytes(data, element + layout.spans()[k].at, layout.spans()[k].bytes);
      data += layout.spans()[k].bytes;
    }
  }
}
// Copies `bytes` bytes of data into elements.
GPUHEAP_COLD inline void unpack(void* to, void const* from, simt::size_t bytes, datatype type) {
  if (is_plain(type)) return copy_bytes(to, from, bytes);
  auto const& layout = *layout_of(type);
  auto const* data = static_cast<char const*>(from);
  // Ends: each pass takes an element's bytes.
  for (simt::size_t i = 0; bytes != 0 && layout.bytes != 0; ++i) {
    auto* const element = static_cast<char*>(to) + static_cast<long long>(i) * layout.extent;
    for (simt::uint32_t k = 0; k < layout.num_spans && bytes != 0; ++k) {
      auto const& span = layout.spans()[k];
      simt::size_t const part = span.bytes < bytes ? span.bytes : bytes;
      copy_bytes(element + span.at, data, part);
      data += part;
      bytes -= part;
    }
  }
}
}  // namespace detail

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi
