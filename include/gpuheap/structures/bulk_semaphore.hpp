// A counting semaphore whose waiters also make the units. The semaphore selects just as many waiters as are needed. Each of these makes a
// batch of units; the other waiters wait for the batches.
//   After I. Gelado, M. Garland, "Throughput-oriented GPU memory allocation", PPoPP 2019.
//
//   word = { P : 28, signed | C : 36, signed }
//     C   units that are there now
//     P   units that threads have promised to make, less the units that registered waiters wait for
//
//   wait(n, b):  C + P < n   P += b - n: the caller makes b units, keeps n and signals b - n. If it cannot make them, it calls fail(b - n)
//                C >= n      C -= n: served
//                otherwise   P -= n; looks again until C >= n, or until C + P < 0: more units are waited for than promised. Then P += n,
//                and again
//   signal(n, promised):     C += n, P -= promised
//
// Differences from the paper. The paper keeps promised and awaited units in two counts. It uses only the difference of the two, which is P
// here. A waiter of the paper stops waiting as soon as the awaited units equal the promised ones. Here a waiter stops when the awaited
// units exceed the promised ones.
//
// The paper makes each change by a compare-exchange. Only one thread at a time succeeds: with thousands of callers, one in several
// microseconds. In wait(), a load decides here which change to make, an addition makes it, and the value before the addition tells
// whether it was right (try_wait() uses a compare-exchange):
//   C -= n although C < n by then              C += n, P -= n: the caller waits. Between the two additions C + P is already that of a
//                                              waiting caller. C alone is too low, by at most the units that such callers want
//   P += b - n although C + P >= n by then     P -= b: the caller waits for units that others have promised. Between the two additions
//                                              others may rely on this promise, as on any promise that is withdrawn later
// So a thread whose load was out of date costs other threads some loads, and no unit is given twice, made in vain or lost.
//
// Progress:  try_wait, signal, fail: lock-free. wait: blocking. A waiter waits for threads that promised, which may be other lanes of its
//            warp. A thread that has promised units must signal or withdraw them, and must not wait for a waiter before that. Waiters have
//            no order.
// Orders:    signal releases; a wait that gets units acquires.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of one word. Any thread. Fewer than 2^35 units. At most 2^26 units promised or waited for at one time, promises that are being
// withdrawn included: with more, threads may make batches that no thread needs.
struct bulk_semaphore {
  using word = simt::uint64_t;
  using difference = simt::int64_t;
  static constexpr unsigned count_bits = 36;

  // The result of ask(). served: the caller has n units. grow: the caller has promised a batch. again: the caller has to ask again.
  enum class answer { served, grow, again };

  word* at = nullptr;

  // The word of a semaphore with n units and no promises.
  [[nodiscard]] GPUHEAP_HD static constexpr word of(simt::uint64_t n) { return n; }
  // The units that are there. A caller whose load was out of date makes the number negative for a moment.
  [[nodiscard]] GPUHEAP_HD static constexpr difference count(word w) {
    return static_cast<difference>(w << (64 - count_bits)) >> (64 - count_bits);
  }
  // The units promised less those waited for.
  [[nodiscard]] GPUHEAP_HD static constexpr difference surplus(word w) {
    return static_cast<difference>(w - static_cast<word>(count(w))) >> count_bits;
  }
  // The word with `counted` and `promised` added to its parts.
  [[nodiscard]] GPUHEAP_HD static constexpr word plus(word w, difference counted, difference promised) {
    return w + static_cast<word>(counted) + (static_cast<word>(promised) << count_bits);
  }

  [[nodiscard]] GPUHEAP_FN simt::global_ref<word> ref() const { return simt::global_ref<word>{*at}; }
  // relaxed: a guess.
  [[nodiscard]] GPUHEAP_FN word look() const { return ref().load(simt::relaxed); }

  // Gets n units, 0 < n <= batch. If this thread has to make a batch, it calls grow(). If grow() returns false, wait() withdraws the
  // promise and returns false. If grow() returns true, other threads can find the `batch` things that it made; the caller keeps n units,
  // and wait() signals the others.
  template <class Grow>
  [[nodiscard]] GPUHEAP_FN bool wait(unsigned n, unsigned batch, Grow grow) const {
    unsigned waiting = 0;
    bool served = false;
    simt::back_off pause;
    // Ends: see the head. A lane that has promised signals or withdraws inside the loop. Behind the loop it could be made to wait for lanes
    // of its warp that are still in the loop, and these wait for its promise. Blocking.
    GPUHEAP_NO_UNROLL
    for (bool done = false; !done;) {
      answer const said = ask(n, batch, waiting);
      if (said == answer::grow) {
        served = grow();
        if (served) {
          signal(batch - n, batch - n);
        } else {
          fail(batch - n);
        }
      } else if (said == answer::again) {
        pause.wait();
      }
      served |= said == answer::served;
      done = said != answer::again;
    }
    return served;
  }
  // Gets one unit for each lane of a group. All lanes of the group call, and the leader waits for group.size() units. Returns the number of
  // units that it got, to all lanes; the lanes of lower ranks have them. The number is less than group.size() only if no more units could
  // be made. batch > 0.
  template <class Grow>
  [[nodiscard]] GPUHEAP_FN unsigned wait_together(warp_group group, unsigned batch, Grow grow) const {
    unsigned served = 0;
    if (group.leads()) {
      bool more = true;
      // Ends: `served` rises.
      GPUHEAP_NO_UNROLL
      while (more && served != group.size()) {
        unsigned const left = group.size() - served, n = left < batch ? left : batch;
        more = wait(n, batch, grow);
        if (more) served += n;
      }
    }
    served = group.from_leader(served);
    simt::sync_warp(group.mask);  // all lanes get what the leader acquired
    return served;
  }
  // Waits for n units that other threads have promised. False: the units that are there and promised are too few. The caller never makes
  // units.
  [[nodiscard]] GPUHEAP_FN bool wait_promised(unsigned n) const {
    unsigned waiting = 0;
    simt::back_off pause;
    answer said;
    // Ends: as in wait(). Blocking.
    GPUHEAP_NO_UNROLL
    while ((said = ask(n, n, waiting)) == answer::again) pause.wait();
    return said == answer::served;
  }
  // One pass of waiting, for callers whose loop does other work too. `waiting` is 0 before the first pass; each call updates it, and the
  // caller passes it on unchanged. A caller that has asked must ask until the answer is not `again`. With the answer `grow` the caller has
  // promised batch - n units for other threads: it makes a batch and signals them, or calls fail().
  [[nodiscard]] GPUHEAP_FN answer ask(unsigned n, unsigned batch, unsigned& waiting) const {
    word const seen = look();
    difference const needed = n, registered = waiting;
    waiting = 0;
    if (is_short(seen, needed - registered)) {
      difference const change = registered + batch - needed;
      // acquire, here and below: pairs with signal().
      if (change == 0 || is_short(ref().fetch_add(plus(0, 0, change), simt::acquire), needed - registered)) return answer::grow;
      // relaxed, here and below: the change publishes nothing.
      ref().fetch_sub(plus(0, 0, batch), simt::relaxed);
    } else if (count(seen) >= needed) {
      if (count(ref().fetch_add(plus(0, -needed, registered), simt::acquire)) >= needed) return answer::served;
      ref().fetch_add(plus(0, needed, -needed), simt::relaxed);
    } else if (registered == 0) {
      ref().fetch_add(plus(0, 0, -needed), simt::relaxed);
    }
    waiting = n;
    return answer::again;
  }

  // Takes n (> 0) units if they are there. The call may miss units while another thread corrects a subtraction that came too late. It waits
  // for no thread.
  [[nodiscard]] GPUHEAP_FN bool try_wait(unsigned n) const { return try_wait_up_to(n, n) == n; }
  // Takes units that are there: at most n, and a multiple of `multiple`. Returns how many it took.
  [[nodiscard]] GPUHEAP_FN unsigned try_wait_up_to(unsigned n, unsigned multiple) const {
    word seen = look();
    simt::back_off pause;
    // Ends: an exchange that fails lost the word to another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      difference const there = count(seen);
      unsigned const most = there >= n ? n : there > 0 ? static_cast<unsigned>(there) : 0;
      unsigned const got = most - most % multiple;
      // acquire: pairs with signal().
      if (got == 0 || ref().compare_exchange(seen, plus(seen, -difference{got}, 0), simt::acquire, simt::relaxed)) return got;
      pause.wait();
    }
  }

  // Adds n units, `promised` of which the caller had promised.
  GPUHEAP_FN void signal(unsigned n, unsigned promised = 0) const {
    // release: publishes the caller's accesses to what the units stand for. Pairs with the acquires of the threads that get the units.
    ref().fetch_add(plus(0, n, -difference{promised}), simt::release);
  }
  // Withdraws a promise of `promised` units. Threads that wait for these units see the change when they look again.
  GPUHEAP_FN void fail(unsigned promised) const {
    // relaxed: the change publishes nothing.
    if (promised != 0) ref().fetch_add(plus(0, 0, -difference{promised}), simt::relaxed);
  }

 private:
  // Whether the units that are there and promised, less those waited for, are fewer than n.
  [[nodiscard]] GPUHEAP_HD static constexpr bool is_short(word w, difference n) { return count(w) + surplus(w) < n; }
};
static_assert(bulk_semaphore::count(bulk_semaphore::plus(bulk_semaphore::of(5), -2, -7)) == 3 &&
              bulk_semaphore::surplus(bulk_semaphore::plus(bulk_semaphore::of(5), -2, -7)) == -7 &&
              bulk_semaphore::plus(bulk_semaphore::plus(9, 3, -1), -3, 1) == 9);
static_assert(bulk_semaphore::count(bulk_semaphore::plus(0, -3, 2)) == -3 && bulk_semaphore::surplus(bulk_semaphore::plus(0, -3, 2)) == 2 &&
              bulk_semaphore::count(bulk_semaphore::plus(0, -1, -1)) == -1 && bulk_semaphore::surplus(bulk_semaphore::plus(0, -1, 0)) == 0);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
