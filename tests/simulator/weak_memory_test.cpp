// The weak mode: outcomes that the C++ model allows are found within a stated number of seeds, and outcomes that it forbids are not.
#include <gpuheap_simulator/launch.hpp>

#include <algorithm>
#include <array>
#include <string>

#include "kernels.hpp"

namespace test {
namespace {

using simt::memory_order;
using word = simt::atomic_ref<unsigned>;

// Seeds in which a bug must show, and seeds that correct code must pass.
constexpr std::uint64_t find_within = 100;
constexpr std::uint64_t pass_all = affordable(1000);

// The body returns whether what it saw is what a careless reader expects. Without the weak mode, it always is.
template <class Body>
void expect_allowed(Body body, std::uint64_t within = find_within) {
  simulator::exploration const e = simulator::explore(within, body);
  if (!has_weak_mode) {
    EXPECT_FALSE(e.failed) << e.what;
    return;
  }
  EXPECT_TRUE(e.failed) << "not seen within " << within << " seeds";
  EXPECT_EQ(e.seed % 2, 1u) << "seen in the strong mode";
}
template <class Body>
void expect_forbidden(Body body) {
  simulator::exploration const e = simulator::explore(pass_all, body);
  EXPECT_FALSE(e.failed) << e.what;
}

// ---- message passing: data, then a flag

bool pass_message(memory_order publish, memory_order receive) {
  unsigned data = 0, flag = 0;
  bool lost = false;
  run_two(
      [&] {
        word(data).store(42, simt::relaxed);
        word(flag).store(1, publish);
      },
      [&] {
        if (word(flag).load(receive) == 1) lost = word(data).load(simt::relaxed) != 42;
      });
  return !lost;
}

TEST(MessagePassing, WithoutReleaseIsCaught) {
  expect_allowed([] { return pass_message(simt::relaxed, simt::acquire); });
}
TEST(MessagePassing, ALostAcquireIsCaught) {
  expect_allowed([] { return pass_message(simt::release, simt::relaxed); });
}
TEST(MessagePassing, WithReleaseAndAcquireIsCorrect) {
  expect_forbidden([] { return pass_message(simt::release, simt::acquire); });
  expect_forbidden([] { return pass_message(simt::seq_cst, simt::seq_cst); });
}

// ---- a header of several words, published by a pointer

struct header {
  unsigned size, kind;
};

bool publish_header(memory_order publish) {
  header h{0, 0};
  header* head = nullptr;
  bool torn = false;
  run_two(
      [&] {
        word(h.size).store(64, simt::relaxed);
        word(h.kind).store(7, simt::relaxed);
        simt::atomic_ref<header*>(head).store(&h, publish);
      },
      [&] {
        header* const seen = simt::atomic_ref<header*>(head).load(simt::acquire);
        if (seen != nullptr) torn = word(seen->kind).load(simt::relaxed) != 7 || word(seen->size).load(simt::relaxed) != 64;
      });
  return !torn;
}

TEST(Header, ARelaxedPublicationIsCaught) {
  expect_allowed([] { return publish_header(simt::relaxed); });
}
TEST(Header, AReleasedPublicationIsCorrect) {
  expect_forbidden([] { return publish_header(simt::release); });
}

// ---- message passing by fences

bool pass_by_fences(bool first_fence, bool second_fence) {
  unsigned data = 0, flag = 0;
  bool lost = false;
  run_two(
      [&] {
        word(data).store(42, simt::relaxed);
        if (first_fence) simt::fence(simt::release);
        word(flag).store(1, simt::relaxed);
      },
      [&] {
        if (word(flag).load(simt::relaxed) != 1) return;
        if (second_fence) simt::fence(simt::acquire);
        lost = word(data).load(simt::relaxed) != 42;
      });
  return !lost;
}

TEST(Fences, OneAloneIsNotEnough) {
  expect_allowed([] { return pass_by_fences(true, false); });
  expect_allowed([] { return pass_by_fences(false, true); });
}
TEST(Fences, APairPassesTheMessage) {
  expect_forbidden([] { return pass_by_fences(true, true); });
}

// ---- store buffering: Dekker's entry

bool both_enter(memory_order order, bool fences) {
  std::array<unsigned, 2> wants{}, saw{1, 1};
  run(
      2,
      [&](unsigned i) {
        word(wants[i]).store(1, order == simt::acquire ? simt::release : order);
        if (fences) simt::fence(simt::seq_cst);
        saw[i] = word(wants[1 - i]).load(order);
      },
      1);
  return saw[0] + saw[1] > 0;
}

TEST(StoreBuffering, ReleaseAndAcquireLetBothEnter) {
  expect_allowed([] { return both_enter(simt::acquire, false); });
}
TEST(StoreBuffering, SequentialConsistencyForbidsIt) {
  expect_forbidden([] { return both_enter(simt::seq_cst, false); });
  expect_forbidden([] { return both_enter(simt::relaxed, true); });
}

// ---- independent reads of independent writes

bool readers_agree(memory_order order) {
  unsigned x = 0, y = 0;
  std::array<unsigned, 4> saw{};
  memory_order const store = order == simt::seq_cst ? simt::seq_cst : simt::release;
  run(
      4,
      [&](unsigned i) {
        if (i == 0) word(x).store(1, store);
        if (i == 1) word(y).store(1, store);
        if (i == 2) saw[0] = word(x).load(order), saw[1] = word(y).load(order);
        if (i == 3) saw[2] = word(y).load(order), saw[3] = word(x).load(order);
      },
      1);
  return !(saw[0] == 1 && saw[1] == 0 && saw[2] == 1 && saw[3] == 0);
}

TEST(IndependentReads, MayDisagreeUnderAcquire) {
  expect_allowed([] { return readers_agree(simt::acquire); }, has_weak_mode ? 2000 : find_within);
}
TEST(IndependentReads, AgreeUnderSequentialConsistency) {
  expect_forbidden([] { return readers_agree(simt::seq_cst); });
}

// ---- coherence

TEST(Coherence, OneLocationNeverRunsBackwards) {
  expect_forbidden([] {
    unsigned x = 0;
    tally backwards;
    run(
        4,
        [&](unsigned i) {
          if (i == 0) {
            for (unsigned v = 1; v < 6; ++v) word(x).store(v, simt::relaxed);
          } else {
            unsigned last = 0;
            for (unsigned k = 0; k < 6; ++k) {
              unsigned const seen = word(x).load(simt::relaxed);
              backwards += seen < last;
              last = seen;
            }
          }
        },
        1);
    return backwards == 0;
  });
}

TEST(Coherence, AReadThatHappensBeforeBindsTheNextReader) {
  // Thread 1 reads x and passes on what it saw; thread 2 acquires that and must not see an older x.
  expect_forbidden([] {
    unsigned x = 0, seen_by_1 = 0, passed = 0;
    bool older = false;
    run(
        3,
        [&](unsigned i) {
          if (i == 0) {
            word(x).store(1, simt::relaxed);
            word(x).store(2, simt::relaxed);
          } else if (i == 1) {
            seen_by_1 = word(x).load(simt::relaxed);
            word(passed).store(1, simt::release);
            (void)word(x).load(simt::relaxed);
          } else if (word(passed).load(simt::acquire) == 1) {
            older = word(x).load(simt::relaxed) < seen_by_1;
          }
        },
        1);
    return !older;
  });
}

TEST(Coherence, AThreadSeesItsOwnStores) {
  expect_forbidden([] {
    unsigned x = 0;
    tally bad;
    run(16, [&](unsigned i) {
      word(x).store(i + 1, simt::relaxed);
      bad += word(x).load(simt::relaxed) == 0;
      bad += simt::load_cached(x) == 0;
    });
    return bad == 0;
  });
}

// ---- read-modify-writes

TEST(ReadModifyWrite, SeesTheNewestValue) {
  expect_forbidden([] {
    unsigned count = 0, bits = 0, most = 0;
    run(100, [&](unsigned i) {
      word(count).fetch_add(1, simt::relaxed);
      word(bits).fetch_or(1u << i % 32, simt::relaxed);
      word(most).fetch_max(i, simt::relaxed);
    });
    return count == 100 && bits == ~0u && most == 99;
  });
}

TEST(ReadModifyWrite, CarriesOnAReleaseSequence) {
  expect_forbidden([] {
    unsigned data = 0, flag = 0;
    bool lost = false;
    run(
        3,
        [&](unsigned i) {
          if (i == 0) {
            word(data).store(1, simt::relaxed);
            word(flag).store(1, simt::release);
          } else if (i == 1) {
            word(flag).fetch_add(2, simt::relaxed);
          } else {
            unsigned const seen = word(flag).load(simt::acquire);
            if ((seen & 1) != 0) lost = word(data).load(simt::relaxed) != 1;
          }
        },
        1);
    return !lost;
  });
}

// Also if it acquires after a release fence: the fence is older than what it has read, and does not carry that.
TEST(ReadModifyWrite, CarriesOnAReleaseSequenceAfterAFence) {
  for (memory_order const order : {simt::relaxed, simt::acquire, simt::release, simt::acq_rel}) {
    expect_forbidden([order] {
      unsigned data = 0, others = 0, flag = 0;
      bool lost = false;
      run(
          3,
          [&](unsigned i) {
            if (i == 0) {
              word(data).store(1, simt::relaxed);
              word(flag).fetch_or(1, simt::release);
            } else if (i == 1) {
              word(others).store(1, simt::relaxed);
              simt::fence(simt::release);
              word(flag).fetch_or(2, order);
            } else {
              unsigned const seen = word(flag).load(simt::acquire);
              if ((seen & 1) != 0) lost |= word(data).load(simt::relaxed) != 1;
              if ((seen & 2) != 0) lost |= word(others).load(simt::relaxed) != 1;
            }
          },
          1);
      return !lost;
    });
  }
}

TEST(ReadModifyWrite, APlainStoreBreaksTheReleaseSequence) {
  expect_allowed([] {
    unsigned data = 0, flag = 0;
    bool lost = false;
    run(
        3,
        [&](unsigned i) {
          if (i == 0) {
            word(data).store(1, simt::relaxed);
            word(flag).store(1, simt::release);
          } else if (i == 1) {
            while (word(flag).load(simt::relaxed) != 1) {
            }
            word(flag).store(3, simt::relaxed);
          } else {
            while (word(flag).load(simt::acquire) != 3) {
            }
            lost = word(data).load(simt::relaxed) != 1;
          }
        },
        1);
    return !lost;
  });
}

// Several threads release into one counter; the one that sees the full count has seen what all of them did.
TEST(ReadModifyWrite, ACounterGathersManyReleases) {
  expect_forbidden([] {
    std::array<unsigned, 8> data{};
    unsigned arrived = 0;
    tally missing;
    run(
        8,
        [&](unsigned i) {
          word(data[i]).store(1, simt::relaxed);
          if (word(arrived).fetch_add(1, simt::acq_rel) != 7) return;
          for (unsigned& d : data) missing += word(d).load(simt::relaxed) != 1;
        },
        2);
    return missing == 0;
  });
}

// The same without acquiring on the way: a thread that acquires the last of them has seen all, through the release sequence.
bool watch_counter(bool by_fences) {
  std::array<unsigned, 8> data{};
  unsigned arrived = 0;
  tally missing;
  run(
      9,
      [&](unsigned i) {
        if (i < 8) {
          word(data[i]).store(1, simt::relaxed);
          if (by_fences) simt::fence(simt::release);
          word(arrived).fetch_add(1, by_fences ? simt::relaxed : simt::release);
        } else if (word(arrived).load(simt::acquire) == 8) {
          for (unsigned& d : data) missing += word(d).load(simt::relaxed) != 1;
        }
      },
      3);
  return missing == 0;
}

TEST(ReadModifyWrite, AReleaseSequenceCarriesEveryRelease) {
  expect_forbidden([] { return watch_counter(false); });
  expect_forbidden([] { return watch_counter(true); });
}

TEST(ReadModifyWrite, ALockProtectsWhatIsUnderIt) {
  auto const locked = [](memory_order take, memory_order give) {
    return [=] {
      unsigned lock = 0, total = 0;
      run(
          12,
          [&](unsigned) {
            unsigned expected = 0;
            simt::back_off pause;
            while (!word(lock).compare_exchange(expected, 1, take, simt::relaxed)) {
              expected = 0;
              pause.wait();
            }
            word(total).store(word(total).load(simt::relaxed) + 1, simt::relaxed);
            word(lock).store(0, give);
          },
          3);
      return total == 12;
    };
  };
  expect_forbidden(locked(simt::acquire, simt::release));
  expect_allowed(locked(simt::relaxed, simt::release));
  expect_allowed(locked(simt::acquire, simt::relaxed));
}

// ---- cached loads

TEST(CachedLoad, MayBeStaleAfterAFreshOne) {
  expect_allowed([] {
    unsigned x = 0;
    bool backwards = false;
    run_two([&] { word(x).store(1, simt::relaxed); },
            [&] {
              unsigned const fresh = word(x).load(simt::relaxed);
              backwards = simt::load_cached(x) < fresh;
            });
    return !backwards;
  });
}
TEST(CachedLoad, IsFreshAfterAnAcquire) {
  expect_forbidden([] {
    unsigned x = 0, flag = 0;
    bool stale = false;
    run_two(
        [&] {
          word(x).store(1, simt::relaxed);
          word(flag).store(1, simt::release);
        },
        [&] {
          (void)simt::load_cached(x);
          if (word(flag).load(simt::acquire) == 1) stale = simt::load_cached(x) != 1;
        });
    return !stale;
  });
}

// ---- barriers

bool meet_at(unsigned kind) {
  std::array<unsigned, 64> data{};
  tally stale;
  run(64, [&](unsigned i) {
    word(data[i]).store(1, simt::relaxed);
    if (kind == 0) simt::sync_warp(simt::all_lanes);
    if (kind == 1) simt::sync_block();
    if (kind == 2) (void)simt::ballot(simt::all_lanes, true);
    stale += word(data[i ^ 1]).load(simt::relaxed) != 1;
  });
  return stale == 0;
}

TEST(Barriers, OrderMemory) {
  expect_forbidden([] { return meet_at(0); });
  expect_forbidden([] { return meet_at(1); });
}
TEST(Barriers, ABallotDoesNot) {
  expect_allowed([] { return meet_at(2); });
}

// ---- the edges of a launch and of a location

TEST(Launches, HappenOneAfterTheOther) {
  expect_forbidden([] {
    unsigned x = 0;
    tally wrong;
    for (unsigned k = 1; k < 4; ++k) {
      run(8, [&](unsigned) { word(x).store(k, simt::relaxed); });
      run(8, [&](unsigned) { wrong += word(x).load(simt::relaxed) != k; });
      x = 100 * k;  // the host writes between kernels
      run(8, [&](unsigned) { wrong += word(x).load(simt::relaxed) != 100 * k; });
    }
    return wrong == 0;
  });
}

// Three blocks are resident at once, so the last thread takes the slot of the one that exits: the second, which has passed on what the
// first had done. The third hears of the last thread first and of the second afterwards. What it has learnt of a slot's later lane must not
// be taken for all that its earlier lane knew.
TEST(Lanes, AnExitedOnesReleaseIsNotLostByItsSlotsNextLane) {
  simulator::settings three_at_once;
  three_at_once.num_sms = 1;
  three_at_once.blocks_per_sm = 3;
  simulator::exploration const e = simulator::explore(
      pass_all,
      [] {
        unsigned data = 0, first = 0, second = 0, last = 0;
        bool lost = false;
        auto const await = [](unsigned& flag) {
          simt::back_off pause;
          while (word(flag).load(simt::acquire) == 0) pause.wait();
        };
        run(
            4,
            [&](unsigned i) {
              if (i == 0) {
                word(data).store(1, simt::relaxed);
                word(first).store(1, simt::release);
                await(last);
              } else if (i == 1) {
                await(first);
                word(second).store(1, simt::release);
              } else if (i == 2) {
                await(last);
                if (word(second).load(simt::acquire) == 1) lost = word(data).load(simt::relaxed) != 1;
              } else {
                word(last).store(1, simt::release);
              }
            },
            1);
        return !lost;
      },
      three_at_once);
  EXPECT_FALSE(e.failed) << e.what;
}

// 8 bytes of device memory, reached as a whole and in halves.
class word_of_halves {
 public:
  word_of_halves() : p_{simt::allocate(simt::memory_kind::device, 8)} { simt::fill(p_, 0, 8); }
  ~word_of_halves() { simt::deallocate(simt::memory_kind::device, p_); }
  word_of_halves(word_of_halves const&) = delete;
  word_of_halves& operator=(word_of_halves const&) = delete;
  [[nodiscard]] std::uint64_t& whole() const { return *static_cast<std::uint64_t*>(p_); }
  [[nodiscard]] unsigned& half(unsigned i) const { return static_cast<unsigned*>(p_)[i]; }

 private:
  void* p_;
};

TEST(MixedSizes, TakeTheNewestValue) {
  expect_forbidden([] {
    word_of_halves const w;
    std::uint64_t& both = w.whole();
    bool wrong = false;
    run_two(
        [&] {
          word(w.half(0)).store(1, simt::relaxed);
          word(w.half(1)).store(2, simt::relaxed);
          simt::atomic_ref<std::uint64_t>(both).fetch_add(0, simt::relaxed);
          simt::atomic_ref<std::uint64_t>(both).store(std::uint64_t{5} << 32 | 4, simt::release);
        },
        [&] {
          for (unsigned k = 0; k < 3; ++k) {
            std::uint64_t const seen = simt::atomic_ref<std::uint64_t>(both).load(simt::acquire);
            wrong |= seen != 0 && seen != 1 && seen != (std::uint64_t{2} << 32 | 1) && seen != (std::uint64_t{5} << 32 | 4);
          }
        });
    return !wrong && both == (std::uint64_t{5} << 32 | 4);
  });
}

TEST(MixedSizes, StillSynchronise) {
  expect_forbidden([] {
    unsigned data = 0;
    word_of_halves const w;
    std::uint64_t& flag = w.whole();
    bool lost = false;
    run_two(
        [&] {
          word(w.half(1)).store(0, simt::relaxed);
          word(data).store(1, simt::relaxed);
          simt::atomic_ref<std::uint64_t>(flag).store(1, simt::release);
        },
        [&] {
          if (word(w.half(0)).load(simt::acquire) == 1) lost = word(data).load(simt::relaxed) != 1;
        });
    return !lost;
  });
}

TEST(PlainAssignment, StartsALocationAnew) {
  expect_forbidden([] {
    unsigned x = 0, wrong = 0;
    run(1, [&](unsigned) {
      for (unsigned k = 0; k < 5; ++k) word(x).store(k, simt::relaxed);
      x = 77;  // behind the model's back
      wrong += word(x).load(simt::relaxed) != 77;
    });
    return wrong == 0;
  });
}

TEST(StaleLoads, AreCountedAndComeFromABoundedHistory) {
  simulator::scoped_settings const scope(with(simulator::scheduler_kind::random, 1, true));
  unsigned x = 0, oldest = 100;
  run_two(
      [&] {
        for (unsigned v = 1; v <= 100; ++v) word(x).store(v, simt::relaxed);
      },
      [&] {
        // Ends: stale values come by chance, and the newest is among those to choose from.
        while (simt::load_cached(x) != 100) {
        }
        for (unsigned k = 0; k < 500; ++k) oldest = std::min(oldest, simt::load_cached(x));
      });
  EXPECT_EQ(oldest, has_weak_mode ? 85u : 100u);
  EXPECT_EQ(simulator::last_run().stale_loads > 100, has_weak_mode);
}

}  // namespace
}  // namespace test
