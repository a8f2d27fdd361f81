// A bounded first-in-first-out queue for any number of producers and consumers, over the caller's memory.
//
//   state    room | items | head | tail. Each has 32 bits; they lie Stride bytes apart, in different sectors or slices of the L2
//   after    cells {value, turn}; their number is a power of two. With values of 32 bits, a cell is one word
//
//   room     free cells that no push has claimed       items   entries that no pop has claimed
//   tail     pushes that ever got a ticket             head    pops that ever got a ticket
//   turn     of cell i: t (t % capacity == i): empty, for the push of ticket t. t + 1: full, for the pop of ticket t
//
//   push:    claim one of room;   t = tail++;   wait for turn t,      write the value,   turn = t + 1;          items += 1
//   pop:     claim one of items;  t = head++;   wait for turn t + 1,  read the value,    turn = t + capacity;   room += 1
//
// Counts of tickets wrap at 2^32, so only their differences are used; room and items are signed. While no push or pop is under way, items
// is the number of entries, and room + items is the capacity.
//
// Full and empty: a claim subtracts the number that it wants, keeps the part that was there, and adds the rest again. Until then the rest
// is hidden from other threads, which may be refused. If the count has risen meanwhile, the thread that adds the rest sees that and claims
// again. So a thread is refused only if another thread succeeds. While no other push or pop is under way, a refusal means that the queue is
// full, or empty.
//
// Waiting: a thread that has a ticket waits for one thread at most, the one with the ticket before it on the same cell, and only while that
// thread is between taking its ticket and setting the turn. A thread has that earlier ticket: pushes claim the room of the empty queue, or
// room that pops have given back, so at most pops + capacity pushes have tickets, and likewise for pops. That thread may in turn wait for
// an older ticket of the cell. The first push of each cell waits for no thread, so the chain ends. The value is read or written inside the
// loop that waits, so that lanes of the warp that still wait do not hold up a lane whose turn has come.
//
// Order: what happens before a push happens before the pop that gets its value. Values of one producer are popped in the order in which
// they were pushed.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of the queue. Device, any thread. T: an unsigned integer of 32 or 64 bits.
//
// One lane or several can move many entries at once: claim_pushes(), put() for each ticket, publish() when all are put; claim_pops(),
// take() for each ticket, recycle() when all are taken. Between these calls a thread must not wait for other threads.
//
// Stride: if all threads of a device use a queue at once, many groups of them change the four words. If the words lay in one cache line,
// one slice of the L2 would serve all these changes one after the other. If they lie 1024 bytes apart, several slices share the work.
//
// Put: the order of the store by which a put publishes its value. It is relay if a fence of the caller has released before whatever the
// popping thread relies on.
template <class T, unsigned Stride = 32, simt::memory_order Put = simt::release>
class ring_queue {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  struct cell_of_two {
    T value;
    simt::uint32_t turn;
  };

 public:
  // Whether a cell is one word: {turn : 32, value : 32}.
  static constexpr bool one_word = sizeof(T) == 4;
  using cell = simt::conditional_t<one_word, simt::uint64_t, cell_of_two>;

  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t bytes_for(simt::uint32_t capacity) {
    return state_bytes + simt::size_t{capacity} * sizeof(cell);
  }

  ring_queue() = default;
  // A queue in bytes_for(capacity) bytes from `memory` on, aligned to 32. `capacity`: a power of two from 2 to 2^30.
  GPUHEAP_HD ring_queue(void* memory, simt::uint32_t capacity) : memory_{static_cast<char*>(memory)}, capacity_{capacity} {}

  [[nodiscard]] GPUHEAP_HD simt::uint32_t capacity() const { return capacity_; }

  // Makes the queue empty. A kernel that runs before those that use the queue calls this once for every i < capacity(), from any threads.
  GPUHEAP_FN void init(simt::uint32_t i) const { init(i, 0, T{}); }
  // Makes the queue hold `count` (at most the capacity) values, of which `value` is the i-th. Called once for every i < capacity(); for i
  // >= count the value is ignored.
  GPUHEAP_FN void init(simt::uint32_t i, simt::uint32_t count, T value) const {
    if constexpr (one_word) {
      simt::plain_write(cells()[i], packed(i < count ? i + 1 : i, value));
    } else {
      simt::plain_write(cells()[i].turn, i < count ? i + 1 : i);
      if (i < count) simt::plain_write(cells()[i].value, value);
    }
    if (i != 0) return;
    simt::plain_write(*word(room_at), capacity_ - count);
    simt::plain_write(*word(items_at), count);
    simt::plain_write(*word(head_at), simt::uint32_t{0});
    simt::plain_write(*word(tail_at), count);
  }

  // Pushes `value`. False if the queue is full, in the sense of "Full and empty" above.
  GPUHEAP_FN bool try_push(T value) const {
    simt::uint32_t ticket = 0;
    if (claim_pushes(1, ticket) == 0) return false;
    put(ticket, value);
    publish(1);
    return true;
  }
  // Pops an entry into `value`. False if the queue is empty, in the same sense.
  GPUHEAP_FN bool try_pop(T& value) const {
    simt::uint32_t ticket = 0;
    if (claim_pops(1, ticket) == 0) return false;
    value = take(ticket);
    recycle(1);
    return true;
  }

  // Claims up to `wanted` (at most the capacity) consecutive tickets for pushes. `first` receives the first one. Returns how many it got:
  // fewer than `wanted` only if the queue is full. `looks`: a load comes before the claim, so that threads do not write to an exhausted
  // count. Without it, a claim takes one access less.
  GPUHEAP_FN unsigned claim_pushes(unsigned wanted, simt::uint32_t& first, bool looks = true) const {
    unsigned const got = claim(*word(room_at), wanted, looks);
    // relaxed: the turn of each cell orders the accesses to the cell.
    if (got != 0) first = ref{*word(tail_at)}.fetch_add(got, simt::relaxed);
    return got;
  }
  // The same for pops: fewer than `wanted` only if the queue is empty. relaxed, as for pushes.
  GPUHEAP_FN unsigned claim_pops(unsigned wanted, simt::uint32_t& first, bool looks = true) const {
    unsigned const got = claim(*word(items_at), wanted, looks);
    if (got != 0) first = ref{*word(head_at)}.fetch_add(got, simt::relaxed);
    return got;
  }

  GPUHEAP_FN void put(simt::uint32_t ticket, T value) const {
    cell& c = cell_of(ticket);
    simt::back_off pause;
    // Ends: see the head. Blocking, while the pop that used the cell a lap before has its ticket and has not set the turn.
    GPUHEAP_NO_UNROLL
    for (bool done = false; !done;) {
      if constexpr (one_word) {
        // relaxed: the pop has read the old value in one load with the old turn.
        if (turn_of(ref64{c}.load(simt::relaxed)) == ticket) {
          // Put: publishes what the caller did before. Pairs with take().
          ref64{c}.store(packed(ticket + 1, value), Put);
          done = true;
        }
        // acquire: pairs with take(), so the read of the old value happens before the store of the new one.
      } else if (ref{c.turn}.load(simt::acquire) == ticket) {
        simt::global_ref<T>{c.value}.store(value, simt::relaxed);
        // release: publishes the value and what the caller did before. Pairs with take().
        ref{c.turn}.store(ticket + 1, simt::release);
        done = true;
      }
      if (!done) pause.wait();
    }
  }
  // Waits for the value of a claimed pop ticket, and returns it. `order`, for values of 32 bits: acquire, or consume if the caller accesses
  // only places whose addresses depend on the value. For values of 64 bits, the load acquires.
  [[nodiscard]] GPUHEAP_FN T take(simt::uint32_t ticket, simt::memory_order order = simt::acquire) const {
    cell& c = cell_of(ticket);
    simt::back_off pause;
    T value{};
    // Ends: see the head. Blocking, while the push of this ticket has not set the turn.
    GPUHEAP_NO_UNROLL
    for (bool done = false; !done;) {
      if constexpr (one_word) {
        // `order`: pairs with put().
        simt::uint64_t const seen = ref64{c}.load(order);
        if (turn_of(seen) == ticket + 1) {
          value = static_cast<T>(seen);
          // relaxed: this thread has read the value in one load with the turn.
          ref64{c}.store(packed(ticket + capacity_, value), simt::relaxed);
          done = true;
        }
        // acquire: pairs with put().
      } else if (ref{c.turn}.load(simt::acquire) == ticket + 1) {
        value = simt::global_ref<T>{c.value}.load(simt::relaxed);
        // release: the read of the value comes before. Pairs with put() a lap later.
        ref{c.turn}.store(ticket + capacity_, simt::release);
        done = true;
      }
      if (!done) pause.wait();
    }
    return value;
  }

  // Adds the entries of `count` finished puts to `items`, or the cells of `count` finished takes to `room`. relaxed, both: a thread that
  // gets a ticket waits for the turn of its cell.
  GPUHEAP_FN void publish(unsigned count) const { ref{*word(items_at)}.fetch_add(count, simt::relaxed); }
  GPUHEAP_FN void recycle(unsigned count) const { ref{*word(room_at)}.fetch_add(count, simt::relaxed); }

  // The numbers of unclaimed entries and of unclaimed free cells, as this load sees them.
  [[nodiscard]] GPUHEAP_FN unsigned size() const { return at_least_none(ref{*word(items_at)}.load(simt::relaxed)); }
  [[nodiscard]] GPUHEAP_FN unsigned room() const { return at_least_none(ref{*word(room_at)}.load(simt::relaxed)); }
  // The k-th entry, k < size(). Only while no push or pop is under way, so the loads are relaxed.
  [[nodiscard]] GPUHEAP_FN T peek(unsigned k) const {
    cell& c = cell_of(ref{*word(head_at)}.load(simt::relaxed) + k);
    if constexpr (one_word) {
      return static_cast<T>(ref64{c}.load(simt::relaxed));
    } else {
      return simt::global_ref<T>{c.value}.load(simt::relaxed);
    }
  }

 private:
  using ref = simt::global_ref<simt::uint32_t>;
  using ref64 = simt::global_ref<simt::uint64_t>;
  static constexpr unsigned room_at = 0, items_at = Stride, head_at = 2 * Stride, tail_at = 3 * Stride, state_bytes = 4 * Stride;
  static_assert(Stride % 32 == 0 && Stride != 0);

  [[nodiscard]] GPUHEAP_HD static constexpr simt::uint64_t packed(simt::uint32_t turn, T value) {
    return simt::uint64_t{turn} << 32 | static_cast<simt::uint32_t>(value);
  }
  [[nodiscard]] GPUHEAP_HD static constexpr simt::uint32_t turn_of(simt::uint64_t word) { return static_cast<simt::uint32_t>(word >> 32); }

  [[nodiscard]] GPUHEAP_FN static unsigned at_least_none(simt::uint32_t count) { return static_cast<int>(count) > 0 ? count : 0; }

  // Subtracts up to `wanted` from a count, and returns how much: less than `wanted` only if the count was lower.
  GPUHEAP_FN static unsigned claim(simt::uint32_t& count, unsigned wanted, bool looks) {
    ref const there{count};
    // relaxed, all: the count only limits the tickets; the turns of the cells order the accesses.
    if (looks && static_cast<int>(there.load(simt::relaxed)) <= 0) return 0;
    unsigned got = 0;
    // Ends: the loop is repeated only if the count was positive after this thread had added its rest again: another thread's push or pop
    // has ended meanwhile. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      unsigned const before = at_least_none(there.fetch_sub(wanted, simt::relaxed));
      if (before >= wanted) return got + wanted;
      got += before;
      wanted -= before;
      if (static_cast<int>(there.fetch_add(wanted, simt::relaxed) + wanted) <= 0) return got;
    }
  }

  [[nodiscard]] GPUHEAP_HD simt::uint32_t* word(unsigned at) const { return reinterpret_cast<simt::uint32_t*>(memory_ + at); }
  [[nodiscard]] GPUHEAP_HD cell* cells() const { return reinterpret_cast<cell*>(memory_ + state_bytes); }
  [[nodiscard]] GPUHEAP_HD cell& cell_of(simt::uint32_t ticket) const { return cells()[ticket & (capacity_ - 1)]; }

  char* memory_ = nullptr;
  simt::uint32_t capacity_ = 0;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
