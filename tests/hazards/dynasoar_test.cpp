// The hazards of the published DynaSOAr, each with the mistake restored in a pool of the tests alone. Not here: seeds from the hardware's
// number of a warp (8) and a first look that may be stale (9), which are guesses in either form; passes that share a list (10), which
// tests/heap/object_heap_test.cpp looks at. A word that is closed by an exchange (7) and a summary that loses its parent are among the
// mutants of tests/structures.
#include "mutant.hpp"

#include <gpuheap/allocators/dynasoar.hpp>

#include <memory>

namespace {

using namespace hazards;
using gpuheap::dynasoar_config;
using gpuheap::free_status;
using gpuheap::refusing_backing;
using gpuheap::soa::basic_block_pool;
using gpuheap::soa::block_pool;
using gpuheap::soa::block_tag;
using gpuheap::soa::free_slots;
using gpuheap::soa::grant;
using gpuheap::soa::pool_layout;

// The allocator without a second heap, in few blocks.
template <class Pool = block_pool>
using allocator = gpuheap::basic_dynasoar<dynasoar_config{}, refusing_backing, Pool>;
template <class Pool = block_pool>
using heap_of = gpuheap::heap<allocator<Pool>>;
template <class Pool = block_pool>
using blocks_of = test::blocks<typename heap_of<Pool>::ref_type>;
constexpr unsigned num_classes = 20, bytes_of_block = 1024;

template <class Pool>
[[nodiscard]] std::size_t bytes_of_blocks(unsigned n) {
  return heap_of<Pool>::min_bytes() - allocator<Pool>::min_region_bytes() + pool_layout::bytes_for(n, num_classes, bytes_of_block);
}
// Whether all is as it should be, and nothing is in use.
template <class Heap>
[[nodiscard]] bool is_sound_and_empty(Heap const& heap) {
  auto const a = heap.verify();
  return a.problem.empty() && a.found.live == 0 && a.found.allocated == 0 && heap.stats().live_allocations == 0;
}
// Waiting that the published form never ends: here it says so.
class patience {
 public:
  void wait() {
    if (++passes_ == 20000) simt::trap();
    pause_.wait();
  }

 private:
  unsigned passes_ = 0;
  simt::back_off pause_;
};

// ---- contention: several classes on few blocks, which change their class all the time

// Kernel: blocks come and go; a thread that finds a word of its own changed counts it.
template <class Ref>
struct live_together {
  Ref heap;
  unsigned rounds;
  unsigned const* sizes;
  unsigned num_sizes;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    void* held[2] = {};
    unsigned bytes[2] = {};
    for (unsigned round = 0; round < rounds + 2; ++round) {
      unsigned const k = round % 2;
      // The first words suffice for an overlap to be seen.
      if (held[k] != nullptr && test::wrong_words(held[k], bytes[k] < 32 ? bytes[k] : 32, i * 2 + k) != 0) {
        simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
      }
      if (held[k] != nullptr && heap.free(held[k]) != free_status::done) simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
      held[k] = nullptr;
      if (round >= rounds) continue;
      bytes[k] = sizes[random.below(num_sizes)];
      held[k] = heap.malloc(bytes[k]);
      if (held[k] != nullptr) test::fill_pattern(held[k], bytes[k] < 32 ? bytes[k] : 32, i * 2 + k);
    }
  }
};
template <class Pool = block_pool>
bool classes_live_together(unsigned num_blocks, unsigned threads, unsigned rounds, std::vector<unsigned> const& sizes) {
  heap_of<Pool> heap{bytes_of_blocks<Pool>(num_blocks)};
  test::device_array<unsigned> wrong(1), device_sizes(sizes);
  for (unsigned launch = 0; launch < 2; ++launch) {
    gpuheap::launch(threads,
                    live_together<typename heap_of<Pool>::ref_type>{heap.ref(), rounds, device_sizes.data(),
                                                                    static_cast<unsigned>(sizes.size()), wrong.data()},
                    {.block_threads = 64});
    if (wrong.first() != 0 || !is_sound_and_empty(heap)) return false;
  }
  return true;
}
TEST(Dynasoar, ClassesLiveTogetherUnderManySchedules) {
  expect_right(num_seeds(2500), [] { return classes_live_together(3, 80, 5, {16, 48, 200, 1024}); });
  expect_right(num_seeds(1500), [] { return classes_live_together(1, 40, 6, {128, 512}); });
  expect_right(num_seeds(1500), [] { return classes_live_together(2, 12, 10, {256, 400, 1024}); });
  expect_right(num_seeds(500), [] { return classes_live_together(70, 80, 4, {1024, 700}); });
}

// ---- 1

// A search that goes on until it finds something.
struct pool_that_never_gives_up : basic_block_pool<pool_that_never_gives_up> {
  static grant find(pool_layout const* at, unsigned c, unsigned capacity, unsigned wanted) {
    patience p;
    while (true) {
      grant const got = basic_block_pool::find(at, c, capacity, wanted);
      if (!got.none()) return got;
      p.wait();
    }
  }
};
template <class Pool>
bool a_full_heap_answers() {
  heap_of<Pool> heap{bytes_of_blocks<Pool>(3)};
  for (unsigned bytes : {16u, 300u, 1024u}) {
    unsigned const fit = 3 * (bytes == 16 ? 64 : bytes == 300 ? 3 : 1);
    blocks_of<Pool> b(heap.ref(), fit + 50, bytes), other(heap.ref(), 40, 64);
    b.malloc_all(64);
    other.malloc_all(64);
    if (b.failed_requests() != 50 || other.failed_requests() != 40 || !are_apart(b)) return false;
    b.free_all(7);
    if (!is_sound_and_empty(heap)) return false;
  }
  return true;
}
TEST(Hazard1, AFullHeapNeverAnswers) {
  expect_right(num_seeds(1000), a_full_heap_answers<block_pool>);
  expect_found(2, a_full_heap_answers<pool_that_never_gives_up>);
}

// ---- a block that changes its class while others look at it

// Between a look and the change that relies on it some threads dawdle, if possible until just those slots are free that a block of two has:
// then others can do all that they want with the block meanwhile.
void dawdle(free_slots slots) {
  if (simt::block_id() % 2 == 0) return;
  simt::back_off pause;
  for (unsigned n = 0; n < 300 && (n < 20 || slots.ref().load(simt::relaxed) != 0b11); ++n) pause.wait();
}
struct slots_that_dawdle : free_slots {
  claimed claim(unsigned n, unsigned start) const {
    dawdle(*this);
    return free_slots::claim(n, start);
  }
};
struct pool_that_dawdles_before_it_takes : basic_block_pool<pool_that_dawdles_before_it_takes> {
  [[nodiscard]] slots_that_dawdle slots(unsigned b) const { return {{&blocks()[b].free}}; }
};
// Kernel: a warp of 8 lanes takes a block for slots of 128 bytes. Two of them are given back at once, so that as many are free as a block
// for 512 bytes has; the others stay for a while. Meanwhile three other warps ask for 512 bytes.
template <class Ref>
struct keep_some_slots {
  Ref heap;
  unsigned rounds;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    bool const small = i < 8;
    for (unsigned round = 0; round < rounds; ++round) {
      void* const p = heap.malloc(small ? 128 : 512);
      if (p == nullptr) continue;
      test::fill_pattern(p, 32, i);
      // Lets others run.
      for (unsigned n = 0; small && i % 8 > 1 && n < 30; ++n) (void)simt::atomic_ref<unsigned>{*wrong}.load(simt::relaxed);
      if (test::wrong_words(p, 32, i) != 0 || heap.free(p) != free_status::done) {
        simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
      }
    }
  }
};
template <class Pool>
bool slots_that_stay_are_kept() {
  heap_of<Pool> heap{bytes_of_blocks<Pool>(1)};
  test::device_array<unsigned> wrong(1);
  gpuheap::launch(32, keep_some_slots<typename heap_of<Pool>::ref_type>{heap.ref(), 12, wrong.data()}, {.block_threads = 8});
  return wrong.first() == 0 && is_sound_and_empty(heap);
}
// ---- 2

// A request that has emptied a block takes it out of the active blocks of the class that it asked for, by repeating that until it is the
// one that flips the bit. If the block is of another class by now, nobody will set that bit.
struct pool_that_flips_before_it_looks : basic_block_pool<pool_that_flips_before_it_looks> {
  [[nodiscard]] slots_that_dawdle slots(unsigned b) const { return {{&blocks()[b].free}}; }
  static bool keep(pool_layout const* at, unsigned c, grant got) {
    patience p;
    if (got.changed && !of(at).tag_of(got.block).is_of(c)) {
      while (!of(at).active(c).take(got.block)) p.wait();
    }
    return basic_block_pool::keep(at, c, got);
  }
};
TEST(Hazard2, StatesChangeBeforeTheClassIsLookedAt) {
  expect_right(num_seeds(1000), slots_that_stay_are_kept<pool_that_dawdles_before_it_takes>);
  expect_found(500, slots_that_stay_are_kept<pool_that_flips_before_it_looks>);
}

// ---- 3

// Follows up by the tag that was read first: all free slots of that capacity, and the block is free.
template <class Self>
struct pool_that_trusts_the_tag : basic_block_pool<Self> {
  using pool_type = basic_block_pool<Self>;
  static void follow_up(pool_layout const* at, unsigned b, block_tag tag, free_slots::word before, free_slots::word which) {
    auto const pool = pool_type::of(at);
    if ((before | which) == tag.all() && pool.slots(b).close(tag.all())) {
      unsigned const c = tag.kind();
      pool.relocations().begin();
      pool.tag(b).store(0, simt::relaxed);
      pool.active(c).recompute(b, [&] { return pool.has_room(b, c); });
      simt::atomic_ref<simt::uint64_t>{pool.allocated(c)[b / 64]}.fetch_and(~(simt::uint64_t{1} << (b % 64)), simt::relaxed);
      pool.free_blocks().set(b);
      pool.relocations().end();
    } else {
      pool_type::follow_up(at, b, tag, before, before == 0 ? 0 : which);
    }
  }
};
// Before it closes a block.
struct pool_that_dawdles_before_it_closes : basic_block_pool<pool_that_dawdles_before_it_closes> {
  static void follow_up(pool_layout const* at, unsigned b, block_tag tag, free_slots::word before, free_slots::word which) {
    if (which != 0 && tag.capacity() == 2) dawdle(of(at).slots(b));
    basic_block_pool::follow_up(at, b, tag, before, which);
  }
};
struct pool_that_dawdles_and_trusts : pool_that_trusts_the_tag<pool_that_dawdles_and_trusts> {
  static void follow_up(pool_layout const* at, unsigned b, block_tag tag, free_slots::word before, free_slots::word which) {
    if (which != 0 && tag.capacity() == 2) dawdle(of(at).slots(b));
    pool_that_trusts_the_tag::follow_up(at, b, tag, before, which);
  }
};
// As published: slots of another class are given back by the capacity of the class that was asked for. Dawdles before it takes.
struct pool_that_undoes_by_the_wrong_capacity : pool_that_trusts_the_tag<pool_that_undoes_by_the_wrong_capacity> {
  [[nodiscard]] slots_that_dawdle slots(unsigned b) const { return {{&blocks()[b].free}}; }
  static bool keep(pool_layout const* at, unsigned c, grant got) {
    auto const pool = pool_type::of(at);
    block_tag const now = pool.tag_of(got.block);
    if (now.is_of(c)) return pool_type::keep(at, c, got);
    unsigned const capacity = gpuheap::structures::size_classes::slot_of(c, bytes_of_block);
    free_slots::word const before = pool.slots(got.block).release(got.slots);
    if ((before | got.slots) == simt::low_bits(capacity)) {
      follow_up(at, got.block, block_tag::of(c, capacity), before, got.slots);
    } else if (before == 0) {
      pool_type::follow_up(at, got.block, now, 0, 0);
    }
    return false;
  }
};
TEST(Hazard3, SlotsAreGivenBackByTheCapacityOfAnotherClass) {
  expect_right(num_seeds(1000), slots_that_stay_are_kept<block_pool>);
  expect_found(1000, slots_that_stay_are_kept<pool_that_undoes_by_the_wrong_capacity>);
}
TEST(Hazard3, ABlockIsClosedByACapacityThatItHadBefore) {
  expect_right(num_seeds(1000), slots_that_stay_are_kept<pool_that_dawdles_before_it_closes>);
  expect_found(1000, slots_that_stay_are_kept<pool_that_dawdles_and_trusts>);
}

// A request that does not look at the tag again has slots of another size.
struct pool_that_does_not_look_again : basic_block_pool<pool_that_does_not_look_again> {
  static bool keep(pool_layout const* at, unsigned c, grant got) {
    if (got.changed) follow_up(at, got.block, of(at).tag_of(got.block), 0, 0);
    (void)c;
    return true;
  }
};
TEST(Hazard3, SlotsOfAnotherClassAreHandedOut) {
  expect_found(2000, [] { return classes_live_together<pool_that_does_not_look_again>(1, 40, 6, {128, 512}); });
}

// ---- 4

// The number of threads that have ended, for a thread that stops before it says what it has changed.
unsigned* num_ended = nullptr;
unsigned num_others = 0;
// The first thread stops where a block's states must follow, until all others have ended.
template <class Self>
struct pool_with_a_stalled_thread : basic_block_pool<Self> {
  using pool_type = basic_block_pool<Self>;
  static void stall() {
    if (simt::global_warp() != 0 || simt::lane_id() != 0) return;
    patience p;
    while (simt::atomic_ref<unsigned>{*num_ended}.load(simt::relaxed) != num_others) p.wait();
  }
};
struct pool_that_stalls : pool_with_a_stalled_thread<pool_that_stalls> {
  static void follow_up(pool_layout const* at, unsigned b, block_tag tag, free_slots::word before, free_slots::word which) {
    stall();
    pool_type::follow_up(at, b, tag, before, which);
  }
};
// As published: each repeats its change of the bit until it is the one that flips it.
struct pool_that_flips : pool_with_a_stalled_thread<pool_that_flips> {
  static void flip(pool_layout const* at, unsigned b, unsigned c, bool to) {
    auto const leaf = of(at).active(c).leaf(b / 64);
    simt::uint64_t const bit = simt::uint64_t{1} << (b % 64);
    patience p;
    while (((to ? leaf.fetch_or(bit, simt::acq_rel) : leaf.fetch_and(~bit, simt::acq_rel)) & bit) == (to ? bit : 0)) p.wait();
    if (to) of(at).active(c).set(b);
  }
  static void follow_up(pool_layout const* at, unsigned b, block_tag tag, free_slots::word before, free_slots::word which) {
    auto const pool = of(at);
    unsigned const c = tag.kind();
    bool const room = pool.has_room(b, c);
    stall();
    if ((before | which) == tag.all() && pool.slots(b).close(tag.all())) {
      flip(at, b, c, false);
      pool.tag(b).store(0, simt::relaxed);
      simt::atomic_ref<simt::uint64_t>{pool.allocated(c)[b / 64]}.fetch_and(~(simt::uint64_t{1} << (b % 64)), simt::relaxed);
      pool.free_blocks().set(b);
    } else if (before == 0) {
      flip(at, b, c, which != 0 || room);
    }
  }
};
// Kernel: each thread takes a block of 512 bytes and gives it back, and says that it has ended. Two are in one block of the pool. Each is a
// warp of its own, as lanes that ask together wait for each other.
template <class Ref>
struct come_and_go {
  Ref heap;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned round = 0; round < 4; ++round) heap.free(heap.malloc(512));
    if (i != 0) simt::atomic_ref<unsigned>{*num_ended}.fetch_add(1, simt::relaxed);
  }
};
template <class Pool>
bool a_stalled_thread_stops_nobody() {
  heap_of<Pool> heap{bytes_of_blocks<Pool>(20)};
  test::device_array<unsigned> ended(1);
  num_ended = ended.data();
  num_others = 9;
  gpuheap::launch(10, come_and_go<typename heap_of<Pool>::ref_type>{heap.ref()}, {.block_threads = 1});
  return is_sound_and_empty(heap);
}
TEST(Hazard4, AStalledThreadStopsAllOthers) {
  expect_right(num_seeds(500), a_stalled_thread_stops_nobody<pool_that_stalls>);
  expect_found(50, a_stalled_thread_stops_nobody<pool_that_flips>);
}

// ---- 5

TEST(Hazard5, ASecondFreeNeverEnds) {
  heap_of<> heap{bytes_of_blocks<block_pool>(4)};
  for (unsigned bytes : {16u, 100u, 512u, 1024u}) {
    unsigned const capacity = bytes_of_block / (bytes == 100 ? 112 : bytes);
    blocks_of<> b(heap.ref(), 2 * capacity, bytes), more(heap.ref(), capacity, bytes);
    b.malloc_all();
    ASSERT_EQ(b.failed_requests(), 0u);
    auto const p = b.pointers().read();
    // While the block lives, if it has several; when all of it is free.
    for (std::vector<void*> const& go : {std::vector<void*>{p[0]}, p}) {
      auto const before = heap.stats().double_frees;
      heap.free(go);
      heap.free(go);
      EXPECT_GE(heap.stats().double_frees - before, go.size());
      EXPECT_EQ(heap.verify().problem, "") << bytes;
    }
    EXPECT_TRUE(is_sound_and_empty(heap)) << bytes;
    more.malloc_all();
    EXPECT_EQ(more.failed_requests(), 0u);
    EXPECT_TRUE(are_apart(more));
    more.free_all();
  }
}

// ---- 6

// A search that does not find an active block.
struct pool_that_misses : basic_block_pool<pool_that_misses> {
  static grant find_active(pool_layout const* at, unsigned c, unsigned wanted, unsigned left) {
    return left == tries ? grant{} : basic_block_pool::find_active(at, c, wanted, left);
  }
};
// A thread that asks alone opens no block while there is one with room.
template <class Pool>
bool blocks_are_filled_up() {
  heap_of<Pool> heap{bytes_of_blocks<Pool>(64)};
  blocks_of<Pool> many(heap.ref(), 80, 64);
  many.malloc_all(64);
  std::vector<std::unique_ptr<blocks_of<Pool>>> alone;
  for (unsigned n = 0; n < 20; ++n) {
    auto const before = heap.verify();
    alone.push_back(std::make_unique<blocks_of<Pool>>(heap.ref(), 1, 64));
    alone.back()->malloc_all();
    auto const after = heap.verify();
    if (!after.problem.empty() || after.found.live != before.found.live + 1) return false;
    if (after.found.allocated != before.found.allocated + (before.found.active == 0)) return false;
  }
  return true;
}
TEST(Hazard6, RequestsMissTheActiveBlocks) {
  expect_right(num_seeds(500), blocks_are_filled_up<block_pool>);
  expect_found(20, blocks_are_filled_up<pool_that_misses>);
}

// ---- 7

// Kernel: no more threads than slots in the whole pool, each with one at a time: a request finds one at any moment.
template <class Ref>
struct one_at_a_time {
  Ref heap;
  unsigned bytes;
  unsigned* failed_requests;
  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned round = 0; round < 5; ++round) {
      void* const p = heap.malloc(bytes);
      if (p == nullptr) simt::atomic_ref<unsigned>{*failed_requests}.fetch_add(1, simt::relaxed);
      heap.free(p);
    }
  }
};
template <class Pool>
bool a_free_slot_is_found(unsigned num_blocks, unsigned threads, unsigned bytes) {
  heap_of<Pool> heap{bytes_of_blocks<Pool>(num_blocks)};
  test::device_array<unsigned> failed_requests(1);
  gpuheap::launch(threads, one_at_a_time<typename heap_of<Pool>::ref_type>{heap.ref(), bytes, failed_requests.data()},
                  {.block_threads = 64});
  return failed_requests.first() == 0 && is_sound_and_empty(heap);
}
// A search that believes what it saw, while blocks change their places.
struct pool_that_searches_once : basic_block_pool<pool_that_searches_once> {
  static grant find(pool_layout const* at, unsigned c, unsigned capacity, unsigned wanted) {
    grant got = find_active(at, c, wanted, ~0u);
    if (!got.none()) return keep(at, c, got) ? got : grant{};
    got = find_free(at, c, capacity, wanted);
    if (got.none()) return got;
    (void)keep(at, c, got);
    of(at).relocations().end();
    return got;
  }
};
TEST(Hazard7, ClosingABlockHidesItsSlots) {
  expect_right(num_seeds(1000), [] { return a_free_slot_is_found<block_pool>(1, 64, 16); });
  expect_right(num_seeds(1000), [] { return a_free_slot_is_found<block_pool>(5, 40, 128); });
  expect_right(num_seeds(1000), [] { return a_free_slot_is_found<block_pool>(70, 70, 1024); });
  expect_right(num_seeds(1000), [] { return a_free_slot_is_found<block_pool>(3, 9, 300); });
  expect_found(100, [] { return a_free_slot_is_found<pool_that_searches_once>(3, 9, 300); });
}

// ---- the edges of a pool

TEST(Dynasoar, EveryBlockServesEveryClass) {
  for (unsigned num_blocks : {1u, 2u, 63u, 64u, 65u, 130u}) {
    heap_of<> heap{bytes_of_blocks<block_pool>(num_blocks)};
    for (unsigned bytes : {1024u, 16u, 640u}) {
      unsigned const fit = num_blocks * (bytes == 16 ? 64 : 1);
      blocks_of<> b(heap.ref(), fit + 5, bytes);
      b.malloc_all();
      EXPECT_EQ(b.failed_requests(), 5u) << num_blocks << " blocks, " << bytes << " bytes";
      EXPECT_TRUE(are_apart(b));
      EXPECT_EQ(heap.verify().problem, "");
      EXPECT_EQ(heap.verify().fragmentation(), 0.0);
      b.free_all();
      EXPECT_TRUE(is_sound_and_empty(heap));
    }
  }
}
TEST(Dynasoar, HugePoolsAreLaidOutWithoutOverflow) {
  for (std::size_t bytes : {std::size_t{5} << 30, std::size_t{80} << 30, std::size_t{1} << 40}) {
    auto const at = pool_layout::over({reinterpret_cast<void*>(std::uintptr_t{1} << 40), bytes}, num_classes, bytes_of_block);
    EXPECT_LE(pool_layout::bytes_for(at.num_blocks, num_classes, bytes_of_block), bytes);
    EXPECT_GT(pool_layout::bytes_for(at.num_blocks + 200, num_classes, bytes_of_block), bytes);
    EXPECT_LT(at.metadata_bytes(), bytes / 30);
    EXPECT_EQ(static_cast<std::size_t>(at.block(at.num_blocks) - at.base),
              pool_layout::bytes_for(at.num_blocks, num_classes, bytes_of_block));
    EXPECT_LE(reinterpret_cast<char*>(at.blocks() + at.num_blocks), at.data);
    EXPECT_LE(reinterpret_cast<char*>(at.allocated(num_classes - 1) + at.num_leaves()), reinterpret_cast<char*>(at.blocks()));
  }
}

}  // namespace
