// A pool of DynaSOAr blocks: equal pieces of memory, each with up to 64 slots of one class. Bitmaps tell which blocks are free, which
// belong to a class (allocated), and which of these have a free slot (active).
//
// A block at rest:
//   free        no tag, no free slots;  its bit in the free tree
//   allocated   tag {class, capacity};  its bit among the allocated of the class;  active, by its bit in the active tree of the class, if
//               and only if it has a free slot. At least one slot is taken
//
//   take        an active block: its slots by one AND. None: a free block, whose tag is written before its slots are made free
//   give back   the slots by an OR. The last one: close the block by a compare-exchange of all slots against none; its bits go; it is free
//   active      settled after every change from or to "no slot is free" (bitmap_tree::recompute)
//
// Why a slot is never given twice. The AND tells which thread took a bit. That thread may have believed the block to be of another class,
// as the block was closed and opened between the look at the active tree and the AND. But now the block has a slot that is not free, so it
// cannot be closed, and its tag stays. So the thread reads the tag once more, and if the class is another one, gives the slots back as
// their owner would. All states that it changes are those of the class that the tag names. Closing takes slots too: if a thread has closed
// a block that has been opened for another capacity since, and that may have other slots in use, it gives back the slots that it has
// closed.
//
// Why a request fails only for lack of slots. Bits are hidden for a moment only while a block changes its state, and every such change is
// counted (relocation_count): a search that finds nothing is repeated unless no change crossed it. Only slots that another thread has taken
// by mistake, and is giving back, are not seen. That needs a block that changed its class meanwhile.
#pragma once

#include <gpuheap/allocators/dynasoar/layout.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::soa {

// Slots of one block, which are the caller's.
struct grant {
  uint32_t block = no_block;
  bool changed = false;  // from no free slot to some, or the other way: the block's states must follow
  free_slots::word slots = 0;
  [[nodiscard]] GPUHEAP_HD constexpr bool none() const { return block == no_block; }
};
// One slot.
struct place {
  uint32_t block = no_block;
  uint32_t slot = 0;
  [[nodiscard]] GPUHEAP_HD constexpr bool none() const { return block == no_block; }
};

// A view of the pool. Device, any thread. `Self` derives from it, and may replace its steps. Functions that are not inlined get a pointer
// to the layout in memory. They are called from few places and not deep, as each call on the way costs registers.
template <class Self>
struct basic_block_pool : pool_layout {
  using word = free_slots::word;
  // How many active blocks a request may find full before it opens a free one.
  static constexpr unsigned tries = 5;

  // The pool whose layout lies there.
  [[nodiscard]] GPUHEAP_FN static Self of(pool_layout const* at) {
    Self pool;
    static_cast<pool_layout&>(pool) = *at;
    return pool;
  }
  [[nodiscard]] GPUHEAP_FN structures::relocation_count relocations() const { return {&state()->moves}; }
  [[nodiscard]] GPUHEAP_FN free_slots slots(uint32_t b) const { return {&blocks()[b].free}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint64_t> tag(uint32_t b) const { return simt::global_ref<uint64_t>{blocks()[b].tag}; }
  // relaxed: a guess; or the caller has a slot of the block, and the tag was written before that became free.
  [[nodiscard]] GPUHEAP_FN block_tag tag_of(uint32_t b) const { return {tag(b).load(simt::relaxed)}; }

  // Takes a slot of class c, whose blocks have `capacity`, for each lane of the group, which all call this; none if there is none. The
  // lanes of the group want the same class of the same pool.
  [[nodiscard]] GPUHEAP_FN place take(structures::warp_group group, unsigned c, unsigned capacity) const {
    // Ends: each pass serves at least the lowest lane of the group, or ends it.
    GPUHEAP_NO_UNROLL
    while (true) {
      grant got;
      if (group.leads()) got = Self::find(&state()->layout, c, capacity, group.size());
      got.block = group.from_leader(got.block);
      got.slots = group.from_leader(got.slots);
      // The other lanes get what the leader acquired.
      simt::sync_warp(group.mask);
      if (got.none()) return {};
      unsigned const rank = group.rank(), count = simt::popcount(got.slots);
      if (rank < count) return {got.block, free_slots::nth(got.slots, rank)};
      group.mask &= simt::all_lanes << simt::nth_set_bit(group.mask, count);
    }
  }

  // Gives slots of block b back. The caller read the block's tag while the slots were its own. Returns the word of the block's slots as it
  // was. A fence must have released the owners' accesses before. If a slot was free already, only the others have changed.
  GPUHEAP_FN word deallocate(uint32_t b, block_tag tag, word which) const {
    word const before = slots(b).release(which);
    if ((before & which) == 0 && (before == 0 || (before | which) == tag.all())) {
      Self::follow_up(&state()->layout, b, tag, before, which);
    }
    return before;
  }

 protected:
  // A number that tells warps apart, to scatter them.
  [[nodiscard]] GPUHEAP_FN static unsigned scatter() {
    unsigned const x = simt::global_warp() * 0x9e3779b1u;
    return x ^ x >> 15;
  }
  // The first of `bits` from `start` on and around.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned first_of(word bits, unsigned start) {
    word const behind = bits & ~simt::low_bits(start % 64);
    return simt::lowest_bit(behind != 0 ? behind : bits);
  }

  // Finds up to `wanted` slots of class c in one block; none if there are none.
  GPUHEAP_COLD static grant find(pool_layout const* at, unsigned c, unsigned capacity, unsigned wanted) {
    unsigned left = Self::tries;
    bool careful = false;
    simt::uint64_t seen = 0;
    simt::back_off pause;
    // Ends: a pass that goes on, except the first, saw that another thread moves a block, or has moved one since. Each move serves a
    // request or follows a free; a search that finds nothing moves nothing, and a thread that moves a block waits for no thread. Or the
    // pass took slots of a block that had moved since it looked.
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
  // Whether slots that were taken are of class c. If not, they are given back.
  [[nodiscard]] GPUHEAP_FN static bool keep(pool_layout const* at, unsigned c, grant got) {
    // The block has a slot of this thread, so its tag stays. The claim has read from open(), which comes after the tag.
    block_tag const now = of(at).tag_of(got.block);
    if (!now.is_of(c)) {
      // This thread has not accessed the slots.
      (void)of(at).deallocate(got.block, now, got.slots);
      return false;
    }
    // As if nothing had been given back to a block without free slots.
    if (got.changed) Self::follow_up(at, got.block, now, 0, 0);
    return true;
  }

  // Takes up to `wanted` slots of a block that is active in class c; gives up after `left` blocks without one.
  GPUHEAP_COLD static grant find_active(pool_layout const* at, unsigned c, unsigned wanted, unsigned left) {
    Self const pool = of(at);
    bitmap_tree const active = pool.active(c);
    unsigned const start = scatter();
    grant got;
    active.for_each_leaf(start % active.num_leaves, [&](unsigned i) {
      // relaxed: a guess, which the tag and the claim confirm.
      word bits = active.leaf(i).load(simt::relaxed);
      // Ends: one pass a bit.
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

  // Opens a free block for class c, and takes up to `wanted` of its slots. If there is one, the move has begun, and the caller ends it when
  // the block's states have followed.
  GPUHEAP_COLD static grant find_free(pool_layout const* at, unsigned c, unsigned capacity, unsigned wanted) {
    Self const pool = of(at);
    bitmap_tree const free = pool.free_blocks();
    unsigned const start = scatter();
    grant got;
    free.for_each_leaf(start % free.num_leaves, [&](unsigned i) {
      // Ends: a pass that goes on lost the bit to another thread, which has opened the block.
      GPUHEAP_NO_UNROLL
      while (true) {
        // relaxed: a guess, which the taking confirms.
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
  // Opens a block that no other thread has.
  [[nodiscard]] GPUHEAP_FN grant open(uint32_t b, unsigned c, unsigned capacity, unsigned wanted) const {
    block_tag const mine = block_tag::of(c, capacity);
    word const taken = free_slots::choose(mine.all(), wanted, 0);
    // relaxed: published by what opens the slots.
    tag(b).store(mine.bits, simt::relaxed);
    slots(b).open(mine.all() & ~taken);
    // release: a pass that sees the bit sees the tag.
    simt::global_ref<word>{allocated(c)[b / 64]}.fetch_or(word{1} << (b % 64), simt::release);
    return {b, taken != mine.all(), taken};
  }

  // Updates the states of block b after the slots `which` were given back and its word was `before`.
  GPUHEAP_COLD static void follow_up(pool_layout const* at, uint32_t b, block_tag tag, word before, word which) {
    Self const pool = of(at);
    bool alone = false;
    pool.relocations().begin();
    // Ends: a pass that goes on closed a block that others have emptied and opened since, for another capacity. Lock-free.
    GPUHEAP_NO_UNROLL
    while ((before | which) == tag.all() && pool.slots(b).close(tag.all())) {
      // These slots are this thread's, so the tag stays; it may be another one than before.
      block_tag const now = pool.tag_of(b);
      alone = now.all() == tag.all();
      if (!alone) {
        which = tag.all();
        before = pool.slots(b).release(which);
      }
      tag = now;
      if (alone) break;
    }
    // relaxed: only a thread that opens the block writes it next, after taking the bit in the free tree.
    if (alone) pool.tag(b).store(0, simt::relaxed);
    unsigned const c = tag.kind();
    if (alone || before == 0) pool.active(c).recompute(b, [&] { return pool.has_room(b, c); });
    if (alone) {
      // relaxed: the bit is set again only by a thread that opens the block, after taking it from the free tree.
      simt::global_ref<word>{pool.allocated(c)[b / 64]}.fetch_and(~(word{1} << (b % 64)), simt::relaxed);
      pool.free_blocks().set(b);
    }
    pool.relocations().end();
  }
  // acquire, both: see bitmap_tree::recompute.
  [[nodiscard]] GPUHEAP_FN bool has_room(uint32_t b, unsigned c) const {
    return slots(b).ref().load(simt::acquire) != 0 && block_tag{tag(b).load(simt::acquire)}.is_of(c);
  }
};

// The pool as it is used.
struct block_pool : basic_block_pool<block_pool> {};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::soa
