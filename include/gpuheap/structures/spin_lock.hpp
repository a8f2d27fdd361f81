// A lock for short, rare work. Its one word is 0 while the lock is open, and 1 while a thread holds it.
//
// A thread that holds the lock must not wait for any other thread. Under independent thread scheduling, diverged lanes of one warp may then
// compete for the lock: the holder runs on while the others wait. Lanes that call together should elect one of them, or take turns, as
// collective_mutex does.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of one word. Any thread of the device.
struct spin_lock {
  simt::uint32_t* word = nullptr;

  // Whether the lock was open at this load. acquire: pairs with the release below, so the caller sees what the last holder did.
  [[nodiscard]] GPUHEAP_FN bool is_open() const { return simt::global_ref<simt::uint32_t>{*word}.load(simt::acquire) == 0; }

  // Runs f() under the lock and returns true, or returns false because a thread holds the lock. For threads that do other work between two
  // tries. f() runs inside the caller's loop; run() says why it must.
  template <class F>
  GPUHEAP_FN bool try_run(F&& f) const {
    simt::global_ref<simt::uint32_t> const held{*word};
    // acquire: pairs with the release below; the last holder's accesses happen before those of this thread.
    if (held.exchange(1, simt::acquire) != 0) return false;
    f();
    // release: pairs with the acquire above.
    held.store(0, simt::release);
    return true;
  }

  // Runs f() under the lock. f() sees what earlier holders did.
  template <class F>
  GPUHEAP_FN void run(F&& f) const {
    simt::back_off pause;
    // Ends: the holder waits for no thread, and threads are scheduled independently, so the holder opens the lock even if a diverged lane
    // of its own warp waits here. The work lies inside the loop: behind the loop, the holder could be made to wait for lanes of its warp
    // that are still in the loop, and these wait for the lock. Blocking.
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
