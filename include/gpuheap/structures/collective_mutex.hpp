// A mutex that lanes of a warp hold together: one of them competes for it, all enter and may share the work, and one releases it when all
// have left.
//   After I. Gelado, M. Garland, "Throughput-oriented GPU memory allocation", PPoPP 2019.
//
// The word is that of a spin_lock: lanes that come by themselves compete with groups.
//
// Progress:  blocking. Independent thread scheduling lets the holder run while others wait, lanes of its own warp among them. The work must
//            not wait for any thread outside the group. It is inside the loop, so that no lane that is done waits at the loop's end for one
//            that is not. Waiters have no order.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/structures/spin_lock.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of one word.
struct collective_mutex {
  using word = simt::uint32_t;

  word* at = nullptr;

  // Runs f() in all lanes of the group, which all call this, and in no other lane meanwhile. Inside f, lanes may use warp operations on
  // group.mask. Each lane of a later holder sees what lanes wrote in f.
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
        // In both directions: the other lanes get what the leader acquired, and the leader releases what all lanes did.
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
  // Runs f() in each lane that meets others of its warp here, one lane after the other, and in no other lane meanwhile: the lanes take the
  // mutex once for all of them. f may do what a holder of a spin lock may.
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
