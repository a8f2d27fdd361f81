// MPI's calls that make derived datatypes, and that pack and unpack elements, as members that one rank calls. Device code.
#pragma once

#include <gpuheap/mpi/messenger.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

template <class Heap>
class type_makers : public messenger<Heap> {
 public:
  using messenger<Heap>::messenger;

  // Makes a datatype of `count` elements of `old`, one after another.
  GPUHEAP_FN int type_contiguous(int count, datatype old, datatype* made) const { return type_vector(1, count, count, old, made); }
  // Makes a datatype of `count` blocks of `each` elements; each block begins `stride` elements after the one before.
  GPUHEAP_FN int type_vector(int count, int each, int stride, datatype old, datatype* made) const {
    return type_hvector(count, each, is_datatype(old) ? stride * extent_of(old) : 0, old, made);
  }
  // The same, with the stride in bytes.
  GPUHEAP_FN int type_hvector(int count, int each, long long stride, datatype old, datatype* made) const {
    return blocks(
        count, made, [=](int) { return each; }, [=](int i) { return i * stride; }, [=](int) { return old; });
  }
  // Makes a datatype of `count` blocks: lengths[i] elements at displacements[i], in elements.
  GPUHEAP_FN int type_indexed(int count, int const* lengths, int const* displacements, datatype old, datatype* made) const {
    long long const each = is_datatype(old) ? extent_of(old) : 0;
    return blocks(
        count, made, [=](int i) { return lengths[i]; }, [=](int i) { return displacements[i] * each; }, [=](int) { return old; });
  }
  // The same, with displacements in bytes.
  GPUHEAP_FN int type_hindexed(int count, int const* lengths, long const* displacements, datatype old, datatype* made) const {
    return blocks(
        count, made, [=](int i) { return lengths[i]; }, [=](int i) { return displacements[i]; }, [=](int) { return old; });
  }
  // The same, with one length for all blocks, and displacements in elements.
  GPUHEAP_FN int type_indexed_block(int count, int length, int const* displacements, datatype old, datatype* made) const {
    long long const each = is_datatype(old) ? extent_of(old) : 0;
    return blocks(
        count, made, [=](int) { return length; }, [=](int i) { return displacements[i] * each; }, [=](int) { return old; });
  }
  // Makes a datatype of blocks of different datatypes, with displacements in bytes. Its extent is that of a C struct with such members.
  GPUHEAP_FN int type_struct(int count, int const* lengths, long const* displacements, datatype const* olds, datatype* made) const {
    int const bad = blocks(
        count, made, [=](int i) { return lengths[i]; }, [=](int i) { return displacements[i]; }, [=](int i) { return olds[i]; });
    if (bad != success) return bad;
    long long alignment = 1;
    for (int i = 0; i < count; ++i) {
      long long const own = alignment_of(olds[i]);
      if (lengths[i] != 0 && own > alignment) alignment = own;
    }
    auto& layout = *layout_of(*made);
    layout.extent = (layout.extent + alignment - 1) / alignment * alignment;
    return success;
  }
  // Makes a datatype of a part of an array. In dimension i, the part has parts[i] of the array's sizes[i] elements, from starts[i] on.
  // Consecutive elements lie along the last dimension, or with `last_is_fastest` false along the first one.
  GPUHEAP_FN int type_subarray(int dimensions, int const* sizes, int const* parts, int const* starts, bool last_is_fastest, datatype old,
                               datatype* made) const {
    if (!is_datatype(old)) return this->answer(nullptr, err_type);
    if (dimensions < 1) return this->answer(nullptr, err_arg);
    long long rows = 1, all = 1;
    int const fastest = last_is_fastest ? dimensions - 1 : 0;
    for (int i = 0; i < dimensions; ++i) {
      if (parts[i] < 0 || starts[i] < 0 || starts[i] + parts[i] > sizes[i]) return this->answer(nullptr, err_arg);
      if (i != fastest) rows *= parts[i];
      all *= sizes[i];
    }
    long long const each = extent_of(old);
    auto const place_of_row = [=](int row) -> long long {
      long long at = starts[fastest], stride = sizes[fastest], rest = row;
      for (int i = 1; i < dimensions; ++i) {
        int const k = last_is_fastest ? dimensions - 1 - i : i;
        at += (starts[k] + rest % parts[k]) * stride;
        rest /= parts[k];
        stride *= sizes[k];
      }
      return at * each;
    };
    int const bad = blocks(
        static_cast<int>(rows), made, [=](int) { return parts[fastest]; }, place_of_row, [=](int) { return old; });
    if (bad != success) return bad;
    layout_of(*made)->lower = 0;
    layout_of(*made)->extent = all * each;
    return success;
  }
  // Makes a datatype with the data of `old`, and another lower bound and extent.
  GPUHEAP_FN int type_resized(datatype old, long lower, long extent, datatype* made) const {
    int const bad = type_contiguous(1, old, made);
    if (bad != success) return bad;
    layout_of(*made)->lower = lower;
    layout_of(*made)->extent = extent;
    return success;
  }
  GPUHEAP_FN int type_dup(datatype old, datatype* made) const {
    return is_datatype(old) ? type_resized(old, static_cast<long>(lower_of(old)), static_cast<long>(extent_of(old)), made)
                            : this->answer(nullptr, err_type);
  }
  GPUHEAP_FN int type_commit(datatype* type) const {
    return type == nullptr || !is_datatype(*type) ? this->answer(nullptr, err_type) : success;
  }
  // Frees the handle and sets it to null. Receives that are not done keep the datatype.
  GPUHEAP_FN int type_free(datatype* type) const {
    if (type == nullptr || !is_derived(*type)) return this->answer(nullptr, err_type);
    this->release(layout_of(*type));
    *type = datatype::null;
    return success;
  }
  GPUHEAP_FN int type_size(datatype type, int* bytes) const {
    if (!is_datatype(type)) return this->answer(nullptr, err_type);
    *bytes = static_cast<int>(bytes_of(type));
    return success;
  }
  GPUHEAP_FN int type_get_extent(datatype type, long* lower, long* extent) const {
    if (!is_datatype(type)) return this->answer(nullptr, err_type);
    *lower = static_cast<long>(lower_of(type));
    *extent = static_cast<long>(extent_of(type));
    return success;
  }

  // pack() copies the data of elements into a buffer of `room` bytes at `*at`, and advances `*at`. unpack() does the reverse.
  GPUHEAP_FN int pack(void const* from, int count, datatype type, void* to, int room, int* at, communicator* comm) const {
    if (int const bad = this->check(from, count, type, comm); bad != success) return this->answer(comm, bad);
    simt::size_t const bytes = static_cast<simt::size_t>(count) * bytes_of(type);
    if (*at < 0 || static_cast<simt::size_t>(*at) + bytes > static_cast<simt::size_t>(room)) return this->answer(comm, err_arg);
    detail::pack(static_cast<char*>(to) + *at, from, static_cast<simt::size_t>(count), type);
    *at += static_cast<int>(bytes);
    return success;
  }
  GPUHEAP_FN int unpack(void const* from, int room, int* at, void* to, int count, datatype type, communicator* comm) const {
    if (int const bad = this->check(to, count, type, comm); bad != success) return this->answer(comm, bad);
    simt::size_t const bytes = static_cast<simt::size_t>(count) * bytes_of(type);
    if (*at < 0 || static_cast<simt::size_t>(*at) + bytes > static_cast<simt::size_t>(room)) return this->answer(comm, err_arg);
    detail::unpack(to, static_cast<char const*>(from) + *at, bytes, type);
    *at += static_cast<int>(bytes);
    return success;
  }
  GPUHEAP_FN int pack_size(int count, datatype type, communicator* comm, int* bytes) const {
    if (count < 0 || !is_datatype(type)) return this->answer(comm, err_type);
    *bytes = count * static_cast<int>(bytes_of(type));
    return success;
  }

 private:
  [[nodiscard]] GPUHEAP_FN static long long lower_of(datatype type) { return is_derived(type) ? layout_of(type)->lower : 0; }
  // The alignment in bytes of a member of a struct. For a derived datatype it is the largest power of two, at most 8, that divides the
  // extent.
  [[nodiscard]] GPUHEAP_FN static long long alignment_of(datatype type) {
    long long const extent = extent_of(type);
    if (is_derived(type)) {
      long long factor = 1;
      // Ends: after three passes.
      while (factor < 8 && extent % (2 * factor) == 0) factor *= 2;
      return factor;
    }
    return type == datatype::float_int || type == datatype::two_int || type == datatype::short_int ? 4 : extent > 8 ? 8 : extent;
  }

  // Makes a layout of `count` blocks: length(i) elements of old(i), at a displacement of place(i) bytes.
  template <class Length, class Place, class Old>
  GPUHEAP_FN int blocks(int count, datatype* made, Length length, Place place, Old old) const {
    if (count < 0) return this->answer(nullptr, err_count);
    simt::size_t most = 0;
    for (int i = 0; i < count; ++i) {
      if (!is_datatype(old(i))) return this->answer(nullptr, err_type);
      if (length(i) < 0) return this->answer(nullptr, err_arg);
      simt::size_t const spans = is_derived(old(i)) ? layout_of(old(i))->num_spans : 1;
      most += is_plain(old(i)) ? 1 : spans * static_cast<simt::size_t>(length(i));
    }
    auto* const layout = static_cast<type_layout*>(this->obtain(sizeof(type_layout) + most * sizeof(byte_span)));
    if (layout == nullptr) return this->answer(nullptr, err_no_mem);
    *layout = {0, 0, 0, 0, 1};
    long long upper = 0;
    bool any = false;
    auto const add = [&](long long at, simt::size_t bytes) {
      if (bytes == 0) return;
      layout->bytes += bytes;
      if (layout->num_spans != 0) {
        byte_span& last = layout->spans()[layout->num_spans - 1];
        if (last.at + static_cast<long long>(last.bytes) == at) {
          last.bytes += bytes;
          return;
        }
      }
      layout->spans()[layout->num_spans++] = {at, bytes};
    };
    for (int i = 0; i < count; ++i) {
      datatype const from = old(i);
      int const elements = length(i);
      if (elements == 0) continue;
      long long const first = place(i) + lower_of(from), behind = first + elements * extent_of(from);
      if (!any || first < layout->lower) layout->lower = first;
      if (!any || behind > upper) upper = behind;
      any = true;
      if (is_plain(from)) {
        add(place(i), static_cast<simt::size_t>(elements) * bytes_of(from));
        continue;
      }
      auto const& inner = *layout_of(from);
      for (int e = 0; e < elements; ++e) {
        for (simt::uint32_t k = 0; k < inner.num_spans; ++k) add(place(i) + e * inner.extent + inner.spans()[k].at, inner.spans()[k].bytes);
      }
    }
    layout->extent = upper - layout->lower;
    *made = static_cast<datatype>(reinterpret_cast<simt::uintptr_t>(layout));
    return success;
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi
