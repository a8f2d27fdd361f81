// Runs of pages with one mistake each. Exploration finds every one of them within the stated number of seeds.
#include "page_runs_checks.hpp"

namespace structures_test {
namespace {

template <class Check>
void expect_found(std::uint64_t within_seeds, Check check) {
  simt::exploration const e = simt::explore(within_seeds, [&] { return check().empty(); });
  EXPECT_TRUE(e.failed) << "not found within " << within_seeds << " seeds";
}

// Some claim upward, some downward, and whoever is foiled gives up.
struct runs_that_foil_each_other : page_runs {
  template <class Pages>
  index take(Pages const& pages, simt::uint64_t k) {
    auto const n = static_cast<index>(k), last = static_cast<index>(pages.count()) - n;
    for (index first = last; first >= 0; --first) {
      if (first_taken(pages, first, n) != first + n) continue;
      index claimed = 0;
      bool const up = simt::lane_id() % 2 == 0;
      while (claimed != n && pages.claim(static_cast<simt::uint32_t>(up ? first + claimed : first + n - 1 - claimed))) ++claimed;
      if (claimed == n) return first;
      pages.give(static_cast<simt::uint32_t>(up ? first : first + n - claimed), static_cast<simt::uint32_t>(claimed));
    }
    return none;
  }
};
// A claim that fails keeps the pages that it had.
struct runs_that_keep_pieces : page_runs {
  template <class Pages>
  index take(Pages const& pages, simt::uint64_t k) {
    auto const n = static_cast<index>(k), last = static_cast<index>(pages.count()) - n;
    for (index first = last; first >= 0; --first) {
      if (first_taken(pages, first, n) != first + n) continue;
      index page = first;
      while (page != first + n && pages.claim(static_cast<simt::uint32_t>(page))) ++page;
      if (page == first + n) return first;
    }
    return none;
  }
};
// Pages that a look found free are taken for claimed.
struct runs_that_look_only : page_runs {
  template <class Pages>
  index take(Pages const& pages, simt::uint64_t k) {
    auto const n = static_cast<index>(k), last = static_cast<index>(pages.count()) - n;
    for (index first = last; first >= 0; --first) {
      if (first_taken(pages, first, n) != first + n) continue;
      for (index page = first; page != first + n; ++page) (void)pages.claim(static_cast<simt::uint32_t>(page));
      return first;
    }
    return none;
  }
};
// A take whose loads of the count have one mistake each.
template <bool Acquires, bool Fences>
struct runs_with_weak_counts : page_runs {
  template <class Pages>
  index take(Pages const& pages, simt::uint64_t k) {
    if (k > pages.count()) return none;
    auto const n = static_cast<index>(k);
    simt::global_ref<simt::uint32_t> const in_vain{foiled};
    // Ends: as page_runs::take().
    while (true) {
      simt::uint32_t const before = in_vain.load(Acquires ? simt::acquire : simt::relaxed);
      index first = take_next_window(pages, n);
      if (first == none) first = search(pages, n);
      if (first != none) return first;
      if (Fences) simt::fence(simt::acquire);
      if (in_vain.load(simt::relaxed) == before) return none;
    }
  }
};
using runs_without_a_fence = runs_with_weak_counts<true, false>;
using runs_with_a_relaxed_first_load = runs_with_weak_counts<false, true>;
// A claim that fails is counted, but the count does not say that its pages are free again.
struct runs_with_a_relaxed_count : page_runs {
 protected:
  template <class Pages>
  index claim(Pages const& pages, index first, index n) {
    index page = first;
    while (page != first + n && pages.claim(static_cast<simt::uint32_t>(page))) ++page;
    if (page == first + n) return page;
    pages.give(static_cast<simt::uint32_t>(first), static_cast<simt::uint32_t>(page - first));
    simt::global_ref<simt::uint32_t>{foiled}.fetch_add(1, simt::relaxed);
    return page;
  }
};

TEST(PageRunsMutants, ClaimsThatFoilEachOtherAreFoundWithin400Seeds) {
  expect_found(400, [] { return one_of_them_is_served<runs_that_foil_each_other>(6, 3, 3, 0); });
}
TEST(PageRunsMutants, PiecesThatAreKeptAreFoundWithin100Seeds) {
  expect_found(100, [] { return runs_change_hands<runs_that_keep_pieces>(4, 7, 6, 5); });
}
TEST(PageRunsMutants, LooksWithoutAClaimAreFoundWithin20Seeds) {
  expect_found(20, [] { return runs_change_hands<runs_that_look_only>(4, 7, 6, 5); });
}
TEST(PageRunsMutants, DetectsMutant_LastLoadWithoutAFence) {
  expect_found(4000, [] { return a_foiled_claim_hides_nothing<runs_without_a_fence>(); });
}
TEST(PageRunsMutants, DetectsMutant_FirstLoadThatDoesNotAcquire) {
  expect_found(4000, [] { return a_foiled_claim_hides_nothing<runs_with_a_relaxed_first_load>(); });
}
TEST(PageRunsMutants, DetectsMutant_CountThatReleasesNothing) {
  expect_found(4000, [] { return a_foiled_claim_hides_nothing<runs_with_a_relaxed_count>(); });
}

}  // namespace
}  // namespace structures_test
