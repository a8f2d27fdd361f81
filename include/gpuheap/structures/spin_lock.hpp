// A lock for short, rare work: one word, 0 = open, 1 = held.
//
// A thread that holds it must not wait for anything meanwhile. Under independent thread scheduling it is then safe even if diverged lanes
// of one warp want it: the holder runs on while they wait. Lanes that come together should elect one of them, or take turns.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of one word. Any thread of the device.
struct spin_lock {
  simt::uint32_t* word = nullptr;

  // Whether no thread held it a moment ago. acquire: pairs with the release below, so the caller sees what the last holder did.
  [[nodiscard]] GPUHEAP_FN bool is_open() const { return simt::global_ref<simt::uint32_t>{*word}.load(simt::acquire) == 0; }

  // Runs f() as run() does, or returns false because a thread holds the lock. For threads that do something else while they wait. The work
  // is inside the loop, as in run().
  template <class F>
  GPUHEAP_FN bool try_run(F&& f) const {
    simt::global_ref<simt::uint32_t> const held{*word};
    // acquire: pairs with the release below; the last holder's accesses happen before ours.
    if (held.exchange(1, simt::acquire) != 0) return false;
    f();
    // release: pairs with the acquire above.
    held.store(0, simt::release);
    return true;
  }

  // Runs f() while no other thread holds the lock, after what earlier holders did.
  template <class F>
  GPUHEAP_FN void run(F&& f) const {
    simt::back_off pause;
    // Ends: the holder waits for nothing and threads are scheduled independently, so it opens the lock even if a diverged lane of its own
    // warp waits here. The work lies inside the loop, so that no lane that is done waits at the loop's end for one that is not. Blocking.
    GPUHEAP_NO_UNROLL
    for (bool done = false; !done;) {
      if (try_run(f)) {
        done = true;
      } else {
        pause.wait();
      }
    }
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
