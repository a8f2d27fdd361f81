// A counting semaphore whose waiters also make what they wait for: it tells exactly as many of them to grow the supply as are needed, and
// the others that enough has been promised.
//   After I. Gelado, M. Garland, "Throughput-oriented GPU memory allocation", PPoPP 2019.
//
//   word = { P : 24, signed | C : 40 }
//     C   units that are there now
//     P   units promised by those who grow the supply, less the units that registered waiters wait for
//
//   wait(n, b):  C + P < n   P += b - n: the caller makes b units, keeps n, signals b - n. Or it cannot, and says so by fail(b - n)
//                C >= n      C -= n: served
//                otherwise   P -= n; look again until C >= n, or C + P < 0: more is waited for than was promised; then P += n, from the top
//   signal(n, promised):     C += n, P -= promised
//
// The paper has two counts in place of P, which only ever enter as their difference. And there waiters leave as soon as they wait for
// exactly what was promised; here they leave when they wait for more.
//
// Progress:  try_wait, signal, fail: lock-free. wait: blocking. A waiter waits for those who promised, who may be lanes of its own warp
// that
//            are elsewhere: nobody may wait for a waiter before it has kept or withdrawn its promise. Promises must be kept or withdrawn.
//            No order among waiters.
// Orders:    signal releases, being served acquires.
#pragma once

#include <gpuheap/simt/atomic.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of one word. Any thread. At most 2^22 units promised or waited for at one time.
struct bulk_semaphore {
  using word = simt::uint64_t;
  using difference = ::cuda::std::int64_t;
  static constexpr unsigned count_bits = 40;

  // What ask() says: n units are the caller's; or it has promised; or it is to ask again.
  enum class answer { served, grow, again };

  word* at = nullptr;

  // The word of a semaphore of n units, of which nobody has promised any.
  [[nodiscard]] GPUHEAP_HD static constexpr word of(simt::uint64_t n) { return n; }
  [[nodiscard]] GPUHEAP_HD static constexpr difference count(word w) { return static_cast<difference>(w & ((word{1} << count_bits) - 1)); }
  // Promised less waited for.
  [[nodiscard]] GPUHEAP_HD static constexpr difference surplus(word w) { return static_cast<difference>(w) >> count_bits; }
  // The word with `counted` and `promised` added to its parts.
  [[nodiscard]] GPUHEAP_HD static constexpr word plus(word w, difference counted, difference promised) {
    return w + static_cast<word>(counted) + (static_cast<word>(promised) << count_bits);
  }

  [[nodiscard]] GPUHEAP_FN simt::global_ref<word> ref() const { return simt::global_ref<word>{*at}; }
  // relaxed: a guess.
  [[nodiscard]] GPUHEAP_FN word look() const { return ref().load(simt::relaxed); }

  // n units, 0 < n <= batch. If this thread is to make a batch, grow() does, or returns false: then wait() does too, and the promise is
  // withdrawn. What grow() made can be found when it returns; the caller keeps n of it.
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
  // Waits for what others have promised; false: nobody has promised that much, and the caller does not either.
  [[nodiscard]] GPUHEAP_FN bool wait_promised(unsigned n) const {
    unsigned waiting = 0;
    simt::back_off pause;
    answer said;
    // Ends: as in wait(). Blocking.
    GPUHEAP_NO_UNROLL
    while ((said = ask(n, n, waiting)) == answer::again) pause.wait();
    return said == answer::served;
  }
  // One pass of waiting, for those whose loop does more than wait(). `waiting`: 0 at first, and as it was left when asking again; who has
  // asked goes on until it is told something else than `again`. Who is to grow has promised batch - n units: it signals them, or fails.
  [[nodiscard]] GPUHEAP_FN answer ask(unsigned n, unsigned batch, unsigned& waiting) const {
    word seen = look();
    difference const needed = n, there = count(seen), coming = surplus(seen) + waiting;
    word next = plus(seen, 0, waiting);
    answer said = answer::again;
    if (there + coming < needed) {
      next = plus(next, 0, difference{batch} - needed);
      said = answer::grow;
    } else if (there >= needed) {
      next = plus(next, -needed, 0);
      said = answer::served;
    } else if (waiting == 0) {
      next = plus(next, 0, -needed);
    } else {
      return answer::again;
    }
    // acquire: pairs with signal().
    if (next != seen && !ref().compare_exchange(seen, next, simt::acquire, simt::relaxed)) return answer::again;
    waiting = said == answer::again ? n : 0;
    return said;
  }

  // Takes n (> 0) units if they are there.
  [[nodiscard]] GPUHEAP_FN bool try_wait(unsigned n) const { return try_wait_up_to(n, n) == n; }
  // Takes up to n units, a multiple of `multiple`, of those that are there. Returns how many.
  [[nodiscard]] GPUHEAP_FN unsigned try_wait_up_to(unsigned n, unsigned multiple) const {
    word seen = look();
    simt::back_off pause;
    // Ends: a pass that goes on found the word changed by another thread. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      difference const there = count(seen);
      unsigned const most = there < n ? static_cast<unsigned>(there) : n;
      unsigned const got = most - most % multiple;
      // acquire: pairs with signal().
      if (got == 0 || ref().compare_exchange(seen, plus(seen, -difference{got}, 0), simt::acquire, simt::relaxed)) return got;
      pause.wait();
    }
  }

  // Adds n units, of which `promised` had been promised.
  GPUHEAP_FN void signal(unsigned n, unsigned promised = 0) const {
    // release: what was done to the units. Pairs with the acquires of those who get them.
    ref().fetch_add(plus(0, n, -difference{promised}), simt::release);
  }
  // Withdraws a promise: who waits for it looks again.
  GPUHEAP_FN void fail(unsigned promised) const {
    // relaxed: nothing is handed over.
    if (promised != 0) ref().fetch_add(plus(0, 0, -difference{promised}), simt::relaxed);
  }
};
static_assert(bulk_semaphore::count(bulk_semaphore::plus(bulk_semaphore::of(5), -2, -7)) == 3 &&
              bulk_semaphore::surplus(bulk_semaphore::plus(bulk_semaphore::of(5), -2, -7)) == -7 &&
              bulk_semaphore::plus(bulk_semaphore::plus(9, 3, -1), -3, 1) == 9);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
