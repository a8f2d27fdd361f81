// Plain accesses under the weak mode's clocks. Not built for ThreadSanitizer, which has no weak mode and finds such races itself
// (sanitized_kernels.cpp).
#include <array>
#include <string>

#include "kernels.hpp"

namespace test {
namespace {

using word = simt::atomic_ref<unsigned>;

struct header {
  std::uint64_t size;
  unsigned kind;
};

// The text of the first failure within 20 seeds.
template <class Body>
std::string race_in(Body body) {
  simulator::exploration const e = simulator::explore(20, body);
  EXPECT_TRUE(e.failed);
  return e.what;
}
template <class Body>
void expect_none(Body body) {
  simulator::exploration const e = simulator::explore(affordable(500), body);
  EXPECT_FALSE(e.failed) << e.what;
}

void publish(simt::memory_order order) {
  header h{};
  header* head = nullptr;
  unsigned size = 0;
  run_two(
      [&] {
        simt::plain_write(h, header{64, 7});
        simt::atomic_ref<header*>(head).store(&h, order);
      },
      [&] {
        header const* const seen = simt::atomic_ref<header*>(head).load(simt::acquire);
        if (seen != nullptr) size = simt::plain_read(seen->kind);
      });
}

TEST(DataRace, ARelaxedPublicationOfAPlainHeader) {
  std::string const text = race_in([] { publish(simt::relaxed); });
  EXPECT_CONTAINS(text, "data race: plain_read at data_race_test.cpp:");
  EXPECT_CONTAINS(text, "and plain_write at data_race_test.cpp:");
  EXPECT_CONTAINS(text, "by thread 0: neither happens before the other");
}
TEST(DataRace, NoneWithARelease) {
  expect_none([] { publish(simt::release); });
}

TEST(DataRace, TwoPlainWrites) {
  (void)race_in([] {
    unsigned x = 0;
    run(2, [&](unsigned i) { simt::plain_write(x, i); });
  });
}
// A race that the simulator does not show: one block is resident at a time, and the second thread takes the place of the first.
TEST(DataRace, NoneWithAThreadWhosePlaceIsTaken) {
  simulator::settings one_at_once;
  one_at_once.num_sms = 1;
  one_at_once.blocks_per_sm = 1;
  simulator::exploration const e = simulator::explore(
      20,
      [] {
        unsigned x = 0;
        run(
            2, [&](unsigned i) { simt::plain_write(x, i); }, 1);
      },
      one_at_once);
  EXPECT_FALSE(e.failed) << e.what;
}
TEST(DataRace, TwoPlainReadsAreNone) {
  expect_none([] {
    unsigned x = 0;
    run(64, [&](unsigned) { (void)simt::plain_read(x); });
  });
}
TEST(DataRace, AWriteAfterAReadOfAnother) {
  (void)race_in([] {
    unsigned x = 0, turn = 0;
    run_two([&] { (void)simt::plain_read(x), word(turn).store(1, simt::relaxed); },
            [&] {
              if (word(turn).load(simt::acquire) == 1) simt::plain_write(x, 1u);
            });
  });
}
TEST(DataRace, NeighbouringBytesAreNone) {
  expect_none([] {
    std::array<unsigned char, 64> bytes{};
    run(64, [&](unsigned i) {
      for (unsigned char k = 0; k < 3; ++k) simt::plain_write(bytes[i], k);
      (void)simt::plain_read(bytes[i]);
    });
  });
}
TEST(DataRace, PlainAgainstAtomic) {
  std::string const text = race_in([] {
    unsigned x = 0;
    run_two([&] { word(x).store(1, simt::relaxed); }, [&] { simt::plain_write(x, 2u); });
  });
  EXPECT_CONTAINS(text, "data race");
}
TEST(DataRace, BarriersAndLaunchesOrder) {
  expect_none([] {
    std::array<unsigned, 64> x{};
    auto const kernel = [&](unsigned i) {
      simt::plain_write(x[i], i);
      simt::sync_warp(simt::all_lanes);
      (void)simt::plain_read(x[i ^ 1]);
      simt::sync_block();
      (void)simt::plain_read(x[63 - i]);
    };
    run(64, kernel);
    run(64, kernel);
  });
}
TEST(DataRace, AShuffleOrdersNothing) {
  (void)race_in([] {
    std::array<unsigned, 32> x{};
    run(32, [&](unsigned i) {
      simt::plain_write(x[i], i);
      (void)simt::shuffle(simt::all_lanes, i, 0);
      (void)simt::plain_read(x[i ^ 1]);
    });
  });
}
// Memory that goes from thread to thread through a lock-free free list, as an allocator hands it on.
TEST(DataRace, MemoryHandedOnWithReleaseAndAcquire) {
  expect_none([] {
    header h{};
    unsigned owner = 0;
    run(
        6,
        [&](unsigned i) {
          simt::back_off pause;
          // Ends: the owner gives the header on to the next thread.
          while (word(owner).load(simt::acquire) != i) pause.wait();
          header const before = simt::plain_read(h);
          simt::plain_write(h, header{before.size + 1, i});
          word(owner).store(i + 1, simt::release);
        },
        2);
  });
}

}  // namespace
}  // namespace test
