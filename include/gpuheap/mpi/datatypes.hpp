// Derived datatypes: the positions of an element's bytes. The rank that makes a datatype uses it alone. Device code.
//
// A layout is one block of the heap: a header, and the spans of bytes of one element in the order in which they are sent. Adjacent spans
// are merged into one. A message consists of the bytes of all spans of all elements, one after another. The receiver's datatype has no
// influence on the bytes of the message.
#pragma once

#include <gpuheap/mpi/state.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

// Contiguous bytes of an element.
struct byte_span {
  long long at;  // the distance in bytes from the element's address
  simt::size_t bytes;
};

// The header of a derived datatype; its spans follow.
struct alignas(16) type_layout {
  simt::size_t bytes;       // the bytes of data of an element
  long long lower, extent;  // in bytes: the lower bound of an element, and the distance from one element to the next
  simt::uint32_t num_spans;
  simt::uint32_t users;  // the handle counts as one, and so does each receive that is not done

  [[nodiscard]] GPUHEAP_FN byte_span* spans() { return reinterpret_cast<byte_span*>(this + 1); }
  [[nodiscard]] GPUHEAP_FN byte_span const* spans() const { return reinterpret_cast<byte_span const*>(this + 1); }
};

// is_derived(): whether a datatype is derived. layout_of(): the layout of a derived datatype.
[[nodiscard]] GPUHEAP_FN constexpr bool is_derived(datatype type) { return type >= datatype::num_predefined; }
[[nodiscard]] GPUHEAP_FN inline type_layout* layout_of(datatype type) { return reinterpret_cast<type_layout*>(type); }

// The bytes of data of an element; 0 if the value is not a datatype.
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
// Whether elements are contiguous bytes without gaps, as elements of predefined datatypes are.
[[nodiscard]] GPUHEAP_FN inline bool is_plain(datatype type) {
  if (!is_derived(type)) return true;
  auto const& layout = *layout_of(type);
  return layout.num_spans == 1 && layout.spans()->at == 0 && layout.extent == static_cast<long long>(layout.bytes);
}

// The number of elements of `type` in the message of a status; `undefined` if the message has no whole number of them.
[[nodiscard]] GPUHEAP_FN inline int get_count(status const& s, datatype type) {
  simt::size_t const each = bytes_of(type);
  if (each == 0) return s.bytes == 0 && is_datatype(type) ? 0 : undefined;
  return s.bytes % each != 0 ? undefined : static_cast<int>(s.bytes / each);
}

namespace detail {
// Copies the data of `count` elements to `to`, without gaps.
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
// Copies `bytes` bytes of data, as pack() writes them, into elements.
GPUHEAP_COLD inline void unpack(void* to, void const* from, simt::size_t bytes, datatype type) {
  if (is_plain(type)) return copy_bytes(to, from, bytes);
  auto const& layout = *layout_of(type);
  auto const* data = static_cast<char const*>(from);
  // Ends: each pass lowers `bytes` by an element's bytes.
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
