// Objects in DynaSOAr blocks: the declaration of a class, and the pointer to an object.
//
// A class is a plain struct. No object lies in memory as a whole: in a block, field f of slot i lies at capacity * offset of f + i * size
// of f, so that the same fields of adjacent slots are adjacent.
//
// A class may have one base class, which lies at its offset 0. A field of the base then has the same offset in both classes, so a pointer
// to an object is also a pointer to its base. Blocks of the two classes may have different capacities, so a pointer contains the capacity
// of its object's block.
#pragma once

#include <gpuheap/allocators/dynasoar/layout.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// Lists all fields of a class, so that whole objects can be made and copied:
//   struct body {
//     float x, y, mass;
//     using fields = gpuheap::fields<&body::x, &body::y, &body::mass>;
//   };
template <auto... Members>
struct fields {};

namespace soa {

// The field list of a base class, followed by more members.
template <class List, auto... Members>
struct inherited;
template <auto... Theirs, auto... Members>
struct inherited<fields<Theirs...>, Members...> {
  using type = fields<Theirs..., Members...>;
};

// Whether a type is fields<...>.
template <class List>
inline constexpr bool is_field_list = false;
template <auto... Members>
inline constexpr bool is_field_list<fields<Members...>> = true;

}  // namespace soa

// The fields of a base class, and those that a class adds:
//   struct star : body {
//     float heat;
//     using fields = gpuheap::inherited_fields<body, &star::heat>;
//   };
template <class Base, auto... Members>
using inherited_fields = typename soa::inherited<typename Base::fields, Members...>::type;

// Whether a class lists its fields.
template <class T>
concept lists_fields = soa::is_field_list<typename T::fields>;

// A pointer to an object of class T in an object_heap, or null. It has 8 bytes, and can be copied, compared and stored like a pointer, also
// in fields of objects. Its bits() can be accessed atomically.
//
//   p[&body::x] += dt * p[&body::vx];     a field, as a reference
//   body const b = p.load();              a copy of all fields; p.store(b) writes them
//
// It is not an address but {capacity - 1 : 6, address of the block's data : 52, slot : 6}. A block's data is aligned to 64 bytes, and
// addresses have fewer than 58 bits.
template <class T>
class object_ptr {
 public:
  object_ptr() = default;
  GPUHEAP_HD constexpr object_ptr(decltype(nullptr)) {}  // NOLINT(google-explicit-constructor): implicit, as for pointers
  // A pointer to the base of an object. This base is the only base of the object's class, so it lies at the object's offset 0.
  template <class Derived>
  requires(simt::is_base_of_v<T, Derived> && !simt::is_same_v<T, Derived>) GPUHEAP_HD constexpr object_ptr(object_ptr<Derived> p)
      : bits_{p.bits()} {  // NOLINT(google-explicit-constructor): implicit, as for pointers
    static_assert(!__is_polymorphic(Derived),
                  "gpuheap: the objects of an object_heap are plain data: their classes have no virtual functions");
  }
  GPUHEAP_HD object_ptr(char* data, unsigned slot, unsigned capacity)
      : bits_{simt::uint64_t{capacity - 1} << 58 | reinterpret_cast<simt::uintptr_t>(data) | slot} {}
  [[nodiscard]] GPUHEAP_HD static constexpr object_ptr of_bits(simt::uint64_t bits) {
    object_ptr p;
    p.bits_ = bits;
    return p;
  }

  [[nodiscard]] GPUHEAP_HD constexpr simt::uint64_t bits() const { return bits_; }
  [[nodiscard]] GPUHEAP_HD constexpr explicit operator bool() const { return bits_ != 0; }
  [[nodiscard]] GPUHEAP_HD friend constexpr bool operator==(object_ptr a, object_ptr b) { return a.bits_ == b.bits_; }

  // One field of the object. The pointer must not be null.
  template <class Field, class Class>
  requires simt::is_base_of_v<Class, T>
  [[nodiscard]] GPUHEAP_FN Field& operator[](Field Class::*field) const {
    // A pointer to a data member is its offset. It is a constant if the member is known at compile time.
    auto const offset = static_cast<simt::size_t>(simt::bit_cast<simt::ptrdiff_t>(static_cast<Field T::*>(field)));
    return *reinterpret_cast<Field*>(data() + capacity() * offset + slot() * sizeof(Field));
  }

  // Copies all fields to or from a plain object of the class.
  [[nodiscard]] GPUHEAP_FN T load() const requires lists_fields<T> { return load_all(typename T::fields{}); }
  GPUHEAP_FN void store(T const& value) const requires lists_fields<T> { store_all(value, typename T::fields{}); }

  // The object's place: the block's data, the slot, and the number of the block's slots.
  [[nodiscard]] GPUHEAP_HD char* data() const { return reinterpret_cast<char*>(bits_ << 6 >> 12 << 6); }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned slot() const { return static_cast<unsigned>(bits_ & 63); }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned capacity() const { return static_cast<unsigned>(bits_ >> 58) + 1; }

 private:
  template <auto... Members>
  [[nodiscard]] GPUHEAP_FN T load_all(fields<Members...>) const {
    T value{};
    (assign(value.*Members, (*this)[Members]), ...);
    return value;
  }
  template <auto... Members>
  GPUHEAP_FN void store_all(T const& value, fields<Members...>) const {
    (assign((*this)[Members], value.*Members), ...);
  }
  template <class Field>
  GPUHEAP_FN static void assign(Field& to, Field const& from) {
    to = from;
  }
  // A field that is an array.
  template <class Element, simt::size_t N>
  GPUHEAP_FN static void assign(Element (&to)[N], Element const (&from)[N]) {
    for (simt::size_t i = 0; i < N; ++i) assign(to[i], from[i]);
  }

  simt::uint64_t bits_ = 0;
};

namespace soa {

// The classes of a heap, which are numbered from 0, and the sizes of their blocks.
template <class... Classes>
struct class_list {
  static constexpr unsigned count = sizeof...(Classes);
  static_assert(count > 0, "gpuheap: an object_heap has at least one class");

  template <class T>
  static constexpr bool has = (simt::is_same_v<T, Classes> || ...);
  template <class T>
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned index_of() {
    static_assert(has<T>, "gpuheap: this class is not among those of the object_heap");
    static_assert(simt::is_trivially_copyable_v<T> && simt::is_trivially_destructible_v<T>,
                  "gpuheap: the objects of an object_heap are plain data: nothing is run when they are copied or end");
    static_assert(alignof(T) <= 64, "gpuheap: fields of an object_heap's objects are aligned to 64 bytes at most");
    constexpr bool is_it[] = {simt::is_same_v<T, Classes>...};
    unsigned index = 0;
    // Ends: one element is true, since the class is in the list.
    while (!is_it[index]) ++index;
    return index;
  }

  // Whether the objects of the class with this number are objects of T, too.
  template <class T>
  [[nodiscard]] GPUHEAP_HD static constexpr bool is_a(unsigned index) {
    constexpr bool is_it[] = {simt::is_base_of_v<T, Classes>...};
    return index < count && is_it[index];
  }

  // Bytes of a block: enough for 64 objects of the smallest class, and for one of the largest.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned block_bytes() {
    simt::size_t smallest = ~simt::size_t{0}, largest = 0;
    ((smallest = sizeof(Classes) < smallest ? sizeof(Classes) : smallest, largest = sizeof(Classes) > largest ? sizeof(Classes) : largest),
     ...);
    simt::size_t const bytes = smallest * free_slots::most;
    return static_cast<unsigned>(simt::round_up_pow2(bytes > largest ? bytes : largest, 128));
  }
  template <class T>
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned capacity() {
    return block_bytes() / sizeof(T) < free_slots::most ? static_cast<unsigned>(block_bytes() / sizeof(T)) : free_slots::most;
  }
};

// The input of a pass over the objects of a class: the blocks of the class, and the slots that had an object when the pass began.
struct pass_list {
  uint32_t* count = nullptr;
  free_slots::word* live = nullptr;  // live[i]: the slots of block blocks[i] that had an object
  uint32_t* blocks = nullptr;

  static constexpr size_t head_bytes = 256;
  [[nodiscard]] GPUHEAP_HD static constexpr size_t bytes_for(uint32_t num_blocks) {
    return head_bytes + size_t{num_blocks} * (sizeof(free_slots::word) + sizeof(uint32_t));
  }
  [[nodiscard]] GPUHEAP_HD static pass_list over(void* memory, uint32_t num_blocks) {
    auto* const base = static_cast<char*>(memory);
    auto* const live = reinterpret_cast<free_slots::word*>(base + head_bytes);
    return {reinterpret_cast<uint32_t*>(base), live, reinterpret_cast<uint32_t*>(live + num_blocks)};
  }
};

// Kernel: thread i lists the blocks of class c among the 64 blocks of word i. `count` is 0 before the kernel.
struct list_blocks {
  pool_layout pool;
  unsigned c;
  pass_list list;

  GPUHEAP_FN void operator()(unsigned i) const {
    // relaxed, all: objects that were made before the kernel began are listed. Those that other threads make meanwhile may be listed or
    // not.
    uint64_t bits = simt::global_ref<uint64_t>{pool.allocated(c)[i]}.load(simt::relaxed);
    if (bits == 0) return;
    uint32_t at = simt::global_ref<uint32_t>{*list.count}.fetch_add(simt::popcount(bits), simt::relaxed);
    for (; bits != 0; bits &= bits - 1, ++at) {
      uint32_t const b = i * 64 + simt::lowest_bit(bits);
      block_words& words = pool.blocks()[b];
      free_slots::word const free = simt::global_ref<free_slots::word>{words.free}.load(simt::relaxed);
      block_tag const tag{simt::global_ref<uint64_t>{words.tag}.load(simt::relaxed)};
      simt::plain_write(list.blocks[at], b);
      simt::plain_write(list.live[at], tag.is_of(c) ? tag.all() & ~free : 0);
    }
  }
};

// Kernel that runs after list_blocks: calls visit(p) for each object of class T that was listed. p has the type object_ptr<Base>, where
// `Base` is T or its base class. `threads` is a multiple of the capacity, so that each thread visits the same slot of several blocks, and
// adjacent threads visit adjacent slots.
template <class T, class Base, class Visit>
struct visit_objects {
  pool_layout pool;
  pass_list list;
  unsigned capacity;
  unsigned threads;
  Visit visit;

  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const slot = i % capacity;
    uint32_t const count = simt::plain_read(*list.count);
    // The threads form rows of `capacity`. Row r visits each listed block whose index is r modulo the number of rows.
    GPUHEAP_NO_UNROLL
    for (uint32_t n = i / capacity; n < count; n += threads / capacity) {
      if ((simt::plain_read(list.live[n]) >> slot & 1) == 0) continue;
      visit(object_ptr<Base>{object_ptr<T>{pool.block(simt::plain_read(list.blocks[n])), slot, capacity}});
    }
  }
};

}  // namespace soa

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
