// A segment map in device memory, audited at rest.
#pragma once

#include "bitmap_tree_checks.hpp"

#include <gpuheap/structures/segment_map.hpp>

#include <algorithm>

namespace structures_test {

using gpuheap::structures::lazy_relocation;
using gpuheap::structures::segment_map;

// All pages of a range that is a claim's.
struct page_range {
  unsigned first = segment_map::none, length = 0;

  [[nodiscard]] GPUHEAP_HD bool empty() const { return first == segment_map::none; }
};
[[nodiscard]] GPUHEAP_HD inline page_range pages_of(segment_map const& map, segment_map::claim got) {
  if (got.first == segment_map::none) return {};
  return got.of_segments ? page_range{got.first << map.lg_pages, got.length << map.lg_pages} : page_range{got.first, got.length};
}
[[nodiscard]] GPUHEAP_HD inline segment_map::claim claim_of(unsigned first_segment, unsigned n) {
  return first_segment == segment_map::none ? segment_map::claim{} : segment_map::claim{first_segment, n, true, false};
}
// Whole segments, as an extent: the first one, or none.
[[nodiscard]] GPUHEAP_FN inline unsigned claim_span(segment_map const& map, unsigned n, unsigned alignment, unsigned phase,
                                                    relocation_count relocations) {
  unsigned const first = map.claim_extent(n << map.lg_pages, alignment << map.lg_pages, phase << map.lg_pages, relocations);
  return first == segment_map::none ? first : first >> map.lg_pages;
}
GPUHEAP_FN inline void release_claim(segment_map const& map, segment_map::claim held, relocation_count relocations) {
  if (held.first == segment_map::none) return;
  if (held.of_segments) {
    map.release_pages(held.first << map.lg_pages, held.length << map.lg_pages, relocations);
  } else {
    map.release_pages(held.first, held.length, relocations);
  }
}

class map_memory {
 public:
  // All segments whole.
  explicit map_memory(unsigned num_segments, unsigned lg_pages = 2, unsigned stride = 1)
      : map_memory(std::vector<bool>(std::size_t{num_segments} << lg_pages, true), lg_pages, stride) {}
  // `free` says which pages are. Segments that are free entirely are whole, others are broken up.
  explicit map_memory(std::vector<bool> const& free, unsigned lg_pages, unsigned stride = 1)
      : num_segments_{static_cast<unsigned>(free.size() >> lg_pages)},
        lg_pages_{lg_pages},
        whole_(bitmap_tree::leaves_for(num_segments_), stride),
        broken_(bitmap_tree::leaves_for(num_segments_)),
        pages_(num_segments_),
        marks_(num_segments_),
        counts_(2),
        relocations_(1) {
    write(free);
  }

  [[nodiscard]] segment_map view() const {
    return {whole_.view(), broken_.view(), pages_.data(), num_segments_, lg_pages_, counts_.data(), counts_.data() + 1, marks_.data()};
  }
  [[nodiscard]] relocation_count relocations() const { return {relocations_.data()}; }
  [[nodiscard]] relocation_count::word moves_so_far() const { return relocations_.first(); }

  void write(std::vector<bool> const& free) {
    std::vector<bitmap_tree::word> whole(bitmap_tree::leaves_for(num_segments_)), broken(whole.size()), pages(num_segments_);
    std::vector<simt::uint32_t> marks(num_segments_);
    for (unsigned s = 0; s < num_segments_; ++s) {
      for (unsigned k = 0; k < 1u << lg_pages_; ++k) pages[s] |= bitmap_tree::word{free[(s << lg_pages_) + k]} << k;
      bool const is_whole = pages[s] == all_pages();
      whole[s / 64] |= bitmap_tree::word{is_whole} << (s % 64);
      if (is_whole) pages[s] = 0;
      broken[s / 64] |= bitmap_tree::word{pages[s] != 0} << (s % 64);
      marks[s] = is_whole ? 0 : segment_map::broken_up;
    }
    whole_.write(whole);
    broken_.write(broken);
    pages_.write(pages);
    marks_.write(marks);
    auto const n = static_cast<unsigned>(std::count(free.begin(), free.end(), true));
    counts_.write({n, n});
  }
  // Page by page, whether whole or broken.
  [[nodiscard]] std::vector<bool> free() const {
    auto const whole = whole_.leaves(), pages = pages_.read();
    std::vector<bool> free(std::size_t{num_segments_} << lg_pages_);
    for (unsigned s = 0; s < num_segments_; ++s) {
      bool const is_whole = (whole[s / 64] >> (s % 64) & 1) != 0;
      for (unsigned k = 0; k < 1u << lg_pages_; ++k) free[(s << lg_pages_) + k] = is_whole || (pages[s] >> k & 1) != 0;
    }
    return free;
  }
  [[nodiscard]] unsigned num_free() const { return counts_.read()[0]; }
  [[nodiscard]] unsigned least_free() const { return counts_.read()[1]; }
  [[nodiscard]] unsigned num_whole() const { return num_bits(whole_); }
  // Segments where a search for pages looks. At rest after calls one at a time: those that have some free and some claimed. Claims of one
  // segment's pages at once may leave it here when none is left.
  [[nodiscard]] unsigned num_broken() const { return num_bits(broken_); }

  // The faults of a map at rest.
  [[nodiscard]] std::string problem() const {
    std::string problems = whole_.problem() + broken_.problem();
    auto const is_free = free();
    auto const n = static_cast<unsigned>(std::count(is_free.begin(), is_free.end(), true));
    require(problems, num_free() == n, std::to_string(n) + " pages are free, the count says " + std::to_string(num_free()));
    require(problems, least_free() <= n, "fewer are free than ever were at least: " + std::to_string(least_free()));
    auto const whole = whole_.leaves(), broken = broken_.leaves(), pages = pages_.read();
    auto const marks = marks_.read();
    for (unsigned s = 0; s < whole.size() * 64; ++s) {
      bool const is_whole = (whole[s / 64] >> (s % 64) & 1) != 0, is_broken = (broken[s / 64] >> (s % 64) & 1) != 0;
      std::string const name = "segment " + std::to_string(s);
      if (s >= num_segments_) {
        require(problems, !is_whole && !is_broken, name + " does not exist and is free");
        continue;
      }
      require(problems, !is_whole || pages[s] == 0, name + " is whole and has pages of its own");
      require(problems, !is_whole || marks[s] == 0, name + " is whole and marked as broken");
      require(problems, pages[s] == 0 || marks[s] == segment_map::broken_up, name + " has pages and is not marked as broken");
      require(problems, is_broken || pages[s] == 0, name + " has free pages and nobody finds them");
      require(problems, pages[s] != all_pages(), name + " has all its pages and did not become whole");
      require(problems, (pages[s] & ~all_pages()) == 0, name + " has pages that do not exist");
    }
    require(problems, relocation_count::quiet(relocations_.first()), "a move is still under way");
    return problems;
  }

 private:
  [[nodiscard]] bitmap_tree::word all_pages() const { return simt::low_bits(1u << lg_pages_); }
  [[nodiscard]] static unsigned num_bits(tree_memory<> const& tree) {
    unsigned n = 0;
    for (auto leaf : tree.leaves()) n += simt::popcount(leaf);
    return n;
  }

  unsigned num_segments_, lg_pages_;
  tree_memory<> whole_, broken_;
  test::device_array<bitmap_tree::word> pages_;
  test::device_array<simt::uint32_t> marks_;
  test::device_array<unsigned> counts_;  // free now; least ever
  test::device_array<relocation_count::word> relocations_;
};

// ---- nobody is refused while something is free

// The count to which a claimer reports its relocations. A mistaken claimer reports to none.
struct told_relocations {
  relocation_count claims, rejoins;
};

// Kernel: on a map with `num_free` free units, as many threads but one claim one each, again and again, and hold one at most. The others
// claim several and give them back within one relocation. Units are segments, or pages of a few segments which are broken up and become
// whole all the time.
struct claim_beside_grabbers {
  segment_map map;
  relocation_count relocations;
  told_relocations told;
  owned_cells cells;  // by page
  unsigned rounds;
  bool of_pages;
  unsigned num_free;
  unsigned* refused;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    segment_map::claim held{};
    for (unsigned round = 0; round < rounds; ++round) {
      if (i + 1 < num_free) {
        hold_another(held, random, i);
      } else {
        grab(random, i);
      }
    }
    release(held, i);
  }
  GPUHEAP_FN void hold_another(segment_map::claim& held, test::rng& random, unsigned i) const {
    release(held, i);
    relocation_count::word const seen = relocations.read_begin();
    held = of_pages ? claim_a_page(1, random.below(2) == 0) : claim_a_segment();
    if (held.first != segment_map::none) {
      claimed(held, i);
    } else if (relocations.read_end() == seen && relocation_count::quiet(seen)) {
      count(refused);
    }
  }
  GPUHEAP_FN void grab(test::rng& random, unsigned i) const {
    told.claims.begin();
    segment_map::claim got{};
    if (of_pages) {
      got = claim_a_page(1 + random.below(4), random.below(2) == 0);
    } else if (random.below(2) == 0) {
      got = claim_of(claim_span(map, num_free, 1, 0, told.claims), num_free);
    } else {
      lazy_relocation relocation{told.claims};
      got = map.claim_segments(4u << map.lg_pages, 64, 0, relocation);
      if (got.first != segment_map::none) map.note_free(map.finish_claim(got));
      relocation.end();
    }
    if (got.first != segment_map::none) {
      claimed(got, i);
      release(got, i);
    }
    told.claims.end();
  }
  [[nodiscard]] GPUHEAP_FN segment_map::claim claim_a_segment() const { return claim_of(claim_span(map, 1, 1, 0, relocations), 1); }
  // Up to n pages, of whole segments or of broken ones: each looked for once, so that what changes between the two can be missed.
  [[nodiscard]] GPUHEAP_FN segment_map::claim claim_a_page(unsigned n, bool whole_first) const {
    lazy_relocation relocation{told.claims};
    segment_map::claim got{};
    if (whole_first) got = map.break_segment(n, 0, relocation);
    if (got.first == segment_map::none) got = map.claim_pages(n, 1, ~0u, 0, relocation);
    if (got.first == segment_map::none && !whole_first) got = map.break_segment(n, 0, relocation);
    if (got.first != segment_map::none) map.note_free(map.finish_claim(got));
    relocation.end();
    return got;
  }
  GPUHEAP_FN void claimed(segment_map::claim got, unsigned i) const {
    page_range const all = pages_of(map, got);
    for (unsigned k = 0; k < all.length; ++k) cells.claim(all.first + k, i);
  }
  GPUHEAP_FN void release(segment_map::claim held, unsigned i) const {
    page_range const all = pages_of(map, held);
    for (unsigned k = 0; k < all.length; ++k) cells.release(all.first + k, i);
    release_claim(map, held, told.rejoins);
  }
};

enum class untold { nothing, claims, rejoins };

inline std::string refusals_are_right(unsigned threads, unsigned rounds, bool of_pages, untold what = untold::nothing,
                                      unsigned num_free = 8) {
  unsigned const lg_pages = of_pages ? 2 : 1, num_segments = 100;
  std::vector<bool> free(std::size_t{num_segments} << lg_pages);
  // They begin in the last segments of a leaf.
  unsigned const first = of_pages ? 63u << lg_pages : 60u << lg_pages;
  unsigned const n = of_pages ? num_free : num_free << lg_pages;
  for (unsigned k = 0; k < n; ++k) free[first + k] = true;
  map_memory map(free, lg_pages);
  cell_memory cells(static_cast<unsigned>(free.size()));
  test::device_array<unsigned> refused(1);
  test::device_array<relocation_count::word> nowhere(1);
  relocation_count const elsewhere{nowhere.data()};
  told_relocations const told{what == untold::claims ? elsewhere : map.relocations(),
                              what == untold::rejoins ? elsewhere : map.relocations()};
  gpuheap::launch(threads,
                  claim_beside_grabbers{map.view(), map.relocations(), told, cells.view(), rounds, of_pages, num_free, refused.data()},
                  {.block_threads = 64});
  std::string problems = map.problem() + cells.problem();
  require(problems, refused.first() == 0, "a thread was certain that nothing is free, and something was all the time");
  require(problems, map.free() == free, "not all came back");
  return problems;
}

}  // namespace structures_test
