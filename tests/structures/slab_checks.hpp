// Checks of bits that are claimed from a place on, of segments of them with hints, and of the word that says what a slab is in use as: for
// the real ones and for ones with a mistake in them.
#pragma once

#include "../support/device_array.hpp"
#include "../support/rng.hpp"
#include "exploration.hpp"
#include "owned_cells.hpp"

#include <gpuheap/structures/free_bits.hpp>
#include <gpuheap/structures/hinted_bits.hpp>
#include <gpuheap/structures/slab_word.hpp>
#include <gpuheap/structures/warp_group.hpp>

#include <string>
#include <vector>

namespace structures_test {

using gpuheap::structures::free_bits;
using gpuheap::structures::hinted_bits;
using gpuheap::structures::slab_state;
using gpuheap::structures::slab_word;

// Kernel: every thread claims bits and gives them back.
template <class Bits>
struct take_and_give_bits {
  Bits bits;
  owned_cells cells;
  unsigned rounds;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const bit = bits.claim(random.below(bits.count));
      if (bit == Bits::none) continue;
      cells.claim(bit, i);
      cells.release(bit, i);
      simt::fence(simt::release);
      if ((bits.release(bit) >> bit & 1) == 0) count(cells.wrong);
    }
  }
};
template <class Bits>
std::string bits_of_a_word_change_hands(unsigned threads, unsigned num_bits, unsigned rounds) {
  test::device_array<unsigned> word(1);
  cell_memory cells(num_bits);
  Bits bits;
  bits.taken = word.data();
  bits.count = num_bits;
  gpuheap::launch(threads, take_and_give_bits<Bits>{bits, cells.view(), rounds}, {.block_threads = 64});
  std::string problems = cells.problem();
  require(problems, word.first() == 0, "bits are set that nobody has");
  return problems;
}

// Kernel: the lanes that come together claim the bits of their ranks in one of two words, and give them back.
template <class Bits>
struct take_together {
  Bits words[2];
  owned_cells cells;
  unsigned rounds;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      if (random.below(5) == 0) continue;
      gpuheap::structures::warp_group const g{simt::active_mask()};
      unsigned const which = random.below(2), bit = g.rank();
      bool const wants = random.below(4) != 0, got = words[which].claim_together(g.mask, bit, wants);
      if (got && !wants) count(cells.wrong);
      if (!got) continue;
      unsigned const cell = which * Bits::most + bit;
      cells.claim(cell, i);
      cells.release(cell, i);
      simt::fence(simt::release);
      if ((words[which].release(bit) >> bit & 1) == 0) count(cells.wrong);
    }
  }
};
template <class Bits>
std::string bits_claimed_together_change_hands(unsigned threads, unsigned rounds) {
  test::device_array<unsigned> words(2);
  cell_memory cells(2 * Bits::most);
  take_together<Bits> kernel{{}, cells.view(), rounds};
  for (unsigned w = 0; w < 2; ++w) kernel.words[w].taken = words.data() + w;
  gpuheap::launch(threads, kernel, {.block_threads = 64});
  std::string problems = cells.problem();
  for (unsigned word : words.read()) require(problems, word == 0, "bits are set that nobody has");
  return problems;
}

// A slab of so many cells, which is in use for chunks of one or of two cells: that is its kind.
template <class Slab, class Chunks>
struct slab_of_cells {
  Slab slab;
  unsigned* hints;
  unsigned* segments;
  unsigned num_cells;
  owned_cells cells;

  [[nodiscard]] GPUHEAP_FN Chunks chunks(unsigned kind) const {
    Chunks c;
    c.hints = hints;
    c.segments = segments;
    c.count = num_cells / kind;
    return c;
  }
  // A reservation for one chunk.
  [[nodiscard]] GPUHEAP_FN bool enter(unsigned kind) const {
    slab_word seen = slab.look();
    for (;;) {
      if (seen.is_free() && seen.kind() != kind) {
        if (!slab.open(seen, kind, 1, true)) continue;
        chunks(kind).clear_segments();
        slab.publish(kind, 1);
        return true;
      }
      if (seen.kind() != kind || seen.is_opening() || seen.fill() >= num_cells / kind) return false;
      if (slab.reserve(seen, 1)) return true;
    }
  }
  GPUHEAP_FN void leave(unsigned kind, unsigned chunk) const {
    simt::fence(simt::release);
    if (!chunks(kind).release(chunk)) count(cells.wrong);
    simt::note_performed();
    (void)slab.release(1);
  }
};
// Kernel: threads take chunks of the one or the other kind, a few at a time, and give them back in another order.
template <class Slab, class Chunks>
struct use_slab {
  slab_of_cells<Slab, Chunks> slab;
  unsigned rounds;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const kind = 1 + random.below(2);
      unsigned held[3];
      unsigned n = 0;
      for (unsigned wanted = 1 + random.below(3); wanted != 0 && slab.enter(kind); --wanted) {
        unsigned const chunk = slab.chunks(kind).claim(random.below(slab.num_cells / kind));
        for (unsigned c = 0; c < kind; ++c) slab.cells.claim(chunk * kind + c, i);
        held[n++] = chunk;
      }
      for (unsigned h = 0; h < n; ++h) {
        for (unsigned c = 0; c < kind; ++c) slab.cells.release(held[h] * kind + c, i);
        slab.leave(kind, held[h]);
      }
    }
  }
};
// Kernel, one thread: which kinds an idle slab serves.
template <class Slab, class Chunks>
struct enter_once {
  slab_of_cells<Slab, Chunks> slab;
  unsigned* served;

  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned kind : {1u, 2u, 1u}) {
      if (!slab.enter(kind)) continue;
      ++served[kind];
      slab.leave(kind, slab.chunks(kind).claim(0));
    }
  }
};
template <class Slab, class Chunks>
std::string chunks_change_hands(unsigned threads, unsigned num_cells, unsigned rounds) {
  test::device_array<unsigned> state(1), hints(1), segments(hinted_bits::segments_for(num_cells)), served(3);
  cell_memory cells(num_cells);
  slab_of_cells<Slab, Chunks> slab{{}, hints.data(), segments.data(), num_cells, cells.view()};
  slab.slab.at = state.data();
  gpuheap::launch(threads, use_slab<Slab, Chunks>{slab, rounds}, {.block_threads = 64});
  std::string problems = cells.problem();
  require(problems, slab_word{state.first()}.is_free(), "a slab of which nothing is in use is not free");
  require(problems, hints.first() == 0, "a hint says that an empty segment is full");
  gpuheap::launch(1, enter_once<Slab, Chunks>{slab, served.data()});
  require(problems, served.read() == std::vector<unsigned>{0, 2, 1}, "an idle slab does not serve every kind");
  return problems + cells.problem();
}

}  // namespace structures_test
