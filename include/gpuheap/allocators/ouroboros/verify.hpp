// The kernels that make an Ouroboros heap, and the check of its invariants.
//
// While no other kernel is running on the heap:
//   1. every chunk is free in the pool (used before or not), or has a class, or is a tail of such a chunk, or is a segment of a queue;
//   2. a chunk of a class has as many spare pages as its word counts, none beyond its last page, and all spare pages are idle;
//   3. such a chunk has an entry, in the class's queue or in its tree, if and only if it has a spare page, and it has only one;
//   4. queues of pages hold idle pages of their class that are not spare; every idle page is either spare or in a queue;
//   5. a class has as many units as idle pages, and no thread waits for units or makes some;
//   6. each class has the right count of empty chunks (all of whose pages are spare), and no relocation is open.
#pragma once

#include <gpuheap/allocators/ouroboros/state.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::ouro {

// Kernel, one thread: writes the layout, the pool and the views of trees and queues into the heap's state.
template <class State>
struct write_layout {
  State* heap;
  typename State::layout_type at;
  GPUHEAP_FN void operator()(unsigned) const {
    heap->at = at;
    heap->pool = {at.free_tree(), at.lg_region, &heap->num_used, &heap->fresh, &heap->num_chunks};
    for (unsigned q = 0; q != State::num_classes; ++q) {
      heap->classes[q].listed = at.class_tree(q);
      heap->classes[q].queue =
          typename State::queue_type{at.queue_memory(q), at.queue_capacity(at.max_chunks), at.places, at.kept_segments(at.max_chunks)};
    }
  }
};

// Kernel: thread i initialises cell i of every ring.
template <class State>
struct init_queues {
  State* heap;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned q = 0; q != State::num_classes; ++q) heap->queue(q).init(i);
  }
};

// Kernel, one thread: adds the chunks first..end-1, which no thread has had. relaxed: the end of the kernel orders its stores before later
// kernels.
template <class State>
struct add_to_pool {
  State* heap;
  uint32_t first, end;

  GPUHEAP_FN void operator()(unsigned) const {
    simt::global_ref<uint32_t> const fresh{heap->fresh};
    if (fresh.load(simt::relaxed) > first) fresh.store(first, simt::relaxed);
    simt::global_ref<uint32_t>{heap->num_chunks}.store(end, simt::relaxed);
  }
};

// The fault of a chunk.
enum class fault : uint32_t { none, in_no_use, wrong_bits, wrong_count, listed_twice, listed_wrongly, not_listed, stray_tail, wrong_page };

// Kernel, a thread for each class: marks the chunks whose entry is in the class's queue or tree, and checks queued pages. All accesses are
// relaxed, since no other kernel uses the heap.
template <class State>
struct mark_entries {
  State* heap;
  GPUHEAP_FN void operator()(unsigned q) const {
    auto const& queue = heap->queue(q);
    unsigned const n = queue.size();
    GPUHEAP_NO_UNROLL
    for (unsigned k = 0; k != n; ++k) {
      uint32_t const value = queue.peek(k, typename State::storage{heap});
      if constexpr (State::holds_pages) {
        look_at_page(q, value);
      } else {
        mark(q, value);
      }
    }
    if constexpr (State::holds_pages) simt::global_ref<uint64_t>{heap->found.free_pages[q]}.fetch_add(n, simt::relaxed);
    if constexpr (State::holds_pages) simt::global_ref<uint64_t>{heap->found.queued_pages}.fetch_add(n, simt::relaxed);
    auto const tree = heap->classes[q].listed;
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i != tree.num_leaves; ++i) {
      GPUHEAP_NO_UNROLL
      for (uint64_t bits = tree.leaf(i).load(simt::relaxed); bits != 0; bits &= bits - 1) mark(q, i * 64 + simt::lowest_bit(bits));
    }
  }
  GPUHEAP_FN void mark(unsigned q, uint32_t chunk) const {
    if (chunk >= heap->num_chunks) return report(*heap, 0, fault::listed_wrongly);
    chunk_word const before{heap->at.word(chunk).fetch_or(chunk_word::marked, simt::relaxed)};
    if ((before.bits & chunk_word::marked) != 0) report(*heap, chunk, fault::listed_twice);
    if (before.use() != chunk_word::pages || before.size_class() != q) report(*heap, chunk, fault::listed_wrongly);
  }
  GPUHEAP_FN void look_at_page(unsigned q, uint32_t value) const {
    using layout_type = typename State::layout_type;
    uint32_t const chunk = value >> layout_type::lg_pages, page = value & ((1u << layout_type::lg_pages) - 1);
    if (chunk >= heap->num_chunks) return report(*heap, 0, fault::wrong_page);
    chunk_word const word{heap->at.word(chunk).load(simt::relaxed)};
    bool const right = word.use() == chunk_word::pages && word.size_class() == q && page < layout_type::pages_of(q);
    uint32_t const idle = heap->at.idle_word(chunk, page / 32).load(simt::relaxed);
    uint32_t const spare = heap->at.spare_word(chunk, page / 32).load(simt::relaxed);
    if (!right || ((idle & ~spare) >> page % 32 & 1) == 0) report(*heap, chunk, fault::wrong_page);
  }
  GPUHEAP_FN static void report(State& heap, uint32_t chunk, fault what) {
    simt::global_ref<uint64_t>{heap.found.first_fault}.fetch_max(~(uint64_t{chunk} << 32 | static_cast<uint32_t>(what)), simt::relaxed);
  }
};

// Kernel that runs after mark_entries, a thread for each chunk: counts, compares, and clears the marks.
template <class State>
struct look_at_chunks {
  using layout_type = typename State::layout_type;
  State* heap;
  GPUHEAP_FN void operator()(unsigned chunk) const {
    chunk_word const word{heap->at.word(chunk).fetch_and(~chunk_word::marked, simt::relaxed)};
    fault const what = fault_of(chunk, word);
    if (what != fault::none) mark_entries<State>::report(*heap, chunk, what);
  }
  GPUHEAP_FN static void add(uint64_t& to, uint64_t n) { simt::global_ref<uint64_t>{to}.fetch_add(n, simt::relaxed); }

  GPUHEAP_FN fault fault_of(uint32_t chunk, chunk_word word) const {
    unsigned const region = layout_type::region_chunks, in_region = chunk % region;
    bool const used_before = (heap->pool.free.leaf(chunk / 64).load(simt::relaxed) >> chunk % 64 & 1) != 0;
    bool const in_pool = used_before != (chunk >= heap->fresh);
    bool const marked = (word.bits & chunk_word::marked) != 0;
    if (in_pool != (word.use() == chunk_word::unused)) return fault::in_no_use;
    if (word.use() != chunk_word::pages) {
      if (marked) return fault::listed_wrongly;
      if (word.use() == chunk_word::queue) add(heap->found.queue_chunks, 1);
      if (word.use() != chunk_word::tail) return fault::none;
      chunk_word const head{heap->at.word(chunk - in_region).load(simt::relaxed)};
      return head.use() == chunk_word::pages && layout_type::span(head.size_class()) == region ? fault::none : fault::stray_tail;
    }
    unsigned const q = word.size_class(), num_pages = layout_type::pages_of(q);
    unsigned spare_pages = 0, idle_pages = 0;
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i * 32 < num_pages; ++i) {
      uint32_t const spare = heap->at.spare_word(chunk, i).load(simt::relaxed);
      uint32_t idle = spare;
      if constexpr (State::holds_pages) idle = heap->at.idle_word(chunk, i).load(simt::relaxed);
      auto const all = static_cast<uint32_t>(simt::low_bits(num_pages - i * 32 < 32 ? num_pages - i * 32 : 32));
      if ((idle & ~all) != 0 || (spare & ~idle) != 0) return fault::wrong_bits;
      spare_pages += simt::popcount(spare);
      idle_pages += simt::popcount(idle);
    }
    add(heap->found.chunks, 1);
    add(heap->found.live_pages, num_pages - idle_pages);
    add(heap->found.live_bytes, (num_pages - idle_pages) * layout_type::page_bytes(q));
    // free_pages has the pages that mark_entries counted in queues. Adding the spare pages and subtracting the idle ones yields 0 in the
    // end.
    add(heap->found.free_pages[q], uint64_t{0} - idle_pages + word.count());
    add(heap->found.units[q], idle_pages);
    if (word.count() == num_pages) add(heap->found.empty[q], 1);
    if (spare_pages != word.count()) return fault::wrong_count;
    if (marked != (word.count() != 0)) return marked ? fault::listed_wrongly : fault::not_listed;
    return fault::none;
  }
};

#if GPUHEAP_HAS_HOST
// The result of verify(). Host.
struct audit {
  std::string problem;  // empty: every invariant holds
  uint64_t live_pages = 0, live_bytes = 0;
  uint64_t chunks = 0;        // chunks of size classes
  uint64_t queue_chunks = 0;  // segments of queues
  uint64_t queued_pages = 0;
};

// Checks the invariants. Host; waits for the stream.
template <class State>
[[nodiscard]] audit verify(State* state, uint32_t num_chunks, stream_ref stream) {
  simt::fill(&state->found, 0, sizeof(census), stream);
  simt::launch(State::num_classes, mark_entries<State>{state}, {.block_threads = 32, .stream = stream});
  simt::launch(num_chunks, look_at_chunks<State>{state}, {.stream = stream});
  census found;
  typename State::class_state classes[State::num_classes];
  uint64_t moves = 0;
  simt::copy(&found, &state->found, sizeof found, stream);
  simt::copy(classes, state->classes, sizeof classes, stream);
  simt::copy(&moves, &state->moves, sizeof moves, stream);
  simt::synchronize(stream);
  audit result{"", found.live_pages, found.live_bytes, found.chunks, found.queue_chunks, found.queued_pages};
  if (found.first_fault != 0) {
    constexpr char const* texts[] = {"",
                                     "is neither free nor in use, or is both",
                                     "has a bit beyond its last page, or a spare page that is not idle",
                                     "has a count of spare pages that differs from its bits",
                                     "is listed twice",
                                     "is listed, and has no spare page, or has another class",
                                     "has a spare page and is not listed",
                                     "is marked as part of a larger chunk, and belongs to none",
                                     "has a page in a queue that is live, spare, or of another class"};
    uint64_t const which = ~found.first_fault;
    result.problem = "chunk " + std::to_string(which >> 32) + " " + texts[static_cast<uint32_t>(which)];
  }
  for (unsigned q = 0; q != State::num_classes; ++q) {
    std::string const which = "class " + std::to_string(q) + " ";
    if (found.free_pages[q] != 0) result.problem = which + "has idle pages that are neither spare nor queued";
    if (classes[q].units.units != found.units[q]) {
      result.problem =
          which + "has " + std::to_string(classes[q].units.units) + " units and " + std::to_string(found.units[q]) + " idle pages";
    }
    if ((classes[q].units.reserved | classes[q].units.expected) != 0)
      result.problem = which + "has threads that wait for units or make some";
    if (classes[q].empty != found.empty[q]) result.problem = which + "counts a wrong number of empty chunks";
  }
  if (!relocation_count::quiet(moves)) result.problem = "a chunk is being moved, and no kernel runs";
  return result;
}
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::ouro
