// Checks the invariants of halloc's slabs. Host only, for tests and for heap::verify.
//
// While no kernel is running on the heap:
//   1. every lock is open; a slab is held if and only if one class has it as head or next head, and it is of that class
//   2. used chunks = bits set = sum of the blocks' lengths; a block begins at a multiple of its length and its bits are set
//   3. an unassigned slab is empty and in the free set. A slab that is neither held nor unassigned is not empty. Its level is not above
//      that of its fill, and it is in the set of its level, unless its level is full
//   4. the summary bits above a slab's bit in its set are set
#pragma once

#include <gpuheap/allocators/halloc/slabs.hpp>
#include <gpuheap/simt/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#include <vector>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::halloc_parts {

// The result of verify().
struct audit {
  std::string problem;  // the first one that verify() found; empty: every invariant holds
  size_t live_blocks = 0, live_bytes = 0;
  size_t num_slabs = 0;
  size_t held_slabs = 0;  // slabs of every role but `unassigned`, not only those whose role is `held`
  size_t heads = 0;       // heads and next heads of all classes
};

// Returns the number of slabs that are not unassigned. Copies only the slabs' words. Waits for the stream.
template <halloc_config Config, class Rules>
[[nodiscard]] size_t count_held_slabs(slabs<Config, Rules> const& heap, stream_ref stream) {
  layout<Config> const at = heap.where();
  std::vector<slab_use> words(size_t{at.num_slabs} * at.word_stride(at.lg_slab));
  simt::copy(words.data(), heap.base() + at.words, words.size() * sizeof(slab_use), stream);
  simt::synchronize(stream);
  size_t held = 0;
  for (size_t i = 0; i < words.size(); i += at.word_stride(at.lg_slab)) held += !words[i].is(slab_role::unassigned);
  return held;
}

// Checks all slabs. Waits for the stream; no kernel may be running on the heap.
template <halloc_config Config, class Rules>
[[nodiscard]] audit verify(slabs<Config, Rules> const& heap, stream_ref stream) {
  using sizes = classes<Config>;
  using places = layout<Config>;
  places const at = heap.where();
  std::vector<char> image(at.pool);
  simt::copy(image.data(), heap.base(), at.pool, stream);
  simt::synchronize(stream);
  auto const load = [&]<class T>(size_t offset, T) { return *reinterpret_cast<T const*>(image.data() + offset); };

  audit found;
  found.num_slabs = at.num_slabs;
  auto const note = [&found](std::string const& problem) {
    if (found.problem.empty()) found.problem = problem;
  };
  auto const fail = [&note](unsigned s, std::string const& what) { note("slab " + std::to_string(s) + what); };
  auto const is_in = [&](unsigned set_index, unsigned s) {
    bitmap_tree const there = heap.set(set_index);
    auto const word_at = [&](bitmap_tree::word* p) {
      return load(static_cast<size_t>(reinterpret_cast<char*>(p) - heap.base()), bitmap_tree::word{});
    };
    unsigned const leaf = s / 64;
    return (word_at(there.leaves + leaf) >> (s % 64) & 1) != 0 && (word_at(there.mids + leaf / 64) >> (leaf % 64) & 1) != 0 &&
           (there.num_tops() == 0 || (word_at(there.tops + leaf / 4096) >> (leaf / 64 % 64) & 1) != 0);
  };

  std::vector<unsigned> holder(at.num_slabs, sizes::count);
  for (unsigned c = 0; c < sizes::count; ++c) {
    if (load(places::of_class(c) + 132, uint32_t{}) != 0) note("the lock of class " + std::to_string(c) + " is not open");
    for (unsigned offset : {0u, 128u}) {
      uint32_t const head = load(places::of_class(c) + offset, uint32_t{});
      if (head == 0) continue;
      if (head > at.num_slabs) {
        fail(head - 1, " does not exist and is a head");
        continue;
      }
      if (holder[head - 1] != sizes::count) fail(head - 1, " is held twice");
      holder[head - 1] = c;
      ++found.heads;
    }
  }

  unsigned const chunks_there = places::chunks_in(at.lg_slab);
  for (unsigned s = 0; s < at.num_slabs; ++s) {
    slab_use const w{load(at.words + size_t{s} * places::word_stride(at.lg_slab) * 8, slab_use::word{})};
    unsigned const c = w.size_class(), kind = sizes::kind_of(c);
    auto const slab = fill_levels<Config>::of(at.lg_slab, kind);
    size_t const taken = at.taken + s * chunk_map::taken_words(chunks_there) * 8;
    size_t const starts = at.starts + s * chunk_map::start_words(chunks_there) * 4;

    unsigned bits_set = 0, in_blocks = 0;
    for (unsigned i = 0; i < chunk_map::taken_words(chunks_there); ++i) bits_set += simt::popcount(load(taken + i * 8, uint64_t{}));
    for (unsigned chunk = 0; chunk < chunks_there; ++chunk) {
      unsigned const n = chunk_map::length_of(load(starts + chunk / 8 * 4, uint32_t{}) >> (chunk % 8 * 4) & 15);
      if (n == 0) continue;
      in_blocks += n;
      ++found.live_blocks;
      found.live_bytes += size_t{n} * sizes::chunk_bytes(kind);
      uint64_t const mask = simt::low_bits(n) << (chunk % 64);
      if (n > 8 || chunk % n != 0 || chunk + n > slab.capacity) fail(s, " has a block at a wrong place, at chunk " + std::to_string(chunk));
      if ((load(taken + chunk / 64 * 8, uint64_t{}) & mask) != mask) fail(s, " has a block whose bits are not set");
    }
    if (w.used() != bits_set || w.used() != in_blocks) {
      fail(s, " counts " + std::to_string(w.used()) + " used chunks, has " + std::to_string(bits_set) + " bits and blocks of " +
                  std::to_string(in_blocks) + " chunks");
    }

    slab_role const level = rules::level(slab, w.used(), sizes::chunks_of(c));
    if (w.is(slab_role::held) != (holder[s] != sizes::count))
      fail(s, w.is(slab_role::held) ? " is marked as held, and no class holds it" : " is a head, and is not marked as held");
    if (w.is(slab_role::held) && holder[s] != c) fail(s, " is the head of another class than its own");
    if (!w.is(slab_role::unassigned)) ++found.held_slabs;
    if (w.is(slab_role::held)) continue;
    if (w.is(slab_role::unassigned) && w.used() != 0) fail(s, " is unassigned, and is not empty");
    if (level < w.role()) fail(s, " has a higher level than its fill says");
    if (!w.is(slab_role::full) && !is_in(heap.set_of(w.role(), c), s))
      fail(s, " is not in the set of its level, or a summary bit above its bit is clear");
  }
  return found;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::halloc_parts
#endif
