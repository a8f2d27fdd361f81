// A count of units that are made in batches: who finds too few makes a batch, unless others are making enough already. After the bulk
// semaphore of
//   I. Gelado, M. Garland, "Throughput-Oriented GPU Memory Allocation", PPoPP 2019, in the form that Ouroboros uses.
//
// Where bulk_semaphore has one word, whose changes are compare-exchanges, and serves a waiter wholly or not at all, here units are claimed
// by subtraction, in part if there are no more: for counts that all threads of a device change at once.
//
//   units    that are there and that nobody has acquired. Negative for a moment, while a refused claim gives back
//   demand   {expected : 32, reserved : 32}
//              reserved   units that waiting threads still want: at most one for each thread that there is
//              expected   units that makers have begun to make: less than reserved and a batch
//
// Units have 64 bits for themselves, so no number of them carries into a neighbour; the two halves of the demand are bounded by the number
// of resident threads.
//
//   acquire: claim units: subtract, keep what was there, give the rest back. All there: done.
//            Otherwise reserved += what is missing, and until there is enough:
//              units + expected < reserved: expected += batch, make units, units += those made, expected -= batch; or none can be made
//              else wait: there are units again, or others are making enough
//            reserved -= what was got, or given up
#pragma once

#include <gpuheap/simt/atomic.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of words in memory. Device, any thread.
struct batch_semaphore {
  using word = simt::uint64_t;
  struct words {
    alignas(64) word units = 0;
    alignas(64) word demand = 0;
  };

  words* at = nullptr;

  // Up to `wanted` (> 0) units: fewer only if there are no more. A claim that is refused hides units from others until it has given them
  // back, and if others came in between it takes those; so a refusal is never more than another's success.
  [[nodiscard]] GPUHEAP_FN unsigned try_acquire(unsigned wanted) const {
    ref const there = units();
    // relaxed, all: a unit is the right to find something, and who finds it acquires what its last owner released. A look first: an
    // exhausted count is not written to.
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
  // All of `wanted` or none, and none hidden meanwhile.
  [[nodiscard]] GPUHEAP_FN bool try_acquire_all(unsigned wanted) const {
    word seen = units().load(simt::relaxed);
    // Ends: a pass that goes on lost the word to another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    while (as_signed(seen) >= static_cast<long long>(wanted)) {
      if (units().compare_exchange(seen, seen - wanted, simt::relaxed, simt::relaxed)) return true;
    }
    return false;
  }
  // Units that are where acquirers look for them, or come there without waiting for anybody.
  GPUHEAP_FN void release(unsigned n) const { units().fetch_add(n, simt::relaxed); }
  [[nodiscard]] GPUHEAP_FN long long available() const { return as_signed(units().load(simt::relaxed)); }

  // ---- demand. relaxed, all: it only says who makes units.

  GPUHEAP_FN void want(unsigned n) const { demand().fetch_add(n, simt::relaxed); }
  GPUHEAP_FN void want_no_more(unsigned n) const { demand().fetch_sub(n, simt::relaxed); }
  // True: the caller makes `batch` units, or finds that it cannot, and calls made(batch) when they are released. False: there are enough,
  // or others are making enough. Between want() and want_no_more().
  [[nodiscard]] GPUHEAP_FN bool may_make(unsigned batch) const {
    word seen = demand().load(simt::relaxed);
    // Ends: a pass that goes on lost the word to another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      long long const there = available();
      if (expected(seen) + (there > 0 ? static_cast<word>(there) : 0) >= reserved(seen)) return false;
      if (demand().compare_exchange(seen, seen + (word{batch} << 32), simt::relaxed, simt::relaxed)) return true;
    }
  }
  GPUHEAP_FN void made(unsigned batch) const { demand().fetch_sub(word{batch} << 32, simt::relaxed); }

  [[nodiscard]] GPUHEAP_HD static constexpr unsigned expected(word d) { return static_cast<unsigned>(d >> 32); }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned reserved(word d) { return static_cast<unsigned>(d); }

 private:
  using ref = simt::global_ref<word>;
  [[nodiscard]] GPUHEAP_FN ref units() const { return ref{at->units}; }
  [[nodiscard]] GPUHEAP_FN ref demand() const { return ref{at->demand}; }
  [[nodiscard]] GPUHEAP_HD static constexpr long long as_signed(word w) { return static_cast<long long>(w); }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
