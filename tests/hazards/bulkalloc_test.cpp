// The hazards of the published BulkAllocator. One is not here, since nothing in this form can show it: the few locks near the root of the
// tree at which all changes at a subtree's boundary meet (5: the tree has no locks).
#include "../structures/bulk_mutants.hpp"
#include "mix.hpp"

#include <gpuheap/allocators/bulkalloc.hpp>

#include <algorithm>

namespace {

using namespace hazards;
namespace bulk = gpuheap::bulk;
using gpuheap::bulkalloc_config;
using gpuheap::structures::bulk_semaphore;

// Two arenas, chunks of three bins and a page of tails: all edges are near.
constexpr bulkalloc_config small{.chunk_pages = 4, .max_arenas = 2};
template <class Parts = bulk::parts>
using small_heap = gpuheap::heap<gpuheap::basic_bulkalloc<small, Parts>>;

// A heap of at least so many pages.
template <class Heap>
[[nodiscard]] simt::size_t bytes_of_pages(unsigned pages) {
  return Heap::min_bytes() + (pages < 8 ? 0 : pages - 8) * simt::size_t{4096};
}
template <class Heap>
[[nodiscard]] unsigned num_pages(Heap const& heap) {
  bulk::geometry at;
  simt::copy(&at, &heap.ref().allocator().state()->blocks.at, sizeof at);
  return at.num_pages;
}
// Nothing is in use, and everything is where it was in the beginning.
template <class Heap>
[[nodiscard]] bool is_as_new(Heap const& heap) {
  auto const found = heap.verify();
  return found.problem.empty() && found.live_objects + found.live_blocks + found.chunks == 0;
}

struct bulk_sizes {
  GPUHEAP_FN unsigned operator()(test::rng& random) const {
    unsigned const kind = random.below(8);
    return kind == 0 ? 1025 + random.below(9000) : kind < 4 ? 129 + random.below(896) : 1 + random.below(128);
  }
};
template <class Parts>
bool survives(unsigned threads, unsigned pages, unsigned rounds) {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of_pages<heap_t>(pages)};
  return lives_together(heap, threads, rounds, bulk_sizes{}, [&] { return is_as_new(heap); });
}
// Kernel: threads ask for pages and give them back.
template <class Ref>
struct take_and_give_pages {
  Ref heap;
  unsigned rounds;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) heap.free(heap.malloc(4096u << random.below(3)));
  }
};
template <class Parts>
bool pages_join_again(unsigned threads, unsigned pages, unsigned rounds) {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of_pages<heap_t>(pages)};
  gpuheap::launch(threads, take_and_give_pages<typename heap_t::ref_type>{heap.ref(), rounds}, {.block_threads = 64});
  return is_as_new(heap);
}
// Kernel: the same of objects of one or two sizes. Nothing is written to them, so that words of bins stay words of bins.
template <class Ref>
struct take_and_give_objects {
  Ref heap;
  unsigned rounds;
  unsigned bytes;
  unsigned other_bytes;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned round = 0; round < rounds; ++round) heap.free(heap.malloc((i + round) % 3 == 0 ? other_bytes : bytes));
  }
};
template <class Parts>
bool bins_go_back(unsigned threads, unsigned pages, unsigned rounds, unsigned bytes, unsigned other_bytes) {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of_pages<heap_t>(pages)};
  gpuheap::launch(threads, take_and_give_objects<typename heap_t::ref_type>{heap.ref(), rounds, bytes, other_bytes}, {.block_threads = 64});
  return is_as_new(heap);
}

// ---- 1, 2: the semaphore

TEST(Hazard1, WaitersForExactlyWhatWasPromisedGoRound) {
  EXPECT_EQ(structures_test::changes_while_waiting<bulk_semaphore>(), 0u);
  EXPECT_GT(structures_test::changes_while_waiting<structures_test::semaphore_with_strict_test>(), 100u)
      << "the test does not see the published mistake";
}

struct semaphore_that_never_fails : bulk_semaphore {
  void fail(unsigned) const {}
  template <class Grow>
  bool wait(unsigned n, unsigned batch, Grow grow) const {
    return bulk_semaphore::wait(n, batch, [&] {
      bool const made = grow();
      // The units that wait() will withdraw are promised once more.
      if (!made) ref().fetch_add(plus(0, 0, difference{batch} - difference{n}), simt::relaxed);
      return made;
    });
  }
};
struct parts_that_never_fail : bulk::parts {
  using semaphore = semaphore_that_never_fails;
};
// More requests than there is room for, twice; then all is free again.
template <class Parts>
bool refuses_and_recovers() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of_pages<heap_t>(12)};
  for (unsigned const bytes : {1024u, 4096u}) {
    blocks_of<heap_t> b(heap.ref(), 70, bytes);
    for (unsigned round = 0; round < 2; ++round) {
      b.malloc_all(64);
      if (b.failed_requests() == 0 || b.failed_requests() == 70 || !are_apart(b)) return false;
      b.free_all(3);
      if (!is_as_new(heap)) return false;
    }
  }
  return true;
}
TEST(Hazard2, FailedGrowthIsNotSignalled) {
  expect_right(num_seeds(300), refuses_and_recovers<bulk::parts>);
  expect_found(4, refuses_and_recovers<parts_that_never_fail>);
}

// ---- 3, 4: the tree

// The base of mutants of giving pages back: lanes go one by one, as published.
template <class Parts, class Mutant>
struct tree_of_lanes : bulk::tbuddy<Parts> {
  using base = bulk::tbuddy<Parts>;
  static void give(base* self, simt::lane_mask here, unsigned node, unsigned order) {
    if (node != bulk::no_page) Mutant::give_one(self, node, order);
    simt::sync_warp(here);
  }
  [[nodiscard]] static bool is_available(base* self, unsigned node, unsigned order) {
    return (self->orders[order].available.leaf(node / 64).load(simt::acquire) >> (node % 64) & 1) != 0;
  }
};
// A unit is won for the buddy, and the buddy is gone: the unit is kept.
template <class Parts>
struct tree_that_keeps_units : tree_of_lanes<Parts, tree_that_keeps_units<Parts>> {
  using base = bulk::tbuddy<Parts>;
  static void give_one(base* self, unsigned node, unsigned order) {
    while (self->at.has_node(node >> 1, order + 1) && self->units(order).try_wait(1)) {
      if (!self->orders[order].available.take(node ^ 1)) break;
      node >>= 1;
      ++order;
    }
    self->publish(node, order, 0);
  }
};
// The unit is given back, and the block made available: of two buddies that are freed at once each finds the other still in use.
template <class Parts>
struct tree_that_does_not_look_again : tree_of_lanes<Parts, tree_that_does_not_look_again<Parts>> {
  using base = bulk::tbuddy<Parts>;
  static void give_one(base* self, unsigned node, unsigned order) {
    while (self->at.has_node(node >> 1, order + 1) && self->units(order).try_wait(1)) {
      if (!self->orders[order].available.take(node ^ 1)) {
        self->units(order).signal(1);
        break;
      }
      node >>= 1;
      ++order;
    }
    self->publish(node, order, 0);
  }
};
// A pair for which no two units are there is left as it is, although others only hold units that they give back.
template <class Parts>
struct tree_that_gives_up : tree_of_lanes<Parts, tree_that_gives_up<Parts>> {
  using base = bulk::tbuddy<Parts>;
  static void give_one(base* self, unsigned node, unsigned order) {
    for (;;) {
      self->publish(node, order, 0);
      if (!self->is_pair(node, order) || !self->units(order).try_wait(2)) return;
      if (!self->claim_pair(node, order)) {
        self->units(order).signal(2);
        return;
      }
      node >>= 1;
      ++order;
    }
  }
};
// A thread that has a unit looks once, and asserts that there is nothing.
template <class Parts>
struct tree_that_looks_once : bulk::tbuddy<Parts> {
  using base = bulk::tbuddy<Parts>;
  static unsigned take_for(base* self, simt::lane_mask here, gpuheap::structures::warp_group group, unsigned order) {
    unsigned page = bulk::no_page;
    if ((group.mask >> simt::lane_id() & 1) != 0 && self->units(order).try_wait(1)) {
      bulk::bitmap_tree const available = self->orders[order].available;
      available.for_each_leaf(0, [&](unsigned leaf) {
        simt::uint64_t const seen = available.leaf(leaf).load(simt::relaxed);
        if (seen == 0 || !available.take(leaf * 64 + simt::lowest_bit(seen))) return false;
        page = (leaf * 64 + simt::lowest_bit(seen)) << order;
        return true;
      });
    }
    simt::sync_warp(here);
    return page != bulk::no_page ? page : base::take_for(self, here, group, order);
  }
};
template <template <class> class Tree>
struct parts_with_tree : bulk::parts {
  template <class Parts>
  using tree = Tree<Parts>;
};
TEST(Hazard3, UnitsAndNodesDisagreeForAMoment) {
  expect_right(num_seeds(1000), [] { return pages_join_again<bulk::parts>(80, 21, 3); });
  expect_right(num_seeds(2000), [] { return pages_join_again<bulk::parts>(6, 16, 8); });
  expect_found(20, [] { return pages_join_again<parts_with_tree<tree_that_keeps_units>>(80, 21, 3); });
  expect_found(400, [] { return pages_join_again<parts_with_tree<tree_that_looks_once>>(80, 21, 3); });
}
TEST(Hazard4, BuddiesThatAreFreedAtOnceStaySplit) {
  expect_found(20, [] { return pages_join_again<parts_with_tree<tree_that_does_not_look_again>>(80, 21, 3); });
  expect_found(2000, [] { return pages_join_again<parts_with_tree<tree_that_gives_up>>(80, 21, 3); });
}

// ---- 6: addresses

TEST(Hazard6, InteriorPointersPassForBlocks) {
  using heap_t = gpuheap::heap<gpuheap::bulkalloc>;
  heap_t heap{8_MiB};
  for (unsigned bytes : {16u, 32u, 112u, 200u, 1024u, 2000u, 4096u, 20000u, 300000u}) {
    blocks_of<heap_t> b(heap.ref(), 6, bytes);
    b.malloc_all();
    b.fill();
    std::vector<void*> inside;
    for (void* p : b.pointers().read()) {
      for (unsigned offset = 8; offset < bytes; offset += offset < 64 ? 8 : offset) inside.push_back(static_cast<char*>(p) + offset);
      if (bytes > 4096) inside.push_back(static_cast<char*>(p) + 4096);
    }
    auto const before = heap.stats().foreign_frees;
    heap.free(inside);
    EXPECT_EQ(heap.stats().foreign_frees - before, inside.size()) << bytes;
    b.expect_intact("after frees of pointers into it");
    for (auto const answer : b.free_all()) EXPECT_EQ(answer, gpuheap::free_status::done);
    EXPECT_TRUE(is_as_new(heap)) << bytes;
  }
}
TEST(Hazard6, TheHeapNeedNotBeginAtAPage) {
  using heap_t = gpuheap::heap<gpuheap::bulkalloc>;
  gpuheap::memory::allocation const memory{gpuheap::memory::device, 2_MiB};
  for (unsigned offset : {0u, 256u, 1024u, 4096u + 512u}) {
    gpuheap::memory::region const where{static_cast<char*>(memory.base()) + offset, memory.bytes() - offset};
    heap_t heap{where};
    std::vector<std::size_t> sizes;
    for (unsigned i = 0; i < 400; ++i) sizes.push_back(1 + i * i % 5000);
    blocks_of<heap_t> b(heap.ref(), sizes);
    b.malloc_all();
    EXPECT_EQ(b.failed_requests(), 0u);
    b.expect_sound(16, where);
    b.fill();
    b.expect_intact("in a heap at any address");
    for (auto const answer : b.free_all(7)) ASSERT_EQ(answer, gpuheap::free_status::done);
    EXPECT_TRUE(is_as_new(heap));
  }
}

// ---- 7, 9: arenas

// Frees count for the arena of the multiprocessor that frees.
template <class Parts>
struct state_that_gives_to_its_own : bulk::heap_state<Parts> {
  using base = bulk::heap_state<Parts>;
  static void give_objects(base* self, unsigned, unsigned c, unsigned page, unsigned m) {
    base::give_objects(self, simt::sm_id() % self->at().num_arenas, c, page, m);
  }
};
template <template <class> class State>
struct parts_with_state : bulk::parts {
  template <class Parts>
  using state = State<Parts>;
};
// Blocks of one multiprocessor, freed by another.
template <class Parts>
bool others_may_free() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of_pages<heap_t>(40)};
  blocks_of<heap_t> b(heap.ref(), 100, 64);
  b.malloc_all(64);
  b.free_all(65);
  return is_as_new(heap) && served(heap, 100, 64) == 100;
}
TEST(Hazard7, AFreeFromElsewhereCountsForTheWrongArena) {
  expect_right(num_seeds(300), others_may_free<bulk::parts>);
  expect_found(4, others_may_free<parts_with_state<state_that_gives_to_its_own>>);
}
// Kernel: blocks of one multiprocessor only.
template <class Ref>
struct ask_on {
  Ref heap;
  unsigned sm;
  unsigned bytes;
  void** out;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (simt::sm_id() % 2 == sm) out[i] = heap.malloc(bytes);
  }
};
// All that multiprocessors of one arena get. Blocks of the kernel that run elsewhere ask for nothing, and requests that meet others may be
// refused before the heap is full.
template <class Heap>
std::vector<void*> all_on(Heap& heap, unsigned sm, unsigned bytes) {
  std::vector<void*> all;
  for (std::size_t before = 1; all.size() != before;) {
    before = all.size();
    test::device_array<void*> out(1024);
    gpuheap::launch(1024, ask_on<typename Heap::ref_type>{heap.ref(), sm, bytes, out.data()}, {.block_threads = 64});
    for (void* p : out.read()) {
      if (p != nullptr) all.push_back(p);
    }
  }
  return all;
}
// A heap full of objects of arena 0, of which every fourth goes; arena 1 gets all of them.
TEST(Hazard7, MemoryOfAnArenaIsLostForOthers) {
  for (unsigned bytes : {16u, 64u, 256u, 1024u}) {
    using heap_t = small_heap<>;
    heap_t heap{bytes_of_pages<heap_t>(30)};
    auto const all = all_on(heap, 0, bytes);
    std::vector<void*> go;
    for (std::size_t i = 0; i < all.size(); i += 4) go.push_back(all[i]);
    heap.free(go);
    EXPECT_EQ(all_on(heap, 1, bytes).size(), go.size()) << bytes;
    EXPECT_EQ(heap.verify().problem, "");
  }
}

// A unit of one arena, and a search in another: where the multiprocessor is asked a second time, as the warp has moved.
template <class Parts>
struct state_that_asks_twice : bulk::heap_state<Parts> {
  using base = bulk::heap_state<Parts>;
  static bulk::object_grant take_objects(base* self, unsigned c, unsigned wanted, typename base::search& where) {
    if (where.held == 0) {
      unsigned const n = wanted < bulk::objects(c) ? wanted : bulk::objects(c);
      where.held = bulk_semaphore{&self->list(where.own, c).units}.try_wait_up_to(n, 1);
      if (where.held != 0) where.own = (where.own + 1) % self->at().num_arenas;
    }
    return base::take_objects(self, c, wanted, where);
  }
};
TEST(Hazard9, TheMultiprocessorIsAskedTwice) {
  expect_found(4, [] { return survives<parts_with_state<state_that_asks_twice>>(80, 24, 4); });
}

// ---- 8, 10: bins

// Bins without free objects stay in the list.
template <class Parts>
struct state_that_keeps_full_bins : bulk::heap_state<Parts> {
  using base = bulk::heap_state<Parts>;
  static bulk::object_grant take_objects(base* self, unsigned c, unsigned wanted, typename base::search& where) {
    unsigned const n = wanted < bulk::objects(c) ? wanted : bulk::objects(c);
    bulk_semaphore const units{&self->list(where.own, c).units};
    where.held += where.held == 0 ? units.try_wait_up_to(n, 1) : 0;
    if (where.held == 0) return base::take_objects(self, c, wanted, where);
    auto const got = self->walk(where.own, c, where.held);
    where.held -= got.count;
    return got;
  }
};
// Kernel, one thread: how many bins a search in the list of one class goes through until it finds one with free objects.
template <class State>
struct count_steps {
  State* state;
  unsigned arena, c;
  unsigned* steps;
  GPUHEAP_FN void operator()(unsigned) const {
    auto const& at = state->at();
    unsigned n = 0;
    for (unsigned page = state->list(arena, c).first; page != bulk::no_page && at.bin(page).free == 0; page = at.bin(page).next) ++n;
    *steps = n;
  }
};
// Bins of objects that stay, but for one of each of the oldest bins.
template <class Parts>
unsigned steps_past_full_bins() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of_pages<heap_t>(200)};
  blocks_of<heap_t> b(heap.ref(), 60 * 7, 512);
  // One at a time: bins fill up one after the other.
  std::vector<void*> made;
  for (unsigned i = 0; i < b.count(); ++i) {
    blocks_of<heap_t> one(heap.ref(), 1, 512);
    one.malloc_all();
    made.push_back(one.pointers().first());
  }
  heap.free(std::vector<void*>{made[3]});
  test::device_array<unsigned> steps(1);
  using state_type = typename heap_t::allocator_type::state_type;
  unsigned most = 0;
  for (unsigned arena = 0; arena < 2; ++arena) {
    gpuheap::launch(1, count_steps<state_type>{heap.ref().allocator().state(), arena, 5, steps.data()});
    most = std::max(most, steps.first());
  }
  return most;
}
TEST(Hazard8, SearchesGoThroughManyBinsWithoutFreeObjects) {
  EXPECT_EQ(steps_past_full_bins<bulk::parts>(), 0u);
  EXPECT_GT(steps_past_full_bins<parts_with_state<state_that_keeps_full_bins>>(), 20u) << "the test does not see the mistake";
}

// A bit that is clear already is counted as freed.
struct bits_that_do_not_tell : gpuheap::structures::hinted_bits {
  bool release(unsigned i) const {
    (void)gpuheap::structures::hinted_bits::release(i);
    return true;
  }
};
struct parts_that_do_not_tell : bulk::parts {
  using bits = bits_that_do_not_tell;
};
template <class Parts>
bool second_frees_are_refused() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of_pages<heap_t>(24)};
  blocks_of<heap_t> stay(heap.ref(), 40, 100), go(heap.ref(), 40, 100), page(heap.ref(), 1, 5000);
  stay.malloc_all(64);
  go.malloc_all(64);
  page.malloc_all();
  go.free_all();
  page.free_all();
  for (auto const answer : page.free_all()) {
    if (answer != gpuheap::free_status::double_free) return false;
  }
  for (auto const answer : go.free_all(7)) {
    if (answer != gpuheap::free_status::double_free) return false;
  }
  auto const found = heap.verify();
  return found.problem.empty() && found.live_objects == 40;
}
TEST(Hazard10, ASecondFreeOfAnObjectIsCounted) {
  expect_right(num_seeds(300), second_frees_are_refused<bulk::parts>);
  expect_found(2, second_frees_are_refused<parts_that_do_not_tell>);
}

// ---- what the parts rely on

// Bins go back at once, although threads still read them.
struct readers_nobody_waits_for : gpuheap::structures::rcu {
  template <class End>
  void retire(gpuheap::structures::rcu_link& link, End end) const {
    end(&link);
  }
};
// Ends the kernel before the damage spreads, when objects were taken from a bin that has become another list's.
template <class Parts>
struct state_that_looks_at_bins : bulk::heap_state<Parts> {
  using base = bulk::heap_state<Parts>;
  static bulk::object_grant take_objects(base* self, unsigned c, unsigned wanted, typename base::search& where) {
    auto const got = base::take_objects(self, c, wanted, where);
    if (got.before == 0) return got;
    auto const& at = self->at();
    unsigned const first = at.chunk_of(got.page);
    bool const in_use = (base::word(at.chunk(first).used).load(simt::relaxed) >> (got.page - first) & 1) != 0;
    bool const same_arena = base::word(at.chunk(first).arena).load(simt::relaxed) == (where.own + where.step) % at.num_arenas;
    bool const same_class = (base::word(at.bin(got.page).info).load(simt::relaxed) & (bulk::bin_header::linked - 1)) == c;
    if (!in_use || !same_arena || !same_class) simt::trap();
    return got;
  }
};
struct parts_that_look_at_bins : bulk::parts {
  template <class Parts>
  using state = state_that_looks_at_bins<Parts>;
};
struct parts_without_waiting : parts_that_look_at_bins {
  using readers = readers_nobody_waits_for;
};
TEST(Reclamation, BinsThatGoBackWhileTheyAreWalkedAreFoundWithin4000Seeds) {
  expect_right(num_seeds(1000), [] { return bins_go_back<parts_that_look_at_bins>(80, 24, 4, 1000, 200); });
  expect_found(4000, [] { return bins_go_back<parts_without_waiting>(80, 24, 4, 1000, 200); });
}
// A bin that is all free, and whose units are not all there, is left to the threads that hold the units; they may find others.
template <class Parts>
struct state_that_gives_up : bulk::heap_state<Parts> {
  using base = bulk::heap_state<Parts>;
  static void give_objects(base* self, unsigned arena, unsigned c, unsigned page, unsigned m) {
    bulk::bin_header& bin = self->at().bin(page);
    auto& mine = self->list(arena, c);
    typename Parts::semaphore const units{&mine.units};
    bool closed = false;
    typename Parts::mutex{&mine.lock}.run_alone([&] {
      unsigned now = base::word(bin.free).fetch_add(m, simt::acq_rel) + m;
      units.signal(m);
      if (now == bulk::objects(c) && units.try_wait(now)) {
        closed = base::word(bin.free).compare_exchange(now, bulk::bin_header::closed, simt::acq_rel, simt::relaxed);
        if (!closed) units.signal(bulk::objects(c));
      }
      bool const linked = (base::word(bin.info).load(simt::relaxed) & bulk::bin_header::linked) != 0;
      if (closed && linked) self->unlink(mine, page);
      if (!closed && !linked && base::word(bin.free).load(simt::relaxed) != 0) self->link(mine, page);
    });
    if (closed) typename Parts::readers{&mine.rcu}.retire(bin.link, typename base::end_of_bin{self});
  }
};
TEST(Reclamation, BinsLeftToOthersAreFoundWithin1000Seeds) {
  expect_right(num_seeds(1000), [] { return bins_go_back<bulk::parts>(80, 24, 3, 200, 200); });
  expect_found(1000, [] { return bins_go_back<parts_with_state<state_that_gives_up>>(80, 24, 3, 200, 200); });
}

// ---- all of it

TEST(Bulkalloc, SurvivesWithAllEdgesNear) {
  expect_right(num_seeds(2000), [] { return survives<bulk::parts>(80, 24, 4); });
  expect_right(num_seeds(1000), [] { return survives<bulk::parts>(80, 9, 4); });
}
TEST(Bulkalloc, EveryBinHasItsTail) {
  using heap_t = gpuheap::heap<gpuheap::bulkalloc>;
  for (simt::size_t const heap_bytes : {256_KiB, 4_MiB, 40_MiB}) {
    heap_t heap{heap_bytes};
    for (unsigned const bytes : {16u, 32u, 64u, 128u}) {
      blocks_of<heap_t> b(heap.ref(), 62 * 4096 / bytes, bytes);
      b.malloc_all(1024);
      b.expect_sound(bytes, {});
      b.fill();
      b.expect_intact("after they were filled");
      EXPECT_EQ(heap.verify().problem, "");
      b.free_all();
      EXPECT_TRUE(is_as_new(heap));
    }
  }
}
TEST(Bulkalloc, TheNumbersAreThoseOfThePaper) {
  bulk::geometry at;
  at.chunk_pages = 64;
  EXPECT_EQ(at.bins_per_chunk(), 62u);
  EXPECT_EQ(at.header_pages() * bulk::tails_per_page, 62u);
  for (unsigned pages : {4u, 8u, 16u, 32u}) {
    at.chunk_pages = pages;
    EXPECT_GE(at.header_pages() * bulk::tails_per_page, at.bins_per_chunk());
  }
}
TEST(Bulkalloc, HeapsBeyond4GiBHaveTheirPages) {
  simt::uint64_t* trees = nullptr;
  auto const base = simt::uintptr_t{4096};
  auto const at = bulk::geometry::within({reinterpret_cast<void*>(base), simt::size_t{100} << 30}, {}, 132, 8192, trees);
  EXPECT_GT(at.num_pages, 26'000'000u);
  EXPECT_LE(reinterpret_cast<std::uintptr_t>(at.page_at(at.num_pages)), base + (std::uintptr_t{100} << 30));
  EXPECT_EQ(at.top, 24u);
  EXPECT_EQ(at.num_arenas, 132u);
  EXPECT_EQ(at.chunk_pages, 64u);
}

}  // namespace
