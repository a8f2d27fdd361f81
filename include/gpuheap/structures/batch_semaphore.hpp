// A count of units that threads make in batches: a thread that finds too few units makes a batch, unless other threads are making enough
// already. After the bulk semaphore of
//   I. Gelado, M. Garland, "Throughput-Oriented GPU Memory Allocation", PPoPP 2019, in the form that Ouroboros uses.
//
// bulk_semaphore.hpp holds its counts in one word, and serves a waiter wholly or not at all. Here each count has a word of its own, and a
// waiter gets a part of its units if no more can be made. This form suits counts that all threads of a device change at once.
//
//   units      units that are there and that no thread has acquired. Negative for a moment, until a refused thread has added its units
//              again
//   reserved   units that waiting threads still want
//   expected   units that makers have begun to make: less than reserved + batch. More for a moment, until a refused maker has subtracted
//              its batch. Between try_close() and reopen(), `closed` is added
//
//   acquire: claims units: units -= n; keeps those that were there, and adds the others again. If all n were there, the call is done.
//            Otherwise reserved += the units that are missing, and until the thread has them or gives them up:
//              expected += batch. If units + expected was less than reserved before: makes a batch, units += batch, expected -= batch; or
//              finds that it cannot make one, and only expected -= batch
//              Otherwise expected -= batch; other threads make enough, or units are there again: waits a moment, and claims again
//            reserved -= the units that were missing
// These steps use no compare-exchange. Of several compare-exchanges only one succeeds at a time, whereas thousands of additions do.
#pragma once

#include <gpuheap/simt/atomic.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of words in memory. Device, any thread.
struct batch_semaphore {
  using word = simt::uint64_t;
  struct words {
    alignas(64) word units = 0;
    alignas(64) word reserved = 0;
    alignas(64) word expected = 0;
  };

  words* at = nullptr;

  // Takes up to `wanted` (> 0) units, and returns how many it got: fewer only if there are no more. A refused thread's subtraction hides
  // units that are released meanwhile, until the thread has added its units again. If it then sees units, it claims them itself. So a
  // thread is refused a unit only if another thread gets that unit.
  [[nodiscard]] GPUHEAP_FN unsigned try_acquire(unsigned wanted) const {
    ref const there = units();
    // relaxed, all: a unit only permits a search in another structure, whose atomics acquire what the last owner released. No load comes
    // first, since the units are mostly there. A thread that polls calls available() before.
    unsigned got = 0;
    // Ends: the loop is repeated only if units were there after this thread had added its own again: another thread's release or refusal
    // has ended meanwhile. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      long long const before = as_signed(there.fetch_sub(wanted, simt::relaxed));
      if (before >= static_cast<long long>(wanted)) return got + wanted;
      unsigned const some = before > 0 ? static_cast<unsigned>(before) : 0;
      got += some;
      wanted -= some;
      if (as_signed(there.fetch_add(wanted, simt::relaxed) + wanted) <= 0) return got;
    }
  }
  // Takes all of `wanted` units or none. Meanwhile the call hides no unit from other threads.
  [[nodiscard]] GPUHEAP_FN bool try_acquire_all(unsigned wanted) const {
    word seen = units().load(simt::relaxed);
    // relaxed, all: as in try_acquire().
    // Ends: an exchange that fails lost the word to another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    while (as_signed(seen) >= static_cast<long long>(wanted)) {
      if (units().compare_exchange(seen, seen - wanted, simt::relaxed, simt::relaxed)) return true;
    }
    return false;
  }
  // Adds n units. The things that they stand for are already where acquirers search, or the caller puts them there afterwards without
  // waiting for any thread.
  // relaxed: as in try_acquire().
  GPUHEAP_FN void release(unsigned n) const { units().fetch_add(n, simt::relaxed); }
  // The units that are there. relaxed: a guess.
  [[nodiscard]] GPUHEAP_FN long long available() const { return as_signed(units().load(simt::relaxed)); }

  // ---- demand

  // relaxed, both: the counts only decide which threads make units.
  GPUHEAP_FN void want(unsigned n) const { reserved().fetch_add(n, simt::relaxed); }
  GPUHEAP_FN void want_no_more(unsigned n) const { reserved().fetch_sub(n, simt::relaxed); }
  // True: the caller makes `batch` units, releases them, and then calls made(batch). If it cannot make them, it calls made(batch) all the
  // same. False: there are enough units, or other threads are making enough. The caller is between want() and want_no_more().
  [[nodiscard]] GPUHEAP_FN bool may_make(unsigned batch) const {
    // relaxed: a check that saves the additions below if there are enough units.
    if (is_enough(expected().load(simt::relaxed))) return false;
    // Ends: the loop is repeated only if there were too few units after this thread had withdrawn its own batch, so meanwhile another
    // thread has made units or withdrawn a batch. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      // acquire: pairs with made() and reopen(), so the caller sees what earlier makers made.
      if (!is_enough(expected().fetch_add(batch, simt::acquire))) return true;
      if (is_enough(expected().fetch_sub(batch, simt::relaxed) - batch)) return false;
    }
  }
  // release: publishes what the caller made. Pairs with may_make(), is_making() and try_close().
  GPUHEAP_FN void made(unsigned batch) const { expected().fetch_sub(batch, simt::release); }
  // True: the caller adds `batch` units that it has already, and then calls made(batch). False: the count is closed.
  [[nodiscard]] GPUHEAP_FN bool may_bring(unsigned batch) const {
    // acquire: as in may_make().
    if (expected().fetch_add(batch, simt::acquire) < closed) return true;
    expected().fetch_sub(batch, simt::relaxed);  // relaxed: nothing was made
    return false;
  }
  // Whether `expected` is not 0: a thread makes units, is about to begin or to withdraw, or has closed the count. acquire: pairs with
  // made().
  [[nodiscard]] GPUHEAP_FN bool is_making() const { return expected().load(simt::acquire) != 0; }

  // True: no thread makes units now, and none begins before reopen(); threads that want units wait. For short work that waits for no
  // thread.
  [[nodiscard]] GPUHEAP_FN bool try_close() const {
    word none = 0;
    // acquire: pairs with made().
    return expected().compare_exchange(none, closed, simt::acquire, simt::relaxed);
  }
  // release: publishes what the caller did since try_close(). Pairs with may_make().
  GPUHEAP_FN void reopen() const { expected().fetch_sub(closed, simt::release); }

 private:
  using ref = simt::global_ref<word>;
  static constexpr word closed = word{1} << 62;  // more than can be reserved

  // Whether the units that are there and `expected` further ones are enough. relaxed, both: after a wrong `false`, the caller makes units
  // that no thread needs yet.
  [[nodiscard]] GPUHEAP_FN bool is_enough(word expected) const {
    long long const there = available();
    return expected + (there > 0 ? static_cast<word>(there) : 0) >= reserved().load(simt::relaxed);
  }
  [[nodiscard]] GPUHEAP_FN ref units() const { return ref{at->units}; }
  [[nodiscard]] GPUHEAP_FN ref reserved() const { return ref{at->reserved}; }
  [[nodiscard]] GPUHEAP_FN ref expected() const { return ref{at->expected}; }
  [[nodiscard]] GPUHEAP_HD static constexpr long long as_signed(word w) { return static_cast<long long>(w); }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
