// Checks the invariants of a KMA heap: a kernel goes through all superblocks, counts blocks and records the first fault.
//
// While no other kernel is running on the heap:
//   1. no relocation is open;
//   2. a free superblock has no bit set, and is in the queue;
//   3. a superblock in use has as many bits set as its word says, and none beyond its last block; a word of bits whose hint is set is full;
//   4. a superblock that is partly in use is a head of its class or in its class's room set;
//   5. the hint word of a run's first superblock is the run's length, all superblocks of a run are marked, and every marked one belongs to
//      a run;
//   6. the queue holds exactly the superblocks whose bits in `queued` are set, each once.
#pragma once

#include <gpuheap/allocators/kma/manager.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::kma_parts {

// Kernel, a thread for each place of the queue: puts all superblocks into the queue.
template <class Layout>
struct fill_queue {
  Layout at;
  GPUHEAP_FN void operator()(unsigned i) const {
    at.queue().init(i, at.num_superblocks, i);
    if (i >= (at.num_superblocks + 31) / 32) return;
    unsigned const here = at.num_superblocks - i * 32;
    simt::plain_write(at.queued[i], structures::free_bits::bits_of(here < 32 ? here : 32));
  }
};

// The fault of a superblock.
enum class fault : uint32_t { none, wrong_kind, wrong_bits, wrong_hint, not_queued, not_found, wrong_run, stray_tail, wrong_entry };

// Kernel: thread i checks every `threads`-th superblock, and every `threads`-th entry of the queue, from number i on. All accesses are
// relaxed, since no other kernel uses the heap.
template <class State>
struct take_census {
  using layout_type = typename State::layout_type;
  State* state;
  unsigned threads;
  bool thorough;  // false: only counts the superblocks that are held

  GPUHEAP_FN void operator()(unsigned i) const {
    layout_type const at = state->at;
    census mine;
    GPUHEAP_NO_UNROLL
    for (uint64_t s = i; s < at.num_superblocks; s += threads) look_at(at, static_cast<uint32_t>(s), mine);
    auto const queue = at.queue();
    unsigned const entries = thorough ? queue.size() : 0;
    GPUHEAP_NO_UNROLL
    for (uint64_t k = i; k < entries; k += threads) {
      uint32_t const s = queue.peek(static_cast<unsigned>(k));
      if (s >= at.num_superblocks || !is_queued(at, s)) found(mine, s, fault::wrong_entry);
      ++mine.entries;
      mine.entries_of += weight(s);
    }
    census& all = state->scratch;
    add(all.held, mine.held);
    add(all.blocks, mine.blocks);
    add(all.block_bytes, mine.block_bytes);
    add(all.runs, mine.runs);
    add(all.run_superblocks, mine.run_superblocks);
    add(all.queued, mine.queued);
    add(all.queued_of, mine.queued_of);
    add(all.entries, mine.entries);
    add(all.entries_of, mine.entries_of);
    if (mine.first_fault != 0) simt::global_ref<uint64_t>{all.first_fault}.fetch_max(mine.first_fault, simt::relaxed);
  }
  GPUHEAP_FN static void add(uint64_t& to, uint64_t n) {
    if (n != 0) simt::global_ref<uint64_t>{to}.fetch_add(n, simt::relaxed);
  }
  [[nodiscard]] GPUHEAP_FN static uint32_t read(uint32_t& word) { return simt::global_ref<uint32_t>{word}.load(simt::relaxed); }
  // Two different sets of equally many superblocks have different sums of weights, except by chance.
  [[nodiscard]] GPUHEAP_FN static uint64_t weight(uint32_t s) { return (s + 1) * 0x9e3779b97f4a7c15ull >> 7; }
  [[nodiscard]] GPUHEAP_FN static bool is_queued(layout_type const& at, uint32_t s) { return (read(at.queued[s / 32]) >> s % 32 & 1) != 0; }
  GPUHEAP_FN static void found(census& mine, uint32_t s, fault what) {
    uint64_t const here = ~(uint64_t{s} << 32 | static_cast<uint32_t>(what));
    if (here > mine.first_fault) mine.first_fault = here;
  }

  GPUHEAP_FN void look_at(layout_type const& at, uint32_t s, census& mine) const {
    slab_word const word = at.state(s).look();
    if (!word.is_free()) ++mine.held;
    if (!thorough) return;
    if (is_queued(at, s)) {
      ++mine.queued;
      mine.queued_of += weight(s);
    }
    fault const what = fault_of(at, s, word, mine);
    if (what != fault::none) found(mine, s, what);
  }
  [[nodiscard]] GPUHEAP_FN fault fault_of(layout_type const& at, uint32_t s, slab_word word, census& mine) const {
    unsigned const kind = word.kind();
    bool const is_small = kind != 0 && kind <= layout_type::num_classes;
    unsigned taken = 0;
    unsigned const capacity = is_small ? layout_type::capacity(kind - 1) : 0;
    GPUHEAP_NO_UNROLL
    for (unsigned w = 0; w != layout_type::num_segments; ++w) {
      uint32_t const bits = read(at.segments[simt::size_t{s} * layout_type::num_segments + w]);
      unsigned const here = capacity > w * 32 ? (capacity - w * 32 < 32 ? capacity - w * 32 : 32) : 0;
      uint32_t const valid = structures::free_bits::bits_of(here);
      if ((bits & ~valid) != 0) return fault::wrong_bits;
      if (capacity > 32 && (read(at.hints[s]) >> w & 1) != 0 && bits != valid) return fault::wrong_hint;
      taken += simt::popcount(bits);
    }
    if (word.is_opening()) return fault::wrong_kind;
    if (word.is_free())
      return taken != 0 || read(at.hints[s]) != 0 ? fault::wrong_bits : is_queued(at, s) ? fault::none : fault::not_queued;
    if (kind == run_head) return fault_of_run(at, s, mine);
    if (kind == run_tail) {
      bool const follows = s != 0 && at.state(s - 1).look().kind() >= run_head && !at.state(s - 1).look().is_free();
      return follows ? fault::none : fault::stray_tail;
    }
    if (!is_small || word.fill() > capacity) return fault::wrong_kind;
    if (taken != word.fill()) return fault::wrong_bits;
    mine.blocks += word.fill();
    mine.block_bytes += uint64_t{word.fill()} * layout_type::class_bytes(kind - 1);
    return word.fill() == capacity || can_be_found(at, s, kind - 1) ? fault::none : fault::not_found;
  }
  [[nodiscard]] GPUHEAP_FN bool can_be_found(layout_type const& at, uint32_t s, unsigned c) const {
    if ((at.tree(c).leaf(s / 64).load(simt::relaxed) >> s % 64 & 1) != 0) {
      bool in_tree = false;
      at.tree(c).for_each_leaf(s / 64, [&](unsigned leaf) { return in_tree = leaf == s / 64; });
      return in_tree;
    }
    bool is_head = false;
    GPUHEAP_NO_UNROLL
    for (unsigned h = 0; h != at.num_heads && !is_head; ++h) is_head = state->head(c, h).load(simt::relaxed) == s;
    return is_head;
  }
  [[nodiscard]] GPUHEAP_FN fault fault_of_run(layout_type const& at, uint32_t first, census& mine) const {
    uint32_t const k = read(at.hints[first]);
    if (k < 2 || k > at.num_superblocks - first) return fault::wrong_run;
    GPUHEAP_NO_UNROLL
    for (uint32_t s = first + 1; s != first + k; ++s) {
      slab_word const word = at.state(s).look();
      if (word.is_free() || word.kind() != run_tail || read(at.hints[s]) != 0) return fault::wrong_run;
    }
    ++mine.runs;
    mine.run_superblocks += k;
    return fault::none;
  }
};

#if GPUHEAP_HAS_HOST
// The result of verify(). Host.
struct audit {
  std::string problem;  // empty: every invariant holds
  uint64_t live_blocks = 0, live_runs = 0;
  uint64_t live_bytes = 0;  // bytes of live blocks and runs
  uint64_t held_superblocks = 0;
};

// Counts superblocks and, if `thorough`, finds faults. Host; waits for the stream.
template <class Layout, class State>
[[nodiscard]] census count_superblocks(Layout const& at, State* state, bool thorough, stream_ref stream) {
  constexpr unsigned most_threads = 1u << 17;
  census result;
  simt::copy(&state->scratch, &result, sizeof result, stream);
  unsigned const threads = at.num_superblocks < most_threads ? at.num_superblocks : most_threads;
  launch(threads, take_census<State>{state, threads, thorough}, {.stream = stream});
  simt::copy(&result, &state->scratch, sizeof result, stream);
  simt::synchronize(stream);
  return result;
}

// Checks the invariants. Host; waits for the stream.
template <class Layout, class State>
[[nodiscard]] audit verify(Layout const& at, State* state, stream_ref stream) {
  constexpr char const* texts[] = {"",
                                   "is of no class",
                                   "has other blocks in use than its word says",
                                   "has a hint at a word of bits that is not full",
                                   "is free, and not in the queue",
                                   "has blocks left, and is neither a head of its class nor in its room set",
                                   "begins a run, and not all of the run's superblocks are marked",
                                   "is marked as part of a run, and belongs to none",
                                   "is in the queue, and its bit in `queued` is clear"};
  census const found = count_superblocks(at, state, true, stream);
  uint64_t moves = 0;
  simt::copy(&moves, &state->moves, sizeof moves, stream);
  simt::synchronize(stream);
  audit result;
  result.live_blocks = found.blocks;
  result.live_runs = found.runs;
  result.live_bytes = found.block_bytes + found.run_superblocks * Layout::superblock_bytes;
  result.held_superblocks = found.held;
  if (found.entries != found.queued || found.entries_of != found.queued_of) {
    result.problem = "the queue has " + std::to_string(found.entries) + " entries, and " + std::to_string(found.queued) +
                     " superblocks are marked as being there";
  }
  if (!structures::relocation_count::quiet(moves)) result.problem = "a superblock is being moved, and no kernel runs";
  uint64_t const which = ~found.first_fault;
  if (found.first_fault != 0) {
    result.problem = "superblock " + std::to_string(which >> 32) + " " + texts[static_cast<uint32_t>(which)];
  }
  return result;
}
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::kma_parts
