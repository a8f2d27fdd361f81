// Read-copy-update: readers walk a structure without locks while writers take things out of it. A thing that was taken out is reused only
// when no reader can still access it. Writers delegate: one of them, the runner, waits for the readers on behalf of all.
//   After I. Gelado, M. Garland, "Throughput-oriented GPU memory allocation", PPoPP 2019.
//
//   state   epoch | readers of even epochs | readers of odd epochs | barrier: 0 free, 1 held | runner | queue
//   runner  0: no thread is the runner; 1: a thread is; 2: the same, and a thing was retired since `runner` was last set to 1
//
// read:         readers[epoch & 1] += 1; if the epoch has the other parity by now, -= 1 and begin again;  ...;  readers[the same] -= 1
// synchronize:  takes the barrier; epoch += 1; waits until readers[old epoch & 1] == 0; gives the barrier back
// retire:       queue += thing; runner = 2. If `runner` was not 0, the present runner will call end() for the thing. Otherwise:
//                 runner = 1; takes the whole queue; synchronize; calls end() for each thing taken; if runner == 1: runner = 0, else again
//
// No thing is left behind. A thread queues its thing before it sets `runner` to 2. If the runner sets 1 after that, it then takes a queue
// that contains the thing. If the runner sets 1 before that, it finds 2 when it is done, and makes another pass.
// No reader is missed. A reader adds itself to a counter and then reads the epoch. synchronize() changes the epoch and then reads the
// counter. In both threads a seq_cst fence stands between the two steps. So synchronize() sees the reader, or the reader sees the new
// epoch, and with it that the thing was taken out. Readers of the epoch before the old one have left: the last synchronize() waited for
// them.
//
// Differences from the paper. A reader reads the epoch a second time; without that it may add itself to the wrong epoch's counter. And a
// thread delegates to the runner, whereas in the paper it delegates to a thread that waits to become the runner. So here no thread that
// retires a thing waits, except for the runner.
//
// Progress:  read: lock-free. retire: lock-free for a thread that delegates; the runner blocks, and runs as long as things are retired.
//            synchronize: blocking. Readers must not call retire or synchronize, nor wait for a thread that may be in one of these calls.
#pragma once

#include <gpuheap/simt/atomic.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// Links a thing into the queue. Part of the thing; free for other use while the thing is not retired.
struct rcu_link {
  simt::uint64_t next = 0;  // address, 0: the last
};

// The words of a domain. All zeros mean that no thing is retired and no thread reads.
struct rcu_state {
  simt::uint32_t epoch = 0;
  simt::uint32_t readers[2] = {};
  simt::uint32_t barrier = 0;
  simt::uint32_t runner = 0;
  simt::uint64_t queue = 0;  // address of a rcu_link
};

// A view of the words. Any thread. A group of lanes may read under its leader's enter(), if all of them are done before the leader calls
// leave().
struct rcu {
  using word = simt::uint32_t;

  rcu_state* at = nullptr;

  // Begins reading. The result is passed to leave().
  [[nodiscard]] GPUHEAP_FN unsigned enter() const {
    simt::global_ref<word> const epoch{at->epoch};
    word now = epoch.load(simt::relaxed);  // relaxed: read again below
    // Ends: in a pass that does not return, a synchronize() has changed the epoch meanwhile. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      unsigned const parity = now & 1;
      readers(parity).fetch_add(1, simt::relaxed);
      // seq_cst: pairs with the fence of wait_for_readers(). See the head.
      simt::fence(simt::seq_cst);
      // acquire: pairs with wait_for_readers(). A reader of an epoch sees which things were taken out before the epoch began.
      now = epoch.load(simt::acquire);
      if ((now & 1) == parity) return parity;
      leave(parity);
    }
  }
  GPUHEAP_FN void leave(unsigned parity) const {
    // release: the reader's loads come before. Pairs with wait_for_readers().
    readers(parity).fetch_sub(1, simt::release);
  }

  // Returns when all threads that were reading at the call have left. Readers must not call synchronize().
  GPUHEAP_FN void synchronize() const {
    simt::global_ref<word> const barrier{at->barrier};
    simt::back_off pause;
    // Ends: the holder of the barrier waits for readers only, and these wait for no thread that is here. The work lies inside the loop:
    // behind the loop, the holder could be made to wait for lanes of its warp that are still in the loop, and these wait for the barrier.
    // Blocking.
    GPUHEAP_NO_UNROLL
    for (bool done = false; !done;) {
      // acquire: pairs with the release below, so the holders follow one another.
      if (barrier.exchange(1, simt::acquire) == 0) {
        wait_for_readers();
        barrier.store(0, simt::release);
        done = true;
      } else {
        pause.wait();
      }
    }
  }

  // Retires the thing that contains `link`, which new readers can no longer reach. Once all threads that were reading at the call have
  // left, end(&link) is called: by this thread before it returns, if it becomes the runner, or otherwise by the present runner. Every
  // retire() of a domain passes the same `end`. end() may reuse the thing for any purpose, but must not retire a thing or wait for a
  // reader. Readers must not call retire().
  template <class End>
  GPUHEAP_FN void retire(rcu_link& link, End end) const {
    push(link);
    simt::global_ref<word> const runner{at->runner};
    // acq_rel: publishes the push. Pairs with the runner's exchange, or its compare-exchange.
    if (runner.exchange(2, simt::acq_rel) == 0) run(end);
  }

 private:
  [[nodiscard]] GPUHEAP_FN simt::global_ref<word> readers(unsigned parity) const { return simt::global_ref<word>{at->readers[parity]}; }

  GPUHEAP_FN void push(rcu_link& link) const {
    simt::global_ref<simt::uint64_t> const queue{at->queue};
    simt::uint64_t head = queue.load(simt::relaxed);  // relaxed: the compare-exchange confirms it
    // Ends: an exchange that fails has lost to another thread that pushed a link or took the queue. Lock-free.
    GPUHEAP_NO_UNROLL
    do {
      simt::global_ref<simt::uint64_t>{link.next}.store(head, simt::relaxed);  // relaxed: released below
      // acq_rel: publishes the link, and what this thread did to the thing. Pairs with the runner's exchange of the queue.
    } while (!queue.compare_exchange(head, reinterpret_cast<simt::uintptr_t>(&link), simt::acq_rel, simt::relaxed));
  }

  GPUHEAP_FN void wait_for_readers() const {
    // acq_rel: readers of the new epoch see which things were taken out before.
    word const old = simt::global_ref<word>{at->epoch}.fetch_add(1, simt::acq_rel);
    // seq_cst: pairs with the fence of enter(). See the head.
    simt::fence(simt::seq_cst);
    simt::back_off pause;
    // Ends: readers leave without waiting for this thread. A new reader adds itself to the other counter, or leaves this one at once.
    // acquire: pairs with leave().
    GPUHEAP_NO_UNROLL
    while (readers(old & 1).load(simt::acquire) != 0) pause.wait();
  }

  template <class End>
  GPUHEAP_FN void run(End end) const {
    simt::global_ref<word> const runner{at->runner};
    word expected = 0;
    // Ends: a further pass means that another thread has retired a thing meanwhile; that thread has not waited for this one.
    GPUHEAP_NO_UNROLL
    do {
      // acq_rel: acquires the pushes of all threads that have found a runner so far.
      runner.exchange(1, simt::acq_rel);
      // acq_rel: acquires all links of the queue, whose pushes are one chain of read-modify-writes.
      simt::uint64_t taken = simt::global_ref<simt::uint64_t>{at->queue}.exchange(0, simt::acq_rel);
      if (taken != 0) synchronize();
      // Ends: one pass per thing taken.
      GPUHEAP_NO_UNROLL
      while (taken != 0) {
        auto* const link = reinterpret_cast<rcu_link*>(taken);
        // relaxed: acquired with the queue. The load comes before end(), which may reuse the thing.
        taken = simt::global_ref<simt::uint64_t>{link->next}.load(simt::relaxed);
        end(link);
      }
      expected = 1;
      // acq_rel: the next runner comes after this one. Pairs with the exchange of retire().
    } while (!runner.compare_exchange(expected, 0, simt::acq_rel, simt::relaxed));
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
