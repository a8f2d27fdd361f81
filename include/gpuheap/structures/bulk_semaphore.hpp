// A counting semaphore whose waiters also make the units: it tells exactly as many of them to grow the supply as are needed, and tells the
// others that enough has been promised.
//   After I. Gelado, M. Garland, "Throughput-oriented GPU memory allocation", PPoPP 2019.
//
//   word = { P : 28, signed | C : 36, signed }
//     C   units that are there now
//     P   units promised by threads that grow the supply, less the units that registered waiters wait for
//
//   wait(n, b):  C + P < n   P += b - n: the caller makes b units, keeps n and signals b - n; or it cannot make them, and calls fail(b - n)
//                C >= n      C -= n: served
//                otherwise   P -= n; look again until C >= n, or C + P < 0: more is waited for than was promised. Then P += n, again
//   signal(n, promised):     C += n, P -= promised
//
// Differences from the paper. The paper has two counts in place of P, which only ever enter as their difference. Its waiters leave as soon
// as they wait for exactly what was promised; here they leave when they wait for more.
//
// The paper makes each change by a compare-exchange, which lets one thread succeed at a time: with thousands of callers, one in several
// microseconds. Here a load decides which change to make, an addition makes it, and the value before the addition tells whether it was
// right:
//   C -= n although C < n by then              C += n, P -= n: the caller waits. C + P has been the same as with a waiting caller since
//                                              the subtraction. C is too low until it is corrected, by at most what such callers want
//   P += b - n although C + P >= n by then     P -= b: the caller waits for what others have promised. Until then others may count on
//                                              the promise, as on one that fails
// So a thread that decides too late costs others some looks, and no unit is given twice, made in vain or lost.
//
// Progress:  try_wait, signal, fail: lock-free. wait: blocking. A waiter waits for threads that promised, which may be other lanes of its
//            warp: no thread may wait for a waiter before it has kept or withdrawn its promise. Promises must be kept or withdrawn.
//            Waiters have no order.
// Orders:    signal releases, being served acquires.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of one word. Any thread. Fewer than 2^35 units. At most 2^26 units promised or waited for at one time, withdrawn promises
// included: with more, threads may make batches that nobody needs.
struct bulk_semaphore {
  using word = simt::uint64_t;
  using difference = simt::int64_t;
  static constexpr unsigned count_bits = 36;

  // The result of ask(): the caller has n units; or it has promised a batch; or it has to ask again.
  enum class answer { served, grow, again };

  word* at = nullptr;

  // The word of a semaphore with n units and no promises.
  [[nodiscard]] GPUHEAP_HD static constexpr word of(simt::uint64_t n) { return n; }
  // The units that are there. Negative for a moment.
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

  // Gets n units, 0 < n <= batch. If this thread has to make a batch, it calls grow(). If grow() returns false, the promise is withdrawn,
  // and wait() returns false. Others can find what grow() made when it returns; the caller keeps n units of it.
  template <class Grow>
  [[nodiscard]] GPUHEAP_FN bool wait(unsigned n, unsigned batch, Grow grow) const {
    unsigned waiting = 0;
    bool served = false;
    simt::back_off pause;
    // Ends: see the head. A promise is kept or withdrawn inside the loop, so that no lane that has promised waits at the loop's end for one
    // that waits for it. Blocking.
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
  // Gets one unit for each lane of a group, which all call this: the leader waits for as many. Returns for how many lanes, those of the
  // lowest ranks: fewer only if no more could be made. batch > 0.
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
    simt::sync_warp(group.mask);  // what the leader acquired
    return served;
  }
  // Waits for what others have promised. False: no thread has promised so much, and the caller does not either.
  [[nodiscard]] GPUHEAP_FN bool wait_promised(unsigned n) const {
    unsigned waiting = 0;
    simt::back_off pause;
    answer said;
    // Ends: as in wait(). Blocking.
    GPUHEAP_NO_UNROLL
    while ((said = ask(n, n, waiting)) == answer::again) pause.wait();
    return said == answer::served;
  }
  // One pass of waiting, for callers whose loop does more than wait(). `waiting` is 0 at first, and stays as the call left it when the
  // caller asks again. A caller that has asked continues until the answer is not `again`. With the answer `grow` it has promised batch - n
  // units: it signals them, or calls fail().
  [[nodiscard]] GPUHEAP_FN answer ask(unsigned n, unsigned batch, unsigned& waiting) const {
    word const seen = look();
    difference const needed = n, registered = waiting;
    waiting = 0;
    if (is_short(seen, needed - registered)) {
      difference const change = registered + batch - needed;
      // acquire, here and below: pairs with signal().
      if (change == 0 || is_short(ref().fetch_add(plus(0, 0, change), simt::acquire), needed - registered)) return answer::grow;
      // relaxed, here and below: nothing is handed over.
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

  // Takes n (> 0) units if they are there. It may miss units while another caller corrects a subtraction that came too late; it waits for
  // no thread.
  [[nodiscard]] GPUHEAP_FN bool try_wait(unsigned n) const { return try_wait_up_to(n, n) == n; }
  // Takes up to n units, a multiple of `multiple`, of those that are there. Returns how many it took.
  [[nodiscard]] GPUHEAP_FN unsigned try_wait_up_to(unsigned n, unsigned multiple) const {
    word seen = look();
    simt::back_off pause;
    // Ends: a pass that goes on found the word changed by another thread. Lock-free.
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

  // Adds n units, of which `promised` had been promised.
  GPUHEAP_FN void signal(unsigned n, unsigned promised = 0) const {
    // release: the caller's accesses to the units. Pairs with the acquires of threads that get them.
    ref().fetch_add(plus(0, n, -difference{promised}), simt::release);
  }
  // Withdraws a promise: a thread that waits for it looks again.
  GPUHEAP_FN void fail(unsigned promised) const {
    // relaxed: nothing is handed over.
    if (promised != 0) ref().fetch_add(plus(0, 0, -difference{promised}), simt::relaxed);
  }

 private:
  // Whether the units that are there and promised are less than n.
  [[nodiscard]] GPUHEAP_HD static constexpr bool is_short(word w, difference n) { return count(w) + surplus(w) < n; }
};
static_assert(bulk_semaphore::count(bulk_semaphore::plus(bulk_semaphore::of(5), -2, -7)) == 3 &&
              bulk_semaphore::surplus(bulk_semaphore::plus(bulk_semaphore::of(5), -2, -7)) == -7 &&
              bulk_semaphore::plus(bulk_semaphore::plus(9, 3, -1), -3, 1) == 9);
static_assert(bulk_semaphore::count(bulk_semaphore::plus(0, -3, 2)) == -3 && bulk_semaphore::surplus(bulk_semaphore::plus(0, -3, 2)) == 2 &&
              bulk_semaphore::count(bulk_semaphore::plus(0, -1, -1)) == -1 && bulk_semaphore::surplus(bulk_semaphore::plus(0, -1, 0)) == 0);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
