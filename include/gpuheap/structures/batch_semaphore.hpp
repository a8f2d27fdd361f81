// A count of units that are made in batches: a thread that finds too few makes a batch, unless others are making enough already. After the
// bulk semaphore of
//   I. Gelado, M. Garland, "Throughput-Oriented GPU Memory Allocation", PPoPP 2019, in the form that Ouroboros uses.
//
// bulk_semaphore has one word, which it changes by compare-exchanges, and it serves a waiter wholly or not at all. Here units are claimed
// by subtraction, and a waiter gets a part if there are no more: for counts that all threads of a device change at once.
//
//   units      that are there and that no thread has acquired. Negative for a moment, while a refused claim gives back
//   reserved   units that waiting threads still want: at most one for each thread that there is
//   expected   units that makers have begun to make: less than reserved and a batch. More for a moment, while a refused maker gives back
//
// Each word has 64 bits, so no number of units carries into a neighbour.
//
//   acquire: claim units: subtract, keep what was there, give the rest back. If all were there, done.
//            Otherwise reserved += what is missing, and until there is enough:
//              expected += batch. If units + expected < reserved before: make units, units += those made, expected -= batch; or find that
//              none can be made
//              Otherwise expected -= batch, and wait: there are units again, or others are making enough
//            reserved -= what was got, or given up
// No word is changed by compare-exchange, which lets one thread succeed at a time: thousands may begin to make at once.
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

  // Takes up to `wanted` (> 0) units: fewer only if there are no more. A claim that is refused hides units from others until it has given
  // them back. If others came in between, it takes those units itself, so a refusal always goes with another thread's success.
  [[nodiscard]] GPUHEAP_FN unsigned try_acquire(unsigned wanted) const {
    ref const there = units();
    // relaxed, all: a unit is the right to find something, and a thread that finds it acquires what its last owner released. The load comes
    // first, so that an exhausted count is not written to.
    if (as_signed(there.load(simt::relaxed)) <= 0) return 0;
    unsigned got = 0;
    // Ends: a pass that goes on saw units after it had given back, so another thread's release or refusal has ended meanwhile. Lock-free.
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
  // Takes all of `wanted` or none. No unit is hidden from others meanwhile.
  [[nodiscard]] GPUHEAP_FN bool try_acquire_all(unsigned wanted) const {
    word seen = units().load(simt::relaxed);
    // Ends: a pass that goes on lost the word to another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    while (as_signed(seen) >= static_cast<long long>(wanted)) {
      if (units().compare_exchange(seen, seen - wanted, simt::relaxed, simt::relaxed)) return true;
    }
    return false;
  }
  // Adds units that are where acquirers look for them, or come there without waiting for any thread.
  GPUHEAP_FN void release(unsigned n) const { units().fetch_add(n, simt::relaxed); }
  [[nodiscard]] GPUHEAP_FN long long available() const { return as_signed(units().load(simt::relaxed)); }

  // ---- demand

  // relaxed, both: the counts only decide who makes units.
  GPUHEAP_FN void want(unsigned n) const { reserved().fetch_add(n, simt::relaxed); }
  GPUHEAP_FN void want_no_more(unsigned n) const { reserved().fetch_sub(n, simt::relaxed); }
  // True: the caller makes `batch` units, or finds that it cannot, and calls made(batch) when they are released. False: there are enough,
  // or others are making enough. Between want() and want_no_more().
  [[nodiscard]] GPUHEAP_FN bool may_make(unsigned batch) const {
    // relaxed: a look; what is enough is not written to.
    if (is_enough(expected().load(simt::relaxed))) return false;
    // Ends: a pass that goes on saw too few units after it had taken its own promise back, so another thread has made units, or taken back
    // a promise, meanwhile. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      // acquire: pairs with made() and reopen(); the caller sees what earlier makers made.
      if (!is_enough(expected().fetch_add(batch, simt::acquire))) return true;
      if (is_enough(expected().fetch_sub(batch, simt::relaxed) - batch)) return false;
    }
  }
  // release: what was made. Pairs with may_make() and try_close().
  GPUHEAP_FN void made(unsigned batch) const { expected().fetch_sub(batch, simt::release); }
  // Whether a thread makes units, or seems to. acquire: pairs with made().
  [[nodiscard]] GPUHEAP_FN bool is_making() const { return expected().load(simt::acquire) != 0; }

  // True: no thread makes units, and until reopen() all that want some wait. For short work that waits for no thread.
  [[nodiscard]] GPUHEAP_FN bool try_close() const {
    word none = 0;
    // acquire: pairs with made().
    return expected().compare_exchange(none, closed, simt::acquire, simt::relaxed);
  }
  // release: pairs with may_make().
  GPUHEAP_FN void reopen() const { expected().fetch_sub(closed, simt::release); }

 private:
  using ref = simt::global_ref<word>;
  static constexpr word closed = word{1} << 62;  // more than can be reserved

  // Whether so many expected units are enough. relaxed, both: a thread that wrongly finds too little makes some too many.
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
