// A pool of DynaSOAr blocks: equal pieces of memory, each with up to 64 slots of one class. Bitmaps say which blocks are free, which belong
// to a class (allocated), and which of the allocated blocks have a free slot (active).
//
// A block at rest:
//   free        no tag, no free slots;  its bit in the free tree
//   allocated   tag {class, capacity};  its bit among the allocated of the class;  active, by its bit in the active tree of the class, if
//               and only if it has a free slot. At least one slot is taken
//
//   take        takes slots of an active block by one AND. If there is no active block, opens a free one: writes its tag before it makes
//               its slots free
//   give back   frees slots by an OR. If no slot is in use then, closes the block: exchanges all slots for none by a compare-exchange,
//               clears the block's bits, and puts it into the free tree
//   active      a block's bit is recomputed after every change from or to "no slot is free" (bitmap_tree::recompute)
//
// Why a slot is never given twice. The result of the AND says which thread took a bit. Between the thread's look at the active tree and its
// AND, the block may have been closed, and opened for another class. But now the thread has a slot of the block, so no thread can close the
// block, and its tag does not change. So the thread reads the tag once more. If the class is another one, the thread gives the slots back
// as their owner would. All states that the thread changes are those of the class that the tag names. Closing a block takes its slots too.
// If a thread has closed a block that was opened for another capacity meanwhile, and that may have other slots in use, the thread gives
// back the slots that it took by closing the block.
//
// Why a request fails only for lack of slots. Bits are hidden for a moment only while a block changes its state, and every such change is
// counted (relocation_count): a search that finds nothing is repeated if a change crossed it. A search misses only slots that another
// thread has taken by mistake and is giving back. That happens only if a block has changed its class meanwhile.
#pragma once

#include <gpuheap/allocators/dynasoar/layout.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::soa {

// Slots of one block that the caller has taken.
struct grant {
  uint32_t block = no_block;
  bool changed = false;  // the block went from no free slot to some, or from some to none: its states must be updated
  free_slots::word slots = 0;
  [[nodiscard]] GPUHEAP_HD constexpr bool none() const { return block == no_block; }
};
// One slot.
struct place {
  uint32_t block = no_block;
  uint32_t slot = 0;
  [[nodiscard]] GPUHEAP_HD constexpr bool none() const { return block == no_block; }
};

// A view of the pool. Device, any thread. `Self` derives from it, and may replace its steps, as tests do. Functions that are not inlined
// get a pointer to the layout in memory. Chains of such calls are kept short, because each call costs registers.
template <class Self>
struct basic_block_pool : pool_layout {
  using word = free_slots::word;
  // How many active blocks a request may find full before it opens a free one.
  static constexpr unsigned tries = 5;

  // The pool whose layout lies at `at`.
  [[nodiscard]] GPUHEAP_FN static Self of(pool_layout const* at) {
    Self pool;
    static_cast<pool_layout&>(pool) = *at;
    return pool;
  }
  [[nodiscard]] GPUHEAP_FN structures::relocation_count relocations() const { return {&state()->moves}; }
  [[nodiscard]] GPUHEAP_FN free_slots slots(uint32_t b) const { return {&blocks()[b].free}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint64_t> tag(uint32_t b) const { return simt::global_ref<uint64_t>{blocks()[b].tag}; }
  // relaxed: the result is a guess, unless the caller has a slot of the block. Then the tag was written before that slot became free.
  [[nodiscard]] GPUHEAP_FN block_tag tag_of(uint32_t b) const { return {tag(b).load(simt::relaxed)}; }

  // Takes a slot of class c for each lane of the group. All lanes of the group call, and want the same class of the same pool. `capacity`
  // is that of a block of class c. Returns the lane's slot, or a place that is none() if there is no slot.
  [[nodiscard]] GPUHEAP_FN place take(structures::warp_group group, unsigned c, unsigned capacity) const {
    // Ends: each pass serves at least the lowest lane of the group, or ends it.
    GPUHEAP_NO_UNROLL
    while (true) {
      grant got;
      if (group.leads()) got = Self::find(&state()->layout, c, capacity, group.size());
      got.block = group.from_leader(got.block);
      got.slots = group.from_leader(got.slots);
      // The other lanes acquire what the leader acquired.
      simt::sync_warp(group.mask);
      if (got.none()) return {};
      unsigned const rank = group.rank(), count = simt::popcount(got.slots);
      if (rank < count) return {got.block, free_slots::nth(got.slots, rank)};
      group.mask &= simt::all_lanes << simt::nth_set_bit(group.mask, count);
    }
  }

  // Gives the slots `which` of block b back. `tag` is the block's tag, which the caller read while it had the slots. A fence must have
  // released the owners' accesses before. Returns the block's free slots from before. A slot that was free already stays free.
  GPUHEAP_FN word deallocate(uint32_t b, block_tag tag, word which) const {
    word const before = slots(b).release(which);
    if ((before & which) == 0 && (before == 0 || (before | which) == tag.all())) {
      Self::follow_up(&state()->layout, b, tag, before, which);
    }
    return before;
  }

 protected:
  // A number that differs between warps, which spreads them over the trees.
  [[nodiscard]] GPUHEAP_FN static unsigned scatter() {
    unsigned const x = simt::global_warp() * 0x9e3779b1u;
    return x ^ x >> 15;
  }
  // The first bit of `bits` from `start` on, or else the lowest bit.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned first_of(word bits, unsigned start) {
    word const behind = bits & ~simt::low_bits(start % 64);
    return simt::lowest_bit(behind != 0 ? behind : bits);
  }

  // Takes up to `wanted` slots of class c in one block; the result is none() if there are no slots. One thread.
  GPUHEAP_COLD static grant find(pool_layout const* at, unsigned c, unsigned capacity, unsigned wanted) {
    unsigned left = Self::tries;
    bool careful = false;
    simt::uint64_t seen = 0;
    simt::back_off pause;
    // Ends: each pass that does not return, except the first, either saw that another thread moves or has moved a block, or took slots of a
    // block that had changed its class since the pass read the class. Each move serves a request or follows a free. A search that finds
    // nothing moves nothing, and a thread that moves a block waits for no thread.
    GPUHEAP_NO_UNROLL
    while (true) {
      if (careful) seen = of(at).relocations().read_begin();
      grant got = Self::find_active(at, c, wanted, left);
      bool opened = false;
      if (got.none()) {
        got = Self::find_free(at, c, capacity, wanted);
        opened = !got.none();
      }
      if (!got.none()) {
        bool const ours = Self::keep(at, c, got);
        if (opened) of(at).relocations().end();
        if (ours) return got;
        continue;
      }
      if (careful) {
        if (structures::relocation_count::quiet(seen) && of(at).relocations().read_end() == seen) return got;
        pause.wait();
      }
      careful = true;
      left = ~0u;
    }
  }
  // Returns whether the slots that were taken are of class c. If not, gives them back.
  [[nodiscard]] GPUHEAP_FN static bool keep(pool_layout const* at, unsigned c, grant got) {
    // This thread has a slot of the block, so the tag does not change. The claim has read a word that open() wrote after the tag.
    block_tag const now = of(at).tag_of(got.block);
    if (!now.is_of(c)) {
      // This thread has not accessed the slots.
      (void)of(at).deallocate(got.block, now, got.slots);
      return false;
    }
    // The arguments 0, 0 say that the block had no free slot and got none back, so that follow_up() only recomputes its active bit.
    if (got.changed) Self::follow_up(at, got.block, now, 0, 0);
    return true;
  }

  // Takes up to `wanted` slots of a block that is active in class c. Gives up after `left` blocks that have no free slot or another class.
  GPUHEAP_COLD static grant find_active(pool_layout const* at, unsigned c, unsigned wanted, unsigned left) {
    Self const pool = of(at);
    bitmap_tree const active = pool.active(c);
    unsigned const start = scatter();
    grant got;
    active.for_each_leaf(start % active.num_leaves, [&](unsigned i) {
      // relaxed: a guess, which the tag and the claim confirm.
      word bits = active.leaf(i).load(simt::relaxed);
      // Ends: each pass clears a bit.
      GPUHEAP_NO_UNROLL
      for (unsigned bit = 0; bits != 0; bits &= ~(word{1} << bit)) {
        bit = first_of(bits, start >> 8);
        uint32_t const b = i * 64 + bit;
        if (pool.tag_of(b).is_of(c)) {
          free_slots::claimed const some = pool.slots(b).claim(wanted, start >> 16 & 63);
          if (some.slots != 0) {
            got = {b, some.left == 0, some.slots};
            return true;
          }
        }
        if (--left == 0) return true;
      }
      return false;
    });
    return got;
  }

  // Opens a free block for class c, and takes up to `wanted` of its slots. If it finds one, it leaves a relocation open, which the caller
  // ends when the block's states have been updated.
  GPUHEAP_COLD static grant find_free(pool_layout const* at, unsigned c, unsigned capacity, unsigned wanted) {
    Self const pool = of(at);
    bitmap_tree const free = pool.free_blocks();
    unsigned const start = scatter();
    grant got;
    free.for_each_leaf(start % free.num_leaves, [&](unsigned i) {
      // Ends: a pass that does not return lost the bit to another thread, which has opened the block.
      GPUHEAP_NO_UNROLL
      while (true) {
        // relaxed: a guess, which take() confirms.
        word const bits = free.leaf(i).load(simt::relaxed);
        if (bits == 0) return false;
        uint32_t const b = i * 64 + first_of(bits, start >> 8);
        pool.relocations().begin();
        if (free.take(b)) {
          got = pool.open(b, c, capacity, wanted);
          return true;
        }
        pool.relocations().end();
      }
    });
    return got;
  }
  // Opens block b, which this thread took from the free tree, and takes up to `wanted` of its slots.
  [[nodiscard]] GPUHEAP_FN grant open(uint32_t b, unsigned c, unsigned capacity, unsigned wanted) const {
    block_tag const mine = block_tag::of(c, capacity);
    word const taken = free_slots::choose(mine.all(), wanted, 0);
    // relaxed: slots.open() publishes the tag.
    tag(b).store(mine.bits, simt::relaxed);
    slots(b).open(mine.all() & ~taken);
    // release: a pass over the objects that sees the bit sees the tag.
    simt::global_ref<word>{allocated(c)[b / 64]}.fetch_or(word{1} << (b % 64), simt::release);
    return {b, taken != mine.all(), taken};
  }

  // Updates the states of block b after the slots `which` were given back and its word was `before`.
  GPUHEAP_COLD static void follow_up(pool_layout const* at, uint32_t b, block_tag tag, word before, word which) {
    Self const pool = of(at);
    bool alone = false;
    pool.relocations().begin();
    // Ends: a pass that does not leave the loop closed a block that other threads have emptied, and opened for another capacity, since.
    // Lock-free.
    GPUHEAP_NO_UNROLL
    while ((before | which) == tag.all() && pool.slots(b).close(tag.all())) {
      // This thread has the block's slots, so the tag does not change now. It may differ from the argument `tag`.
      block_tag const now = pool.tag_of(b);
      alone = now.all() == tag.all();
      if (!alone) {
        which = tag.all();
        before = pool.slots(b).release(which);
      }
      tag = now;
      if (alone) break;
    }
    // relaxed: the next thread that writes the tag opens the block, after it has taken the block's bit from the free tree.
    if (alone) pool.tag(b).store(0, simt::relaxed);
    unsigned const c = tag.kind();
    if (alone || before == 0) pool.active(c).recompute(b, [&] { return pool.has_room(b, c); });
    if (alone) {
      // relaxed: only a thread that opens the block sets the bit again, after it has taken the block from the free tree.
      simt::global_ref<word>{pool.allocated(c)[b / 64]}.fetch_and(~(word{1} << (b % 64)), simt::relaxed);
      pool.free_blocks().set(b);
    }
    pool.relocations().end();
  }
  // Whether block b is of class c and has a free slot. acquire, both: see bitmap_tree::recompute.
  [[nodiscard]] GPUHEAP_FN bool has_room(uint32_t b, unsigned c) const {
    return slots(b).ref().load(simt::acquire) != 0 && block_tag{tag(b).load(simt::acquire)}.is_of(c);
  }
};

// The pool without replaced steps.
struct block_pool : basic_block_pool<block_pool> {};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::soa
