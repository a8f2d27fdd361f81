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

  // What wait() says: n units are the caller's; or it has promised.
  enum class answer { served, grow };

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

  // 0 < n <= batch.
  [[nodiscard]] GPUHEAP_FN answer wait(unsigned n, unsigned batch) const {
    difference const needed = n;
    return wait_or(needed, difference{batch} - needed) == outcome::served ? answer::served : answer::grow;
  }
  // Waits for what others have promised; false: nobody has promised that much, and the caller has not either.
  [[nodiscard]] GPUHEAP_FN bool wait_promised(unsigned n) const { return wait_or(n, no_growth) == outcome::served; }

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

 private:
  enum class outcome { served, not_served };
  static constexpr difference no_growth = -1;

  // `more`: what a caller that grows promises; no_growth: it does not.
  [[nodiscard]] GPUHEAP_FN outcome wait_or(difference n, difference more) const {
    word seen = look();
    difference registered = 0;  // units waited for that P knows of
    simt::back_off pause;
    // Ends: a pass that goes on lost the word to another thread's change (lock-free), or waits: then at least as much was promised as is
    // waited for, and those who promised keep it or withdraw, without waiting for this thread. Blocking.
    GPUHEAP_NO_UNROLL
    while (true) {
      difference const there = count(seen), coming = surplus(seen) + registered;
      word next = plus(seen, 0, registered);
      outcome result = outcome::not_served;
      bool done = true;
      if (there + coming < n) {
        if (more != no_growth) next = plus(next, 0, more);
      } else if (there >= n) {
        next = plus(next, -n, 0);
        result = outcome::served;
      } else if (registered == 0) {
        next = plus(next, 0, -n);
        done = false;
      } else {
        pause.wait();
        seen = look();
        continue;
      }
      // acquire: pairs with signal().
      if (next == seen || ref().compare_exchange(seen, next, simt::acquire, simt::relaxed)) {
        if (done) return result;
        registered = n;
        seen = next;
      } else {
        pause.wait();
      }
    }
  }
};
static_assert(bulk_semaphore::count(bulk_semaphore::plus(bulk_semaphore::of(5), -2, -7)) == 3 &&
              bulk_semaphore::surplus(bulk_semaphore::plus(bulk_semaphore::of(5), -2, -7)) == -7 &&
              bulk_semaphore::plus(bulk_semaphore::plus(9, 3, -1), -3, 1) == 9);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
