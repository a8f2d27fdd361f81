// Checks the invariants of a Gallatin heap, in a host copy of its metadata. The file also has the kernel that makes an empty heap.
//
// While no kernel is running on the heap:
//   1. no slot is busy, no lock is held, no relocation is open;
//   2. a segment is in the tree of free segments exactly if its word says that it is free; no tree has a bit beyond the last segment, and
//      the summary bits above each set bit are set;
//   3. in a segment of a class, as many blocks have their home bit as its word counts, and exactly these are home. Not all blocks are home,
//      since the segment would then be free. If at least one is, the segment is in the tree of its class;
//   4. in an open block, no slice is freed that was never handed out. The block's word counts the full words, and not all words are full,
//      since the block would then be home;
//   5. an open block with slices that were never taken is in a slot;
//   6. the word of a run's first segment has the run's length, and every tail belongs to a run.
#pragma once

#include <gpuheap/allocators/gallatin/heap_state.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::gallatin_parts {

// Kernel, one thread for each leaf of a tree, for each slot, and for each segment of the wavefront: makes an empty heap. All words are zero
// before.
template <gallatin_config Config, class Parts>
struct make_heap {
  layout<Config, Parts> at;

  [[nodiscard]] GPUHEAP_HD static unsigned num_threads(layout<Config, Parts> const& at) {
    unsigned const slots = at.num_classes * at.slots_per_class, wave = at.wave_begin(at.num_classes);
    unsigned const most = slots > wave ? slots : wave;
    return most > at.tree_leaves() ? most : at.tree_leaves();
  }
  GPUHEAP_FN void operator()(unsigned i) const {
    uint32_t const wave = at.wave_begin(at.num_classes);
    if (i < at.tree_leaves()) {
      uint32_t const first = i * 64, end = at.num_segments - first < 64 ? at.num_segments : first + 64;
      uint32_t const from = wave < first ? first : wave;
      if (from < end) at.free_segments().set_run(from, end - from);
    }
    GPUHEAP_NO_UNROLL
    for (unsigned c = 0; c != at.num_classes; ++c) {
      uint32_t const begin = at.wave_begin(c);
      if (begin == at.num_segments) continue;
      unsigned const n = at.blocks_of(c), num_slots = at.num_slots(c);
      // relaxed, all: no thread uses the heap before the kernel has ended.
      if (i >= begin && i - begin < at.wave_segments(c)) {
        unsigned const before = (i - begin) * n, used = num_slots - before < n ? num_slots - before : n;
        at.segment(i).ref().store(segment_word::of_class(c, n - used).bits, simt::relaxed);
        for (unsigned w = 0; w != at.home_words(); ++w) {
          uint64_t const all = w * 64 < n ? simt::low_bits(n - w * 64) : 0, gone = w * 64 < used ? simt::low_bits(used - w * 64) : 0;
          simt::global_ref<uint64_t>{at.homes_of(i)[w]}.store(all & ~gone, simt::relaxed);
        }
        if (used != n) at.segments_with_blocks(c).set(i);
      }
      if (i / at.slots_per_class != c || i % at.slots_per_class >= num_slots) continue;
      unsigned const k = i % at.slots_per_class;
      uint32_t const id = at.block_id(begin + k / n, k % n);
      at.block(id).ref().store(block_word::of(c, mode::open).bits, simt::relaxed);
      at.slot(c, k).ref().store(slot_word::of(id, 0, 0).bits, simt::relaxed);
    }
  }
};

#if GPUHEAP_HAS_HOST
// The result of verify(). Host.
struct audit {
  std::string problem;  // empty: every invariant holds
  uint64_t free_segments = 0;
  uint64_t live_slices = 0;  // handed out and not freed; the slices of one request count as one
  uint64_t live_blocks = 0;  // blocks that were handed out as a whole
  uint64_t live_runs = 0;
};

// A copy of the heap's metadata on the host.
template <gallatin_config Config, class Parts>
class snapshot {
 public:
  snapshot(layout<Config, Parts> const& at, stream_ref stream)
      : at_{at},
        slots_(size_t{at.num_classes} * at.slots_per_class),
        trees_((at.num_classes + 1) * at.tree_words()),
        segments_(at.num_segments),
        homes_(size_t{at.num_segments} * at.home_words()),
        blocks_(num_blocks() * at.block_stride()),
        freed_(num_blocks() * at.slice_words()) {
    fetch(slots_, at.slots, stream);
    fetch(trees_, at.trees, stream);
    fetch(segments_, at.segments, stream);
    fetch(homes_, at.homes, stream);
    fetch(blocks_, at.blocks, stream);
    fetch(freed_, at.freed, stream);
    simt::synchronize(stream);
  }

  [[nodiscard]] audit examine() {
    for (unsigned t = 0; t <= at_.num_classes; ++t) look_at_tree(t);
    look_at_slots();
    for (uint32_t s = 0; s != at_.num_segments; ++s) look_at_segment(s);
    return found_;
  }

 private:
  [[nodiscard]] size_t num_blocks() const { return size_t{at_.num_segments} * at_.blocks_of(0); }
  static void fetch(std::vector<uint64_t>& to, uint64_t const* from, stream_ref stream) {
    simt::copy(to.data(), from, to.size() * sizeof(uint64_t), stream);
  }
  void require(bool holds, char const* what, uint64_t which, char const* otherwise) {
    if (!holds && found_.problem.empty()) found_.problem = what + std::to_string(which) + otherwise;
  }

  [[nodiscard]] bool is_in_tree(unsigned t, uint32_t s) const { return (trees_[t * at_.tree_words() + s / 64] >> (s % 64) & 1) != 0; }
  void look_at_tree(unsigned t) {
    unsigned const leaves = at_.tree_leaves();
    uint64_t const* const words = trees_.data() + t * at_.tree_words();
    uint64_t const* const mids = words + leaves;
    uint64_t const* const tops = mids + bitmap_tree::mids_for(leaves);
    for (unsigned i = 0; i != leaves; ++i) {
      if (words[i] == 0) continue;
      bool const top = bitmap_tree::tops_for(leaves) == 0 || (tops[i / 4096] >> (i / 64 % 64) & 1) != 0;
      require(top && (mids[i / 64] >> (i % 64) & 1) != 0, "tree ", t, " has a bit whose summary bits are not set");
    }
    uint64_t const beyond = at_.num_segments % 64 == 0 ? 0 : ~simt::low_bits(at_.num_segments % 64);
    require((words[leaves - 1] & beyond) == 0, "tree ", t, " has a bit beyond the last segment");
  }
  void look_at_slots() {
    is_in_slot_.assign(num_blocks(), false);
    for (unsigned c = 0; c != at_.num_classes; ++c) {
      for (unsigned i = 0; i != at_.num_slots(c); ++i) {
        slot_word const slot{slots_[size_t{c} * at_.slots_per_class + i]};
        require(!slot.is_busy(), "class ", c, " has a slot that is busy");
        if (!slot.has_block()) continue;
        bool const there = slot.block() < num_blocks();
        require(there, "class ", c, " has a slot with a block that does not exist");
        if (!there) continue;
        is_in_slot_[slot.block()] = true;
      }
    }
  }

  void look_at_segment(uint32_t s) {
    segment_word const word{segments_[s]};
    require(is_in_tree(0, s) == word.is_free(), "segment ", s,
            word.is_free() ? " is free, and not in the tree" : " is in the tree, and not free");
    if (word.is_free()) {
      ++found_.free_segments;
    } else if (word.kind() == segment_word::head) {
      bool whole = word.count() >= 1 && word.count() <= at_.num_segments - s;
      for (uint32_t i = 1; whole && i != word.count(); ++i) whole = segment_word{segments_[s + i]}.kind() == segment_word::tail;
      require(whole, "segment ", s, " begins a run, and not all of the run's segments are marked as its tail");
      ++found_.live_runs;
    } else if (word.kind() == segment_word::tail) {
      segment_word const before{s == 0 ? 0 : segments_[s - 1]};
      require(before.kind() == segment_word::head || before.kind() == segment_word::tail, "segment ", s,
              " is marked as a tail and belongs to no run");
    } else {
      look_at_blocks(s, word);
    }
  }
  void look_at_blocks(uint32_t s, segment_word word) {
    unsigned const c = word.kind() - segment_word::first_class;
    require(c < at_.num_classes, "segment ", s, " is of no class");
    if (c >= at_.num_classes) return;
    unsigned const n = at_.blocks_of(c);
    unsigned homes = 0;
    for (unsigned place = 0; place != at_.blocks_of(0); ++place) {
      bool const home = (homes_[size_t{s} * at_.home_words() + place / 64] >> (place % 64) & 1) != 0;
      require(!home || place < n, "segment ", s, " has a home bit beyond its last block");
      if (place >= n) continue;
      homes += home;
      look_at_block(at_.block_id(s, place), c, home);
    }
    require(homes == word.count(), "segment ", s, " has a count of blocks at home that differs from its home bits");
    require(homes < n, "segment ", s, " has all blocks at home, and is not free");
    require(homes == 0 || is_in_tree(c + 1, s), "segment ", s, " has blocks at home, and is not in the tree of its class");
  }
  void look_at_block(uint32_t id, unsigned c, bool home) {
    block_word const word{blocks_[id * size_t{at_.block_stride()}]};
    require(home == (word.state() == mode::home), "block ", id, home ? " is home, and in use" : " is not home, and not in use");
    if (word.state() == mode::home) return;
    require(word.size_class() == c, "block ", id, " is of another class than its segment");
    uint64_t const* const freed = freed_.data() + size_t{id} * at_.slice_words();
    if (word.state() == mode::whole) {
      require(freed[0] == 0, "block ", id, " was handed out as a whole, is freed, and is not home");
      ++found_.live_blocks;
      return;
    }
    unsigned const out = word.count() < at_.num_slices() ? word.count() : at_.num_slices();
    unsigned full = 0, back = 0;
    for (unsigned i = 0; i != at_.slice_words(); ++i) {
      uint64_t const may_be = i * 64 < out ? simt::low_bits(out - i * 64) : 0;
      require((freed[i] & ~may_be) == 0, "block ", id, " has a freed slice that was never handed out");
      full += freed[i] == simt::low_bits(at_.num_slices());
      back += simt::popcount(freed[i]);
    }
    require(full == word.full_words(), "block ", id, " has a count of full words that differs from its freed bits");
    require(full != at_.slice_words(), "block ", id, " has all slices freed, and is not home");
    require(out == at_.num_slices() || is_in_slot_[id], "block ", id, " has slices left, and is in no slot");
    found_.live_slices += out - back;
  }

  layout<Config, Parts> at_;
  std::vector<uint64_t> slots_, trees_, segments_, homes_, blocks_, freed_;
  std::vector<bool> is_in_slot_;  // for each block
  audit found_;
};
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::gallatin_parts
