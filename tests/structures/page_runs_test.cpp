// Runs of neighbouring pages: from the end, searched for, contended.
#include "page_runs_checks.hpp"

namespace structures_test {
namespace {

// Kernel, one thread: where runs come from.
struct place_runs {
  page_runs* runs;
  word_pages pages;
  long long* first;
  GPUHEAP_FN void operator()(unsigned) const {
    first[0] = runs->take(pages, 3);
    first[1] = runs->take(pages, 3);
    pages.give(7, 3);
    runs->freed(10);
    first[2] = runs->take(pages, 2);
    first[3] = runs->take(pages, 5);  // 4 below, 1 between
    first[4] = runs->take(pages, 11);
    first[5] = runs->take(pages, 4);
    first[6] = runs->take(pages, 1);
    first[7] = runs->take(pages, 1);
    first[8] = runs->take(pages, ~simt::uint64_t{0});
  }
};
TEST(PageRuns, ComeFromTheEndAndFromWhereTheyFit) {
  pages_and_runs<page_runs> all(10);
  test::device_array<long long> first(9);
  gpuheap::launch(1, place_runs{all.state.data(), all.pages(), first.data()});
  EXPECT_EQ(first.read(), (std::vector<long long>{7, 4, 8, -1, -1, 0, 7, -1, -1}));
}

TEST(PageRuns, AreEachOnesOwn) {
  EXPECT_EQ(runs_change_hands<page_runs>(1024, 300, 3, 20), "");
  expect_passes(1000, [] { return runs_change_hands<page_runs>(explored_threads, 23, 3, 6); });
  expect_passes(1000, [] { return runs_change_hands<page_runs>(4, 7, 6, 5); });
}
TEST(PageRuns, OneOfThoseWhoWantTheSameGetsIt) {
  EXPECT_EQ(one_of_them_is_served<page_runs>(1000, 150, 99, 1), "");
  // From the search, and from a window and the search.
  expect_passes(1000, [] { return one_of_them_is_served<page_runs>(6, 5, 3, 0); });
  expect_passes(1000, [] { return one_of_them_is_served<page_runs>(6, 5, 3, 1); });
}
TEST(PageRuns, AFoiledClaimHidesNoPageFromASearchThatSawWhatCameAfterIt) {
  for (unsigned time = 0; time < 100; ++time) EXPECT_EQ(a_foiled_claim_hides_nothing<page_runs>(), "");
  expect_passes(4000, [] { return a_foiled_claim_hides_nothing<page_runs>(); });
}

}  // namespace
}  // namespace structures_test
