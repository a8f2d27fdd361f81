// Checks the invariants of a ScatterAlloc heap: a kernel goes through all pages, and counts blocks and faults.
//
// While no other kernel is running on the heap:
//   1. no page is being opened, and no lock is held;
//   2. a free page has no bit set in its mask word;
//   3. a page of chunks has as many bits set as its word counts, which is at least one and at most its number of chunks; no bit beyond the
//      last chunk is set;
//   4. a hinted segment is full;
//   5. the mask word of a run's first page is the run's length, all pages of a run are marked, and every marked page belongs to a run;
//   6. each super block counts as many regions that look full as it has.
#pragma once

#include <gpuheap/allocators/scatteralloc/runs.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::scatter {

// The fault of a page.
enum class fault : uint32_t {
  none,
  opening,
  bits_of_a_free_page,
  wrong_fill,
  bits_beyond_the_last_chunk,
  wrong_hint,
  wrong_run,
  stray_tail
};

// Kernel: thread i checks every `threads`-th page, from page i on. All accesses are relaxed, since no other kernel uses the heap.
template <scatteralloc_config Config, class Parts>
struct take_census {
  layout<Config, Parts> at;
  uint32_t num_pages;
  unsigned threads;
  bool thorough;  // false: only counts the pages that are held
  census* result;

  GPUHEAP_FN void operator()(unsigned i) const {
    census mine;
    GPUHEAP_NO_UNROLL
    for (uint64_t page = i; page < num_pages; page += threads) look_at(static_cast<uint32_t>(page), mine);
    add(result->held_pages, mine.held_pages);
    add(result->chunks, mine.chunks);
    add(result->chunk_bytes, mine.chunk_bytes);
    add(result->runs, mine.runs);
    add(result->run_pages, mine.run_pages);
    if (mine.first_fault != 0) simt::global_ref<uint64_t>{result->first_fault}.fetch_max(mine.first_fault, simt::relaxed);
  }
  GPUHEAP_FN static void add(uint64_t& to, uint64_t n) {
    if (n != 0) simt::global_ref<uint64_t>{to}.fetch_add(n, simt::relaxed);
  }
  [[nodiscard]] GPUHEAP_FN static uint32_t read(uint32_t& word) { return simt::global_ref<uint32_t>{word}.load(simt::relaxed); }

  GPUHEAP_FN void look_at(uint32_t page, census& mine) const {
    slab_word const word = at.state(page).look();
    if (!word.is_free()) ++mine.held_pages;
    if (!thorough) return;
    fault const found = fault_of(page, word, mine);
    if (found == fault::none) return;
    uint64_t const here = ~(uint64_t{page} << 32 | static_cast<uint32_t>(found));
    if (here > mine.first_fault) mine.first_fault = here;
  }
  [[nodiscard]] GPUHEAP_FN fault fault_of(uint32_t page, slab_word word, census& mine) const {
    if (word.is_opening()) return fault::opening;
    if (word.is_free()) return read(at.masks[page]) == 0 ? fault::none : fault::bits_of_a_free_page;
    unsigned const kind = word.kind();
    if (kind == run_head) return fault_of_run(page, mine);
    if (kind == run_tail) {
      bool const follows = page != 0 && at.state(page - 1).look().kind() >= run_head && !at.state(page - 1).look().is_free();
      return follows ? fault::none : fault::stray_tail;
    }
    if (kind == 0 || kind > at.page_units || word.fill() > at.capacity(kind)) return fault::wrong_fill;
    mine.chunks += word.fill();
    mine.chunk_bytes += uint64_t{word.fill()} * kind * unit_bytes;
    if (!at.is_two_level(kind)) return fault_of_bits(read(at.masks[page]), at.capacity(kind), word.fill());
    auto const chunks = at.many_chunks(page, kind);
    unsigned taken = 0;
    GPUHEAP_NO_UNROLL
    for (unsigned s = 0; s != chunks.segments_for(chunks.count); ++s) {
      uint32_t const bits = read(chunks.segments[s]);
      if ((bits & ~structures::free_bits::bits_of(chunks.segment(s).count)) != 0) return fault::bits_beyond_the_last_chunk;
      if ((read(*chunks.hints) >> s & 1) != 0 && !chunks.segment(s).is_full(bits)) return fault::wrong_hint;
      taken += simt::popcount(bits);
    }
    return taken == word.fill() ? fault::none : fault::wrong_fill;
  }
  [[nodiscard]] GPUHEAP_FN static fault fault_of_bits(uint32_t bits, unsigned capacity, unsigned fill) {
    if ((bits & ~structures::free_bits::bits_of(capacity)) != 0) return fault::bits_beyond_the_last_chunk;
    return simt::popcount(bits) == fill ? fault::none : fault::wrong_fill;
  }
  [[nodiscard]] GPUHEAP_FN fault fault_of_run(uint32_t head, census& mine) const {
    uint32_t const k = read(at.masks[head]);
    if (k < 2 || k > num_pages - head) return fault::wrong_run;
    GPUHEAP_NO_UNROLL
    for (uint32_t page = head + 1; page != head + k; ++page) {
      slab_word const word = at.state(page).look();
      if (word.is_free() || word.kind() != run_tail || read(at.masks[page]) != 0) return fault::wrong_run;
    }
    ++mine.runs;
    mine.run_pages += k;
    return fault::none;
  }
};

#if GPUHEAP_HAS_HOST
// The result of verify(). Host.
struct audit {
  std::string problem;  // empty: every invariant holds
  uint64_t live_chunks = 0, live_runs = 0;
  uint64_t live_bytes = 0;  // bytes of live chunks and runs
  uint64_t held_pages = 0;
};

// Counts pages and, if `thorough`, finds faults. Host; waits for the stream.
template <scatteralloc_config Config, class Parts>
[[nodiscard]] census count_pages(layout<Config, Parts> const& at, census* on_device, uint32_t num_pages, bool thorough, stream_ref stream) {
  constexpr unsigned most_threads = 1u << 17;
  census result;
  simt::fill(on_device, 0, sizeof result, stream);
  unsigned const threads = num_pages < most_threads ? num_pages : most_threads;
  launch(threads, take_census<Config, Parts>{at, num_pages, threads, thorough, on_device}, {.stream = stream});
  simt::copy(&result, on_device, sizeof result, stream);
  simt::synchronize(stream);
  return result;
}

// Describes the fault that a census found; empty if it found none. Host.
[[nodiscard]] inline std::string describe(census const& found) {
  if (found.first_fault == 0) return "";
  constexpr char const* texts[] = {"",
                                   "is still being opened",
                                   "is free, and its mask word is not 0",
                                   "has a count of chunks in use that differs from its bits, or an impossible chunk size",
                                   "has a bit set beyond its last chunk",
                                   "has a hint at a segment that is not full",
                                   "begins a run, and not all of the run's pages are marked",
                                   "is marked as part of a run, and belongs to none"};
  uint64_t const which = ~found.first_fault;
  return "page " + std::to_string(which >> 32) + " " + texts[static_cast<uint32_t>(which)];
}

// Checks the invariants. Host; waits for the stream.
template <class State, scatteralloc_config Config, class Parts>
[[nodiscard]] audit verify(layout<Config, Parts> const& at, State* state, census* scratch, stream_ref stream) {
  // Copies single words, since a state whose words are of a test's type may not be copyable.
  uint64_t extent_bits = 0;
  uint32_t lock = 0;
  std::vector<uint32_t> full(Config.super_blocks);
  simt::copy(&extent_bits, &state->extent_bits, sizeof extent_bits, stream);
  simt::copy(&lock, &state->lock, sizeof lock, stream);
  simt::copy(full.data(), state->full_regions, full.size() * sizeof(uint32_t), stream);
  simt::synchronize(stream);
  extent const there{extent_bits};
  census const found = count_pages(at, scratch, there.pages(), true, stream);
  audit result;
  result.live_chunks = found.chunks;
  result.live_runs = found.runs;
  result.live_bytes = found.chunk_bytes + found.run_pages * Config.page_bytes;
  result.held_pages = found.held_pages;
  result.problem = describe(found);
  if (lock != 0) result.problem = "the lock of the runs is held";
  std::vector<uint32_t> visits(at.num_regions(there.pages()));
  simt::copy(visits.data(), at.visits, visits.size() * sizeof(uint32_t), stream);
  simt::synchronize(stream);
  std::vector<uint32_t> look_full(full.size());
  for (size_t r = 0; r != visits.size(); ++r) look_full[r * Config.region_pages / at.block_pages] += visits[r] == Config.region_full_visits;
  for (size_t b = 0; b != full.size(); ++b) {
    if (full[b] == look_full[b]) continue;
    result.problem = "super block " + std::to_string(b) + " counts " + std::to_string(full[b]) + " regions that look full, and has " +
                     std::to_string(look_full[b]);
  }
  return result;
}
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::scatter
