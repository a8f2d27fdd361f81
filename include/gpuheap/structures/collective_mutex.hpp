// A mutex that lanes of a warp hold together: one lane competes for it, all enter and may share the work, and one lane releases it when all
// have left.
//   After I. Gelado, M. Garland, "Throughput-oriented GPU memory allocation", PPoPP 2019.
//
// The word has the values of spin_lock's word, so single lanes and groups can compete for one mutex.
//
// Progress:  blocking. Independent thread scheduling lets the holder run while others wait, lanes of its own warp among them. The work must
//            not wait for any thread outside the group. The work lies inside the loop: behind the loop, lanes that hold the mutex could be
//            made to wait for lanes of their warp that are still in the loop, and these wait for the mutex. Waiters have no order.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/structures/spin_lock.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of one word.
struct collective_mutex {
  using word = simt::uint32_t;

  word* at = nullptr;

  // Runs f() in all lanes of the group; no other lane runs work under this mutex meanwhile. All lanes of the group call. Inside f, lanes
  // may use warp operations on group.mask. All lanes that hold the mutex later see what these lanes wrote in f.
  template <class F>
  GPUHEAP_FN void run(warp_group group, F f) const {
    simt::global_ref<word> const lock{*at};
    simt::back_off pause;
    // Ends: the holder's work waits for no thread outside its group. Blocking.
    GPUHEAP_NO_UNROLL
    for (bool done = false; !done;) {
      // acquire: pairs with the release below; the last holder's accesses happen before those of this group's leader.
      unsigned const before = group.from_leader(group.leads() ? lock.exchange(1, simt::acquire) : 1u);
      if (before == 0) {
        // The first sync_warp gives the other lanes what the leader acquired. With the second, the leader's release covers what all lanes
        // did.
        simt::sync_warp(group.mask);
        f();
        simt::sync_warp(group.mask);
        // release: pairs with the acquire above.
        if (group.leads()) lock.store(0, simt::release);
        done = true;
      } else {
        pause.wait();
      }
    }
  }
  // Runs f() in each calling lane under the mutex, one lane after the other. Lanes of a warp that call together take the mutex once for all
  // of them. f must not wait for any thread.
  template <class F>
  GPUHEAP_FN void run_each(F f) const {
    warp_group const group = warp_group::of_equal(simt::active_mask(), reinterpret_cast<simt::uintptr_t>(at));
    run(group, [&] {
      for (simt::lane_mask rest = group.mask; rest != 0; rest &= rest - 1) {
        if (simt::lane_id() == simt::lowest_bit(rest)) f();
        simt::sync_warp(group.mask);  // the next lane sees what this one did
      }
    });
  }
  // The same for the calling lane alone.
  template <class F>
  GPUHEAP_FN void run_alone(F f) const {
    spin_lock{at}.run(f);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
