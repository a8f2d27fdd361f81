// Litmus tests of the orders on which allocators rely between threads (docs/memory-orders.md): a pattern, the outcome that it forbids, and
// the number of times that it was seen. On a GPU many instances of a pattern run at once, in blocks that meet at random;
// GPUHEAP_LITMUS_ROUNDS sets their number. In the simulator each seed is a schedule, half of them in the weak mode.
#include <gpuheap/simt/explore.hpp>

#include <cstdlib>
#include <iostream>

#include "kernels.hpp"

namespace simt_test {

using simt::uint64_t;
using word_ref = simt::global_ref<uint64_t>;

constexpr unsigned words_per_instance = 8;

struct counts {
  uint64_t seen = 0;       // the pattern's last thread came late enough to see the first one's work
  uint64_t forbidden = 0;  // and saw something that it must not
};

// The words of one instance: side by side, or each in an array of its own, which puts them into different slices of the L2.
struct instance {
  uint64_t* words;
  simt::size_t stride;

  [[nodiscard]] GPUHEAP_FN word_ref at(simt::size_t i) const { return word_ref{words[i * stride]}; }
  [[nodiscard]] GPUHEAP_FN uint64_t& plain(simt::size_t i) const { return words[i * stride]; }
};

// A word that a thread polls for a while: few polls, as the other thread may not be running yet.
template <class Look>
GPUHEAP_FN inline uint64_t poll(Look look) {
  uint64_t seen = 0;
  for (unsigned looks = 0; looks < 32 && seen == 0; ++looks) seen = look();
  return seen;
}

// Thread 0 writes a header and installs its place, by an exchange that releases. Thread 1 claims from the word and reads the header where
// the word says that it is.
struct claim_what_was_installed {
  static constexpr unsigned roles = 2;
  static constexpr char const* forbids = "a header that is not there yet, behind a place that is";
  GPUHEAP_FN static void run(unsigned role, instance const& in, uint64_t key, counts& c) {
    if (role == 0) {
      in.at(2).store(key, simt::relaxed);
      in.at(3).store(~key, simt::relaxed);
      in.at(0).exchange(2, simt::consume_release);
    } else if (uint64_t const place = poll([&] { return in.at(0).fetch_add(uint64_t{1} << 32, simt::consume) & 15; }); place != 0) {
      ++c.seen;
      c.forbidden += in.at(place).load(simt::relaxed) != key || in.at(place + 1).load(simt::relaxed) != ~key;
    }
  }
};

// The same through a thread between them, which adds nothing of its own: as a free that counts a word, then a group, then a span.
struct pass_through_counts {
  static constexpr unsigned roles = 3;
  static constexpr char const* forbids = "the last thread of a chain of counts does not see what the first released";
  GPUHEAP_FN static void run(unsigned role, instance const& in, uint64_t key, counts& c) {
    if (role == 0) {
      in.at(4).store(key, simt::relaxed);
      simt::fence(simt::release);
      in.at(0).fetch_add(4, simt::relay);
    } else if (role == 1) {
      if (uint64_t const place = poll([&] { return in.at(0).fetch_add(0, simt::relay); }); place != 0)
        in.at(1).fetch_add(place, simt::relay);
    } else if (uint64_t const place = poll([&] { return in.at(1).fetch_add(0, simt::relay); }); place != 0) {
      ++c.seen;
      c.forbidden += in.at(place).load(simt::relaxed) != key;
    }
  }
};

// A thread's answered read-modify-write of one word comes before its next one of another: as a bit that is cleared before it is counted.
struct answered_before_counted {
  static constexpr unsigned roles = 2;
  static constexpr char const* forbids = "a count without the change that it counts, which was answered before";
  GPUHEAP_FN static void run(unsigned role, instance const& in, uint64_t, counts& c) {
    if (role == 0) {
      if (in.at(4).fetch_or(1, simt::relay) != 0) return;
      simt::note_performed();
      in.at(0).fetch_add(4, simt::relay);
    } else if (uint64_t const place = poll([&] { return in.at(0).fetch_add(0, simt::relay); }); place != 0) {
      ++c.seen;
      c.forbidden += in.at(place).load(simt::relaxed) == 0;
    }
  }
};

// A block changes hands: its owner writes and reads it and sets its bit; another thread takes the bit and writes the block. The plain
// accesses of the one come before those of the other.
struct block_changes_hands {
  static constexpr unsigned roles = 2;
  static constexpr char const* forbids = "the old owner's read sees the new owner's write, or its write comes last";
  GPUHEAP_FN static void run(unsigned role, instance const& in, uint64_t key, counts& c) {
    if (role == 0) {
      simt::plain_write(in.plain(2), key);
      simt::plain_write(in.plain(3), key);
      bool const own = simt::plain_read(in.plain(2)) == key && simt::plain_read(in.plain(3)) == key;
      simt::fence(simt::release);
      in.at(0).fetch_or(2, simt::relay);
      c.forbidden += !own;
    } else if (uint64_t const place = poll([&] { return in.at(0).fetch_and(~uint64_t{2}, simt::relay) & 2; }); place != 0) {
      ++c.seen;
      simt::plain_write(in.plain(place), ~key);
      simt::plain_write(in.plain(place + 1), ~key);
      c.forbidden += simt::plain_read(in.plain(place)) != ~key || simt::plain_read(in.plain(place + 1)) != ~key;
      in.at(1).store(1, simt::relaxed);  // for the look afterwards
    }
  }
  // After the launch: what the new owner wrote is what stays.
  GPUHEAP_FN static bool is_wrong_afterwards(instance const& in, uint64_t key) {
    return in.plain(1) == 1 && (in.plain(2) != ~key || in.plain(3) != ~key);
  }
};

// A thread loads a word, fences, and sets a bit, and uses the loaded word only with the result of the bit's atomic. Another thread takes
// the bit and changes the word. As a free that loads its span's shard word, and a reset that follows it.
struct loaded_before_its_bit {
  static constexpr unsigned roles = 2;
  static constexpr char const* forbids = "a load sees what was written after the bit behind its fence";
  GPUHEAP_FN static void run(unsigned role, instance const& in, uint64_t key, counts& c) {
    if (role == 0) {
      uint64_t const loaded = in.at(4).load(simt::relaxed);
      simt::fence(simt::release);
      uint64_t const before = in.at(0).fetch_or(4, simt::relay);
      c.forbidden += before == 0 && loaded != 0;
    } else if (uint64_t const place = poll([&] { return in.at(0).fetch_and(~uint64_t{4}, simt::relay) & 4; }); place != 0) {
      ++c.seen;
      in.at(place).store(key, simt::relaxed);
    }
  }
};

// A thing moves from one place to another within a bracket of the moves word. A search looks at the new place, then at the old one; if both
// are empty, and the moves word was the same before and after, nothing was there.
struct search_a_moving_thing {
  static constexpr unsigned roles = 2;
  static constexpr char const* forbids = "a search that saw no move misses the thing";
  static constexpr uint64_t begun_one = uint64_t{1} << 32;
  GPUHEAP_FN static void run(unsigned role, instance const& in, uint64_t, counts& c) {
    if (role == 0) {
      in.at(0).fetch_add(begun_one + 1, simt::relaxed);
      if (in.at(2).exchange(1, simt::consume_release) == 0) in.at(4).exchange(1, simt::consume_release);
      in.at(0).fetch_sub(1, simt::release);
    } else {
      uint64_t const before = in.at(0).load(simt::acquire);
      bool const in_new = in.at(4).load(simt::relaxed) != 0, in_old = in.at(2).load(simt::relaxed) == 0;
      simt::fence(simt::acquire);
      uint64_t const after = in.at(0).load(simt::relaxed);
      c.seen += after != 0;
      c.forbidden += !in_new && !in_old && before == after && (before & (begun_one - 1)) == 0;
    }
  }
};

// Adds up what the threads of one launch saw.
struct shared_counts {
  uint64_t* seen;
  uint64_t* forbidden;
  GPUHEAP_FN void add(counts const& c) const {
    if (c.seen != 0) simt::atomic_ref<uint64_t>{*seen}.fetch_add(c.seen, simt::relaxed);
    if (c.forbidden != 0) simt::atomic_ref<uint64_t>{*forbidden}.fetch_add(c.forbidden, simt::relaxed);
  }
};

constexpr unsigned block_threads = 64;

// Kernel: the blocks of a pattern's roles run side by side, and the threads of a block come to the instances in an order that differs from
// launch to launch.
template <class Pattern>
struct all_roles {
  uint64_t* words;
  unsigned instances, turn;
  bool apart;
  shared_counts all;

  [[nodiscard]] GPUHEAP_FN instance of(unsigned i) const {
    return apart ? instance{words + i, instances} : instance{words + simt::size_t{i} * words_per_instance, 1};
  }
  GPUHEAP_FN void operator()(unsigned) const {
    unsigned const role = (simt::block_id() + turn) % Pattern::roles, group = simt::block_id() / Pattern::roles;
    unsigned const threads = simt::threads_per_block(), within = simt::thread_in_block();
    unsigned const i = group * threads + (role == 0 ? within : (within * 5 + turn * 11) % threads);
    counts c;
    if (i < instances) Pattern::run(role, of(i), uint64_t{i} + 1, c);
    all.add(c);
  }
};
template <class Pattern>
struct look_afterwards {
  all_roles<Pattern> what;
  GPUHEAP_FN void operator()(unsigned i) const {
    counts c;
    c.forbidden = Pattern::is_wrong_afterwards(what.of(i), uint64_t{i} + 1);
    what.all.add(c);
  }
};

template <class Pattern>
counts observe(cells<uint64_t>& words, unsigned instances, unsigned turn) {
  cells<uint64_t> found(2);
  simt::fill(words.data(), 0, words.size() * sizeof(uint64_t));
  all_roles<Pattern> const kernel{words.data(), instances, turn, turn % 2 != 0, {found.data(), found.data() + 1}};
  unsigned const groups = (instances + block_threads - 1) / block_threads;
  run(groups * Pattern::roles * block_threads, kernel, block_threads);
  if constexpr (requires { Pattern::is_wrong_afterwards(kernel.of(0), 0); }) run(instances, look_afterwards<Pattern>{kernel});
  return {found[0], found[1]};
}

// On a GPU: so many instances, again and again.
template <class Pattern>
void expect_never_in(uint64_t rounds) {
  constexpr unsigned instances = 1u << 19;
  cells<uint64_t> words(simt::size_t{instances} * words_per_instance);
  counts all;
  uint64_t done = 0;
  for (unsigned turn = 0; done < rounds; ++turn, done += instances) {
    counts const some = observe<Pattern>(words, instances, turn);
    all.seen += some.seen;
    all.forbidden += some.forbidden;
  }
  std::cout << done << " rounds; in " << all.seen << " of them the last thread came after the first; " << all.forbidden
            << " forbidden outcomes\n";
  EXPECT_EQ(all.forbidden, 0u) << Pattern::forbids;
  EXPECT_GT(all.seen, done / 1000) << "the threads hardly ever met";
}
// In the simulator: a few instances under many schedules.
template <class Pattern>
void expect_never_under_schedules() {
  uint64_t seen = 0;
  unsigned turn = 0;
  simt::exploration const e = simt::explore(400, [&] {
    cells<uint64_t> words(4 * words_per_instance);
    counts const c = observe<Pattern>(words, 4, turn++);
    seen += c.seen;
    return c.forbidden == 0;
  });
  EXPECT_TRUE(e) << Pattern::forbids << "\n" << e.what;
  EXPECT_GT(seen, 0u);
}
template <class Pattern>
void expect_never() {
  if (simt::query_device().backend == "simulator") return expect_never_under_schedules<Pattern>();
  char const* const rounds = std::getenv("GPUHEAP_LITMUS_ROUNDS");
  expect_never_in<Pattern>(rounds != nullptr ? std::strtoull(rounds, nullptr, 10) : 20'000'000);
}

TEST(Litmus, AClaimSeesWhatWasInstalled) { expect_never<claim_what_was_installed>(); }
TEST(Litmus, AChainOfCountsPassesOnWhatWasReleased) { expect_never<pass_through_counts>(); }
TEST(Litmus, AnAnsweredChangeComesBeforeItsCount) { expect_never<answered_before_counted>(); }
TEST(Litmus, ABlockChangesHands) { expect_never<block_changes_hands>(); }
TEST(Litmus, ALoadComesBeforeTheBitBehindItsFence) { expect_never<loaded_before_its_bit>(); }
TEST(Litmus, ASearchMissesNothingThatMoves) { expect_never<search_a_moving_thing>(); }

}  // namespace simt_test
