// A program that chooses its own allocator for gpuheap/coalesced.hpp.
#include "program_objects.hpp"

#include "../support/pattern.hpp"

#include <thread>
#include <type_traits>
#include <vector>

namespace {

using namespace test;

static_assert(std::is_same_v<coalesced::allocator, gpuheap::basic_coalesce_block_map<gpuheap::backing_reference>>);

// Each thread asks in all ways, in turn with all others; it frees what it got, but for the first.
struct ask_in_all_ways {
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned bad = 0;
    void* const blocks[] = {coalesced::malloc(40, true), coalesced::malloc(40), coalesced::by_warp::malloc(40, true),
                            coalesced::calloc(5, 8, true)};
    for (void* const p : blocks) {
      if (p != nullptr) fill_pattern(p, 40, i);
    }
    for (void* const p : blocks) {
      bad += p == nullptr || wrong_words(p, 40, i) != 0;
      if (p != blocks[0]) coalesced::free(p);
    }
    if (bad != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(bad, simt::relaxed);  // relaxed: a count
  }
};

TEST(ProgramAllocator, ServesTheProgram) {
  for (bool const apart : {false, true}) {
    coalesced::init(gpuheap::heap_size{64_MiB});
    if (apart) coalesced::serve_apart();
    device_array<unsigned> wrong(1);
    unsigned const threads = 3 * 40;
    gpuheap::launch(threads, ask_in_all_ways{wrong.data()}, {.block_threads = 40});
    EXPECT_EQ(wrong.first(), 0u) << apart;
    EXPECT_EQ(coalesced::program_heap()->stats().live_allocations, threads) << apart;
    coalesced::clean();
  }
}

struct alignas(64) over_aligned {
  int value[16];
};
struct has_destructor {
  int value = 1;
  GPUHEAP_FN ~has_destructor() {}
};
struct ask_for_nothing {
  faults_found* found;
  GPUHEAP_FN void operator()(unsigned) const {
    void* const p = coalesced::malloc(0);
    if (p == nullptr) simt::atomic_ref<unsigned>{found->missing}.fetch_add(1u, simt::relaxed);  // relaxed: a count
    coalesced::free(p);
  }
};

TEST(ProgramAllocator, DeletesPlainObjectsWhereItMadeThem) { expect_clean<make_and_destroy<int>>(); }
TEST(ProgramAllocator, DeletesOverAlignedObjectsWhereItMadeThem) { expect_clean<make_and_destroy<over_aligned>>(); }
TEST(ProgramAllocator, DeletesObjectsWithDestructorsWhereItMadeThem) { expect_clean<make_and_destroy<has_destructor>>(); }
TEST(ProgramAllocator, GivesABlockToARequestOfNothing) { expect_clean<ask_for_nothing>(); }

// Blocks of the same number in launches that run at once: of one block each, as the simulator runs those of several one by one.
TEST(ProgramAllocator, LaunchesAtOnceKeepApart) {
  coalesced::init(gpuheap::heap_size{64_MiB});
  device_array<unsigned> wrong(1);
  std::vector<std::thread> launchers;
  for (unsigned n = 0; n < 3; ++n) {
    launchers.emplace_back([&] {
      auto const stream = simt::make_stream();
      for (unsigned round = 0; round < 40; ++round) {
        gpuheap::launch(120, ask_in_all_ways{wrong.data()}, {.block_threads = 120, .stream = stream});
        simt::synchronize(stream);
      }
      simt::destroy_stream(stream);
    });
  }
  for (std::thread& launcher : launchers) launcher.join();
  EXPECT_EQ(wrong.first(), 0u);
  EXPECT_EQ(coalesced::program_heap()->stats().live_allocations, 3u * 40 * 120);
  coalesced::clean();
}

}  // namespace
