// Checks of runs of pages: for the real ones and for ones with a mistake in them.
#pragma once

#include "../support/device_array.hpp"
#include "../support/rng.hpp"
#include "exploration.hpp"
#include "owned_cells.hpp"

#include <gpuheap/structures/page_runs.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace structures_test {

using gpuheap::structures::page_runs;

// Pages as page_runs asks for them: a word each, 1: claimed. A word behind the last, which nobody may claim.
struct word_pages {
  unsigned* words;
  unsigned num_pages;

  [[nodiscard]] GPUHEAP_FN simt::uint32_t count() const { return num_pages; }
  [[nodiscard]] GPUHEAP_FN bool is_free(simt::uint32_t page) const {
    return simt::atomic_ref<unsigned>{words[page]}.load(simt::relaxed) == 0;
  }
  [[nodiscard]] GPUHEAP_FN bool claim(simt::uint32_t page) const {
    return simt::atomic_ref<unsigned>{words[page]}.exchange(1, simt::acq_rel) == 0;
  }
  GPUHEAP_FN void give(simt::uint32_t first, simt::uint32_t n) const {
    for (simt::uint32_t page = first; page != first + n; ++page) simt::atomic_ref<unsigned>{words[page]}.store(0, simt::release);
  }
  GPUHEAP_FN void keep(simt::uint32_t, simt::uint32_t) const {}
  GPUHEAP_FN void begin_claims() const {}
  GPUHEAP_FN void end_claims() const {}
};

// Kernel: threads take runs, one at a time, and give them back.
template <class Runs>
struct take_and_give_runs {
  Runs* runs;
  word_pages pages;
  owned_cells cells;
  unsigned rounds, longest;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const n = 1 + random.below(longest);
      auto const first = runs->take(pages, n);
      if (first == page_runs::none) continue;
      auto const from = static_cast<unsigned>(first);
      for (unsigned k = 0; k < n; ++k) cells.claim(from + k, i);
      for (unsigned k = 0; k < n; ++k) cells.release(from + k, i);
      pages.give(from, n);
      runs->freed(from + n);
    }
  }
};
// Kernel: thread i takes a run of n pages and keeps it.
template <class Runs>
struct take_runs {
  Runs* runs;
  word_pages pages;
  unsigned n;
  unsigned* refused;
  GPUHEAP_FN void operator()(unsigned) const {
    if (runs->take(pages, n) == page_runs::none) count(refused);
  }
};

template <class Runs>
struct pages_and_runs {
  explicit pages_and_runs(unsigned num_pages)
      : words(num_pages + 1), state(std::vector<Runs>(1)), cells(num_pages + 1), num_pages{num_pages} {
    Runs initial;
    initial.end += num_pages;
    state.write({initial});
  }
  [[nodiscard]] word_pages pages() const { return {words.data(), num_pages}; }
  [[nodiscard]] unsigned refused(unsigned threads, unsigned n) {
    test::device_array<unsigned> count(1);
    gpuheap::launch(threads, take_runs<Runs>{state.data(), pages(), n, count.data()}, {.block_threads = 64});
    return count.first();
  }
  test::device_array<unsigned> words;
  test::device_array<Runs> state;
  cell_memory cells;
  unsigned num_pages;
};

// Nobody has a page at the same time as another, all pages come back, and stay inside.
template <class Runs>
std::string runs_change_hands(unsigned threads, unsigned num_pages, unsigned rounds, unsigned longest) {
  pages_and_runs<Runs> all(num_pages);
  gpuheap::launch(threads, take_and_give_runs<Runs>{all.state.data(), all.pages(), all.cells.view(), rounds, longest},
                  {.block_threads = 64});
  std::string problems = all.cells.problem();
  require(problems, all.words.read() == std::vector<unsigned>(num_pages + 1), "pages are claimed that nobody has");
  require(problems, all.refused(1, num_pages) == 0, "a run of all pages is refused, and all are free");
  require(problems, all.refused(1, 1) == 1, "a page is there, and all are taken");
  return problems;
}
// Threads want the same pages: one of them gets them. `windows`: so many runs were handed out and freed before.
template <class Runs>
std::string one_of_them_is_served(unsigned threads, unsigned num_pages, unsigned n, unsigned windows) {
  pages_and_runs<Runs> all(num_pages);
  Runs used;
  used.end += windows * n;
  all.state.write({used});
  unsigned const refused = all.refused(threads, n);
  std::string problems;
  require(problems, refused < threads, "nobody got a run");
  auto const words = all.words.read();
  require(problems, std::count(words.begin(), words.end(), 1u) == long{threads - refused} * n, "pages are claimed that nobody has");
  return problems;
}

// Kernel of three threads and two pages, each thread in a block of its own. Page 1 is claimed at first.
//   0: claims both pages. If page 1 foils the claim, it gives page 0 back and counts the claim
//   1: gives page 1 back, and takes one page
//   2: claims page 1 after it has seen the count
// If the claim of thread 0 is foiled, a page is free at each moment of the take: page 1 until thread 2 claims it, and then page 0.
template <class Runs>
struct take_while_a_claim_is_foiled {
  struct open_runs : Runs {
    using Runs::claim;
  };
  open_runs* runs;
  word_pages pages;
  unsigned* foiled;
  unsigned* refused;

  GPUHEAP_FN void operator()(unsigned i) const {
    if (i == 0) {
      if (runs->claim(pages, 0, 2) != 2) count(foiled);
    } else if (i == 1) {
      pages.give(1, 1);
      if (runs->take(pages, 1) == page_runs::none) count(refused);
    } else {
      // Few polls, as thread 0 may not be running yet. acquire: pairs with the release in page_runs::claim().
      for (unsigned polls = 0; polls != 32; ++polls) {
        if (simt::global_ref<simt::uint32_t>{runs->foiled}.load(simt::acquire) == 0) continue;
        (void)pages.claim(1);
        return;
      }
    }
  }
};

// A take misses no page because of a claim that was foiled before another page, which the take found claimed, was claimed.
template <class Runs>
std::string a_foiled_claim_hides_nothing() {
  using kernel = take_while_a_claim_is_foiled<Runs>;
  pages_and_runs<typename kernel::open_runs> all(2);
  all.words.write({0, 1, 0});
  test::device_array<unsigned> foiled(1), refused(1);
  gpuheap::launch(3, kernel{all.state.data(), all.pages(), foiled.data(), refused.data()}, {.block_threads = 1});
  std::string problems;
  require(problems, foiled.first() == 0 || refused.first() == 0, "a page is refused, and one was free all the time");
  return problems;
}

}  // namespace structures_test
