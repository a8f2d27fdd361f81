// Checks of a slot map with the accounting that the default allocator keeps on a span's header (allocators/sharded_spans/spans.hpp), for
// the real map and for maps with a mistake in them.
#pragma once

#include "../support/device_array.hpp"
#include "../support/rng.hpp"
#include "exploration.hpp"
#include "owned_cells.hpp"

#include <gpuheap/structures/slot_map.hpp>
#include <gpuheap/structures/span_words.hpp>

#include <string>
#include <vector>

namespace structures_test {

using gpuheap::structures::slot_map;
using gpuheap::structures::span_header;

inline constexpr unsigned span_class = 7;

// A span: its map and its header, whose length counts units of so many slots. Each function does to them what its namesake of the allocator
// does.
template <class Map>
struct one_span {
  Map map;
  span_header::word* header_word;
  unsigned unit_slots;
  unsigned num_slots;  // at first

  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<span_header::word> header() const { return simt::atomic_ref<span_header::word>{*header_word}; }
  [[nodiscard]] GPUHEAP_FN static unsigned groups_of(unsigned slots) { return slot_map::groups_for(slot_map::words_for(slots)); }

  // True: the span ended, and is the caller's.
  GPUHEAP_FN bool end_if_empty(span_header h) const {
    if (h.is_active() || (h.bits & span_header::slots) == 0 || h.full_groups() != groups_of(h.length() * unit_slots)) return false;
    span_header::word expected = h.bits;
    return header().compare_exchange(expected, span_header::unused(h.generation()).bits, simt::acq_rel, simt::relaxed);
  }
  GPUHEAP_FN bool give(unsigned w, slot_map::word mask) const { return count_group(map.give(w, mask)); }
  GPUHEAP_FN bool count_group(slot_map::change change) const {
    if (!change.group_crossed) return false;
    return end_if_empty({header().fetch_add(span_header::full_one, simt::acq_rel) + span_header::full_one});
  }
  // These only while active.
  GPUHEAP_FN slot_map::word take(unsigned w, unsigned wanted) const {
    slot_map::word got = 0;
    if (map.take(w, num_slots, wanted, got).group_crossed) header().fetch_sub(span_header::full_one, simt::acq_rel);
    return got;
  }
  // To so many units, if the slots from `claimed` on were never handed out.
  GPUHEAP_FN void split(unsigned length, unsigned claimed) const {
    unsigned const to = length * unit_slots;
    header().fetch_sub((num_slots - to) / unit_slots * span_header::length_one, simt::acq_rel);
    unsigned const crossed = map.split(num_slots, to, claimed);
    if (crossed != 0) header().fetch_add(crossed * span_header::full_one, simt::acq_rel);
  }
  GPUHEAP_FN bool deactivate() const {
    return end_if_empty({header().fetch_sub(span_header::active, simt::acq_rel) - span_header::active});
  }

  GPUHEAP_FN bool acquire_partial() const {
    span_header::word seen = header().load(simt::acquire);
    while (span_header{seen}.serves(span_class) && !span_header{seen}.is_active()) {
      if (header().compare_exchange(seen, span_header{seen}.active_again().bits, simt::acq_rel, simt::acquire)) return true;
    }
    return false;
  }
};

// Slots are owned at first in pieces, two for each word, the first of 31 slots.
[[nodiscard]] GPUHEAP_HD inline unsigned num_pieces(unsigned num_slots) { return slot_map::words_for(num_slots) * 2; }
[[nodiscard]] GPUHEAP_HD inline slot_map::word piece(unsigned p, unsigned num_slots) {
  return slot_map::slots_in(p / 2, num_slots) & (p % 2 == 0 ? simt::low_bits(31) : ~simt::low_bits(31));
}

// Kernel.
struct prepare_map {
  slot_map map;
  unsigned num_slots;

  GPUHEAP_FN void operator()(unsigned) const { map.prepare(num_slots); }
};

// A span in device memory: all slots handed out, none freed.
template <class Map = slot_map>
class span_memory {
 public:
  explicit span_memory(unsigned unit_slots, unsigned length = 1, bool active = true, unsigned group_stride = 1)
      : unit_slots_{unit_slots},
        num_slots_{unit_slots * length},
        group_stride_{group_stride},
        words_(slot_map::words_for(num_slots_)),
        groups_(slot_map::groups_for(slot_map::words_for(num_slots_)) * group_stride),
        header_(1) {
    span_header::word const fresh = span_header::new_span(span_class, length, false, 5).bits;
    header_.write({active ? fresh : fresh - span_header::active});
    gpuheap::launch(1, prepare_map{map(), num_slots_});
  }

  [[nodiscard]] Map map() const {
    Map m;
    m.words = words_.data();
    m.groups = groups_.data();
    m.group_stride = group_stride_;
    return m;
  }
  [[nodiscard]] one_span<Map> view() const { return {map(), header_.data(), unit_slots_, num_slots_}; }
  [[nodiscard]] unsigned num_slots() const { return num_slots_; }
  [[nodiscard]] std::vector<slot_map::word> words() const { return words_.read(); }
  void write_words(std::vector<slot_map::word> const& words) { words_.write(words); }
  [[nodiscard]] std::vector<unsigned> groups() const { return groups_.read(); }
  [[nodiscard]] span_header header() const { return {header_.first()}; }

  // Whether slot i is free, found without the map's help.
  [[nodiscard]] std::vector<bool> free() const {
    auto const w = words();
    std::vector<bool> free(num_slots_);
    for (unsigned i = 0; i < num_slots_; ++i) free[i] = (w[i / 63] >> (i % 63) & 1) != 0;
    return free;
  }
  // The faults of the counts at rest: words are counted slot by slot, groups word by word. The span has `now` slots, and the words behind
  // them are ready for the next owner.
  [[nodiscard]] std::string problem(bool counted_in_header) const { return problem(counted_in_header, num_slots_); }
  [[nodiscard]] std::string problem(bool counted_in_header, unsigned now) const {
    std::string problems;
    auto const all = words();
    auto const counts = groups();
    unsigned const num_words = (now + 62) / 63;
    std::vector<unsigned> full_words(counts.size() / group_stride_), words_in(full_words.size());
    for (unsigned w = 0; w < all.size(); ++w) {
      if (w >= num_words) {
        require(problems, all[w] == 0, "word " + std::to_string(w) + " behind the span's end is not clear");
        continue;
      }
      unsigned free_here = 0;
      for (unsigned bit = 0; bit < 63; ++bit) {
        bool const is_free = (all[w] >> bit & 1) != 0;
        free_here += is_free;
        require(problems, w * 63 + bit < now || is_free, "a bit of word " + std::to_string(w) + " that has no slot is not set");
      }
      full_words[w / 64] += free_here == 63;
      ++words_in[w / 64];
    }
    unsigned full_groups = 0;
    for (unsigned g = 0; g < full_words.size(); ++g) {
      full_groups += words_in[g] != 0 && full_words[g] == words_in[g];
      unsigned const expected = words_in[g] == 0 ? 0 : full_words[g] + 64 - words_in[g];
      require(problems, counts[g * group_stride_] == expected,
              "the count of group " + std::to_string(g) + " should be " + std::to_string(expected) + " and is " +
                  std::to_string(counts[g * group_stride_]));
    }
    for (unsigned at = 0; at < counts.size(); ++at) {
      require(problems, at % group_stride_ == 0 || counts[at] == 0, "a word between group counts changed");
    }
    if (counted_in_header) {
      require(problems, header().full_groups() == full_groups,
              std::to_string(full_groups) + " groups are full, the header says " + std::to_string(header().full_groups()));
    }
    return problems;
  }

 private:
  unsigned unit_slots_, num_slots_, group_stride_;
  test::device_array<slot_map::word> words_;
  test::device_array<unsigned> groups_;
  test::device_array<span_header::word> header_;
};

// ---- slots change hands while the span is active

// Kernel: each thread gives its pieces, then takes slots and gives them back, as others' words become full and cease to be. Every third
// thread keeps what it took last.
template <class Map>
struct trade_slots {
  one_span<Map> span;
  owned_cells cells;  // by slot
  unsigned threads;
  unsigned rounds;

  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned p = i; p < num_pieces(span.num_slots); p += threads) {
      cells.claim_bits(p / 2 * slot_map::slots_per_word, piece(p, span.num_slots), i);
      give(p / 2, piece(p, span.num_slots), i);
    }
    test::rng random{i};
    unsigned held_at = 0;
    slot_map::word held = 0;
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const w = random.below(slot_map::words_for(span.num_slots));
      slot_map::word const got = span.take(w, 1 + random.below(32));
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
    simt::fence(simt::release);
    span.give(w, mask);
  }
};

// Each slot ends up free or with one owner, and words, groups and header agree.
template <class Map>
std::string slots_change_hands(unsigned threads, unsigned num_slots, unsigned rounds, unsigned group_stride = 1) {
  span_memory<Map> span(num_slots, 1, true, group_stride);
  cell_memory cells(num_slots);
  gpuheap::launch(threads, trade_slots<Map>{span.view(), cells.view(), threads, rounds}, {.block_threads = 64});
  std::string problems = span.problem(true) + cells.problem();
  auto const free = span.free();
  auto const owners = cells.owners();
  for (unsigned i = 0; i < num_slots; ++i) {
    require(problems, free[i] != (owners[i] != 0), "slot " + std::to_string(i) + (free[i] ? " is free and owned" : " is lost"));
  }
  require(problems, span.header().is_active(), "the header lost its `active` bit");
  return problems;
}

// ---- the last free ends the span

// The thread that ends a span claims all its slots.
template <class Map>
struct ended_spans {
  one_span<Map> span;
  owned_cells cells;  // by slot
  unsigned* ended;
  unsigned* not_empty;

  GPUHEAP_FN void take_over(unsigned num_slots, unsigned i) const {
    count(ended);
    for (unsigned w = 0; w < slot_map::words_for(num_slots); ++w) {
      // relaxed: all frees of the span must come before its end.
      if ((span.map.at(w).load(simt::relaxed) & slot_map::all_slots) != slot_map::all_slots) count(not_empty);
      cells.claim_bits(w * slot_map::slots_per_word, slot_map::slots_in(w, num_slots), i);
    }
  }
};
template <class Map>
class ended_memory {
 public:
  [[nodiscard]] ended_spans<Map> of(span_memory<Map> const& span, cell_memory const& cells) const {
    return {span.view(), cells.view(), ended_.data(), not_empty_.data()};
  }
  // The span ended once, after everything in it.
  [[nodiscard]] std::string problem(span_memory<Map> const& span) const {
    std::string problems;
    require(problems, ended_.first() == 1, "the span ended " + std::to_string(ended_.first()) + " times");
    require(problems, not_empty_.first() == 0, "the span ended before all its slots were free");
    require(problems, span.header().bits == span_header::unused(5).bits, "the header does not say that the span is unused");
    return problems;
  }

 private:
  test::device_array<unsigned> ended_{1}, not_empty_{1};
};

// Kernel: each thread frees its pieces; every fourth one also tries `borrows` times after each piece to acquire_partial the span, take
// slots of a word, deactivate the span and free them afterwards.
template <class Map>
struct free_everything {
  ended_spans<Map> ends;
  unsigned threads;
  unsigned borrows;

  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const n = ends.span.num_slots;
    for (unsigned p = i; p < num_pieces(n); p += threads) ends.cells.claim_bits(p / 2 * slot_map::slots_per_word, piece(p, n), i);
    test::rng random{i};
    for (unsigned p = i; p < num_pieces(n); p += threads) {
      free(p / 2, piece(p, n), i);
      for (unsigned k = 0; i % 4 == 0 && k < borrows; ++k) borrow(random, i);
    }
  }
  GPUHEAP_FN void free(unsigned w, slot_map::word mask, unsigned i) const {
    if (mask == 0) return;
    ends.cells.release_bits(w * slot_map::slots_per_word, mask, i);
    simt::fence(simt::release);
    if (ends.span.give(w, mask)) ends.take_over(ends.span.num_slots, i);
  }
  GPUHEAP_FN void borrow(test::rng& random, unsigned i) const {
    one_span<Map> const& span = ends.span;
    if (!span.acquire_partial()) return;
    unsigned const w = random.below(slot_map::words_for(span.num_slots));
    slot_map::word const got = span.take(w, 1 + random.below(32));
    ends.cells.claim_bits(w * slot_map::slots_per_word, got, i);
    if (span.deactivate()) ends.take_over(span.num_slots, i);
    free(w, got, i);
  }
};

template <class Map>
std::string the_last_free_ends_the_span(unsigned threads, unsigned num_slots, unsigned borrows) {
  span_memory<Map> span(num_slots, 1, false);
  cell_memory cells(num_slots);
  ended_memory<Map> ends;
  gpuheap::launch(threads, free_everything<Map>{ends.of(span, cells), threads, borrows}, {.block_threads = 64});
  return span.problem(false) + cells.problem() + ends.problem(span);
}

// ---- a span is shortened while others free its slots

// Kernel: thread 0 shortens the span, of which slots 0..claimed-1 were handed out. The others free their pieces of those.
template <class Map>
struct split_beside_frees {
  ended_spans<Map> ends;
  unsigned length;  // units that are kept
  unsigned claimed;
  unsigned threads;

  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const to = length * ends.span.unit_slots;
    if (i == 0) {
      ends.span.split(length, claimed);
      if (ends.span.deactivate()) ends.take_over(to, i);
      return;
    }
    for (unsigned p = i - 1; p < num_pieces(claimed); p += threads - 1) {
      slot_map::word const mine = piece(p, claimed);
      if (mine == 0) continue;
      ends.cells.claim_bits(p / 2 * slot_map::slots_per_word, mine, i);
      ends.cells.release_bits(p / 2 * slot_map::slots_per_word, mine, i);
      simt::fence(simt::release);
      if (ends.span.give(p / 2, mine)) ends.take_over(to, i);
    }
  }
};

template <class Map>
std::string a_split_span_ends(unsigned threads, unsigned unit_slots, unsigned from, unsigned to, unsigned claimed) {
  span_memory<Map> span(unit_slots, from);
  cell_memory cells(span.num_slots());
  ended_memory<Map> ends;
  gpuheap::launch(threads, split_beside_frees<Map>{ends.of(span, cells), to, claimed, threads}, {.block_threads = 64});
  return span.problem(false, to * unit_slots) + cells.problem() + ends.problem(span);
}

// ---- no free slips between a word's mark and the look at its slots

// Kernel: thread 0 marks every word and lists the span if it saw a free slot. The others free their pieces and list the span if they met
// the mark.
template <class Map>
struct mark_and_free {
  Map map;
  unsigned num_slots;
  unsigned threads;
  unsigned* listed;

  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const num_words = slot_map::words_for(num_slots);
    if (i == 0) {
      slot_map::word found = 0;
      for (unsigned w = 0; w < num_words; ++w) found |= map.mark_unlisted(w, num_slots);
      if (found != 0) count(listed);
      return;
    }
    for (unsigned w = i - 1; w < num_words; w += threads - 1) {
      slot_map::word const all = slot_map::slots_in(w, num_slots);
      for (slot_map::word mask : {all & 1, all & ~slot_map::word{1}}) {
        if ((map.give(w, mask).before & slot_map::unlisted) != 0) count(listed);
      }
    }
  }
};

template <class Map>
std::string a_span_with_a_free_slot_is_listed(unsigned threads, unsigned num_slots) {
  span_memory<Map> span(num_slots);
  test::device_array<unsigned> listed(1);
  gpuheap::launch(threads, mark_and_free<Map>{span.map(), num_slots, threads, listed.data()}, {.block_threads = 64});
  std::string problems = span.problem(false);
  require(problems, listed.first() != 0, "all slots were freed and nobody listed the span");
  for (auto word : span.words()) require(problems, (word & slot_map::unlisted) != 0, "a word lost its mark");
  return problems;
}

}  // namespace structures_test
