// Checks of searches that must not miss what moves, for the real count and for searches with a mistake in them.
#pragma once

#include "../support/device_array.hpp"
#include "../support/rng.hpp"
#include "exploration.hpp"
#include "owned_cells.hpp"

#include <gpuheap/structures/relocation_count.hpp>

#include <string>
#include <vector>

namespace structures_test {

using gpuheap::structures::relocation_count;

// The check of a search: it reads the count before, and asks afterwards whether it missed nothing.
struct two_looks {
  [[nodiscard]] GPUHEAP_FN static relocation_count::word before(relocation_count moves) { return moves.read_begin(); }
  [[nodiscard]] GPUHEAP_FN static bool certain(relocation_count moves, relocation_count::word seen) {
    return relocation_count::quiet(seen) && moves.read_end() == seen;
  }
};

// Places with a number of tokens each.
struct token_places {
  unsigned* tokens;
  unsigned num_places;

  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<unsigned> at(unsigned p) const { return simt::atomic_ref<unsigned>{tokens[p]}; }
  // The first place that has one, or num_places. relaxed: the count alone must order the search.
  [[nodiscard]] GPUHEAP_FN unsigned find() const {
    unsigned p = 0;
    while (p != num_places && at(p).load(simt::relaxed) == 0) ++p;
    return p;
  }
  // Takes one token if there is one.
  [[nodiscard]] GPUHEAP_FN bool take(unsigned p) const {
    unsigned seen = at(p).load(simt::relaxed);
    while (seen != 0) {
      if (at(p).compare_exchange(seen, seen - 1, simt::acq_rel, simt::relaxed)) return true;
    }
    return false;
  }
  GPUHEAP_FN void put(unsigned p) const { at(p).fetch_add(1, simt::acq_rel); }
  GPUHEAP_FN void move(relocation_count moves, unsigned from, unsigned to) const {
    moves.begin();
    if (take(from)) put(to);
    moves.end();
  }
};

// Kernel: half of the threads move the only token, half search for it.
template <class Search>
struct carry_and_search {
  token_places places;
  relocation_count moves;
  unsigned rounds;
  unsigned* missed;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      if (i % 2 == 0) {
        places.move(moves, random.below(places.num_places), random.below(places.num_places));
        continue;
      }
      relocation_count::word const seen = Search::before(moves);
      if (places.find() == places.num_places && Search::certain(moves, seen)) count(missed);
    }
  }
};

template <class Search>
std::string certain_searches_find_the_token(unsigned threads, unsigned num_places, unsigned rounds) {
  test::device_array<unsigned> tokens(num_places), missed(1);
  std::vector<unsigned> start(num_places);
  start[0] = 1;
  tokens.write(start);
  test::device_array<relocation_count::word> state(1);
  gpuheap::launch(threads, carry_and_search<Search>{{tokens.data(), num_places}, {state.data()}, rounds, missed.data()},
                  {.block_threads = 64});
  std::string problems;
  require(problems, missed.first() == 0, "a search was certain that there is no token, and there was one all the time");
  require(problems, relocation_count::quiet(state.first()), "a move is still under way after the kernel");
  return problems;
}

// Kernel: every fourth thread takes tokens until it is certain that none is left. The others move them about.
template <class Search>
struct carry_and_collect {
  token_places places;
  relocation_count moves;
  unsigned rounds;
  unsigned* collected;

  GPUHEAP_FN void operator()(unsigned i) const {
    if (i % 4 == 0) return collect();
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      places.move(moves, random.below(places.num_places), random.below(places.num_places));
    }
  }
  GPUHEAP_FN void collect() const {
    simt::back_off pause;
    // Ends: a pass takes a token, or saw another thread's move, or is certain. Moves are few, and each token is taken once.
    for (;;) {
      relocation_count::word const seen = Search::before(moves);
      unsigned const p = places.find();
      if (p != places.num_places) {
        moves.begin();
        if (places.take(p)) count(collected);
        moves.end();
      } else {
        if (Search::certain(moves, seen)) return;
        pause.wait();
      }
    }
  }
};

template <class Search>
std::string nothing_is_left_to_collect(unsigned threads, unsigned num_places, unsigned num_tokens, unsigned rounds) {
  test::device_array<unsigned> tokens(num_places), collected(1);
  std::vector<unsigned> start(num_places);
  start[0] = num_tokens;
  tokens.write(start);
  test::device_array<relocation_count::word> state(1);
  gpuheap::launch(threads, carry_and_collect<Search>{{tokens.data(), num_places}, {state.data()}, rounds, collected.data()},
                  {.block_threads = 64});
  std::string problems;
  require(problems, collected.first() == num_tokens,
          std::to_string(collected.first()) + " of " + std::to_string(num_tokens) + " tokens were collected");
  return problems;
}

}  // namespace structures_test
