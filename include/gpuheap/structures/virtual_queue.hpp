// A first-in-first-out queue of 32-bit values whose storage comes and goes: segments of places, taken from a pool when pushes need them and
// given back when all that was in them is popped. The virtualised queues of
//   M. Winter, D. Mlakar, M. Parger, M. Steinberger, "Ouroboros: Virtualized Queues for Dynamic Memory Management on GPUs", ICS 2020.
//
//   room     places of segments that are there, which no push has claimed     items   entries that no pop has claimed
//   tail     pushes that ever got a ticket                                    head    pops that did
//   ticket t stands for place t % places of segment t / places. A place serves one push and one pop, then the segment is another's
//   record of a segment's block: {block of the segment after it + 1 : 32, entries popped : 32}, and the segment's number and queue. Records
//   lie outside of the blocks and are there for good, so that whoever looks at one finds a record, of this segment or another
//
//   push:    claim one of room, or add a segment; none can be had: refused, and nothing has happened.   t = tail++;  find the segment;
//            place = value;   items += 1
//   pop:     claim one of items;   t = head++;  find the segment;  wait for a value;   the segment's record: popped += 1; the last one
//            gives the block back
//   add:     one thread at a time: take a block, make all its places empty, enter it into the directory, room += places
//   vacate:  likewise: claim all room, and move head and tail over it, if there is nothing in the queue: so the last segment is popped
//   empty
//
// How a segment is found is the directory's matter:
//   array_directory   a ring of {number, block}. A segment goes as soon as it is popped empty
//   list_directory    each record leads to the next segment's, the way begins at the first segment, or at one where lately somebody was.
//                     Segments go in order, once there is a next one
//
// A segment cannot go while somebody has a ticket of it that is not popped. So who has one finds the segment, or, if the directory does
// not show it yet, waits for the thread that adds it, which waits for nobody.
//
// Waiting: a pop waits for the push of its ticket, which has claimed room, and waits at most for the thread that adds its segment. Order:
// what happens before a push happens before the pop that gets its value.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/spin_lock.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// What a virtual queue asks of the pool that its segments come from. A view; blocks have numbers below 2^32 - 1.
//
//   bool may_have_any()          a look: false spares the rest
//   uint32_t take()              a block, or no_block. Waits for nobody
//   void give(uint32_t block)
//   uint32_t* places(block)      its memory, aligned to 8 bytes
//   uint64_t* record(block)      of the queue's, 0 at first
//   uint64_t* number(block)      likewise; for lists: {queue, segment}, as the queues of a pool share the records
inline constexpr simt::uint32_t no_block = ~simt::uint32_t{0};

// A segment and its block.
struct segment_place {
  simt::uint64_t bits = 0;  // 0: none

  [[nodiscard]] GPUHEAP_HD static constexpr segment_place of(simt::uint32_t segment, simt::uint32_t block) {
    return {simt::uint64_t{segment} << 32 | (block + 1)};
  }
  [[nodiscard]] GPUHEAP_HD constexpr bool none() const { return bits == 0; }
  [[nodiscard]] GPUHEAP_HD constexpr simt::uint32_t segment() const { return static_cast<simt::uint32_t>(bits >> 32); }
  [[nodiscard]] GPUHEAP_HD constexpr simt::uint32_t block() const { return static_cast<simt::uint32_t>(bits) - 1; }
};

// The word of a segment's block.
struct segment_record {
  static constexpr simt::uint64_t next_one = simt::uint64_t{1} << 32;
  simt::uint64_t bits = 0;
  [[nodiscard]] GPUHEAP_HD constexpr unsigned popped() const { return static_cast<unsigned>(bits); }
  [[nodiscard]] GPUHEAP_HD constexpr bool has_next() const { return bits >> 32 != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr simt::uint32_t next() const { return static_cast<simt::uint32_t>(bits >> 32) - 1; }
};

// A ring of segment_place. Device, any thread.
struct array_directory {
  using ref = simt::global_ref<simt::uint64_t>;
  simt::uint64_t* ring = nullptr;
  simt::uint32_t capacity = 0;  // a power of two: segments there can be at once

  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t bytes_for(simt::uint32_t capacity) { return simt::size_t{capacity} * 8; }
  array_directory() = default;
  GPUHEAP_HD array_directory(void* memory, simt::uint32_t places) : ring{static_cast<simt::uint64_t*>(memory)}, capacity{places} {}

  // Under the lock of the queue, three: whether there is a place for a segment; enters it; nothing is kept of it here that must be written.
  [[nodiscard]] GPUHEAP_FN bool has_place(simt::uint32_t segment) const { return slot(segment).load(simt::relaxed) == 0; }
  template <class Queue, class Storage>
  GPUHEAP_FN void add(Queue const&, simt::uint32_t segment, simt::uint32_t block, Storage const& storage) const {
    ref{*storage.record(block)}.store(0, simt::relaxed);
    // release: the block's places are empty. Pairs with find().
    slot(segment).store(segment_place::of(segment, block).bits, simt::release);
  }
  // The block of a segment that the caller has a ticket of.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN simt::uint32_t find(simt::uint32_t segment, bool, Storage const&) const {
    simt::back_off pause;
    simt::uint32_t block = no_block;
    // Ends: the segment is being added, or the word is on its way here; see the head. Blocking.
    GPUHEAP_NO_UNROLL
    while (block == no_block) {
      // acquire: pairs with add().
      segment_place const at{slot(segment).load(simt::acquire)};
      if (!at.none() && at.segment() == segment) {
        block = at.block();
      } else {
        pause.wait();
      }
    }
    return block;
  }
  // For vacate(), under the lock: gives up the last segment, of which n places are left that count as popped now. True: its block has gone
  // back.
  template <class Queue, class Storage>
  [[nodiscard]] GPUHEAP_FN bool leave(Queue const& queue, simt::uint32_t segment, unsigned n, Storage const& storage) const {
    return n != 0 && popped(queue, segment, find(segment, true, storage), n, storage);
  }
  // n entries of it were popped. True: the block has gone back.
  template <class Queue, class Storage>
  GPUHEAP_FN bool popped(Queue const& queue, simt::uint32_t segment, simt::uint32_t block, unsigned n, Storage const& storage) const {
    // acq_rel: the last one comes after the reads of all others.
    segment_record const before{ref{*storage.record(block)}.fetch_add(n, simt::acq_rel)};
    if (before.popped() + n != queue.places()) return false;
    slot(segment).store(0, simt::relaxed);  // relaxed: nothing is handed over by an empty slot
    queue.give(block, storage);
    return true;
  }

 private:
  [[nodiscard]] GPUHEAP_FN ref slot(simt::uint32_t segment) const { return ref{ring[segment & (capacity - 1)]}; }
};

// Records that lead on. Device, any thread. Directories of one pool lie less than 2^32 bytes apart.
struct list_directory {
  using ref = simt::global_ref<simt::uint64_t>;
  // segment_place, all: the first segment that is there; the last; where lately somebody pushed or popped.
  struct words {
    alignas(32) simt::uint64_t first = 0;
    alignas(32) simt::uint64_t last = 0;
    alignas(32) simt::uint64_t hints[2] = {};
  };
  words* at = nullptr;

  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t bytes_for(simt::uint32_t) { return sizeof(words); }
  list_directory() = default;
  GPUHEAP_HD list_directory(void* memory, simt::uint32_t) : at{static_cast<words*>(memory)} {}

  [[nodiscard]] GPUHEAP_FN bool has_place(simt::uint32_t) const { return true; }
  template <class Queue, class Storage>
  GPUHEAP_FN void add(Queue const& queue, simt::uint32_t segment, simt::uint32_t block, Storage const& storage) const {
    ref{*storage.number(block)}.store(number_of(segment), simt::relaxed);
    // release: the number, for who finds this record by an old way and must notice.
    ref{*storage.record(block)}.store(0, simt::release);
    segment_place const mine = segment_place::of(segment, block), before{ref{at->last}.load(simt::relaxed)};
    ref{at->last}.store(mine.bits, simt::relaxed);
    if (before.none()) {
      // release: the block's places are empty. Pairs with find().
      ref{at->first}.store(mine.bits, simt::release);
      return;
    }
    // acq_rel: likewise; and comes after all pops, if they have left the segment to us.
    segment_record const seen{ref{*storage.record(before.block())}.fetch_add(segment_record::next_one * (block + 1), simt::acq_rel)};
    if (seen.popped() == queue.places()) give_finished(queue, storage);
  }
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN simt::uint32_t find(simt::uint32_t segment, bool pops, Storage const& storage) const {
    // acquire, all: pairs with add().
    segment_place here{ref{at->hints[pops]}.load(simt::acquire)};
    bool hinted = !here.none() && static_cast<int>(segment - here.segment()) >= 0;
    if (hinted && here.segment() == segment) return here.block();
    if (!hinted) here.bits = ref{at->first}.load(simt::acquire);
    simt::back_off pause;
    // Ends: a pass steps on towards the segment, or begins anew because a segment that it came through has gone, which is progress of
    // others; the first segment is never behind ours. Or what comes next is being added, or is on its way here; see the head. Blocking.
    GPUHEAP_NO_UNROLL
    while (here.none() || here.segment() != segment) {
      if (!here.none()) {
        segment_record const there{ref{*storage.record(here.block())}.load(simt::acquire)};
        bool const same = ref{*storage.number(here.block())}.load(simt::relaxed) == number_of(here.segment());
        if (same && there.has_next()) {
          here = segment_place::of(here.segment() + 1, there.next());
          continue;
        }
      }
      pause.wait();
      here.bits = ref{at->first}.load(simt::acquire);
    }
    // release: passes on what this thread acquired on the way.
    ref{at->hints[pops]}.store(here.bits, simt::release);
    return here.block();
  }
  template <class Queue, class Storage>
  GPUHEAP_FN void popped(Queue const& queue, simt::uint32_t, simt::uint32_t block, unsigned n, Storage const& storage) const {
    // acq_rel: the last one comes after the reads of all others; see give_finished().
    segment_record const before{ref{*storage.record(block)}.fetch_add(n, simt::acq_rel)};
    if (before.popped() + n == queue.places() && before.has_next()) give_finished(queue, storage);
  }
  template <class Queue, class Storage>
  [[nodiscard]] GPUHEAP_FN bool leave(Queue const& queue, simt::uint32_t, unsigned n, Storage const& storage) const {
    segment_place const last{ref{at->last}.load(simt::relaxed)};
    if (last.none()) return false;
    // acq_rel: after all pops.
    segment_record const before{ref{*storage.record(last.block())}.fetch_add(n, simt::acq_rel)};
    // If others still pop from it, or from one before it, it stays until there is a next one. Otherwise nobody has a ticket of any.
    if (before.popped() + n != queue.places() || ref{at->first}.load(simt::acquire) != last.bits) return false;
    ref{at->first}.store(0, simt::relaxed);
    ref{at->last}.store(0, simt::relaxed);
    queue.give(last.block(), storage);
    return true;
  }

 private:
  [[nodiscard]] GPUHEAP_FN simt::uint64_t number_of(simt::uint32_t segment) const {
    return static_cast<simt::uint64_t>(reinterpret_cast<simt::uintptr_t>(at)) << 32 | segment;
  }
  // Moves `first` over segments that are popped empty and have a next one. Whoever makes a segment such calls this. It may find `first` at
  // an earlier one: whoever finishes that comes here too, and looks at this one by a read-modify-write after it has moved `first`. Either
  // that sees the segment finished, or finishing it comes after the move and sees that.
  template <class Queue, class Storage>
  GPUHEAP_COLD void give_finished(Queue const& queue, Storage storage) const {
    // Ends: a pass that goes on moved `first`, or saw that another thread did. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      segment_place const first{ref{at->first}.load(simt::acquire)};
      if (first.none()) return;  // others were here, and the queue has been vacated since
      segment_record const seen{ref{*storage.record(first.block())}.fetch_add(0, simt::acq_rel)};
      if (ref{*storage.number(first.block())}.load(simt::relaxed) != number_of(first.segment())) continue;
      if (seen.popped() != queue.places() || !seen.has_next()) return;
      simt::uint64_t expected = first.bits;
      if (ref{at->first}.compare_exchange(expected, segment_place::of(first.segment() + 1, seen.next()).bits, simt::acq_rel, simt::relaxed))
        queue.give(first.block(), storage);
    }
  }
};

// Device, any thread. A view.
template <class Directory>
class virtual_queue {
 public:
  static constexpr simt::uint32_t no_value = ~simt::uint32_t{0};  // not to be pushed

  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t bytes_for(simt::uint32_t segments) {
    return state_bytes + Directory::bytes_for(segments);
  }

  virtual_queue() = default;
  // In bytes_for(segments) bytes from `memory` on, aligned to 32 and 0 at first. `places`: of a segment, a power of two; `segments`: that
  // there can be at once, a power of two.
  GPUHEAP_HD virtual_queue(void* memory, simt::uint32_t segments, unsigned places)
      : memory_{static_cast<char*>(memory)}, directory_{memory_ + state_bytes, segments}, lg_places_{simt::highest_bit(places)} {}

  [[nodiscard]] GPUHEAP_HD unsigned places() const { return 1u << lg_places_; }

  // Of a group's lanes, which all call this: pushes the values of as many as there is room for, those of the lowest ranks. Returns how
  // many.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN unsigned push(warp_group group, simt::uint32_t value, Storage const& storage) const {
    simt::uint64_t first = 0;
    unsigned got = 0;
    if (group.leads()) {
      got = claim_room(group.size(), storage);
      if (got != 0) first = ref64{*word<simt::uint64_t>(tail_at)}.fetch_add(got, simt::relaxed);  // relaxed: the places order
    }
    got = group.from_leader(got);
    first = group.from_leader(first);
    if (group.rank() < got) {
      simt::uint64_t const ticket = first + group.rank();
      simt::uint32_t const block = directory_.find(segment_of(ticket), false, storage);
      // release: publishes the value and what the caller did before; pairs with pop().
      ref{place(block, ticket, storage)}.store(value, simt::release);
    }
    simt::sync_warp(group.mask);
    if (got != 0 && group.leads()) ref{*word(items_at)}.fetch_add(got, simt::relaxed);  // relaxed: who pops waits for the value
    return got;
  }

  // Likewise: pops up to `wanted` (at most as many as there are lanes) values, for those of the lowest ranks. Returns how many: fewer only
  // if there are no more.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN unsigned pop(warp_group group, unsigned wanted, simt::uint32_t& value, Storage const& storage) const {
    simt::uint64_t first = 0;
    unsigned got = 0;
    if (group.leads()) {
      got = claim(*word(items_at), wanted);
      if (got != 0) first = ref64{*word<simt::uint64_t>(head_at)}.fetch_add(got, simt::relaxed);  // relaxed: the places order
    }
    got = group.from_leader(got);
    first = group.from_leader(first);
    if (got == 0) return 0;
    simt::uint64_t const ticket = first + group.rank();
    simt::uint32_t block = no_block;
    if (group.rank() < got) {
      block = directory_.find(segment_of(ticket), true, storage);
      value = wait_for_value(place(block, ticket, storage));
    }
    // One lane for each segment tells that the others' places have been read.
    warp_group const same = warp_group::of_equal(group.mask, block);
    simt::sync_warp(same.mask);
    if (block != no_block && same.leads()) directory_.popped(*this, segment_of(ticket), block, same.size(), storage);
    return got;
  }

  // Gives the last segment back, if the queue is empty and nobody pushes or pops: an empty queue otherwise keeps what is left of it. False:
  // no block has gone back.
  template <class Storage>
  [[nodiscard]] GPUHEAP_COLD bool vacate(Storage storage) const {
    bool gone = false;
    if (!has_segments() || size() != 0) return false;
    spin_lock{word(lock_at)}.run([&] {
      // relaxed, all: under the lock no segment is added. Who has all the places behind the tail, which a read-modify-write looked at
      // before, is alone with the last segment's end, and the tail stays. And if the head is at the tail, nobody can pop until there is a
      // next one.
      simt::uint64_t tail = ref64{*word<simt::uint64_t>(tail_at)}.fetch_add(0, simt::relaxed);
      unsigned const rest = (ref{*word(added_at)}.load(simt::relaxed) << lg_places_) - static_cast<unsigned>(tail);
      simt::uint64_t const end = tail + rest;
      unsigned const got = rest != 0 && rest <= places() ? claim(*word(room_at), rest) : 0;
      if (got != 0 && got == rest && ref64{*word<simt::uint64_t>(head_at)}.compare_exchange(tail, end, simt::relaxed, simt::relaxed)) {
        ref64{*word<simt::uint64_t>(tail_at)}.store(end, simt::relaxed);
        gone = directory_.leave(*this, segment_of(end - 1), rest, storage);
      } else if (got != 0) {
        ref{*word(room_at)}.fetch_add(got, simt::relaxed);
      } else if (rest == 0) {
        gone = directory_.leave(*this, segment_of(end - 1), 0, storage);
      }
    });
    return gone;
  }

  // For the directory: a segment that is left.
  template <class Storage>
  GPUHEAP_FN void give(simt::uint32_t block, Storage const& storage) const {
    storage.give(block);
    // release: who sees that the segment is gone sees that its block went back.
    ref{*word(segments_at)}.fetch_sub(1, simt::release);
  }
  // Whether there are any, or one is being added. relaxed: a look; exact where an acquire fence follows.
  [[nodiscard]] GPUHEAP_FN bool has_segments() const { return ref{*word(segments_at)}.load(simt::relaxed) != 0; }

  // Entries that nobody has claimed, as seen now. With nothing under way, all entries.
  [[nodiscard]] GPUHEAP_FN unsigned size() const {
    auto const n = static_cast<int>(ref{*word(items_at)}.load(simt::relaxed));
    return n > 0 ? static_cast<unsigned>(n) : 0;
  }
  // The k-th entry, k < size(). Only with nothing under way.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN simt::uint32_t peek(unsigned k, Storage const& storage) const {
    simt::uint64_t const ticket = ref64{*word<simt::uint64_t>(head_at)}.load(simt::relaxed) + k;
    return ref{place(directory_.find(segment_of(ticket), true, storage), ticket, storage)}.load(simt::relaxed);
  }

 private:
  using ref = simt::global_ref<simt::uint32_t>;
  using ref64 = simt::global_ref<simt::uint64_t>;
  static constexpr unsigned room_at = 0, items_at = 32, head_at = 64, tail_at = 96, lock_at = 128, added_at = 132, segments_at = 136,
                            state_bytes = 160;

  // Takes up to `wanted` from a count; fewer only if there were no more.
  [[nodiscard]] GPUHEAP_FN static unsigned claim(simt::uint32_t& count, unsigned wanted) {
    ref const there{count};
    // relaxed, all: the count only lets in. A look first: an exhausted count is not written to.
    if (static_cast<int>(there.load(simt::relaxed)) <= 0) return 0;
    unsigned got = 0;
    // Ends: a pass that goes on saw a positive count after it had given back, so another thread's push or pop has ended meanwhile.
    // Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      auto const before = static_cast<int>(there.fetch_sub(wanted, simt::relaxed));
      if (before >= static_cast<int>(wanted)) return got + wanted;
      unsigned const some = before > 0 ? static_cast<unsigned>(before) : 0;
      got += some;
      wanted -= some;
      if (static_cast<int>(there.fetch_add(wanted, simt::relaxed) + wanted) <= 0) return got;
    }
  }
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN unsigned claim_room(unsigned wanted, Storage const& storage) const {
    unsigned got = claim(*word(room_at), wanted);
    // Ends: a pass that goes on lost room that was added to other pushes. Lock-free, but for the lock.
    GPUHEAP_NO_UNROLL
    while (got != wanted && add_segment(storage)) got += claim(*word(room_at), wanted - got);
    return got;
  }
  // Unless another thread has. False: there is no block for it, or no place in the directory.
  template <class Storage>
  [[nodiscard]] GPUHEAP_COLD bool add_segment(Storage storage) const {
    bool added = true;
    if (static_cast<int>(ref{*word(room_at)}.load(simt::relaxed)) <= 0 && !storage.may_have_any()) return false;
    spin_lock{word(lock_at)}.run([&] {
      // relaxed, all: under the lock; the directory publishes.
      if (static_cast<int>(ref{*word(room_at)}.load(simt::relaxed)) > 0) return;
      simt::uint32_t const segment = ref{*word(added_at)}.load(simt::relaxed);
      // Before the block is taken: who finds none left sees that there is a segment.
      ref{*word(segments_at)}.fetch_add(1, simt::relaxed);
      simt::uint32_t const block = directory_.has_place(segment) ? storage.take() : no_block;
      added = block != no_block;
      if (!added) {
        ref{*word(segments_at)}.fetch_sub(1, simt::relaxed);
        return;
      }
      // Ends: places / 2 passes.
      GPUHEAP_NO_UNROLL
      for (unsigned i = 0; i < places(); i += 2) {
        ref64{*reinterpret_cast<simt::uint64_t*>(storage.places(block) + i)}.store(~simt::uint64_t{0}, simt::relaxed);
      }
      ref{*word(added_at)}.store(segment + 1, simt::relaxed);
      directory_.add(*this, segment, block, storage);
      ref{*word(room_at)}.fetch_add(places(), simt::relaxed);
    });
    return added;
  }
  [[nodiscard]] GPUHEAP_FN static simt::uint32_t wait_for_value(simt::uint32_t& place) {
    simt::back_off pause;
    simt::uint32_t value = no_value;
    // Ends: the push of this ticket is on its way; see the head. Blocking.
    GPUHEAP_NO_UNROLL
    while (value == no_value) {
      // acquire: pairs with push().
      value = ref{place}.load(simt::acquire);
      if (value == no_value) pause.wait();
    }
    return value;
  }

  [[nodiscard]] GPUHEAP_FN simt::uint32_t segment_of(simt::uint64_t ticket) const {
    return static_cast<simt::uint32_t>(ticket >> lg_places_);
  }
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN simt::uint32_t& place(simt::uint32_t block, simt::uint64_t ticket, Storage const& storage) const {
    return storage.places(block)[static_cast<unsigned>(ticket) & (places() - 1)];
  }
  template <class T = simt::uint32_t>
  [[nodiscard]] GPUHEAP_HD T* word(unsigned at) const {
    return reinterpret_cast<T*>(memory_ + at);
  }

  char* memory_ = nullptr;
  Directory directory_;
  unsigned lg_places_ = 0;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
