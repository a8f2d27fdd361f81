// Checks of slots that are taken several at once, given back and closed, and of tree bits that say whether any slot is free: for the real
// ones and for ones with a mistake in them.
#pragma once

#include "../support/rng.hpp"
#include "bitmap_tree_checks.hpp"
#include "exploration.hpp"
#include "owned_cells.hpp"

#include <gpuheap/structures/free_slots.hpp>

#include <string>
#include <vector>

namespace structures_test {

using gpuheap::structures::free_slots;

// ---- owners

// Kernel: every thread takes slots, several at once, and gives them back in two parts. Who closes the word owns all of it until it opens it
// again.
template <class Slots>
struct take_and_give_slots {
  Slots slots;
  owned_cells cells;
  unsigned capacity;
  unsigned rounds;
  unsigned* closed;  // how often

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      if (random.below(3) == 0) {
        close(i);
        continue;
      }
      auto const got = slots.claim(1 + random.below(6), random.below(64));
      if ((got.left & got.slots) != 0) count(cells.wrong);
      cells.claim_bits(0, got.slots, i);
      cells.release_bits(0, got.slots, i);
      simt::fence(simt::release);
      free_slots::word const first = got.slots & (got.slots - 1);
      give(first);
      give(got.slots & ~first);
    }
  }
  GPUHEAP_FN void give(free_slots::word which) const {
    if (which != 0 && (slots.release(which) & which) != 0) count(cells.wrong);
  }
  GPUHEAP_FN void close(unsigned i) const {
    free_slots::word const all = simt::low_bits(capacity);
    if (!slots.close(all)) return;
    count(closed);
    cells.claim_bits(0, all, i);
    if (slots.claim(3, i % 64).slots != 0) count(cells.wrong);
    cells.release_bits(0, all, i);
    slots.open(all);
  }
};
template <class Slots>
std::string slots_change_hands(unsigned threads, unsigned capacity, unsigned rounds) {
  free_slots::word const all = simt::low_bits(capacity);
  test::device_array<free_slots::word> word(std::vector<free_slots::word>{all});
  test::device_array<unsigned> closed(1);
  cell_memory cells(64);
  Slots slots;
  slots.free = word.data();
  gpuheap::launch(threads, take_and_give_slots<Slots>{slots, cells.view(), capacity, rounds, closed.data()}, {.block_threads = 64});
  std::string problems = cells.problem();
  require(problems, word.first() == all, "slots are lost, or came from nowhere");
  return problems;
}

// ---- what is there is found

// Kernel: no more threads than slots, each of which wants one at a time, and some of which try to close the word, of which the last slot is
// always taken.
template <class Slots>
struct take_one_at_a_time {
  Slots slots;
  unsigned rounds;
  unsigned* missed;

  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned round = 0; round < rounds; ++round) {
      if (i % 4 == 0 && slots.close(simt::low_bits(63))) count(missed);
      auto const got = slots.claim(1, i * 7 % 64);
      if (got.slots == 0) {
        count(missed);
      } else {
        slots.release(got.slots);
      }
    }
  }
};
template <class Slots>
std::string a_free_slot_is_found(unsigned threads, unsigned rounds) {
  // Of 62 free slots, as 63 would be all of them.
  test::device_array<free_slots::word> word(std::vector<free_slots::word>{simt::low_bits(62)});
  test::device_array<unsigned> missed(1);
  Slots slots;
  slots.free = word.data();
  gpuheap::launch(threads < 62 ? threads : 62, take_one_at_a_time<Slots>{slots, rounds, missed.data()}, {.block_threads = 64});
  std::string problems;
  require(problems, missed.first() == 0, "a claim found no slot, or the word was closed, though slots were free or taken all the time");
  require(problems, word.first() == simt::low_bits(62), "slots are lost");
  return problems;
}

// ---- tree bits that follow

// Kernel: threads take and give slots of several words. A tree has a bit for each word, settled by whoever takes the last slot or gives the
// first back.
template <class Tree>
struct take_give_and_settle {
  Tree tree;
  free_slots::word* words;
  unsigned num_words, distance;  // of their bits
  unsigned rounds;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const w = random.below(num_words);
      free_slots const slots{words + w};
      auto const got = slots.claim(1 + random.below(2), 0);
      if (got.slots == 0) continue;
      if (got.left == 0) settle(w);
      if (slots.release(got.slots) == 0) settle(w);
    }
  }
  GPUHEAP_FN void settle(unsigned w) const {
    tree.recompute(w * distance, [&] { return free_slots{words + w}.ref().load(simt::acquire) != 0; });
  }
};
template <class Tree>
std::string bits_follow_the_slots(unsigned threads, unsigned num_words, unsigned distance, unsigned rounds) {
  unsigned const num_leaves = num_words * distance / 64 + 1;
  tree_memory<Tree> memory(num_leaves);
  std::vector<free_slots::word> full(num_words, 3), leaves(num_leaves);
  for (unsigned w = 0; w < num_words; ++w) leaves[w * distance / 64] |= free_slots::word{1} << w * distance % 64;
  memory.write(leaves);
  test::device_array<free_slots::word> words(full);
  gpuheap::launch(threads, take_give_and_settle<Tree>{memory.view(), words.data(), num_words, distance, rounds}, {.block_threads = 64});
  std::string problems = memory.problem();
  require(problems, words.read() == full, "slots are lost");
  require(problems, memory.leaves() == leaves, "a bit is missing over free slots");
  return problems;
}
// Likewise, but nobody gives back: no bit may be left.
template <class Tree>
struct take_all_and_settle {
  take_give_and_settle<Tree> of;
  GPUHEAP_FN void operator()(unsigned i) const {
    of(i);
    for (unsigned w = 0; w < of.num_words; ++w) {
      auto const got = free_slots{of.words + w}.claim(1, 0);
      if (got.slots != 0 && got.left == 0) of.settle(w);
    }
  }
};
template <class Tree>
std::string no_bit_stays_over_nothing(unsigned threads, unsigned num_words, unsigned rounds) {
  tree_memory<Tree> memory(1);
  memory.write({simt::low_bits(num_words)});
  test::device_array<free_slots::word> words(std::vector<free_slots::word>(num_words, 3));
  gpuheap::launch(threads, take_all_and_settle<Tree>{{memory.view(), words.data(), num_words, 1, rounds}}, {.block_threads = 64});
  std::string problems = memory.problem();
  auto const left = words.read();
  for (unsigned w = 0; w < num_words; ++w) {
    require(problems, (left[w] != 0) == ((memory.leaves()[0] >> w & 1) != 0), "the bit of word " + std::to_string(w) + " is wrong");
  }
  return problems;
}

}  // namespace structures_test
