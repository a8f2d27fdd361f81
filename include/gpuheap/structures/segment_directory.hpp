// How a virtual queue (virtual_queue.hpp) finds its segments, and what a segment's block has beside its places.
//
//   array_directory   a ring of {number, block}. A segment leaves the ring when its last entry is popped. An empty slot names the lap whose
//                     segment comes next, so no segment comes before one of an earlier lap
//   list_directory    a linked list: each record names the next segment's block. Hints lead to the latest segments at once. A search for
//                     another segment begins at the first one or at a recently used one. Segments leave in order, the last one only when
//                     there is a next one. One exchange takes up to four finished segments out, if the queue uses them again
//
// A search waits until the segment is there. The head of virtual_queue.hpp says for which threads.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// The interface of the pool that provides a virtual queue's segments. The pool is a view; its blocks have numbers below 2^32 - 1.
//
//   bool may_have_any()          a hint: false says that take() would find no block
//   uint32_t take()              takes a block, or returns no_block. Waits for no thread
//   void give(uint32_t block)    gives a block back
//   uint32_t* places(block)      the block's memory, aligned to 8 bytes
//   uint64_t* record(block)      the block's record, a word that only the queue changes, 0 at first
//   uint64_t* number(block)      a second such word. For lists: {queue, segment}, since all queues of a pool share the records
inline constexpr simt::uint32_t no_block = ~simt::uint32_t{0};

// A segment's number and its block.
struct segment_place {
  simt::uint64_t bits = 0;  // {segment : 32, block + 1 : 32}, whose second part is 0 for no block

  [[nodiscard]] GPUHEAP_HD static constexpr segment_place of(simt::uint32_t segment, simt::uint32_t block) {
    return {simt::uint64_t{segment} << 32 | (block + 1)};
  }
  [[nodiscard]] GPUHEAP_HD constexpr bool none() const { return static_cast<simt::uint32_t>(bits) == 0; }
  [[nodiscard]] GPUHEAP_HD constexpr simt::uint32_t segment() const { return static_cast<simt::uint32_t>(bits >> 32); }
  [[nodiscard]] GPUHEAP_HD constexpr simt::uint32_t block() const { return static_cast<simt::uint32_t>(bits) - 1; }
};

// The record of a segment's block.
struct segment_record {
  static constexpr simt::uint64_t next_one = simt::uint64_t{1} << 32;
  simt::uint64_t bits = 0;
  [[nodiscard]] GPUHEAP_HD constexpr unsigned popped() const { return static_cast<unsigned>(bits); }
  [[nodiscard]] GPUHEAP_HD constexpr bool has_next() const { return bits >> 32 != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr simt::uint32_t next() const { return static_cast<simt::uint32_t>(bits >> 32) - 1; }
};

// Finds segments in a ring of segment_place. Device, any thread.
struct array_directory {
  using ref = simt::global_ref<simt::uint64_t>;
  simt::uint64_t* ring = nullptr;  // the number of segments ever added lies before it
  simt::uint32_t capacity = 0;     // a power of two, more than the segments that exist at once

  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t bytes_for(simt::uint32_t capacity) {
    return header_bytes + simt::size_t{capacity} * 8;
  }
  array_directory() = default;
  GPUHEAP_HD array_directory(void* memory, simt::uint32_t places)
      : ring{reinterpret_cast<simt::uint64_t*>(static_cast<char*>(memory) + header_bytes)}, capacity{places} {}

  // The most segments that may exist at once.
  [[nodiscard]] GPUHEAP_HD simt::uint32_t most_segments() const { return capacity - 1; }
  // The number of the segment that is added next. Valid while no thread adds a segment, so the load is relaxed.
  [[nodiscard]] GPUHEAP_FN simt::uint32_t next_segment() const { return added().load(simt::relaxed); }
  // Numbers a segment, whose places are empty, and enters it into the ring.
  template <class Queue, class Storage>
  GPUHEAP_FN void add(Queue const&, simt::uint32_t block, Storage const& storage) const {
    // relaxed: published by the store to the slot.
    ref{*storage.record(block)}.store(0, simt::relaxed);
    // relaxed: the store to the slot publishes the segment.
    simt::uint32_t const segment = added().fetch_add(1, simt::relaxed);
    simt::back_off pause;
    // Ends: the slot holds a segment of an earlier lap, or another thread is about to store one. Fewer segments exist than the ring has
    // slots. So a segment later than the one of the earlier lap has already left the ring, and pushes and pops have got all tickets of the
    // one of the earlier lap. The threads with these tickets wait for no thread but the one that stores it. That thread may wait here too,
    // for a still earlier lap. Blocking.
    GPUHEAP_NO_UNROLL
    while (slot(segment).load(simt::relaxed) != empty_before(segment)) pause.wait();
    // release: publishes the empty places. Pairs with find().
    slot(segment).store(segment_place::of(segment, block).bits, simt::release);
  }
  // The block of a segment of which the caller has a ticket.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN simt::uint32_t find(simt::uint32_t segment, bool, Storage const&) const {
    simt::back_off pause;
    simt::uint32_t block = no_block;
    // Ends: another thread adds the segment, or its store becomes visible; see the head of virtual_queue.hpp. Blocking.
    GPUHEAP_NO_UNROLL
    while (block == no_block) {
      // consume: orders the accesses to the block's places. Pairs with add().
      segment_place const at{slot(segment).load(simt::consume)};
      if (!at.none() && at.segment() == segment) {
        block = at.block();
      } else {
        pause.wait();
      }
    }
    return block;
  }
  // For vacate(): gives up a segment. Its last n places count as popped from now on. No later segment has room. True: the block has gone
  // back to the pool.
  template <class Queue, class Storage>
  [[nodiscard]] GPUHEAP_FN bool leave(Queue const& queue, simt::uint32_t segment, unsigned n, Storage const& storage) const {
    return n != 0 && popped(queue, segment, find(segment, true, storage), n, storage);
  }
  // Counts n popped entries of a segment. True: they were its last entries, and the block has gone back to the pool.
  template <class Queue, class Storage>
  GPUHEAP_FN bool popped(Queue const& queue, simt::uint32_t segment, simt::uint32_t block, unsigned n, Storage const& storage) const {
    // relay: the last addition comes after the reads of all other pops, whose results were used before their additions, and before the
    // block goes back.
    simt::note_performed();
    segment_record const before{ref{*storage.record(block)}.fetch_add(n, simt::relay)};
    if (before.popped() + n != queue.places()) return false;
    slot(segment).store(empty_before(segment + capacity), simt::relaxed);  // relaxed: an empty slot publishes nothing
    if (queue.lacks(1) != 0 && queue.may_keep(1)) {
      add(queue, block, storage);
      queue.kept(1);
      return false;
    }
    queue.give(block, storage);
    return true;
  }

  // The word of the empty slot that `segment` is the next to take: the number of the lap's first segment, without a block. 0 in lap 0.
  [[nodiscard]] GPUHEAP_HD simt::uint64_t empty_before(simt::uint32_t segment) const {
    return simt::uint64_t{segment & ~(capacity - 1)} << 32;
  }

 private:
  static constexpr simt::size_t header_bytes = 64;
  [[nodiscard]] GPUHEAP_FN simt::global_ref<simt::uint32_t> added() const {
    return simt::global_ref<simt::uint32_t>{*reinterpret_cast<simt::uint32_t*>(reinterpret_cast<char*>(ring) - header_bytes)};
  }
  [[nodiscard]] GPUHEAP_FN ref slot(simt::uint32_t segment) const { return ref{ring[segment & (capacity - 1)]}; }
};

// Finds segments in a linked list of records. Device, any thread. All directories of a pool lie less than 2^32 bytes apart. `Hints`, a
// power of two: the number of segments, the latest ones, to which no search is needed.
template <unsigned Hints>
struct basic_list_directory {
  using ref = simt::global_ref<simt::uint64_t>;
  // All words are segment_place. `first`: the first segment in the list. `last`: the last one, or the next segment's number without a block
  // if the list is empty. `recent`: the segments that a search for a push and one for a pop have found. `hints`: the latest segments.
  struct words {
    alignas(32) simt::uint64_t first = 0;
    alignas(32) simt::uint64_t last = 0;
    alignas(32) simt::uint64_t recent[2] = {};
    alignas(32) simt::uint64_t hints[Hints] = {};
  };
  words* at = nullptr;

  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t bytes_for(simt::uint32_t) { return sizeof(words); }
  basic_list_directory() = default;
  GPUHEAP_HD basic_list_directory(void* memory, simt::uint32_t) : at{static_cast<words*>(memory)} {}

  [[nodiscard]] GPUHEAP_HD simt::uint32_t most_segments() const { return ~simt::uint32_t{0}; }
  // relaxed: as in array_directory.
  [[nodiscard]] GPUHEAP_FN simt::uint32_t next_segment() const { return after({ref{at->last}.load(simt::relaxed)}); }
  template <class Queue, class Storage>
  GPUHEAP_FN void add(Queue const& queue, simt::uint32_t block, Storage const& storage) const {
    if (link(queue, block_run<1>{{block}, 1}, storage)) give_finished(queue, storage);
  }
  // The block of a segment of which the caller has a ticket. While it has the ticket, only this block has the segment's number, so a hint
  // with this number is right.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN simt::uint32_t find(simt::uint32_t segment, bool pops, Storage const& storage) const {
    // consume: orders the accesses to the block's places. Pairs with the release in link().
    segment_place const there{hint(segment).load(simt::consume)};
    return !there.none() && there.segment() == segment ? there.block() : search(segment, pops, storage);
  }
  template <class Queue, class Storage>
  GPUHEAP_FN void popped(Queue const& queue, simt::uint32_t, simt::uint32_t block, unsigned n, Storage const& storage) const {
    // relay: the last addition comes after the reads of all other pops, whose results were used before their additions; see
    // give_finished().
    simt::note_performed();
    segment_record const before{ref{*storage.record(block)}.fetch_add(n, simt::relay)};
    if (before.popped() + n == queue.places() && before.has_next()) give_finished(queue, storage);
  }
  template <class Queue, class Storage>
  [[nodiscard]] GPUHEAP_FN bool leave(Queue const& queue, simt::uint32_t segment, unsigned n, Storage const& storage) const {
    // relaxed: no thread adds a segment during vacate().
    segment_place const last{ref{at->last}.load(simt::relaxed)};
    if (last.none()) return false;
    if (last.segment() != segment) {
      popped(queue, segment, find(segment, true, storage), n, storage);
      return false;
    }
    // acq_rel: comes after all pops.
    segment_record const before{ref{*storage.record(last.block())}.fetch_add(n, simt::acq_rel)};
    // If other threads still pop from this segment or an earlier one, the segment stays until a next one is added. Otherwise no thread has
    // a ticket in it.
    if (before.popped() + n != queue.places() || ref{at->first}.load(simt::acquire) != last.bits) return false;
    // relaxed, both: reopen() publishes the empty list.
    ref{at->first}.store(0, simt::relaxed);
    ref{at->last}.store(simt::uint64_t{segment + 1} << 32, simt::relaxed);
    unnumber(last.block(), storage);
    queue.give(last.block(), storage);
    return true;
  }

 private:
  [[nodiscard]] GPUHEAP_FN simt::uint64_t number_of(simt::uint32_t segment) const {
    return static_cast<simt::uint64_t>(reinterpret_cast<simt::uintptr_t>(at)) << 32 | segment;
  }
  [[nodiscard]] GPUHEAP_FN ref hint(simt::uint32_t segment) const { return ref{at->hints[segment & (Hints - 1)]}; }
  // The number of the segment after the last.
  [[nodiscard]] GPUHEAP_HD static simt::uint32_t after(segment_place last) { return last.none() ? last.segment() : last.segment() + 1; }
  // Of two segments, the one from which the list leads to `segment` in fewer steps. A segment after `segment` is worse than any segment
  // before it, and an empty segment_place is worst.
  [[nodiscard]] GPUHEAP_HD static segment_place nearer(segment_place one, segment_place other, simt::uint32_t segment) {
    return !one.none() && (other.none() || segment - one.segment() <= segment - other.segment()) ? one : other;
  }
  // find() where no hint helps: the thread that adds the segment has not stored it yet, or the hint is one of a later segment. Follows the
  // list to the segment.
  template <class Storage>
  [[nodiscard]] GPUHEAP_COLD simt::uint32_t search(simt::uint32_t segment, bool pops, Storage storage) const {
    // consume: orders the accesses to the block's places. Pairs with the relay below.
    segment_place const recent{ref{at->recent[pops]}.load(simt::consume)};
    if (!recent.none() && recent.segment() == segment) return recent.block();
    // relaxed: the search checks the number.
    segment_place here = nearer({ref{at->first}.load(simt::relaxed)}, recent, segment);
    simt::back_off pause;
    // Ends: another thread adds the next segment, or its stores become visible; see the head of virtual_queue.hpp. If a block on the way
    // belongs to another segment by now, or if the search began after the wanted segment, the search begins again at the first segment,
    // which is never after the wanted one. Blocking.
    GPUHEAP_NO_UNROLL
    while (true) {
      here = walked(here, segment, storage);
      // consume: orders the accesses to the block's places. Pairs with the release in link().
      bool const right = !here.none() && ref{*storage.number(here.block())}.load(simt::consume) == number_of(here.segment());
      if (right && here.segment() == segment) break;
      pause.wait();
      if (!right || static_cast<int>(segment - here.segment()) < 0) here.bits = ref{at->first}.load(simt::relaxed);
    }
    // relay: passes on to later searches what this thread has consumed.
    ref{at->recent[pops]}.store(here.bits, simt::relay);
    return here.block();
  }
  // Follows links towards the segment as far as they go. The caller checks whether the records still belong to this list.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN static segment_place walked(segment_place here, simt::uint32_t segment, Storage const& storage) {
    // Ends: each pass comes one segment closer.
    GPUHEAP_NO_UNROLL
    while (!here.none() && static_cast<int>(segment - here.segment()) > 0) {
      // relaxed: the caller checks the last record.
      segment_record const there{ref{*storage.record(here.block())}.load(simt::relaxed)};
      if (!there.has_next()) break;
      here = segment_place::of(here.segment() + 1, there.next());
    }
    return here;
  }
  // The blocks of n successive segments: before link() has added them, or after give_finished() has taken them out.
  template <unsigned Most>
  struct block_run {
    simt::uint32_t blocks[Most];
    unsigned n;
  };
  // Numbers the blocks, whose places are empty, and links them to the end of the list together. True: the caller has to call
  // give_finished(), or to look at `first` again if it is in there already.
  template <unsigned Most, class Queue, class Storage>
  [[nodiscard]] GPUHEAP_FN bool link(Queue const& queue, block_run<Most> const& run, Storage const& storage) const {
    simt::uint32_t last_block = run.blocks[0];
    for (unsigned i = 0; i != Most; ++i) {
      if (i >= run.n) continue;
      last_block = run.blocks[i];
      simt::uint64_t const next = i + 1 < run.n ? segment_record::next_one * (run.blocks[i + 1 < Most ? i + 1 : i] + 1) : 0;
      // relaxed: the fence below publishes it.
      ref{*storage.record(last_block)}.store(next, simt::relaxed);
    }
    segment_place before{ref{at->last}.load(simt::relaxed)}, mine;
    // release: publishes the empty places and the records, by the exchange and the stores below.
    simt::fence(simt::release);
    // Ends: an exchange that fails lost the word to another thread's segment. Lock-free.
    GPUHEAP_NO_UNROLL
    do {
      mine = segment_place::of(after(before) + run.n - 1, last_block);
      // relay: comes after the write of the previous segment's record, and before the link of the next segment.
    } while (!ref{at->last}.compare_exchange(before.bits, mine.bits, simt::relay, simt::relaxed));
    simt::uint32_t const first = after(before);
    // relay: the block's places and its record are empty. Pairs with search(). The stores come after the exchange, so that no two blocks
    // have one number at once.
    for (unsigned i = 0; i != Most; ++i) {
      if (i < run.n) ref{*storage.number(run.blocks[i])}.store(number_of(first + i), simt::relay);
    }
    if (before.none()) {
      // release: other threads begin their searches at this segment. Pairs with give_finished().
      ref{at->first}.store(segment_place::of(first, run.blocks[0]).bits, simt::release);
      // release: a thread that finds the segment by its hint, and pops its last entry, sees `first`.
      simt::fence(simt::release);
    }
    // relay: as for the numbers. Pairs with find().
    for (unsigned i = 0; i != Most; ++i) {
      if (i < run.n) hint(first + i).store(segment_place::of(first + i, run.blocks[i]).bits, simt::relay);
    }
    if (before.none()) return false;
    // consume_release: publishes the numbers. If all pops of the previous segment are done, this comes after them, and this thread gives
    // that segment back.
    segment_record const seen{
        ref{*storage.record(before.block())}.fetch_add(segment_record::next_one * (run.blocks[0] + 1), simt::consume_release)};
    return seen.popped() == queue.places();
  }
  // Whether the segment of a record is finished: its entries are all popped, and it has a next segment.
  template <class Queue>
  [[nodiscard]] GPUHEAP_FN static bool is_finished(segment_record seen, Queue const& queue) {
    return seen.popped() == queue.places() && seen.has_next();
  }
  static constexpr unsigned most_at_once = 4;  // more would take registers that malloc and free do not need
  // Moves `first` over finished segments. The thread that finishes a segment calls this. It may find `first` at an earlier segment. The
  // thread that finishes the earlier one also calls this, and after it has moved `first` it reads the record of the segment there by a
  // read-modify-write. Either that read sees this segment finished, or the thread that finishes this segment comes later and sees `first`
  // moved. A move over several segments reads the records of the others through their hints. No segment after `first` leaves while `first`
  // stays, and `first` has each value only once. So if the exchange succeeds, the hints and the records were those of these segments.
  template <class Queue, class Storage>
  GPUHEAP_COLD void give_finished(Queue const& queue, Storage storage) const {
    // Ends: a pass that does not return has moved `first`, or saw that another thread moved it. Or it does not see the segment's number
    // yet: a segment that was linked together with the one before it can be popped before all threads see the number, which its linker has
    // stored. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      // consume: orders the accesses to the segment's words.
      segment_place const first{ref{at->first}.load(simt::consume)};
      if (first.none()) return;  // other threads have moved `first`, and vacated the queue
      // relay: comes after the pops, and passes on that this thread has moved `first`.
      segment_record const seen{ref{*storage.record(first.block())}.fetch_add(0, simt::relay)};
      // Loads that wait for no other load are under way together. relaxed: if this is not the segment's number, the pass is repeated.
      simt::uint64_t const number = ref{*storage.number(first.block())}.load(simt::relaxed);
      segment_place others[most_at_once];
      for (unsigned i = 1; i != most_at_once; ++i) {
        // consume: the segment's record is empty. Pairs with link().
        others[i].bits = hint(first.segment() + i).load(simt::consume);
      }
      unsigned const lacking = queue.lacks(most_at_once);
      if (number != number_of(first.segment())) continue;
      if (!is_finished(seen, queue)) return;
      segment_record records[most_at_once];
      for (unsigned i = 1; i != most_at_once; ++i) {
        // consume: comes after the pops.
        if (!others[i].none() && others[i].segment() == first.segment() + i) {
          records[i].bits = ref{*storage.record(others[i].block())}.load(simt::consume);
        }
      }
      block_run<most_at_once> run{{first.block()}, 1};
      simt::uint32_t next = seen.next();
      for (unsigned i = 1; i != most_at_once; ++i) {
        run.blocks[i] = others[i].block();
        if (run.n == i && i < lacking && is_finished(records[i], queue)) {
          next = records[i].next();
          run.n = i + 1;
        }
      }
      simt::uint64_t expected = first.bits;
      // relay: passes on the number of the segment that becomes the first one. Pairs with the load of `first`.
      if (!ref{at->first}.compare_exchange(expected, segment_place::of(first.segment() + run.n, next).bits, simt::relay, simt::relaxed)) {
        continue;
      }
      simt::note_performed();  // the branch has used the result of the exchange, which the next pass's read-modify-write passes on
      for (unsigned i = 0; i != most_at_once; ++i) {
        if (i < run.n) unnumber(run.blocks[i], storage);
      }
      if (lacking != 0 && queue.may_keep(run.n)) {
        // The next pass of this loop looks at a segment that link() has found finished.
        (void)link(queue, run, storage);
        queue.kept(run.n);
      } else {
        give_all(queue, first.block(), run.n, storage);
      }
    }
  }
  // Gives back n blocks that have left the list, and whose records still lead from one to the next.
  template <class Queue, class Storage>
  GPUHEAP_FN static void give_all(Queue const& queue, simt::uint32_t block, unsigned n, Storage const& storage) {
    GPUHEAP_NO_UNROLL
    for (; n != 0; --n) {
      // relaxed: this thread has read the record before.
      segment_record const there{ref{*storage.record(block)}.load(simt::relaxed)};
      queue.give(block, storage);
      block = there.next();
    }
  }
  template <class Storage>
  GPUHEAP_FN static void unnumber(simt::uint32_t block, Storage const& storage) {
    // relaxed: a search that waits at this block for a link sees the change, and begins again.
    ref{*storage.number(block)}.store(0, simt::relaxed);
  }
};
using list_directory = basic_list_directory<1024>;

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
