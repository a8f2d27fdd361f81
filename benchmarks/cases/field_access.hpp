// field_access: every thread adds to the first fields of its objects, which have eight fields each. The case shows the gain of DynaSOAr's
// layout: the objects lie as structure of arrays in an object_heap, or one after the other, as structs do in any other heap. Springer and
// Masuhara 2019, section 6.
#pragma once

#include <gpuheap/object_heap.hpp>

#include <string>

#include "harness/structure_rounds.hpp"

namespace gpuheap::bench {

struct eight_fields {
  float a, b, c, d, e, f, g, h;
  using fields = gpuheap::fields<&eight_fields::a, &eight_fields::b, &eight_fields::c, &eight_fields::d, &eight_fields::e, &eight_fields::f,
                                 &eight_fields::g, &eight_fields::h>;
};
using eight_field_heap = object_heap<eight_fields>;

// Kernel: thread i makes object i of each layout, its fields 0.
struct make_objects {
  eight_field_heap::ref_type heap;
  object_ptr<eight_fields>* in_arrays;
  eight_fields** in_structs;
  eight_fields* structs;
  unsigned* failed;
  GPUHEAP_FN void operator()(unsigned i) const {
    in_arrays[i] = heap.create<eight_fields>({});
    structs[i] = {};
    in_structs[i] = structs + i;
    // relaxed: a count that the host reads.
    if (!in_arrays[i]) simt::atomic_ref<unsigned>{*failed}.fetch_add(1, simt::relaxed);
  }
};

// The fields of an object, by either kind of pointer.
GPUHEAP_FN inline float& field_of(object_ptr<eight_fields> p, float eight_fields::*which) { return p[which]; }
GPUHEAP_FN inline float& field_of(eight_fields* p, float eight_fields::*which) { return p->*which; }

template <class Pointer>
struct add_to_fields {
  Pointer const* objects;
  unsigned count, threads, fields;
  GPUHEAP_FN void operator()(unsigned thread) const {
    GPUHEAP_NO_UNROLL
    for (unsigned i = thread; i < count; i += threads) {
      Pointer const p = objects[i];
      field_of(p, &eight_fields::a) += 1;
      if (fields > 1) field_of(p, &eight_fields::b) += 1;
      if (fields > 2) {
        field_of(p, &eight_fields::c) += 1;
        field_of(p, &eight_fields::d) += 1;
      }
      if (fields > 4) {
        field_of(p, &eight_fields::e) += 1;
        field_of(p, &eight_fields::f) += 1;
        field_of(p, &eight_fields::g) += 1;
        field_of(p, &eight_fields::h) += 1;
      }
    }
  }
};
// Kernel: counts the objects whose fields are not what `rounds` additions make.
template <class Pointer>
struct check_fields {
  Pointer const* objects;
  unsigned fields;
  float rounds;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    Pointer const p = objects[i];
    bool const right = field_of(p, &eight_fields::a) == rounds && field_of(p, &eight_fields::b) == (fields > 1 ? rounds : 0) &&
                       field_of(p, &eight_fields::d) == (fields > 2 ? rounds : 0) &&
                       field_of(p, &eight_fields::h) == (fields > 4 ? rounds : 0);
    // relaxed: a count that the host reads.
    if (!right) simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
  }
};

struct field_access {
  static constexpr parameter parameters[] = {structure_threads_parameter, number_parameter("objects", "100000", 1, 1u << 26),
                                             choice_parameter("fields", "1", "1|2|4|8"),
                                             choice_parameter("layout", "arrays", "arrays|structs"), block_threads_parameter};
  static constexpr case_description description{
      .name = "field_access",
      .brief = "threads add to the first fields of objects that lie as structure of arrays, or as structs",
      .section = "Structures",
      .parameters = parameters,
      .without_allocator = true,
  };

  template <class>
  static outcome run(session const& s, point const& p) {
    owned_stream stream;
    auto const count = static_cast<unsigned>(p.number("objects"));
    // Twice the objects' bytes: blocks are made by several threads at once, and not all get full.
    eight_field_heap heap(heap_size{2 * std::size_t{count} * sizeof(eight_fields) + (std::size_t{4} << 20)}, memory::device, stream);
    device_array<object_ptr<eight_fields>> in_arrays(count);
    device_array<eight_fields*> in_structs(count);
    device_array<eight_fields> structs(count);
    device_array<unsigned> wrong(1);
    wrong.zero(stream);
    launch(count, make_objects{heap.ref(), in_arrays.data(), in_structs.data(), structs.data(), wrong.data()}, {.stream = stream});
    if (wrong.download(stream).front() != 0) return unsupported("the object heap is too small");
    if (p.text("layout") == "arrays") return measure(s, p, stream, in_arrays.data(), count, wrong);
    return measure(s, p, stream, in_structs.data(), count, wrong);
  }

 private:
  template <class Pointer>
  static outcome measure(session const& s, point const& p, stream_ref stream, Pointer const* objects, unsigned count,
                         device_array<unsigned>& wrong) {
    auto const fields = static_cast<unsigned>(p.number("fields"));
    float rounds = 0;
    auto const fault = [&](stream_ref on) -> std::string {
      launch(count, check_fields<Pointer>{objects, fields, ++rounds, wrong.data()}, {.stream = on});
      auto const bad = wrong.download(on).front();
      return bad == 0 ? "" : std::to_string(bad) + " objects have other values than were added";
    };
    return run_structure_rounds(
        s, p, stream, count, [](stream_ref) {}, add_to_fields<Pointer>{objects, count, p.threads(), fields}, fault);
  }
};

}  // namespace gpuheap::bench
