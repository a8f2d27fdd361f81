// Checks of a slot map with the accounting that our allocator keeps on a run's header (allocators/sharded_runs/runs.hpp), for the real map
// and for those with a mistake in them.
#pragma once

#include "../support/device_array.hpp"
#include "../support/rng.hpp"
#include "exploration.hpp"
#include "owned_cells.hpp"

#include <gpuheap/structures/run_words.hpp>
#include <gpuheap/structures/slot_map.hpp>

#include <string>
#include <vector>

namespace structures_test {

using gpuheap::structures::run_header;
using gpuheap::structures::slot_map;

inline constexpr unsigned run_class = 7;

// A run: its map and its header. Each function does to them what its namesake of the allocator does.
template <class Map>
struct one_run {
  Map map;
  run_header::word* header_word;

  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<run_header::word> header() const { return simt::atomic_ref<run_header::word>{*header_word}; }

  // True: the run ended, and is the caller's.
  GPUHEAP_FN bool end_if_empty(run_header h) const {
    if (h.is_bound() || (h.bits & run_header::slots) == 0 || h.full_groups() != map.num_groups()) return false;
    run_header::word expected = h.bits;
    return header().compare_exchange(expected, run_header::unused(h.generation()).bits, simt::acq_rel, simt::relaxed);
  }
  GPUHEAP_FN bool give(unsigned w, slot_map::word mask) const { return count_group(map.give(w, mask)); }
  GPUHEAP_FN bool count_group(slot_map::change change) const {
    if (!change.group_crossed) return false;
    return end_if_empty({header().fetch_add(run_header::full_one, simt::acq_rel) + run_header::full_one});
  }
  // Only while bound.
  GPUHEAP_FN slot_map::word take(unsigned w, unsigned wanted) const {
    slot_map::word got = 0;
    if (map.take(w, wanted, got).group_crossed) header().fetch_sub(run_header::full_one, simt::acq_rel);
    return got;
  }
  GPUHEAP_FN bool adopt() const {
    run_header::word seen = header().load(simt::acquire);
    while (run_header{seen}.serves(run_class) && !run_header{seen}.is_bound()) {
      if (header().compare_exchange(seen, seen | run_header::bound, simt::acq_rel, simt::acquire)) return true;
    }
    return false;
  }
  GPUHEAP_FN bool unbind() const { return end_if_empty({header().fetch_sub(run_header::bound, simt::acq_rel) - run_header::bound}); }

  // Slots are owned at first in pieces, two for each word, the first of 31 slots.
  [[nodiscard]] GPUHEAP_FN unsigned num_pieces() const { return map.num_words() * 2; }
  [[nodiscard]] GPUHEAP_FN slot_map::word piece(unsigned p) const {
    return map.full(p / 2) & (p % 2 == 0 ? simt::low_bits(31) : ~simt::low_bits(31));
  }
};

// A run in device memory: all slots handed out, none freed.
template <class Map = slot_map>
class run_memory {
 public:
  explicit run_memory(unsigned num_slots, bool bound = true, unsigned group_stride = 1)
      : num_slots_{num_slots},
        group_stride_{group_stride},
        words_(slot_map::words_for(num_slots)),
        groups_(slot_map::groups_for(slot_map::words_for(num_slots)) * group_stride),
        header_(1) {
    run_header::word const fresh = run_header::fresh_slots(run_class, 0, 5).bits;
    header_.write({bound ? fresh : fresh - run_header::bound});
  }

  [[nodiscard]] Map map() const {
    Map m;
    m.words = words_.data();
    m.groups = groups_.data();
    m.group_stride = group_stride_;
    m.num_slots = num_slots_;
    return m;
  }
  [[nodiscard]] one_run<Map> view() const { return {map(), header_.data()}; }
  [[nodiscard]] std::vector<slot_map::word> words() const { return words_.read(); }
  void write_words(std::vector<slot_map::word> const& words) { words_.write(words); }
  [[nodiscard]] std::vector<unsigned> groups() const { return groups_.read(); }
  [[nodiscard]] run_header header() const { return {header_.first()}; }

  // Whether slot i is free, found without the map's help.
  [[nodiscard]] std::vector<bool> free() const {
    auto const w = words();
    std::vector<bool> free(num_slots_);
    for (unsigned i = 0; i < num_slots_; ++i) free[i] = (w[i / 63] >> (i % 63) & 1) != 0;
    return free;
  }
  // What is wrong with the counts at rest: words are counted slot by slot, groups word by word.
  [[nodiscard]] std::string problem(bool counted_in_header) const {
    std::string problems;
    auto const is_free = free();
    auto const counts = groups();
    std::vector<unsigned> full_words(counts.size() / group_stride_), words_in(full_words.size());
    for (unsigned first = 0; first < num_slots_; first += 63) {
      unsigned free_here = 0, slots_here = 0;
      for (unsigned i = first; i < num_slots_ && i < first + 63; ++i, ++slots_here) free_here += is_free[i];
      full_words[first / 2016] += free_here == slots_here;
      ++words_in[first / 2016];
    }
    unsigned full_groups = 0;
    for (unsigned g = 0; g < full_words.size(); ++g) {
      full_groups += full_words[g] == words_in[g];
      require(problems, counts[g * group_stride_] == full_words[g],
              "group " + std::to_string(g) + " has " + std::to_string(full_words[g]) + " full words, its count says " +
                  std::to_string(counts[g * group_stride_]));
    }
    for (unsigned at = 0; at < counts.size(); ++at) {
      require(problems, at % group_stride_ == 0 || counts[at] == 0, "a word between group counts changed");
    }
    auto const all = words();
    unsigned const in_last = (num_slots_ - 1) % 63 + 1;
    require(problems, (all.back() & ~simt::low_bits(in_last) & slot_map::all_slots) == 0, "a slot that does not exist is free");
    if (counted_in_header) {
      require(problems, header().full_groups() == full_groups,
              std::to_string(full_groups) + " groups are full, the header says " + std::to_string(header().full_groups()));
    }
    return problems;
  }

 private:
  unsigned num_slots_, group_stride_;
  test::device_array<slot_map::word> words_;
  test::device_array<unsigned> groups_;
  test::device_array<run_header::word> header_;
};

// ---- slots change hands while the run is bound

// Kernel: each thread gives its pieces, then takes slots and gives them back, as others' words become full and cease to be. Every third
// thread keeps what it took last.
template <class Map>
struct trade_slots {
  one_run<Map> run;
  owned_cells cells;  // by slot
  unsigned threads;
  unsigned rounds;

  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned p = i; p < run.num_pieces(); p += threads) {
      cells.claim_bits(p / 2 * slot_map::slots_per_word, run.piece(p), i);
      give(p / 2, run.piece(p), i);
    }
    test::rng random{i};
    unsigned held_at = 0;
    slot_map::word held = 0;
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const w = random.below(run.map.num_words());
      slot_map::word const got = run.take(w, 1 + random.below(32));
      cells.claim_bits(w * slot_map::slots_per_word, got, i);
      give(held_at, held, i);
      held_at = w;
      held = got;
    }
    if (i % 3 != 0) give(held_at, held, i);
  }
  GPUHEAP_FN void give(unsigned w, slot_map::word mask, unsigned i) const {
    if (mask == 0) return;
    cells.release_bits(w * slot_map::slots_per_word, mask, i);
    run.give(w, mask);
  }
};

// Each slot ends up free or with one owner, and words, groups and header agree.
template <class Map>
std::string slots_change_hands(unsigned threads, unsigned num_slots, unsigned rounds, unsigned group_stride = 1) {
  run_memory<Map> run(num_slots, true, group_stride);
  cell_memory cells(num_slots);
  gpuheap::launch(threads, trade_slots<Map>{run.view(), cells.view(), threads, rounds}, {.block_threads = 64});
  std::string problems = run.problem(true) + cells.problem();
  auto const free = run.free();
  auto const owners = cells.owners();
  for (unsigned i = 0; i < num_slots; ++i) {
    require(problems, free[i] != (owners[i] != 0), "slot " + std::to_string(i) + (free[i] ? " is free and owned" : " is lost"));
  }
  require(problems, run.header().is_bound(), "the header lost its `bound`");
  return problems;
}

// ---- the last free ends the run

// Kernel: each thread frees its pieces; every fourth one also tries `borrows` times after each piece to adopt the run, take slots, unbind
// the run and free them afterwards. Whoever ends the run claims all its slots.
template <class Map>
struct free_everything {
  one_run<Map> run;
  owned_cells cells;  // by slot
  unsigned threads;
  unsigned borrows;
  unsigned* ended;
  unsigned* not_empty;

  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned p = i; p < run.num_pieces(); p += threads) cells.claim_bits(p / 2 * slot_map::slots_per_word, run.piece(p), i);
    test::rng random{i};
    for (unsigned p = i; p < run.num_pieces(); p += threads) {
      free(p / 2, run.piece(p), i);
      for (unsigned k = 0; i % 4 == 0 && k < borrows; ++k) borrow(random, i);
    }
  }
  GPUHEAP_FN void free(unsigned w, slot_map::word mask, unsigned i) const {
    if (mask == 0) return;
    cells.release_bits(w * slot_map::slots_per_word, mask, i);
    if (run.give(w, mask)) take_over(i);
  }
  GPUHEAP_FN void borrow(test::rng& random, unsigned i) const {
    if (!run.adopt()) return;
    unsigned const w = random.below(run.map.num_words());
    slot_map::word const got = run.take(w, 1 + random.below(32));
    cells.claim_bits(w * slot_map::slots_per_word, got, i);
    if (run.unbind()) take_over(i);
    free(w, got, i);
  }
  GPUHEAP_FN void take_over(unsigned i) const {
    count(ended);
    for (unsigned w = 0; w < run.map.num_words(); ++w) {
      // relaxed: all frees of the run must come before its end.
      if ((run.map.at(w).load(simt::relaxed) & slot_map::all_slots) != run.map.full(w)) count(not_empty);
      cells.claim_bits(w * slot_map::slots_per_word, run.map.full(w), i);
    }
  }
};

// The run ends once, after everything in it.
template <class Map>
std::string the_last_free_ends_the_run(unsigned threads, unsigned num_slots, unsigned borrows) {
  run_memory<Map> run(num_slots, false);
  cell_memory cells(num_slots);
  test::device_array<unsigned> ended(1), not_empty(1);
  gpuheap::launch(threads, free_everything<Map>{run.view(), cells.view(), threads, borrows, ended.data(), not_empty.data()},
                  {.block_threads = 64});
  std::string problems = run.problem(false) + cells.problem();
  require(problems, ended.first() == 1, "the run ended " + std::to_string(ended.first()) + " times");
  require(problems, not_empty.first() == 0, "the run ended before all its slots were free");
  require(problems, run.header().bits == run_header::unused(5).bits, "the header does not say that the run is unused");
  return problems;
}

// ---- no free slips between a word's mark and the look at its slots

// Kernel: thread 0 marks every word and lists the run if it saw a free slot. The others free their pieces and list the run if they met the
// mark.
template <class Map>
struct mark_and_free {
  Map map;
  unsigned threads;
  unsigned* listed;

  GPUHEAP_FN void operator()(unsigned i) const {
    if (i == 0) {
      slot_map::word found = 0;
      for (unsigned w = 0; w < map.num_words(); ++w) found |= map.mark_unlisted(w);
      if (found != 0) count(listed);
      return;
    }
    for (unsigned w = i - 1; w < map.num_words(); w += threads - 1) {
      for (slot_map::word mask : {map.full(w) & 1, map.full(w) & ~slot_map::word{1}}) {
        if ((map.give(w, mask).before & slot_map::unlisted) != 0) count(listed);
      }
    }
  }
};

template <class Map>
std::string a_run_with_a_free_slot_is_listed(unsigned threads, unsigned num_slots) {
  run_memory<Map> run(num_slots);
  test::device_array<unsigned> listed(1);
  gpuheap::launch(threads, mark_and_free<Map>{run.map(), threads, listed.data()}, {.block_threads = 64});
  std::string problems = run.problem(false);
  require(problems, listed.first() != 0, "all slots were freed and nobody listed the run");
  for (auto word : run.words()) require(problems, (word & slot_map::unlisted) != 0, "a word lost its mark");
  return problems;
}

}  // namespace structures_test
