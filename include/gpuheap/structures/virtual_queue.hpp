// A first-in-first-out queue of 32-bit values whose storage comes and goes: segments of places, taken from a pool when pushes need them and
// given back when all that was in them is popped. The virtualised queues of
//   M. Winter, D. Mlakar, M. Parger, M. Steinberger, "Ouroboros: Virtualized Queues for Dynamic Memory Management on GPUs", ICS 2020.
//
//   room     places of segments that are there, which no push has claimed: a batch semaphore, whose batches are segments
//   items    entries that no pop has claimed
//   tail     pushes that ever got a ticket                                    head    pops that did
//   ticket t stands for place t % places of segment t / places. A place serves one push and one pop, then the segment is another's
//   record of a segment's block: {block of the segment after it + 1 : 32, entries popped : 32}, and the segment's number and queue. Records
//   lie outside of the blocks and are there for good, so that whoever looks at one finds a record, of this segment or another
//
//   push:    claim one of room, or have segments added; none can be had: refused, and nothing has happened.   t = tail++;  find the
//   segment;
//            place = value;   items += 1
//   pop:     claim one of items;   t = head++;  find the segment;  wait for a value;   the segment's record: popped += 1; the last one
//            gives the block back
//   add:     unless others are adding enough: take a block, make all its places empty, enter it into the directory, which numbers it,
//            room += places. As many threads at once as there are segments wanted
//   vacate:  while nobody adds: claim all room, and move head and tail over it, if there is nothing in the queue: so the last segments are
//            popped empty
//
// How a segment is found is the directory's matter:
//   array_directory   a ring of {number, block}. A segment goes as soon as it is popped empty
//   list_directory    each record leads to the next segment's, the way begins at the first segment, at an eighth one, or where
//                     lately somebody was. Segments go in order, once there is a next one
//
// A segment cannot go while somebody has a ticket of it that is not popped. So who has one finds the segment, or, if the directory does
// not show it yet, waits for the thread that adds it, which waits for nobody but those who are leaving an array's place, and have all they
// need.
//
// Waiting: a pop waits for the push of its ticket, which has claimed room, and waits at most for the thread that adds its segment. A push
// without room waits for those who add some. Order: what happens before a push happens before what goes on from the value that is popped,
// as a `dependent` reader does (simt/atomic.hpp).
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/batch_semaphore.hpp>
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
  simt::uint64_t bits = 0;  // {segment : 32, block + 1, or 0: none : 32}

  [[nodiscard]] GPUHEAP_HD static constexpr segment_place of(simt::uint32_t segment, simt::uint32_t block) {
    return {simt::uint64_t{segment} << 32 | (block + 1)};
  }
  [[nodiscard]] GPUHEAP_HD constexpr bool none() const { return static_cast<simt::uint32_t>(bits) == 0; }
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
  simt::uint64_t* ring = nullptr;  // behind how many segments there ever were
  simt::uint32_t capacity = 0;     // a power of two, more than the segments there can be at once

  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t bytes_for(simt::uint32_t capacity) {
    return header_bytes + simt::size_t{capacity} * 8;
  }
  array_directory() = default;
  GPUHEAP_HD array_directory(void* memory, simt::uint32_t places)
      : ring{reinterpret_cast<simt::uint64_t*>(static_cast<char*>(memory) + header_bytes)}, capacity{places} {}

  // Segments there may be at once.
  [[nodiscard]] GPUHEAP_HD simt::uint32_t most_segments() const { return capacity - 1; }
  // The number of the segment that is added next. While nobody adds one.
  [[nodiscard]] GPUHEAP_FN simt::uint32_t next_segment() const { return added().load(simt::relaxed); }
  // Numbers a segment and enters it. Its places are empty.
  template <class Queue, class Storage>
  GPUHEAP_FN void add(Queue const&, simt::uint32_t block, Storage const& storage) const {
    ref{*storage.record(block)}.store(0, simt::relaxed);
    // relaxed: the slot publishes.
    simt::uint32_t const segment = added().fetch_add(1, simt::relaxed);
    simt::back_off pause;
    // Ends: what is there is the segment of a lap ago, or before it. There are not as many segments as places, so a later one than that has
    // gone, and all tickets of it have been handed out, to pushes and to pops. They find it, and wait for nobody else. Blocking.
    GPUHEAP_NO_UNROLL
    while (slot(segment).load(simt::relaxed) != 0) pause.wait();
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
      // dependent: goes on to the block's places. Pairs with add().
      segment_place const at{slot(segment).load(simt::dependent)};
      if (!at.none() && at.segment() == segment) {
        block = at.block();
      } else {
        pause.wait();
      }
    }
    return block;
  }
  // For vacate(): gives up a segment, of which n places are left that count as popped now, and behind which none has room. True: its block
  // has gone back.
  template <class Queue, class Storage>
  [[nodiscard]] GPUHEAP_FN bool leave(Queue const& queue, simt::uint32_t segment, unsigned n, Storage const& storage) const {
    return n != 0 && popped(queue, segment, find(segment, true, storage), n, storage);
  }
  // n entries of it were popped. True: the block has gone back.
  template <class Queue, class Storage>
  GPUHEAP_FN bool popped(Queue const& queue, simt::uint32_t segment, simt::uint32_t block, unsigned n, Storage const& storage) const {
    // handed_on: the last one comes after the reads of all others, and goes on to give the block back.
    segment_record const before{ref{*storage.record(block)}.fetch_add(n, simt::handed_on)};
    if (before.popped() + n != queue.places()) return false;
    slot(segment).store(0, simt::relaxed);  // relaxed: nothing is handed over by an empty slot
    queue.give(block, storage);
    return true;
  }

 private:
  static constexpr simt::size_t header_bytes = 64;
  [[nodiscard]] GPUHEAP_FN simt::global_ref<simt::uint32_t> added() const {
    return simt::global_ref<simt::uint32_t>{*reinterpret_cast<simt::uint32_t*>(reinterpret_cast<char*>(ring) - header_bytes)};
  }
  [[nodiscard]] GPUHEAP_FN ref slot(simt::uint32_t segment) const { return ref{ring[segment & (capacity - 1)]}; }
};

// Records that lead on. Device, any thread. Directories of one pool lie less than 2^32 bytes apart.
struct list_directory {
  using ref = simt::global_ref<simt::uint64_t>;
  static constexpr unsigned lg_stride = 3, num_stones = 128;
  // segment_place, all: the first segment that is there; the last, or the number of the next if there is none; where lately somebody
  // pushed or popped; and of the latest 1024 segments each eighth.
  struct words {
    alignas(32) simt::uint64_t first = 0;
    alignas(32) simt::uint64_t last = 0;
    alignas(32) simt::uint64_t recent[2] = {};
    alignas(32) simt::uint64_t stones[num_stones] = {};
  };
  words* at = nullptr;

  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t bytes_for(simt::uint32_t) { return sizeof(words); }
  list_directory() = default;
  GPUHEAP_HD list_directory(void* memory, simt::uint32_t) : at{static_cast<words*>(memory)} {}

  [[nodiscard]] GPUHEAP_HD simt::uint32_t most_segments() const { return ~simt::uint32_t{0}; }
  [[nodiscard]] GPUHEAP_FN simt::uint32_t next_segment() const { return after({ref{at->last}.load(simt::relaxed)}); }
  template <class Queue, class Storage>
  GPUHEAP_FN void add(Queue const& queue, simt::uint32_t block, Storage const& storage) const {
    // relaxed: who links to it reads `last` first, and who pops from it its number.
    ref{*storage.record(block)}.store(0, simt::relaxed);
    segment_place before{ref{at->last}.load(simt::relaxed)}, mine;
    // Ends: a pass that goes on lost the word to another thread's segment. Lock-free.
    GPUHEAP_NO_UNROLL
    do {
      mine = segment_place::of(after(before), block);
      // acq_rel: after the record of the one before; before who links to this one.
    } while (!ref{at->last}.compare_exchange(before.bits, mine.bits, simt::acq_rel, simt::relaxed));
    // release: the block's places are empty, and its record is. Pairs with find(). After the exchange, as no other block may have this
    // number for a moment.
    ref{*storage.number(block)}.store(number_of(mine.segment()), simt::release);
    // relaxed: who begins there looks at the number.
    if (mine.segment() % (1u << lg_stride) == 0) stone(mine.segment()).store(mine.bits, simt::relaxed);
    if (before.none()) {
      // release: others begin here. Pairs with give_finished().
      ref{at->first}.store(mine.bits, simt::release);
      return;
    }
    // acq_rel: comes after all pops, if they have left the segment to us.
    segment_record const seen{ref{*storage.record(before.block())}.fetch_add(segment_record::next_one * (block + 1), simt::acq_rel)};
    if (seen.popped() == queue.places()) give_finished(queue, storage);
  }
  // Where the way ends, the number tells whether it is the segment: while the caller has a ticket of it, no other block has that.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN simt::uint32_t find(simt::uint32_t segment, bool pops, Storage const& storage) const {
    // dependent: goes on to the block's places. Pairs with the release below.
    segment_place const recent{ref{at->recent[pops]}.load(simt::dependent)};
    // relaxed, both: where the way begins.
    segment_place const stone_before{stone(segment).load(simt::relaxed)}, first{ref{at->first}.load(simt::relaxed)};
    if (!recent.none() && recent.segment() == segment) return recent.block();
    segment_place here = nearer(first, nearer(recent, stone_before, segment), segment);
    simt::back_off pause;
    // Ends: what comes next is being added, or a number or a link is on its way here; see the head. Or a block of the way belongs to
    // another segment by now, or began behind ours: then it begins at the first one, which never is. Blocking.
    GPUHEAP_NO_UNROLL
    while (true) {
      here = walked(here, segment, storage);
      // dependent: likewise. Pairs with add().
      bool const right = !here.none() && ref{*storage.number(here.block())}.load(simt::dependent) == number_of(here.segment());
      if (right && here.segment() == segment) break;
      pause.wait();
      if (!right || static_cast<int>(segment - here.segment()) < 0) here.bits = ref{at->first}.load(simt::relaxed);
    }
    // release: passes on what this thread acquired.
    ref{at->recent[pops]}.store(here.bits, simt::release);
    return here.block();
  }
  template <class Queue, class Storage>
  GPUHEAP_FN void popped(Queue const& queue, simt::uint32_t, simt::uint32_t block, unsigned n, Storage const& storage) const {
    // handed_on: the last one comes after the reads of all others; see give_finished().
    segment_record const before{ref{*storage.record(block)}.fetch_add(n, simt::handed_on)};
    if (before.popped() + n == queue.places() && before.has_next()) give_finished(queue, storage);
  }
  template <class Queue, class Storage>
  [[nodiscard]] GPUHEAP_FN bool leave(Queue const& queue, simt::uint32_t segment, unsigned n, Storage const& storage) const {
    segment_place const last{ref{at->last}.load(simt::relaxed)};
    if (last.none()) return false;
    if (last.segment() != segment) {
      popped(queue, segment, find(segment, true, storage), n, storage);
      return false;
    }
    // acq_rel: after all pops.
    segment_record const before{ref{*storage.record(last.block())}.fetch_add(n, simt::acq_rel)};
    // If others still pop from it, or from one before it, it stays until there is a next one. Otherwise nobody has a ticket of any.
    if (before.popped() + n != queue.places() || ref{at->first}.load(simt::acquire) != last.bits) return false;
    ref{at->first}.store(0, simt::relaxed);
    ref{at->last}.store(simt::uint64_t{segment + 1} << 32, simt::relaxed);
    give(queue, last.block(), storage);
    return true;
  }

 private:
  [[nodiscard]] GPUHEAP_FN simt::uint64_t number_of(simt::uint32_t segment) const {
    return static_cast<simt::uint64_t>(reinterpret_cast<simt::uintptr_t>(at)) << 32 | segment;
  }
  [[nodiscard]] GPUHEAP_FN ref stone(simt::uint32_t segment) const { return ref{at->stones[segment >> lg_stride & (num_stones - 1)]}; }
  // Of the segment after it.
  [[nodiscard]] GPUHEAP_HD static simt::uint32_t after(segment_place last) { return last.none() ? last.segment() : last.segment() + 1; }
  // From where it is not so far to the segment. What lies behind it is farthest, and nowhere still farther.
  [[nodiscard]] GPUHEAP_HD static segment_place nearer(segment_place one, segment_place other, simt::uint32_t segment) {
    return !one.none() && (other.none() || segment - one.segment() <= segment - other.segment()) ? one : other;
  }
  // As far on the way to the segment as there are links, whoever's they are by now.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN static segment_place walked(segment_place here, simt::uint32_t segment, Storage const& storage) {
    // Ends: a pass comes one closer.
    GPUHEAP_NO_UNROLL
    while (!here.none() && static_cast<int>(segment - here.segment()) > 0) {
      // relaxed: the end of the way is looked at.
      segment_record const there{ref{*storage.record(here.block())}.load(simt::relaxed)};
      if (!there.has_next()) break;
      here = segment_place::of(here.segment() + 1, there.next());
    }
    return here;
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
        give(queue, first.block(), storage);
    }
  }
  template <class Queue, class Storage>
  GPUHEAP_FN static void give(Queue const& queue, simt::uint32_t block, Storage const& storage) {
    // relaxed: who waits there for a next one begins anew.
    ref{*storage.number(block)}.store(0, simt::relaxed);
    queue.give(block, storage);
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
  // In bytes_for(segments) bytes from `memory` on, aligned to 64 and 0 at first. `places`: of a segment, a power of two; `segments`: that
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
    if (group.leads()) got = room().try_acquire(group.size());
    got = group.from_leader(got);
    if (got != group.size()) got = group.from_leader(claim_of_more(group, got, storage));
    if (got != 0 && group.leads())
      first = ref64{*word<simt::uint64_t>(tail_at)}.fetch_add(got, simt::relaxed);  // relaxed: the places order
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

  // Gives the last segments back, if the queue is empty and nobody pushes or pops: an empty queue otherwise keeps what has room. False: no
  // block has gone back.
  template <class Storage>
  [[nodiscard]] GPUHEAP_COLD bool vacate(Storage storage) const {
    if (!has_segments() || size() != 0 || !room().try_close()) return false;
    // relaxed, all: no segment is added. Who has all the places behind the tail, which a read-modify-write looked at before, is alone with
    // the end, and the tail stays. And if the head is at the tail, nobody can pop until there is a next one.
    simt::uint64_t tail = ref64{*word<simt::uint64_t>(tail_at)}.fetch_add(0, simt::relaxed);
    unsigned const rest = (directory_.next_segment() << lg_places_) - static_cast<unsigned>(tail);
    unsigned const got = rest != 0 ? room().try_acquire(rest) : 0;
    simt::uint64_t const end = tail + rest;
    bool gone = false;
    simt::uint64_t at = tail;
    if (got == rest && (got == 0 || ref64{*word<simt::uint64_t>(head_at)}.compare_exchange(at, end, simt::relaxed, simt::relaxed))) {
      ref64{*word<simt::uint64_t>(tail_at)}.store(end, simt::relaxed);
      if (rest == 0 && end != 0) gone = directory_.leave(*this, segment_of(end - 1), 0, storage);
      // Ends: one pass a segment.
      GPUHEAP_NO_UNROLL
      for (at = tail; at != end;) {
        unsigned const left = places() - (static_cast<unsigned>(at) & (places() - 1));
        gone |= directory_.leave(*this, segment_of(at), left, storage);
        at += left;
      }
    } else if (got != 0) {
      room().release(got);
    }
    room().reopen();
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
  // Apart, as all threads of a device may push and pop at once: in one line their changes go through one slice of the L2, one after the
  // other.
  static constexpr unsigned room_at = 0, items_at = 1024, head_at = 2048, tail_at = 3072, segments_at = 3584, state_bytes = 4096;
  static_assert(sizeof(batch_semaphore::words) <= items_at);

  [[nodiscard]] GPUHEAP_FN batch_semaphore room() const { return {word<batch_semaphore::words>(room_at)}; }
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
  // Of a group's lanes, which all call this: room for all of them, where the leader has claimed `got`, or for fewer if none can be added.
  // To the leader.
  template <class Storage>
  [[nodiscard]] GPUHEAP_COLD unsigned claim_of_more(warp_group group, unsigned got, Storage storage) const {
    bool const leads = group.leads();
    unsigned missing = group.size() - got;
    bool wants = false;
    simt::back_off pause;
    // Ends: a pass that goes on saw others add segments, who wait for nobody; or lost room or a block to others; or looked before it joins
    // those who want some. Blocking.
    GPUHEAP_NO_UNROLL
    for (bool decided = false; !decided;) {
      simt::uint32_t block = no_block;
      if (leads) {
        missing -= claim_wanted(missing, wants);
        if (missing != 0 && !wants) room().want(missing);
        wants |= missing != 0;
        if (missing != 0 && may_add(storage)) {
          if (room().may_make(places())) block = take_block(storage);
        } else if (missing != 0 && !room().is_making()) {
          // Those who had made by then may have left some.
          missing -= claim_wanted(missing, true);
          decided = true;
        }
        decided |= missing == 0;
        if (!decided && block == no_block) pause.wait();
      }
      block = group.from_leader(block);
      if (block != no_block) {
        empty(group, storage.places(block));
        if (leads) {
          directory_.add(*this, block, storage);
          unsigned const mine = missing < places() ? missing : places();
          missing -= mine;
          if (mine != places()) room().release(places() - mine);
          room().made(places());
          room().want_no_more(mine);
          decided = missing == 0;
        }
      }
      decided = group.from_leader(static_cast<unsigned>(decided)) != 0;
    }
    if (wants && missing != 0) room().want_no_more(missing);
    return group.size() - missing;
  }
  [[nodiscard]] GPUHEAP_FN unsigned claim_wanted(unsigned missing, bool wants) const {
    unsigned const more = room().try_acquire(missing);
    if (wants && more != 0) room().want_no_more(more);
    return more;
  }
  // Whether there may be a block, and is a number for it.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN bool may_add(Storage const& storage) const {
    return storage.may_have_any() && ref{*word(segments_at)}.load(simt::relaxed) < directory_.most_segments();
  }
  // A block for a segment that the caller makes, or none: then it makes none any more.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN simt::uint32_t take_block(Storage const& storage) const {
    // relaxed, both. Before the block is taken: who finds none left sees that there is a segment.
    ref const segments{*word(segments_at)};
    bool const full = segments.fetch_add(1, simt::relaxed) >= directory_.most_segments();
    simt::uint32_t const block = full ? no_block : storage.take();
    if (block == no_block) {
      segments.fetch_sub(1, simt::relaxed);
      room().made(places());
    }
    return block;
  }
  // The lanes of a group, all: the places of a segment, together.
  GPUHEAP_FN void empty(warp_group group, simt::uint32_t* first) const {
    unsigned const lanes = group.size();
    simt::sync_warp(group.mask);  // what the leader acquired with the block
    // Ends: places / 2 passes, or fewer. relaxed: the directory publishes, after all lanes.
    GPUHEAP_NO_UNROLL
    for (unsigned i = 2 * group.rank(); i < places(); i += 2 * lanes) {
      ref64{*reinterpret_cast<simt::uint64_t*>(first + i)}.store(~simt::uint64_t{0}, simt::relaxed);
    }
    simt::sync_warp(group.mask);
  }
  [[nodiscard]] GPUHEAP_FN static simt::uint32_t wait_for_value(simt::uint32_t& place) {
    simt::back_off pause;
    simt::uint32_t value = no_value;
    // Ends: the push of this ticket is on its way; see the head. Blocking.
    GPUHEAP_NO_UNROLL
    while (value == no_value) {
      // dependent: pairs with push().
      value = ref{place}.load(simt::dependent);
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
