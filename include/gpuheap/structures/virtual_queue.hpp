// A first-in-first-out queue of 32-bit values whose storage grows and shrinks. It consists of segments of places. A push that needs a
// segment takes one from a pool, and the pop of a segment's last entry gives the segment back. These are the virtualised queues of
//   M. Winter, D. Mlakar, M. Parger, M. Steinberger, "Ouroboros: Virtualized Queues for Dynamic Memory Management on GPUs", ICS 2020.
//
//   room     the number of places of existing segments that no push has claimed: a batch semaphore, whose batches are segments
//   items    the entries that no pop has claimed: a count as in batch_semaphore.hpp, of units that no thread makes
//   tail     the number of tickets that pushes have got                       head    the number of tickets that pops have got
//   ticket   ticket t stands for place t % places of segment t / places. A place serves one push and one pop
//   record   of a segment's block: {block of the next segment + 1 : 32, entries popped : 32}, and the segment's number and queue. It lies
//            outside of the block and exists forever, so a thread that reads it late finds a valid record, of this segment or of a later
//            one in the same block
//
//   push:    claim a place of room, or add segments. If no segment can be added, the push is refused and changes nothing.
//            t = tail++;  find the segment;  place = value;  items += 1
//   pop:     claim one of items;  t = head++;  find the segment;  wait for the value, and empty the place by the same exchange;  add 1 to
//            the record's entries popped. The last pop of a segment gives the block back, or keeps it
//   keep:    a queue that has little room left adds the finished segment's block to its end again, as the next segment. Its places are
//            empty already. So the next pushes need not wait for a thread that takes a block and empties it
//   add:     unless other threads add enough segments: take a block, empty all its places, enter it into the directory, which numbers it,
//            and add its places to room. As many threads add at once as segments are wanted
//   vacate:  while no thread adds or keeps, and the queue is empty: claim all room, and move head and tail over it. The places of the last
//            segments then count as popped, and the segments go back
//
// A directory (segment_directory.hpp) finds a segment. A segment stays while a thread has a ticket of it that is not popped. A thread with
// a ticket therefore finds its segment. If the directory does not contain the segment yet, the thread waits for the thread that adds it. In
// list_directory the adding thread waits for no thread. In array_directory it waits for threads that add or remove an older segment of the
// same slot of the ring. These wait at most for threads that add or remove still older segments.
//
// Waiting: a pop waits for the push of its ticket. That push has claimed room, and waits at most for the thread that adds its segment. A
// push without room waits for threads that add segments. Order: the pop of a value is a `consume` exchange (simt/atomic.hpp), so memory
// accesses before the push happen before the accesses that depend on the popped value.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/batch_semaphore.hpp>
#include <gpuheap/structures/segment_directory.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// The queue itself. Device, any thread. A view.
template <class Directory>
class virtual_queue {
 public:
  static constexpr simt::uint32_t no_value = ~simt::uint32_t{0};  // a value that must not be pushed

  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t bytes_for(simt::uint32_t segments) {
    return state_bytes + Directory::bytes_for(segments);
  }

  virtual_queue() = default;
  // A queue in bytes_for(segments) bytes from `memory` on, which are aligned to 64 and 0 at first. `segments`: the number that can exist at
  // once, a power of two. `places`: the places of a segment, a power of two. `kept`: the queue keeps finished segments while it has room in
  // fewer segments than that.
  GPUHEAP_HD virtual_queue(void* memory, simt::uint32_t segments, unsigned places, simt::uint32_t kept = 0)
      : memory_{static_cast<char*>(memory)},
        directory_{memory_ + state_bytes, segments},
        lg_places_{simt::highest_bit(places)},
        kept_{kept} {}

  [[nodiscard]] GPUHEAP_HD unsigned places() const { return 1u << lg_places_; }

  // Called by all lanes of a group. Pushes the values of as many lanes as get room, those of the lowest ranks. Returns their number.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN unsigned push(warp_group group, simt::uint32_t value, Storage const& storage) const {
    simt::uint64_t first = 0;
    unsigned got = 0;
    if (group.leads()) got = room().try_acquire(group.size());
    got = group.from_leader(got);
    if (got != group.size()) got = group.from_leader(claim_of_more(group, group.size(), got, storage));
    if (got != 0 && group.leads())
      first = ref64{*word<simt::uint64_t>(tail_at)}.fetch_add(got, simt::relaxed);  // relaxed: the accesses to the places give the order
    first = group.from_leader(first);
    if (group.rank() < got) {
      simt::uint64_t const ticket = first + group.rank();
      simt::uint32_t const block = directory_.find(segment_of(ticket), false, storage);
      // release: publishes the value, and the caller's earlier accesses. Pairs with pop().
      ref{place(block, ticket, storage)}.store(value, simt::release);
    }
    simt::sync_warp(group.mask);
    if (got != 0 && group.leads()) items().release(got);  // a pop waits for the value
    return got;
  }

  // As push(), for the values value, value + 1, ... value + n - 1, n > 0. Returns how many of them got room.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN unsigned push_run(warp_group group, simt::uint32_t value, unsigned n, Storage const& storage) const {
    simt::uint64_t first = 0;
    unsigned got = 0;
    if (group.leads()) got = room().try_acquire(n);
    got = group.from_leader(got);
    if (got != n) got = group.from_leader(claim_of_more(group, n, got, storage));
    if (got != 0 && group.leads()) first = ref64{*word<simt::uint64_t>(tail_at)}.fetch_add(got, simt::relaxed);  // relaxed: as in push()
    first = group.from_leader(first);
    simt::uint32_t segment = 0, block = no_block;
    GPUHEAP_NO_UNROLL
    for (unsigned i = group.rank(); i < got; i += group.size()) {
      simt::uint64_t const ticket = first + i;
      if (block == no_block || segment != segment_of(ticket)) {
        segment = segment_of(ticket);
        block = directory_.find(segment, false, storage);
      }
      // release: publishes the value, and the caller's earlier accesses. Pairs with pop().
      ref{place(block, ticket, storage)}.store(value + i, simt::release);
    }
    simt::sync_warp(group.mask);
    if (got != 0 && group.leads()) items().release(got);  // a pop waits for the value
    return got;
  }

  // Called by all lanes of a group. Pops up to `wanted` values (at most the group's size), one for each of the lanes of the lowest ranks.
  // Returns their number, which is less than `wanted` only if the queue has no more.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN unsigned pop(warp_group group, unsigned wanted, simt::uint32_t& value, Storage const& storage) const {
    simt::uint64_t first = 0;
    unsigned got = 0;
    if (group.leads()) {
      got = items().try_acquire(wanted);
      if (got != 0)
        first = ref64{*word<simt::uint64_t>(head_at)}.fetch_add(got, simt::relaxed);  // relaxed: the accesses to the places give the order
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
    // One lane for each segment counts the entries that its lanes have popped.
    warp_group const same = warp_group::of_equal(group.mask, block);
    simt::sync_warp(same.mask);
    if (block != no_block && same.leads()) directory_.popped(*this, segment_of(ticket), block, same.size(), storage);
    return got;
  }

  // Gives the last segments back to the pool if the queue is empty and no thread pushes or pops; without this call an empty queue keeps
  // segments with room. False: no block has gone back.
  template <class Storage>
  [[nodiscard]] GPUHEAP_COLD bool vacate(Storage storage) const {
    if (!has_segments() || size() != 0 || !room().try_close()) return false;
    // relaxed, all: no segment is added now, and a read-modify-write reads the tail. A thread that has claimed all places after the tail is
    // the only one that could push there, so the tail does not move. If the head is at the tail too, no thread can pop until a segment is
    // added.
    simt::uint64_t tail = ref64{*word<simt::uint64_t>(tail_at)}.fetch_add(0, simt::relaxed);
    unsigned const rest = (directory_.next_segment() << lg_places_) - static_cast<unsigned>(tail);
    unsigned const got = rest != 0 ? room().try_acquire(rest) : 0;
    simt::uint64_t const end = tail + rest;
    bool gone = false;
    simt::uint64_t at = tail;
    if (got == rest && (got == 0 || ref64{*word<simt::uint64_t>(head_at)}.compare_exchange(at, end, simt::relaxed, simt::relaxed))) {
      ref64{*word<simt::uint64_t>(tail_at)}.store(end, simt::relaxed);
      if (rest == 0 && end != 0) gone = directory_.leave(*this, segment_of(end - 1), 0, storage);
      // Ends: one pass for each segment.
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

  // Called by the directory, for the blocks of finished segments, all of whose places are empty: how many of n the queue would use again.
  // relaxed: a guess.
  [[nodiscard]] GPUHEAP_FN unsigned lacks(unsigned n) const {
    long long const missing = kept_ == 0 ? 0 : (static_cast<long long>(kept_) << lg_places_) - room().available();
    if (missing <= 0) return 0;
    return missing > static_cast<long long>(n - 1) << lg_places_ ? n : static_cast<unsigned>((missing + places() - 1) >> lg_places_);
  }
  // True: the directory adds n (> 0) such blocks again, and then calls kept(n). No thread vacates the queue meanwhile.
  [[nodiscard]] GPUHEAP_FN bool may_keep(unsigned n) const { return room().may_bring(n << lg_places_); }
  GPUHEAP_FN void kept(unsigned n) const {
    room().release(n << lg_places_);
    room().made(n << lg_places_);
  }
  // Called by the directory: gives the block of a finished segment back to the pool.
  template <class Storage>
  GPUHEAP_FN void give(simt::uint32_t block, Storage const& storage) const {
    storage.give(block);
    // release: a thread that sees the lower count also sees the block in the pool.
    ref{*word(segments_at)}.fetch_sub(1, simt::release);
  }
  // Whether the queue has segments, or one is being added. relaxed: a hint; exact if an acquire fence follows.
  [[nodiscard]] GPUHEAP_FN bool has_segments() const { return ref{*word(segments_at)}.load(simt::relaxed) != 0; }

  // The number of entries that no pop has claimed, as this load sees it. While no push or pop is under way, it is the number of all
  // entries.
  [[nodiscard]] GPUHEAP_FN unsigned size() const {
    long long const n = items().available();
    return n > 0 ? static_cast<unsigned>(n) : 0;
  }
  // The k-th entry, k < size(). Only while no push or pop is under way, so the loads are relaxed.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN simt::uint32_t peek(unsigned k, Storage const& storage) const {
    simt::uint64_t const ticket = ref64{*word<simt::uint64_t>(head_at)}.load(simt::relaxed) + k;
    return ref{place(directory_.find(segment_of(ticket), true, storage), ticket, storage)}.load(simt::relaxed);
  }

 private:
  using ref = simt::global_ref<simt::uint32_t>;
  using ref64 = simt::global_ref<simt::uint64_t>;
  // The words lie apart, because all threads of a device may push and pop at once. If the words lay in one cache line, one slice of the L2
  // would serve all their atomics one after the other.
  static constexpr unsigned room_at = 0, items_at = 1024, head_at = 2048, tail_at = 3072, segments_at = 3584, state_bytes = 4096;
  static_assert(sizeof(batch_semaphore::words) <= items_at && sizeof(batch_semaphore::words) <= head_at - items_at);

  [[nodiscard]] GPUHEAP_FN batch_semaphore room() const { return {word<batch_semaphore::words>(room_at)}; }
  // The entries that no pop has claimed. No thread makes such units.
  [[nodiscard]] GPUHEAP_FN batch_semaphore items() const { return {word<batch_semaphore::words>(items_at)}; }
  // Called by all lanes of a group whose leader has claimed room for `got` of `wanted` values. Claims room for the others, and adds
  // segments for them. Returns to the leader the number of values that have room, which is less than all only if no segment can be added.
  template <class Storage>
  [[nodiscard]] GPUHEAP_COLD unsigned claim_of_more(warp_group group, unsigned wanted, unsigned got, Storage storage) const {
    bool const leads = group.leads();
    unsigned missing = wanted - got;
    bool wants = false;
    simt::back_off pause;
    // Ends: a pass that decides nothing saw other threads add segments, and these wait for no thread in this loop; or it lost room or a
    // block to other threads; or it registered its want; or it added a segment and wants more. Blocking.
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
          // Threads that have finished adding segments meanwhile may have left room.
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
    return wanted - missing;
  }
  [[nodiscard]] GPUHEAP_FN unsigned claim_wanted(unsigned missing, bool wants) const {
    // The load comes first, so that waiting threads do not write to an exhausted count.
    unsigned const more = room().available() > 0 ? room().try_acquire(missing) : 0;
    if (wants && more != 0) room().want_no_more(more);
    return more;
  }
  // Whether the pool may have a block, and the directory has a number for it. relaxed: a hint, which take_block() checks again.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN bool may_add(Storage const& storage) const {
    return storage.may_have_any() && ref{*word(segments_at)}.load(simt::relaxed) < directory_.most_segments();
  }
  // Takes a block for a segment, after may_make() has allowed the caller to make one. no_block: the pool has none, or the queue has as many
  // segments as it may have. The call has then withdrawn the units that the caller was expected to make.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN simt::uint32_t take_block(Storage const& storage) const {
    // relaxed, both. The count rises before the block is taken, so that a thread that finds no block left sees that a segment exists.
    ref const segments{*word(segments_at)};
    bool const full = segments.fetch_add(1, simt::relaxed) >= directory_.most_segments();
    simt::uint32_t const block = full ? no_block : storage.take();
    if (block == no_block) {
      segments.fetch_sub(1, simt::relaxed);
      room().made(places());
    }
    return block;
  }
  // Empties the places of a segment: all lanes of a group call, and share the work.
  GPUHEAP_FN void empty(warp_group group, simt::uint32_t* first) const {
    unsigned const lanes = group.size();
    simt::sync_warp(group.mask);  // passes on to all lanes what the leader acquired with the block
    // relaxed: the directory publishes the block, after all lanes have stored.
    GPUHEAP_NO_UNROLL
    for (unsigned i = 2 * group.rank(); i < places(); i += 2 * lanes) {
      ref64{*reinterpret_cast<simt::uint64_t*>(first + i)}.store(~simt::uint64_t{0}, simt::relaxed);
    }
    simt::sync_warp(group.mask);
  }
  [[nodiscard]] GPUHEAP_FN static simt::uint32_t wait_for_value(simt::uint32_t& place) {
    simt::back_off pause;
    simt::uint32_t value = no_value;
    // Ends: the push of this ticket stores the value; see the head of this file. Blocking.
    GPUHEAP_NO_UNROLL
    while (value == no_value) {
      // consume: pairs with push(). The exchange empties the place for the segment that the block is next.
      value = ref{place}.exchange(no_value, simt::consume);
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
  simt::uint32_t kept_ = 0;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
