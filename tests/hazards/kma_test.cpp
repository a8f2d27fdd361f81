// The hazards of the published KMA. These are not here, since nothing in this form can show them: closing a superblock and unlinking it in
// two steps, and waiting for the thread that installs one (3: a head is a guess, for which no thread waits); one head a class (5: a
// question of speed).
#include "mix.hpp"

#include <gpuheap/allocators/kma.hpp>

#include <algorithm>

namespace {

using namespace hazards;
using gpuheap::kma_config;
namespace kma = gpuheap::kma_parts;
using kma::slab_word;

// Few superblocks and heads: all edges are near. A superblock has 64 blocks of 16 bytes, in two words of bits; larger ones are in one.
constexpr kma_config small{.superblock_bytes = 1024, .heads_per_class = 2};
template <class Parts = kma::parts>
using small_heap = gpuheap::heap<gpuheap::basic_kma<small, Parts>>;

// Bytes of a heap of so many superblocks.
template <class Heap>
simt::size_t bytes_of(unsigned superblocks) {
  using allocator = typename Heap::allocator_type;
  return Heap::min_bytes() - allocator::min_region_bytes() +
         allocator::layout_type::bytes_for(superblocks, sizeof(typename allocator::state_type));
}
template <class Heap>
unsigned num_superblocks(Heap const& heap) {
  return heap.ref().allocator().geometry().num_superblocks;
}

// ---- all of it, for the right one and for mutants

struct mixed_sizes {
  unsigned run_in;  // one in `run_in` is more than a superblock
  GPUHEAP_FN unsigned operator()(test::rng& random) const {
    unsigned const kind = random.below(run_in);
    return kind == 0 ? 1025 + random.below(3000) : kind % 2 == 0 ? 16u << random.below(7) : 1 + random.below(60);
  }
};
template <class Parts, unsigned Superblocks = 13, unsigned RunIn = 8>
bool a_small_heap_survives() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of<heap_t>(Superblocks)};
  return lives_together(heap, 80, 5, mixed_sizes{RunIn},
                        [&] { return heap.verify().problem.empty() && heap.verify().held_superblocks == 0; }) &&
         served(heap, 1, num_superblocks(heap) * 1024) == 1;
}
TEST(Kma, SurvivesWithAllEdgesNear) {
  expect_right(num_seeds(2500), a_small_heap_survives<kma::parts>);
  expect_right(num_seeds(2000), a_small_heap_survives<kma::parts, 40, 1000>);
}

// ---- 1

// Counts in by an addition, whatever the superblock is by then.
struct slab_that_adds : gpuheap::structures::slab_state {
  bool reserve(slab_word& seen, unsigned n) const {
    slab_word const now = look();
    if (now.fill() != seen.fill()) {  // the count alone is compared
      seen = now;
      return false;
    }
    ref().fetch_add(n, simt::acq_rel);
    return true;
  }
};
struct parts_that_add : kma::parts {
  using slab = slab_that_adds;
};
// Threads keep one block each, of few sizes, and take turns in few superblocks.
template <class Ref>
struct keep_one {
  Ref heap;
  unsigned rounds;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const bytes = 256u << random.below(2);
      void* const p = heap.malloc(bytes);
      if (p == nullptr) continue;
      // A block of a smaller class overlaps its neighbour at its end.
      auto* const first = static_cast<unsigned*>(p);
      auto* const last = first + bytes / 4 - 1;
      simt::plain_write(*first, i + 1);
      simt::plain_write(*last, i + 1);
      if (simt::plain_read(*first) != i + 1 || simt::plain_read(*last) != i + 1)
        simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
      heap.free(p);
    }
  }
};
template <class Parts>
bool blocks_are_as_large_as_asked() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of<heap_t>(4)};
  test::device_array<unsigned> wrong(1);
  gpuheap::launch(40, keep_one<typename heap_t::ref_type>{heap.ref(), 4, wrong.data()}, {.block_threads = 8});
  return wrong.first() == 0 && heap.verify().problem.empty() && heap.verify().held_superblocks == 0;
}
TEST(Hazard1, ALateReservationIsInASuperblockOfAnotherClass) {
  expect_right(num_seeds(3000), blocks_are_as_large_as_asked<kma::parts>);
  expect_found(500, blocks_are_as_large_as_asked<parts_that_add>);
}

// ---- 2

// A thread that brings a superblock makes it the head by a plain exchange, and forgets the old head.
template <kma_config Config, class Parts>
struct heads_by_exchange : kma::manager<Config, Parts> {
  using base = kma::manager<Config, Parts>;
  kma::grant search(unsigned c, unsigned wanted, unsigned h) {
    kma::grant got = base::from_head(c, wanted, h);
    if (got.none()) got = base::from_room_set(c, wanted, h);
    unsigned s = 0;
    // Ends: each pass takes an entry out of the queue.
    while (got.none() && base::at.queue().try_pop(s)) {
      simt::atomic_ref<unsigned>{base::at.queued[s / 32]}.fetch_and(~(1u << s % 32), simt::acq_rel);
      slab_word seen = base::at.state(s).look();
      got = base::open(s, seen, c, wanted);
      if (!got.none()) base::head(c, h).exchange(s, simt::acq_rel);
    }
    return got;
  }
};
struct parts_with_heads_by_exchange : kma::parts {
  template <kma_config Config, class Parts>
  using state = heads_by_exchange<Config, Parts>;
};
// Threads ask for the same class at once: what is not full can be found, and is found.
template <class Parts>
bool no_superblock_is_forgotten() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of<heap_t>(9)};
  unsigned const all = num_superblocks(heap) * 8;
  blocks_of<heap_t> some(heap.ref(), 40, 128), rest(heap.ref(), all - 40, 128);
  some.malloc_all(8);
  if (some.failed_requests() != 0 || !heap.verify().problem.empty()) return false;
  rest.malloc_all(8);
  return rest.failed_requests() == 0 && are_apart(rest) && heap.verify().problem.empty();
}
TEST(Hazard2, ASuperblockWithRoomIsUnlinked) {
  expect_right(num_seeds(2000), no_superblock_is_forgotten<kma::parts>);
  expect_found(200, no_superblock_is_forgotten<parts_with_heads_by_exchange>);
}

// ---- 4

// A superblock that was full is found again when all of it is free, and not before.
template <kma_config Config, class Parts>
struct only_wholly_free : kma::manager<Config, Parts> {
  using base = kma::manager<Config, Parts>;
  void has_room_again(unsigned s, unsigned c, unsigned before) {
    if (before == 1) base::has_room_again(s, c, before);
  }
};
struct parts_that_strand_blocks : kma::parts {
  template <kma_config Config, class Parts>
  using state = only_wholly_free<Config, Parts>;
};
// Of each superblock of a full heap two blocks stay.
template <class Parts>
unsigned blocks_refused_in_a_heap_almost_free(unsigned bytes) {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of<heap_t>(20)};
  unsigned const per_superblock = 1024 / bytes;
  blocks_of<heap_t> b(heap.ref(), num_superblocks(heap) * per_superblock, bytes);
  b.malloc_all();
  auto pointers = b.pointers().read();
  std::vector<void*> go;
  std::sort(pointers.begin(), pointers.end());
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    if (i % per_superblock >= 2) go.push_back(pointers[i]);
  }
  heap.free(go);
  EXPECT_TRUE(b.failed_requests() == 0);
  blocks_of<heap_t> again(heap.ref(), go.size(), bytes);
  again.malloc_all();
  return static_cast<unsigned>(again.failed_requests());
}
TEST(Hazard4, FreeBlocksAreStrandedInSuperblocksInUse) {
  for (unsigned bytes : {16u, 32u, 64u, 256u}) {
    EXPECT_EQ(blocks_refused_in_a_heap_almost_free<kma::parts>(bytes), 0u) << bytes;
    EXPECT_GT(blocks_refused_in_a_heap_almost_free<parts_that_strand_blocks>(bytes), 0u) << "the test does not see the published mistake";
  }
}

// ---- 6

// A free counts, whichever thread had the block.
struct bits_that_count : gpuheap::structures::free_bits {
  word release(unsigned bit) const { return free_bits::release(bit) | word{1} << bit; }
};
struct blocks_that_count : gpuheap::structures::hinted_bits {
  bool release(unsigned i) const { return hinted_bits::release(i), true; }
};
struct parts_that_count : kma::parts {
  using bits = bits_that_count;
  using blocks = blocks_that_count;
};
// A neighbour is freed several times. The blocks that stay must not be handed out again.
template <class Parts>
bool double_frees_change_nothing(unsigned bytes) {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of<heap_t>(8)};
  blocks_of<heap_t> stay(heap.ref(), 6, bytes), other(heap.ref(), 1, bytes);
  stay.malloc_all();
  other.malloc_all();
  stay.fill();
  for (unsigned time = 0; time < 7; ++time) other.free_all();
  if (!heap.verify().problem.empty()) return false;
  blocks_of<heap_t> more(heap.ref(), num_superblocks(heap) * (1024 / bytes), 1024);
  more.malloc_all();
  auto all = more.pointers().read();
  auto const kept = stay.pointers().read();
  std::vector<std::size_t> sizes = more.sizes();
  all.insert(all.end(), kept.begin(), kept.end());
  sizes.insert(sizes.end(), stay.sizes().begin(), stay.sizes().end());
  blocks_of<heap_t> together(heap.ref(), sizes);
  together.pointers().write(all);
  return are_apart(together);
}
TEST(Hazard6, ADoubleFreeClosesASuperblockInUse) {
  for (unsigned bytes : {16u, 64u, 128u}) {
    EXPECT_TRUE(double_frees_change_nothing<kma::parts>(bytes)) << bytes;
    EXPECT_FALSE(double_frees_change_nothing<parts_that_count>(bytes)) << "the test does not see the published mistake";
  }
}

// ---- 7: the queue

// A superblock is put into the queue whenever it becomes free, be it there or not.
template <kma_config Config, class Parts>
struct queued_again : kma::manager<Config, Parts> {
  using base = kma::manager<Config, Parts>;
  void has_room_again(unsigned s, unsigned c, unsigned before) {
    if (before == 1) {
      simt::atomic_ref<unsigned>{base::at.queued[s / 32]}.fetch_or(1u << s % 32, simt::acq_rel);
      (void)base::at.queue().try_push(s);
    } else {
      base::has_room_again(s, c, before);
    }
  }
};
struct parts_that_queue_again : kma::parts {
  template <kma_config Config, class Parts>
  using state = queued_again<Config, Parts>;
};
// A thread that takes a superblock out of the queue first reads its kind, and clears its bit afterwards.
template <kma_config Config, class Parts>
struct looks_before : kma::manager<Config, Parts> {
  using base = kma::manager<Config, Parts>;
  kma::grant search(unsigned c, unsigned wanted, unsigned h) {
    kma::grant got = base::from_head(c, wanted, h);
    if (got.none()) got = base::from_room_set(c, wanted, h);
    unsigned s = 0;
    // Ends: each pass takes an entry out of the queue.
    while (got.none() && base::at.queue().try_pop(s)) {
      base::begin_move();
      slab_word seen = base::at.state(s).look();
      got = base::open(s, seen, c, wanted);
      simt::atomic_ref<unsigned>{base::at.queued[s / 32]}.fetch_and(~(1u << s % 32), simt::acq_rel);
      if (!got.none()) base::make_head(got, c, wanted, h);
      base::end_move();
    }
    return got;
  }
};
struct parts_that_look_before : kma::parts {
  template <kma_config Config, class Parts>
  using state = looks_before<Config, Parts>;
};
TEST(Hazard7, SuperblocksAreLostInTheQueue) {
  expect_found(200, a_small_heap_survives<parts_that_queue_again>);
  expect_found(2000, a_small_heap_survives<parts_that_look_before>);
}
TEST(Hazard7, IndicesOf16BitsEndAt256MiB) {
  // As many superblocks as 256 MiB would have, and more.
  using heap_t = gpuheap::heap<gpuheap::basic_kma<kma_config{.superblock_bytes = 512}>>;
  heap_t heap{bytes_of<heap_t>(70000)};
  unsigned const superblocks = num_superblocks(heap);
  ASSERT_GT(superblocks, 65536u);
  blocks_of<heap_t> all(heap.ref(), superblocks + 3, 512);
  all.malloc_all();
  EXPECT_EQ(all.failed_requests(), 3u);
  EXPECT_TRUE(are_apart(all));
  EXPECT_EQ(heap.verify().problem, "");
  all.free_all();
  EXPECT_EQ(heap.verify().problem, "");
  EXPECT_EQ(served(heap, 1, simt::size_t{superblocks} * 512), 1u);
}

// ---- 8

// Kernel: writes a few bytes below each block.
struct write_below {
  void* const* blocks;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned b = 1; b <= 16; ++b)
      simt::plain_write(static_cast<unsigned char*>(blocks[i])[-static_cast<int>(b)], static_cast<unsigned char>(0xff));
  }
};
TEST(Hazard8, AnUnderflowDestroysTheManagersWords) {
  for (unsigned superblocks = 4; superblocks < 40; ++superblocks) {
    using heap_t = small_heap<>;
    heap_t heap{bytes_of<heap_t>(superblocks)};
    // A block of each superblock begins where the superblock does.
    blocks_of<heap_t> b(heap.ref(), num_superblocks(heap), 1024);
    b.malloc_all();
    ASSERT_EQ(b.failed_requests(), 0u);
    gpuheap::launch(b.count(), write_below{b.pointers().data()});
    EXPECT_EQ(heap.verify().problem, "") << superblocks;
    for (auto const answer : b.free_all()) EXPECT_EQ(answer, gpuheap::free_status::done);
    EXPECT_EQ(heap.verify().problem, "") << superblocks;
    EXPECT_EQ(served(heap, num_superblocks(heap), 1024), num_superblocks(heap));
  }
}

// ---- exhaustion under contention: nobody is refused while there is room

// More threads than blocks are left, all at once: as many are served as there are blocks. They come from the queue, heads and room sets.
template <class Parts>
bool all_that_is_there_is_served() {
  using heap_t = small_heap<Parts>;
  heap_t heap{bytes_of<heap_t>(7)};
  unsigned const per_superblock = 16, all = num_superblocks(heap) * per_superblock;
  blocks_of<heap_t> first(heap.ref(), all / 2, 64), second(heap.ref(), all, 64);
  first.malloc_all(16);
  auto const p = first.pointers().read();
  std::vector<void*> go;
  for (unsigned i = 0; i < p.size(); i += 3) go.push_back(p[i]);
  heap.free(go);
  second.malloc_all(16);
  return first.failed_requests() == 0 && second.failed_requests() == first.count() - go.size() && heap.verify().problem.empty();
}
// A thread that finds nothing refuses, whatever is being moved.
template <kma_config Config, class Parts>
struct searches_once : kma::manager<Config, Parts> {
  using base = kma::manager<Config, Parts>;
  kma::grant search(unsigned c, unsigned wanted, unsigned h) {
    kma::grant got = base::from_head(c, wanted, h);
    if (got.none()) got = base::from_room_set(c, wanted, h);
    if (got.none()) got = base::from_queue(c, wanted, h);
    for (unsigned other = 0; got.none() && other != base::at.num_heads; ++other) got = base::from_head(c, wanted, other);
    return got;
  }
};
struct parts_that_search_once : kma::parts {
  template <kma_config Config, class Parts>
  using state = searches_once<Config, Parts>;
};
TEST(Kma, RefusesNobodyWhileThereIsRoom) {
  expect_right(num_seeds(2000), all_that_is_there_is_served<kma::parts>);
  expect_found(500, all_that_is_there_is_served<parts_that_search_once>);
}

// Blocks of a superblock and runs, all at once, as much as there is.
bool runs_and_superblocks_fit_together() {
  using heap_t = small_heap<>;
  heap_t heap{bytes_of<heap_t>(20)};
  unsigned const superblocks = num_superblocks(heap);
  std::vector<std::size_t> sizes(superblocks - 6, 1024);
  sizes[3] = sizes[10] = 3072;
  blocks_of<heap_t> b(heap.ref(), sizes);
  b.malloc_all(8);
  // Small requests may take what lies between two runs' places.
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1024 && b.pointers().read()[i] == nullptr) return false;
  }
  return are_apart(b) && heap.verify().problem.empty();
}
TEST(Kma, RunsHideNothingFromOthers) { expect_right(num_seeds(2000), runs_and_superblocks_fit_together); }

}  // namespace
