// Tests of the operations that order memory between threads: release and acquire, fences, the barriers of warp and block, successive
// launches.
#include <gpuheap/simt/explore.hpp>

#include "kernels.hpp"

namespace simt_test {

constexpr std::uint64_t seeds = 40;

template <class Body>
void expect_always(Body body) {
  simt::exploration const e = simt::explore(seeds, body);
  EXPECT_TRUE(e) << e.what;
}

// Block 0 writes, block 1 waits for the flag and reads.
struct pass_message {
  unsigned* data;
  unsigned* flag;
  unsigned* wrong;
  bool by_fences;
  GPUHEAP_FN void operator()(unsigned) const {
    simt::atomic_ref<unsigned> const f(*flag);
    if (simt::block_id() == 0) {
      for (unsigned k = 0; k < 8; ++k) simt::plain_write(data[k], k + 1);
      if (by_fences) {
        simt::fence(simt::release);
        f.store(1u, simt::relaxed);
      } else {
        f.store(1u, simt::release);
      }
    } else {
      simt::back_off pause;
      // Ends: block 0 waits for nobody and sets the flag; both blocks are resident, as two blocks of one thread fit any device.
      while (f.load(by_fences ? simt::relaxed : simt::acquire) == 0) pause.wait();
      if (by_fences) simt::fence(simt::acquire);
      for (unsigned k = 0; k < 8; ++k) require(wrong, simt::plain_read(data[k]) == k + 1);
    }
  }
};

TEST(Order, ReleaseAndAcquirePassAMessage) {
  for (bool const by_fences : {false, true}) {
    expect_always([=] {
      cells<unsigned> data(8), flag(1), wrong(1);
      run(2, pass_message{data.data(), flag.data(), wrong.data(), by_fences}, 1);
      return wrong[0] == 0;
    });
  }
}

struct gather_by_counter {
  unsigned* data;
  unsigned* arrived;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    simt::plain_write(data[i], i + 1);
    if (simt::atomic_ref<unsigned>(*arrived).fetch_add(1u, simt::acq_rel) != 95) return;
    for (unsigned k = 0; k < 96; ++k) require(wrong, simt::plain_read(data[k]) == k + 1);
  }
};

TEST(Order, TheLastToArriveSeesWhatAllDid) {
  expect_always([] {
    cells<unsigned> data(96), arrived(1), wrong(1);
    run(96, gather_by_counter{data.data(), arrived.data(), wrong.data()}, 32);
    return arrived[0] == 96 && wrong[0] == 0;
  });
}

struct meet {
  unsigned* data;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const neighbour = i ^ 1, other_end = i / 128 * 128 + 127 - i % 128;
    simt::plain_write(data[i], i);
    simt::sync_warp(simt::all_lanes);
    require(wrong, simt::plain_read(data[neighbour]) == neighbour);
    simt::sync_block();
    require(wrong, simt::plain_read(data[other_end]) == other_end);
    simt::sync_block();
    simt::plain_write(data[other_end], 1000 + i);
    simt::sync_block();
    require(wrong, simt::plain_read(data[i]) == 1000 + other_end);
  }
};

TEST(Order, BarriersOrderMemory) {
  expect_always([] {
    cells<unsigned> data(512), wrong(1);
    run(512, meet{data.data(), wrong.data()}, 128);
    return wrong[0] == 0;
  });
}

struct add_one {
  unsigned* data;
  GPUHEAP_FN void operator()(unsigned i) const { simt::plain_write(data[i], simt::plain_read(data[i]) + 1); }
};

TEST(Order, LaunchesOfAStreamFollowEachOther) {
  expect_always([] {
    cells<unsigned> data(300);
    for (unsigned k = 0; k < 5; ++k) gpuheap::launch(300, add_one{data.data()}, {.block_threads = 64});
    simt::synchronize({});
    for (unsigned const n : data) {
      if (n != 5) return false;
    }
    return true;
  });
}

// A lock that the lanes of a warp contend for: lanes make progress although others of their warp spin.
struct count_under_a_lock {
  unsigned* lock;
  unsigned* count;
  GPUHEAP_FN void operator()(unsigned) const {
    simt::atomic_ref<unsigned> const l(*lock);
    simt::back_off pause;
    bool done = false;
    // Ends: the owner of the lock needs nobody else to give it back.
    while (!done) {
      unsigned expected = 0;
      if (l.compare_exchange(expected, 1u, simt::acquire, simt::relaxed)) {
        simt::plain_write(*count, simt::plain_read(*count) + 1);
        l.store(0u, simt::release);
        done = true;
      } else {
        pause.wait();
      }
    }
  }
};

TEST(Order, ALockWorksWithinAWarp) {
  expect_always([] {
    cells<unsigned> lock(1), count(1);
    run(70, count_under_a_lock{lock.data(), count.data()}, 35);
    return count[0] == 70;
  });
}

}  // namespace simt_test
