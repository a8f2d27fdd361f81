// Checks of a semaphore whose units are made in batches, for the real one and for semaphores with a mistake in them.
#pragma once

#include "../support/device_array.hpp"
#include "../support/rng.hpp"
#include "exploration.hpp"
#include "owned_cells.hpp"

#include <gpuheap/structures/batch_semaphore.hpp>

#include <string>

namespace structures_test {

using gpuheap::structures::batch_semaphore;

// Kernel: threads acquire what they want, and make batches of a supply that ends. As the users of such a semaphore do.
template <class Semaphore>
struct acquire_and_make {
  Semaphore semaphore;
  unsigned batch, most_wanted;
  unsigned* supply;    // batches
  unsigned* made;      // units
  unsigned* acquired;  // by thread
  unsigned* refused;   // units
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    unsigned const all = 1 + random.below(most_wanted);
    unsigned got = semaphore.try_acquire(all);
    unsigned wanted = all - got;
    if (wanted != 0) semaphore.want(wanted);
    simt::back_off pause;
    while (wanted != 0) {
      unsigned const more = semaphore.try_acquire(wanted);
      if (more != 0) semaphore.want_no_more(more);
      got += more;
      wanted -= more;
      if (wanted == 0) break;
      if (semaphore.may_make(batch)) {
        bool const can = take_supply();
        if (can) {
          simt::atomic_ref<unsigned>{*made}.fetch_add(batch, simt::relaxed);
          semaphore.release(batch);
        }
        semaphore.made(batch);
        if (!can && semaphore.available() <= 0) {
          semaphore.want_no_more(wanted);
          simt::atomic_ref<unsigned>{*refused}.fetch_add(wanted, simt::relaxed);
          break;
        }
      }
      pause.wait();
    }
    acquired[i] = got;
    // Some come back.
    if (got != 0 && random.below(3) == 0) {
      semaphore.release(got);
      acquired[i] = 0;
    }
  }
  GPUHEAP_FN bool take_supply() const {
    simt::atomic_ref<unsigned> const left{*supply};
    unsigned seen = left.load(simt::relaxed);
    while (seen != 0) {
      if (left.compare_exchange(seen, seen - 1, simt::relaxed, simt::relaxed)) return true;
    }
    return false;
  }
};

// Units are acquired once each; with enough supply nobody is refused, and less is made than is wanted and a batch for each thread.
template <class Semaphore>
std::string units_are_acquired_once(unsigned threads, unsigned batch, unsigned supply) {
  constexpr unsigned most_wanted = 9;
  test::device_array<batch_semaphore::words> words(1);
  test::device_array<unsigned> left(std::vector<unsigned>{supply}), made(1), acquired(threads), refused(1);
  gpuheap::launch(
      threads, acquire_and_make<Semaphore>{{words.data()}, batch, most_wanted, left.data(), made.data(), acquired.data(), refused.data()},
      {.block_threads = 64});
  std::string problems;
  auto const now = words.first();
  simt::uint64_t held = 0;
  for (unsigned n : acquired.read()) held += n;
  require(problems, now.units + held == made.first(), "units are lost, or given twice");
  require(problems, now.reserved == 0 && now.expected == 0, "somebody is said to wait or to make");
  bool const enough = supply * batch >= threads * most_wanted;
  require(problems, !enough || refused.first() == 0, "units were refused that could be made");
  require(problems, left.first() == 0 || refused.first() == 0, "units were refused although there was a supply");
  return problems;
}

// Kernel, one thread: acquires more than there is, all or as much as there is.
template <class Semaphore>
struct walk_through_units {
  Semaphore semaphore;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned) const {
    unsigned bad = semaphore.try_acquire(3) != 0 || semaphore.available() != 0;
    semaphore.release(10);
    bad += semaphore.try_acquire(4) != 4 || semaphore.try_acquire(8) != 6 || semaphore.try_acquire(1) != 0;
    semaphore.release(5);
    bad += semaphore.try_acquire_all(6) || !semaphore.try_acquire_all(5) || semaphore.available() != 0;
    semaphore.want(20);
    bad += !semaphore.may_make(16) || !semaphore.may_make(16) || semaphore.may_make(16);
    semaphore.made(16);
    semaphore.release(4);
    bad += semaphore.may_make(16);  // 16 expected, 4 there
    semaphore.made(16);
    bad += !semaphore.may_make(16);
    semaphore.made(16);
    // Closed: who wants units waits, and what is there can be had.
    bad += semaphore.is_making() || !semaphore.try_close() || semaphore.try_close() || semaphore.may_make(16) || !semaphore.is_making();
    semaphore.reopen();
    bad += !semaphore.may_make(16) || semaphore.try_close();
    semaphore.made(16);
    semaphore.want_no_more(20);
    bad += semaphore.may_make(16) || semaphore.try_acquire(9) != 4;
    // More than 32 bits of units.
    for (unsigned k = 0; k < 8; ++k) semaphore.release(1u << 31);
    bad += semaphore.available() != 1ll << 34 || semaphore.may_make(1);
    *wrong = bad;
  }
};
template <class Semaphore>
unsigned mistakes_with_units() {
  test::device_array<batch_semaphore::words> words(1);
  test::device_array<unsigned> wrong(1);
  gpuheap::launch(1, walk_through_units<Semaphore>{{words.data()}, wrong.data()});
  return wrong.first() + ((words.first().reserved | words.first().expected) != 0);
}

}  // namespace structures_test
