// One claim or release at a time on a segment map, and sets of pages to compare with.
#pragma once

#include <algorithm>

#include "segment_map_checks.hpp"

namespace structures_test {

// Kernel: one claim, by one thread. finish_claim: whether it is finished.
enum class claim_kind { segments, pages, broken };
struct claim_order {
  claim_kind what;
  unsigned n;  // pages
  unsigned least = 1, looks = ~0u;
  unsigned spread = 0;
  bool finish_claim = true;
};
struct claim_answer {
  segment_map::claim got;
  bool moved;  // a relocation was opened
};
struct claim_one {
  segment_map map;
  relocation_count relocations;
  claim_order order;
  claim_answer* out;

  GPUHEAP_FN void operator()(unsigned) const {
    lazy_relocation relocation{relocations};
    segment_map::claim got{};
    if (order.what == claim_kind::segments) got = map.claim_segments(order.n, 64, order.spread, relocation);
    if (order.what == claim_kind::pages) got = map.claim_pages(order.n, order.least, order.looks, order.spread, relocation);
    if (order.what == claim_kind::broken) got = map.break_segment(order.n, order.spread, relocation);
    if (got.first != segment_map::none && order.finish_claim) map.note_free(map.finish_claim(got));
    *out = {got, relocation.open};
    relocation.end();
  }
};
struct claim_one_span {
  segment_map map;
  relocation_count relocations;
  unsigned n, alignment, phase;
  unsigned* out;

  GPUHEAP_FN void operator()(unsigned) const { *out = structures_test::claim_span(map, n, alignment, phase, relocations); }
};
struct claim_one_extent {
  segment_map map;
  relocation_count relocations;
  unsigned n, alignment, phase;
  unsigned* out;

  GPUHEAP_FN void operator()(unsigned) const { *out = map.claim_extent(n, alignment, phase, relocations); }
};
struct claim_one_at {
  segment_map map;
  relocation_count relocations;
  unsigned first, n;
  unsigned* out;

  GPUHEAP_FN void operator()(unsigned) const { *out = map.claim_at(first, n, relocations) ? 1 : 0; }
};
struct release_one {
  segment_map map;
  relocation_count relocations;
  segment_map::claim held;

  GPUHEAP_FN void operator()(unsigned) const { release_claim(map, held, relocations); }
};
// Kernel: the word of relocations as a lazy relocation begins, begins again, ends and ends again.
struct one_lazy_relocation {
  relocation_count relocations;
  relocation_count::word* seen;

  GPUHEAP_FN void operator()(unsigned) const {
    lazy_relocation relocation{relocations};
    relocation.end();
    seen[0] = relocations.read_begin();
    relocation.begin();
    relocation.begin();
    seen[1] = relocations.read_begin();
    relocation.end();
    relocation.end();
    seen[2] = relocations.read_begin();
    relocation.begin();
    seen[3] = relocations.read_begin();
    relocation.end();
  }
};

inline claim_answer claim(map_memory& map, claim_order order) {
  test::device_array<claim_answer> out(1);
  gpuheap::launch(1, claim_one{map.view(), map.relocations(), order, out.data()});
  return out.first();
}
inline unsigned claim_span(map_memory& map, unsigned n, unsigned alignment = 1, unsigned phase = 0) {
  test::device_array<unsigned> out(1);
  gpuheap::launch(1, claim_one_span{map.view(), map.relocations(), n, alignment, phase, out.data()});
  return out.first();
}
inline unsigned claim_extent(map_memory& map, unsigned n, unsigned alignment = 1, unsigned phase = 0) {
  test::device_array<unsigned> out(1);
  gpuheap::launch(1, claim_one_extent{map.view(), map.relocations(), n, alignment, phase, out.data()});
  return out.first();
}
inline bool claim_at(map_memory& map, unsigned first, unsigned n) {
  test::device_array<unsigned> out(1);
  gpuheap::launch(1, claim_one_at{map.view(), map.relocations(), first, n, out.data()});
  return out.first() != 0;
}
inline void release(map_memory& map, segment_map::claim held) { gpuheap::launch(1, release_one{map.view(), map.relocations(), held}); }
inline void release_pages(map_memory& map, unsigned first, unsigned n) { release(map, {first, n, false, false}); }
inline void release_segments(map_memory& map, unsigned first, unsigned n) { release(map, {first, n, true, false}); }

using pages_set = std::vector<bool>;

inline bool all_free(pages_set const& free, unsigned first, unsigned n) {
  if (first + n > free.size()) return false;
  return std::find(free.begin() + first, free.begin() + first + n, false) == free.begin() + first + n;
}
inline bool none_free(pages_set const& free, unsigned first, unsigned n) {
  return std::find(free.begin() + first, free.begin() + first + n, true) == free.begin() + first + n;
}
inline unsigned num_broken(pages_set const& free, unsigned lg_pages) {
  unsigned n = 0;
  for (unsigned first = 0; first < free.size(); first += 1u << lg_pages)
    n += !all_free(free, first, 1u << lg_pages) && !none_free(free, first, 1u << lg_pages);
  return n;
}
inline void mark(pages_set& free, unsigned first, unsigned n, bool value) {
  std::fill(free.begin() + first, free.begin() + first + n, value);
}
// Free things in stretches, up to `longest` each.
inline pages_set random_set(test::rng& random, unsigned size, unsigned longest) {
  pages_set free(size);
  for (unsigned s = 0; s < size;) {
    unsigned const gap = random.below(4), stretch = 1 + random.below(longest);
    for (unsigned k = 0; k < stretch && s + gap + k < size; ++k) free[s + gap + k] = true;
    s += gap + stretch;
  }
  return free;
}
// The same of segments, each of them whole or taken.
inline pages_set of_segments(pages_set const& segments, unsigned lg_pages) {
  pages_set free(segments.size() << lg_pages);
  for (unsigned s = 0; s < segments.size(); ++s) mark(free, s << lg_pages, 1u << lg_pages, segments[s]);
  return free;
}

}  // namespace structures_test
