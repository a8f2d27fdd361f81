// Mistakes of bulk semaphores that more than one test file uses. For the simulator alone.
#pragma once

#include "bulk_checks.hpp"

namespace structures_test {

// The base of mutants of waiting, which choose the promise and the memory order.
template <class Mutant>
struct semaphore_that_waits : bulk_semaphore {
  template <class Grow>
  bool wait(unsigned n, unsigned batch, Grow grow) const {
    difference const needed = n;
    auto const* const self = static_cast<Mutant const*>(this);
    for (;;) {
      word seen = look();
      difference const there = count(seen), coming = surplus(seen);
      word const served = plus(seen, -needed, 0), growing = plus(seen, 0, Mutant::promise(batch - n)), waiting = plus(seen, 0, -needed);
      bool const grows = there + coming < needed, serves = !grows && there >= needed;
      if (!ref().compare_exchange(seen, grows ? growing : serves ? served : waiting, Mutant::order, simt::relaxed)) continue;
      if (serves) return true;
      if (grows) {
        bool const made = grow();
        made ? self->signal(batch - n, batch - n) : self->fail(batch - n);
        return made;
      }
      simt::back_off pause;
      for (seen = look(); count(seen) < needed && !Mutant::gives_up(count(seen) + surplus(seen)); seen = look()) pause.wait();
      ref().fetch_add(plus(0, 0, needed), simt::relaxed);
    }
  }
  static constexpr simt::memory_order order = simt::acquire;
  static bool gives_up(difference rest) { return rest < 0; }
  static difference promise(unsigned units) { return units; }
};
// Waiters leave as soon as they wait for exactly what was promised: as published. They go round as long as the promise takes.
struct semaphore_with_strict_test : semaphore_that_waits<semaphore_with_strict_test> {
  static bool gives_up(difference rest) { return rest <= 0; }
};

}  // namespace structures_test
