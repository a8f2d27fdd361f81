// A heap of objects whose fields lie in memory as a structure of arrays. It is DynaSOAr (allocators/dynasoar.hpp) for objects with fields.
//
//   struct body {                                        // a class is a plain struct
//     float x, vx;
//     gpuheap::object_ptr<body> next;
//     using fields = gpuheap::fields<&body::x, &body::vx, &body::next>;
//   };
//   struct drift {                                       // runs for each object
//     float dt;
//     GPUHEAP_FN void operator()(gpuheap::object_ptr<body> b) const { b[&body::x] += dt * b[&body::vx]; }
//   };
//
//   gpuheap::object_heap<body, spring> heap{1_GiB};      // all its classes
//   auto b = heap.ref().create<body>({.x = 1, .vx = 2}); // in a kernel; null when exhausted
//   heap.for_each<body>(drift{0.1f});                    // on the host: a launch over all bodies
//
// Reasons for this interface: the class stays an ordinary struct, which can be made, copied and filled by ordinary C++. An object in the
// heap differs in one thing only: p[&body::x] instead of p->x. So the interface needs no macro, no common base class, no proxy for a
// member, and no value of pointer type that cannot be dereferenced. A pointer to a member is a constant, so an access costs a
// multiplication and an addition.
//
// A class may have a base class, which is itself a plain struct with fields. The heap's list of classes need not contain the base class:
//   struct star : body {
//     float heat;
//     using fields = gpuheap::inherited_fields<body, &star::heat>;
//   };
// An object_ptr<star> converts to an object_ptr<body>. destroy() takes either, and for_each<body> visits the objects of body and of all
// classes that derive from it.
//
// for_each visits every object of the class that is live when the pass begins, once, in no order; objects made during the pass are not
// visited. The function may make objects, change any object, and destroy the one that it is called with and objects of other classes. If
// the function, or a kernel of another stream, destroys other objects of the class, the pass may still visit these, even after their slots
// are in use again.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/dynasoar/blocks.hpp>
#include <gpuheap/allocators/dynasoar/objects.hpp>
#include <gpuheap/allocators/dynasoar/verify.hpp>
#include <gpuheap/failure_record.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/structures/warp_group.hpp>

#if GPUHEAP_HAS_HOST
#include <gpuheap/heap_report.hpp>
#include <gpuheap/memory/allocation.hpp>
#include <gpuheap/memory/size.hpp>
#include <gpuheap/simt/runtime.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

template <class... Classes>
class object_heap;

// @brief The device's view of an object_heap.
// @note Trivially copyable; kernels get it by value. It stays valid as long as the heap lives. Every member may be called by any thread in
// any state of divergence, from any number of kernels at once.
template <class... Classes>
class object_heap_ref {
  using list = soa::class_list<Classes...>;

 public:
  object_heap_ref() = default;

  // @brief Makes an object of class T whose fields are those of `value`.
  // @param value the fields
  // @return the object, or null when the heap has no room for it; the heap's record then counts the failure
  template <class T>
  requires lists_fields<T>
  [[nodiscard]] GPUHEAP_FN object_ptr<T> create(simt::type_identity_t<T> const& value) const {
    object_ptr<T> const p = create<T>();
    if (p) p.store(value);
    return p;
  }
  // @brief Makes an object of class T whose fields have undefined values.
  // @return the object, or null when the heap has no room for it; the heap's record then counts the failure
  template <class T>
  [[nodiscard]] GPUHEAP_FN object_ptr<T> create() const {
    constexpr unsigned c = list::template index_of<T>(), capacity = list::template capacity<T>();
    // The converged lanes that ask this heap for an object of this class.
    auto const group = structures::warp_group::of_equal(simt::active_mask(), reinterpret_cast<simt::uintptr_t>(pool_.base) | c);
    soa::place const at = pool_.take(group, c, capacity);
    if (at.none()) {
      detail::record_exhaustion(record_, sizeof(T));
      return nullptr;
    }
    return {pool_.block(at.block), at.slot, capacity};
  }

  // @brief Ends an object.
  // @param p the object; null does nothing
  // @return done, null, or double_free. The heap refuses and records a second destruction of an object, if its slot is not in use again and
  // the two calls do not run at the same time
  template <class T>
  GPUHEAP_FN free_status destroy(object_ptr<T> p) const {
    if (!p) return free_status::null;
    bool done = false;
    if (pool_.holds(p.data())) {
      auto const b = static_cast<simt::uint32_t>(static_cast<simt::size_t>(p.data() - pool_.data) / list::block_bytes());
      soa::free_slots::word const bit = soa::free_slots::word{1} << p.slot();
      soa::block_tag const tag = pool_.tag_of(b);
      // release: the thread's accesses to the object come before. Pairs with the acquire half of the operation by which a thread takes the
      // slot next.
      simt::fence(simt::release);
      done = !tag.is_free() && list::template is_a<T>(tag.kind()) && (pool_.deallocate(b, tag, bit) & bit) == 0;
    }
    if (done) return free_status::done;
    detail::record_refused_free(record_, reinterpret_cast<void*>(p.bits()), free_status::double_free);
    return free_status::double_free;
  }

  // @brief Calls `visit(p)` for every object of class T, and of classes that derive from T, one after the other, in the calling thread.
  // @param visit a functor that takes an object_ptr<T>
  // @note No thread may make or destroy objects of these classes between the start of the kernel and the end of the call: the call reads
  // through the L1, and so may find values that are as old as the kernel.
  template <class T, class Visit>
  GPUHEAP_FN void for_each(Visit visit) const {
    (for_each_of<Classes, T>(visit), ...);
  }

 private:
  friend class object_heap<Classes...>;
  static_assert(list::count <= 256, "gpuheap: an object_heap has at most 256 classes");

  // Visits the objects that were made as a T, if T is Base or derives from it.
  template <class T, class Base, class Visit>
  GPUHEAP_FN void for_each_of(Visit& visit) const {
    if constexpr (simt::is_base_of_v<Base, T>) visit_all<T, Base>(visit);
  }
  template <class T, class Base, class Visit>
  GPUHEAP_FN void visit_all(Visit& visit) const {
    constexpr unsigned c = list::template index_of<T>(), capacity = list::template capacity<T>();
    unsigned const leaves = pool_.num_leaves();
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i != leaves; ++i) {
      GPUHEAP_NO_UNROLL
      for (auto bits = simt::load_cached(pool_.allocated(c)[i]); bits != 0; bits &= bits - 1) {
        simt::uint32_t const b = i * 64 + simt::lowest_bit(bits);
        GPUHEAP_NO_UNROLL
        for (auto live = ~simt::load_cached(pool_.blocks()[b].free) & simt::low_bits(capacity); live != 0; live &= live - 1) {
          visit(object_ptr<Base>{object_ptr<T>{pool_.block(b), simt::lowest_bit(live), capacity}});
        }
      }
    }
  }

  soa::block_pool pool_{};
  failure_record* record_ = nullptr;
};

#if GPUHEAP_HAS_HOST
// @brief The number of live objects of one class, and the memory of the class.
struct object_count {
  std::uint64_t live = 0;
  std::uint64_t blocks = 0;
  std::uint64_t slots = 0;  // the slots of these blocks

  // @return the share of the blocks' slots that no object uses, from 0 to 1; 0 without blocks
  [[nodiscard]] double fragmentation() const { return slots == 0 ? 0 : 1 - static_cast<double>(live) / static_cast<double>(slots); }
};

// @brief Owns memory and the objects in it. Host code.
// @note Move-only. Kernels of any number of streams of one device may use one heap at once. One host thread at a time calls a member
// function. In a CUDA program, nvcc must compile the files that use this class.
template <class... Classes>
class object_heap {
  using list = soa::class_list<Classes...>;

 public:
  using ref_type = object_heap_ref<Classes...>;

  // @brief Makes a heap.
  // @param size bytes in all, metadata included
  // @param from the source of the memory
  // @param stream the stream that initialises the heap; kernels that run on it afterwards may use the heap
  // @throws out_of_memory if `from` does not have the memory
  // @throws gpuheap::error if the size is less than min_bytes()
  // @note For each stream on which for_each() is called, the heap takes further device memory: 12 bytes for each of its blocks.
  explicit object_heap(heap_size size = heap_size::from_environment(), memory::resource from = memory::device, stream_ref stream = {}) {
    simt::size_t const bytes = size.resolve(from);
    if (bytes < min_bytes()) {
      throw plain_error("gpuheap: an object_heap of " + memory::format_bytes(bytes) + " is too small: its classes need at least " +
                        std::to_string(min_bytes()) + " bytes");
    }
    memory_ = memory::allocation{std::move(from), bytes};
    auto* const base = static_cast<char*>(memory_.base());
    simt::size_t const pool_bytes = (bytes - record_bytes) & ~simt::size_t{255};
    static_cast<soa::pool_layout&>(ref_.pool_) = soa::pool_layout::over({base, pool_bytes}, list::count, list::block_bytes());
    ref_.record_ = reinterpret_cast<failure_record*>(base + pool_bytes);
    most_threads_ = std::max(1u, simt::query_device().num_sms) * 2048;
    reset(stream);
  }

  // @return the least size in bytes that a heap of these classes can have
  [[nodiscard]] static simt::size_t min_bytes() {
    return soa::pool_layout::bytes_for(1, list::count, list::block_bytes()) + record_bytes + 256;
  }

  // @return the device's view, valid as long as the heap lives, across reset() and moves
  [[nodiscard]] ref_type ref() const { return ref_; }

  // @brief Forgets all objects, in stream order. Does not wait.
  // @note No kernel of another stream uses the heap meanwhile.
  void reset(stream_ref stream = {}) {
    soa::initialise(ref_.pool_, stream);
    simt::fill(ref_.record_, 0, record_bytes, stream);
    seen_ = {};
  }

  // @brief Calls `visit(object_ptr<T>)` in parallel, in no order, for every object of class T, and of classes that derive from T, if the
  // object is live when the pass over its class begins. The passes over the classes come one after the other.
  // @param visit a trivially copyable functor whose call operator is a GPUHEAP_FN. It may make objects, change any object, destroy the one
  // that it is called with and objects of other classes
  // @param stream the stream that the pass runs on. The host does not wait for the pass
  template <class T, class Visit>
  void for_each(Visit visit, stream_ref stream = {}) {
    static_assert((simt::is_base_of_v<T, Classes> || ...), "gpuheap: no class of the object_heap is this one, or has it as base");
    (for_each_of<Classes, T>(visit, stream), ...);
  }

  // @brief Counts the objects of class T. Waits for the stream.
  // @return the counts; exact if no other stream uses the heap meanwhile
  template <class T>
  [[nodiscard]] object_count count(stream_ref stream = {}) const {
    auto const found = soa::verify(ref_.pool_, stream, list::template index_of<T>()).found;
    return {found.live, found.allocated, found.slots};
  }

  // @brief Waits for the stream, and reports failures since the last check().
  // @throws out_of_memory if create() found no room
  // @throws gpuheap::error if an object was destroyed twice
  void check(stream_ref stream = {}) {
    failure_record record;
    simt::copy(&record, ref_.record_, sizeof record, stream);
    simt::synchronize(stream);
    statistics now;
    detail::read_failures(now, record);
    now.heap_bytes = memory_.bytes();
    exhaustion const what{.failed_requests = now.failed_requests - seen_.failed_requests, .first = now.first_failure, .stats = now};
    bool const refused = now.double_frees != seen_.double_frees;
    seen_ = now;
    if (what.failed_requests != 0) throw out_of_memory(what.text());
    if (refused)
      throw plain_error("gpuheap: " + std::to_string(now.double_frees) +
                        " objects were destroyed that were not live any more: destroy each object once");
  }

  // @brief Walks the heap and looks for damage. Waits for the stream.
  // @return a report whose `problem` is empty if the structures are sound
  // @note No kernel uses the heap meanwhile.
  [[nodiscard]] soa::audit verify(stream_ref stream = {}) const { return soa::verify(ref_.pool_, stream); }

 private:
  static constexpr simt::size_t record_bytes = 1024;
  static_assert(sizeof(failure_record) <= record_bytes);

  // Launches a pass over the objects that were made as a T, if T is Base or derives from it.
  template <class T, class Base, class Visit>
  void for_each_of(Visit visit, stream_ref stream) {
    if constexpr (simt::is_base_of_v<Base, T>) pass_over<T, Base>(visit, stream);
  }
  template <class T, class Base, class Visit>
  void pass_over(Visit visit, stream_ref stream) {
    constexpr unsigned capacity = list::template capacity<T>();
    soa::block_pool const& pool = ref_.pool_;
    soa::pass_list const pass = pass_of(stream);
    simt::fill(pass.count, 0, sizeof(simt::uint32_t), stream);
    simt::launch(pool.num_leaves(), soa::list_blocks{pool, list::template index_of<T>(), pass}, {.stream = stream});
    // At most as many threads as the device runs at once. Together they go through all blocks.
    simt::size_t const all = simt::size_t{pool.num_blocks} * capacity;
    unsigned const threads = all < most_threads_ ? static_cast<unsigned>(all) : most_threads_ / capacity * capacity;
    simt::launch(threads, soa::visit_objects<T, Base, Visit>{pool, pass, capacity, threads, visit}, {.stream = stream});
  }

  // Passes on one stream come one after the other, so they can share a list of blocks.
  struct stream_pass {
    void* stream = nullptr;
    memory::allocation memory;
  };
  [[nodiscard]] soa::pass_list pass_of(stream_ref stream) {
    simt::uint32_t const num_blocks = ref_.pool_.num_blocks;
    auto found = std::find_if(passes_.begin(), passes_.end(), [&](stream_pass const& p) { return p.stream == stream.native; });
    if (found == passes_.end()) {
      passes_.push_back({stream.native, memory::allocation{memory::device, soa::pass_list::bytes_for(num_blocks)}});
      found = passes_.end() - 1;
    }
    return soa::pass_list::over(found->memory.base(), num_blocks);
  }

  memory::allocation memory_;
  std::vector<stream_pass> passes_;
  ref_type ref_{};
  unsigned most_threads_ = 0;
  statistics seen_{};  // the failures at the last check()
};
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
