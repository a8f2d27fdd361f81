// The hazards of the published Ouroboros. One is not here, since nothing in this form can show it: waiters that reserve again and again (2:
// they wait while there are units, or others make enough; tests/structures has the semaphore alone).
#include "../structures/virtual_queue_mutants.hpp"
#include "ouroboros_heaps.hpp"

#include <algorithm>
#include <memory>

namespace {

using namespace hazards;
using gpuheap::free_status;
using gpuheap::structures::batch_semaphore;
using gpuheap::structures::ring_queue;
using gpuheap::structures::virtual_queue;

constexpr auto pages = queue_of::pages;
constexpr auto chunks = queue_of::chunks;
constexpr auto ring = stored_in::static_ring;
constexpr auto array = stored_in::virtual_array;
constexpr auto list = stored_in::virtual_list;

// ---- 1, 16: the end of memory

// A maker that finds no chunk, and whose promise stands: those who wait for it never stop.
struct semaphore_that_ignores_failure : batch_semaphore {
  void made(unsigned batch) const {
    if (available() > 0) batch_semaphore::made(batch);
  }
};
// Heaps that run full: every chunk is used and none that is not there; the bookkeeping survives that all blocks are written; all comes
// back.
template <class Heap>
bool ends_where_its_memory_ends() {
  for (unsigned bytes : {16u, 64u, 256u, 1024u}) {
    Heap heap{bytes_of_regions<Heap>(3)};
    unsigned const most = num_chunks(heap) * 256 / bytes;
    for (unsigned round = 0; round < 3; ++round) {
      blocks_of<Heap> b(heap.ref(), most + 40, bytes);
      b.malloc_all(64);
      b.fill();
      if (b.failed_requests() != 40 || !are_apart(b) || !heap.verify().problem.empty()) return false;
      b.expect_intact("in a full heap");
      b.free_all(7);
      if (!heap.verify().problem.empty() || heap.verify().live_pages != 0) return false;
    }
  }
  return true;
}
TEST(Hazard1, OutOfMemoryCorrupts) {
  for_each_sibling([]<class Heap>(Heap*) { expect_right(num_seeds(60), ends_where_its_memory_ends<Heap>); });
  expect_found(20, ends_where_its_memory_ends<small_heap<pages, ring, parts_with_semaphore<semaphore_that_ignores_failure>>>);
}
TEST(Hazard16, TheLastChunkIsNeverUsedAndSizesHave32Bits) {
  for_each_sibling([]<class Heap>(Heap*) {
    for (unsigned regions = 2; regions < 20; ++regions) {
      Heap heap{bytes_of_regions<Heap>(regions)};
      EXPECT_EQ(num_chunks(heap), 4 * regions);
      EXPECT_EQ(served(heap, 4 * regions + 1, 256), 4 * regions);
    }
  });
  using heap_t = gpuheap::heap<basic_ouroboros<pages, ring, small, gpuheap::backing_reference>>;
  heap_t heap{1_MiB};
  for (simt::size_t bytes : {simt::size_t{1} << 31, (simt::size_t{1} << 31) + 1, (simt::size_t{1} << 32) + 16, ~simt::size_t{0}}) {
    EXPECT_EQ(served(heap, 1, bytes), 0u) << bytes;
  }
  EXPECT_EQ(served(heap, 1, 100000), 1u) << "from the backing";
}

// ---- 3: fields

// Kernel, one thread: frees of more units than the published word has bits for.
struct release_many {
  batch_semaphore semaphore;
  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned k = 0; k < 20; ++k) semaphore.release(1u << 24);
  }
};
TEST(Hazard3, MoreThan16777215UnitsRunIntoTheNextField) {
  test::device_array<batch_semaphore::words> words(1);
  gpuheap::launch(1, release_many{{words.data()}});
  EXPECT_EQ(words.first().units, 20ull << 24);
  EXPECT_EQ(words.first().reserved | words.first().expected, 0u);
}

// ---- 4: full queues

// A ring that drops what finds no room, and lets its count stand.
struct ring_that_drops : ouro::static_queue {
  using static_queue::static_queue;
  template <class Storage>
  unsigned push(warp_group group, unsigned value, Storage const& storage) const {
    (void)static_queue::push(group, value, storage);
    return group.size();
  }
};
// Far more pages than places in the ring, all free: they can be had again.
template <class Heap>
bool pages_that_find_no_place_are_kept() {
  Heap heap{bytes_of_regions<Heap>(4)};
  for (unsigned round = 0; round < 2; ++round) {
    blocks_of<Heap> b(heap.ref(), 200, 16);
    b.malloc_all(64);
    b.free_all(3);
    if (b.failed_requests() != 0 || !heap.verify().problem.empty()) return false;
  }
  return true;
}
TEST(Hazard4, FullQueuesTrapOrDrop) {
  for_each_sibling([]<class Heap>(Heap*) { expect_right(num_seeds(100), pages_that_find_no_place_are_kept<Heap>); });
  expect_found(5, pages_that_find_no_place_are_kept<small_heap<pages, ring, parts_with_queue<ring_that_drops>>>);
}

// ---- 5: false refusals

// A claim that fails gives back what it subtracted, and others who came meanwhile found nothing; nobody looks again.
struct semaphore_that_does_not_look_again : batch_semaphore {
  unsigned try_acquire(unsigned wanted) const {
    simt::atomic_ref<word> const there{at->units};
    auto const before = static_cast<long long>(there.fetch_sub(wanted, simt::relaxed));
    if (before >= static_cast<long long>(wanted)) return wanted;
    there.fetch_add(wanted, simt::relaxed);
    return 0;
  }
  bool may_make(unsigned batch) const {
    simt::atomic_ref<word>{at->expected}.fetch_add(batch, simt::relaxed);
    return true;
  }
};
// A few threads more than there are free pages, all at once.
template <class Heap>
bool the_last_pages_are_found() {
  Heap heap{bytes_of_regions<Heap>(2)};
  blocks_of<Heap> all(heap.ref(), 128, 16), again(heap.ref(), 66, 16);
  all.malloc_all(32);
  if (all.failed_requests() != 0) return false;
  auto const p = all.pointers().read();
  std::vector<void*> go;
  for (unsigned i = 0; i < 60; ++i) go.push_back(p[(i * 37) % 128]);
  heap.free(go);
  again.malloc_all(7);
  return again.failed_requests() == 6 && heap.verify().problem.empty();
}
TEST(Hazard5, FalseEmptyIsAFalseOutOfMemory) {
  for_each_sibling([]<class Heap>(Heap*) { expect_right(num_seeds(300), the_last_pages_are_found<Heap>); });
  expect_found(200, the_last_pages_are_found<small_heap<pages, ring, parts_with_semaphore<semaphore_that_does_not_look_again>>>);
}

// ---- 6, 14: what a queue says before it is so

// A ring of {value + 1} in 32 bits. `Advertises`: an entry is counted before it is there, and an admitted thread does not wait for it.
// Otherwise all is in order, but nothing orders the contents of the pages.
template <bool Advertises>
struct hasty_ring : ouro::static_queue {
  struct words {
    unsigned room, items, head, tail;
  };
  hasty_ring() = default;
  hasty_ring(void* memory, unsigned places, unsigned ignored, unsigned = 0)
      : static_queue(memory, places, ignored), at{static_cast<words*>(memory)}, capacity{places} {}
  [[nodiscard]] simt::atomic_ref<unsigned> place(unsigned ticket) const {
    return simt::atomic_ref<unsigned>{reinterpret_cast<unsigned*>(at + 1)[ticket % capacity]};
  }
  void init(unsigned i) const {
    place(i).store(0, simt::relaxed);
    if (i == 0) *at = {capacity, 0, 0, 0};
  }
  static unsigned claim(unsigned& count, unsigned wanted) {
    simt::atomic_ref<unsigned> const there{count};
    unsigned seen = there.load(simt::relaxed);
    while (seen != 0) {
      unsigned const n = seen < wanted ? seen : wanted;
      if (there.compare_exchange(seen, seen - n, simt::relaxed, simt::relaxed)) return n;
    }
    return 0;
  }
  template <class Storage>
  unsigned push(warp_group group, unsigned value, Storage const&) const {
    unsigned got = 0, first = 0;
    if (group.leads() && (got = claim(at->room, group.size())) != 0) {
      first = simt::atomic_ref<unsigned>{at->tail}.fetch_add(got, simt::relaxed);
      if (Advertises) simt::atomic_ref<unsigned>{at->items}.fetch_add(got, simt::relaxed);
    }
    got = group.from_leader(got);
    first = group.from_leader(first);
    if (group.rank() < got) {
      while (place(first + group.rank()).load(simt::relaxed) != 0) {
      }
      place(first + group.rank()).store(value + 1, simt::relaxed);
    }
    simt::sync_warp(group.mask);
    if (!Advertises && got != 0 && group.leads()) simt::atomic_ref<unsigned>{at->items}.fetch_add(got, simt::relaxed);
    return got;
  }
  template <class Storage>
  unsigned push_run(warp_group group, unsigned value, unsigned n, Storage const& storage) const {
    for (unsigned i = 0; i < n; ++i) {
      simt::lane_mask const first = simt::lane_mask{1} << group.leader();
      unsigned const got = group.leads() ? push(warp_group{first}, value + i, storage) : 0;
      if (group.from_leader(got) == 0) return i;
    }
    return n;
  }
  template <class Storage>
  unsigned pop(warp_group group, unsigned wanted, unsigned& value, Storage const&) const {
    unsigned got = 0, first = 0;
    if (group.leads() && (got = claim(at->items, wanted)) != 0) {
      first = simt::atomic_ref<unsigned>{at->head}.fetch_add(got, simt::relaxed);
    }
    got = group.from_leader(got);
    first = group.from_leader(first);
    if (group.rank() < got) {
      unsigned v = place(first + group.rank()).exchange(0, simt::relaxed);
      while (!Advertises && v == 0) v = place(first + group.rank()).exchange(0, simt::relaxed);
      value = v - 1;
    }
    simt::sync_warp(group.mask);
    if (got != 0 && group.leads()) simt::atomic_ref<unsigned>{at->room}.fetch_add(got, simt::relaxed);
    return got;
  }
  [[nodiscard]] unsigned size() const { return simt::atomic_ref<unsigned>{at->items}.load(simt::relaxed); }
  template <class Storage>
  [[nodiscard]] unsigned peek(unsigned k, Storage const&) const {
    return place(at->head + k).load(simt::relaxed) - 1;
  }
  words* at = nullptr;
  unsigned capacity = 0;
};
TEST(Hazard6, EntriesAreAdvertisedBeforeTheyAreThere) {
  expect_right(num_seeds(100), a_mix_is_right<small_heap<chunks, ring>>);
  expect_found(100, a_mix_is_right<small_heap<chunks, ring, parts_with_queue<hasty_ring<true>>>>);
}
TEST(Hazard14, WeakOrdersHandOutPagesThatAreStillRead) {
  expect_right(num_seeds(100), a_mix_is_right<small_heap<pages, ring>>);
  expect_found(50, a_mix_is_right<small_heap<pages, ring, parts_with_queue<hasty_ring<false>>>>);
}

// ---- 7, 8, 9: chunks that others look at

// A queue whose front is looked at, and stays for others to look at.
struct ring_that_shows : ouro::static_queue {
  using static_queue::static_queue;
  template <class Storage>
  unsigned pop(warp_group group, unsigned wanted, unsigned& value, Storage const& storage) const {
    unsigned const got = static_queue::pop(group, wanted, value, storage);
    simt::lane_mask const lanes = simt::ballot(group.mask, group.rank() < got);
    if (group.rank() < got) (void)static_queue::push(warp_group{lanes}, value, storage);
    return got;
  }
};
TEST(Hazard7, PagesAreTakenOfAChunkThatBelongsToOthersByNow) {
  expect_right(num_seeds(200), a_mix_is_right<small_heap<chunks, ring>>);
  expect_found(20, a_mix_is_right<small_heap<chunks, ring, parts_with_queue<ring_that_shows>>>);
}
// A chunk goes back to the pool without regard to those who were promised a page of it.
struct semaphore_that_breaks_promises : batch_semaphore {
  bool try_acquire_all(unsigned wanted) const {
    simt::atomic_ref<word>{at->units}.fetch_sub(wanted, simt::relaxed);
    return true;
  }
  long long available() const { return 1 << 20; }
};
TEST(Hazard7, AChunkGoesWhoseCountWasWon) {
  expect_found(200, a_mix_is_right<small_heap<chunks, ring, parts_with_semaphore<semaphore_that_breaks_promises>>>);
}
// An entry that is removed twice takes another entry with it; so does a front that jumps.
struct ring_that_jumps : ouro::static_queue {
  using static_queue::static_queue;
  template <class Storage>
  unsigned pop(warp_group group, unsigned wanted, unsigned& value, Storage const& storage) const {
    unsigned const got = static_queue::pop(group, wanted, value, storage);
    unsigned passed_over = 0;
    if (got != 0 && static_queue::size() > 2) (void)static_queue::pop(group, 1, passed_over, storage);
    return got;
  }
};
TEST(Hazard8And9, EntriesAreRemovedTwiceAndFrontsJump) {
  for_each_sibling([]<class Heap>(Heap*) { expect_right(num_seeds(100), a_mix_is_right<Heap>); });
  expect_found(20, a_mix_is_right<small_heap<chunks, ring, parts_with_queue<ring_that_jumps>>>);
}

// ---- 10, 11, 12, 13: queues in chunks

// Pages come and go, and with them the chunks of their queue.
template <class Heap>
bool queues_in_chunks_are_right() {
  return mistakes_of_a_mix<Heap>(75, 12, 8, 2).empty();
}
// The address that a mistaken queue takes for a page may lie anywhere: no thread writes to it.
template <class Directory>
struct queue_that_looks : virtual_queue<Directory> {
  using virtual_queue<Directory>::virtual_queue;
  template <class Storage>
  unsigned pop(warp_group group, unsigned wanted, unsigned& value, Storage const& storage) const {
    unsigned const got = virtual_queue<Directory>::pop(group, wanted, value, storage);
    bool const is_page = value >> decltype(storage.heap->at)::lg_pages < storage.heap->num_chunks;
    if (group.rank() < got && !is_page) throw std::runtime_error("no page was ever pushed that lies there");
    return got;
  }
};
template <class Directory>
using linked_pages = small_heap<pages, list, parts_with_queue<queue_that_looks<Directory>>>;
template <class Directory>
using array_of_pages = small_heap<pages, array, parts_with_queue<queue_that_looks<Directory>>>;
TEST(Hazard10, PositionAndChunkAreReadApart) {
  expect_right(num_seeds(200), queues_in_chunks_are_right<small_heap<pages, list>>);
  expect_found(200, queues_in_chunks_are_right<linked_pages<structures_test::list_of_two_words>>);
}
TEST(Hazard11, OldQueueChunksAreWalked) {
  expect_found(2000, queues_in_chunks_are_right<linked_pages<structures_test::list_of_old_records>>);
  expect_found(500, queues_in_chunks_are_right<array_of_pages<structures_test::array_that_goes_early>>);
}
// The chunk of a queue goes to the second instance, as if it were one of its larger chunks.
struct queue_of_the_wrong_pool : virtual_queue<gpuheap::structures::array_directory> {
  using base = virtual_queue<gpuheap::structures::array_directory>;
  queue_of_the_wrong_pool() = default;
  // It keeps no segment, so that all of them go to the pool.
  queue_of_the_wrong_pool(void* memory, unsigned segments, unsigned places, unsigned) : base(memory, segments, places) {}
  template <class Storage>
  struct wrong_storage : Storage {
    void give(unsigned chunk) const { this->heap->release_chunk(chunk & ~3u, 4); }
  };
  template <class Storage>
  unsigned pop(warp_group group, unsigned wanted, unsigned& value, Storage const& storage) const {
    unsigned const got = base::pop(group, wanted, value, wrong_storage<Storage>{storage});
    // As in queue_that_looks: memory that is no page is not written to.
    bool const is_page = value >> decltype(storage.heap->at)::lg_pages < storage.heap->num_chunks;
    if (group.rank() < got && !is_page) throw std::runtime_error("no page was ever pushed that lies there");
    return got;
  }
};
TEST(Hazard12, QueueChunksGoBackToTheWrongInstance) {
  expect_right(num_seeds(200), a_mix_is_right<small_heap<pages, array>>);
  expect_found(50, queues_in_chunks_are_right<small_heap<pages, array, parts_with_queue<queue_of_the_wrong_pool>>>);
}
// The mistake itself is found in the queue alone (tests/structures): in an allocator it leads to pages that are nowhere.
TEST(Hazard13, OldContentsOfAQueueChunkAreTakenForEntries) {
  expect_right(num_seeds(400), queues_in_chunks_are_right<small_heap<pages, array>>);
  expect_right(num_seeds(400), queues_in_chunks_are_right<small_heap<pages, list>>);
}

// ---- 15: double frees

// A second free is as good as the first.
template <queue_of Holds>
struct frees_twice : small_allocator<Holds, ring> {
  using base = small_allocator<Holds, ring>;
  static frees_twice create(gpuheap::memory::region where, gpuheap::stream_ref stream) { return {base::create(where, stream)}; }
  free_status free(void* p) const {
    auto const answer = base::free(p);
    if (answer != free_status::double_free) return answer;
    auto* const heap = base::state();
    auto const chunk = static_cast<unsigned>((static_cast<char*>(p) - heap->at.chunks) / 256);
    warp_group const alone{simt::lane_mask{1} << simt::lane_id()};
    if constexpr (Holds == pages) {
      (void)heap->queue(0).push(
          alone, chunk << heap->at.lg_pages | static_cast<unsigned>((static_cast<char*>(p) - heap->at.chunks) % 256 / 16), 0);
      heap->units(0).release(1);
    } else {
      heap->give_pages(alone, 0, chunk);
    }
    return free_status::done;
  }
};
template <class Heap>
bool a_second_free_changes_nothing() {
  Heap heap{bytes_of_regions<Heap>(2)};
  blocks_of<Heap> b(heap.ref(), 64, 16), again(heap.ref(), 20, 16);
  b.malloc_all(64);
  auto p = b.pointers().read();
  std::vector<void*> go;
  for (unsigned i = 0; i < 3; ++i) go.insert(go.end(), {p[0], p[1], p[17]});
  heap.free(go);
  if (heap.stats().double_frees != 6 || !heap.verify().problem.empty()) return false;
  again.malloc_all(32);
  auto q = again.pointers().read();
  std::sort(q.begin(), q.end());
  return std::adjacent_find(q.begin(), q.end()) == q.end() && heap.verify().problem.empty();
}
TEST(Hazard15, ASecondFreeIsAccepted) {
  for_each_sibling([]<class Heap>(Heap*) { expect_right(num_seeds(100), a_second_free_changes_nothing<Heap>); });
  expect_found(2, a_second_free_changes_nothing<gpuheap::heap<frees_twice<pages>>>);
  expect_found(2, a_second_free_changes_nothing<gpuheap::heap<frees_twice<chunks>>>);
}

// ---- the region grows, and the backing

template <stored_in Stored, class Backing>
using growing = gpuheap::heap<basic_ouroboros<chunks, Stored, small, Backing>>;
template <class Heap>
void grows_and_keeps_its_blocks() {
  Heap heap{gpuheap::growth{.initial = 256_KiB, .at_most = 1_MiB}};
  unsigned const there = num_chunks(heap);
  blocks_of<Heap> first(heap.ref(), there, 256), second(heap.ref(), 5000, 256);
  first.malloc_all();
  EXPECT_EQ(first.failed_requests(), 0u);
  first.fill();
  EXPECT_EQ(served(heap, 1, 16), 0u);
  heap.grow(200_KiB);
  EXPECT_GT(num_chunks(heap), there + 500);
  second.malloc_all();
  EXPECT_EQ(second.count() - second.failed_requests(), num_chunks(heap) - there);
  second.fill();
  first.expect_intact("after the heap grew");
  EXPECT_EQ(heap.verify().problem, "");
  first.free_all(3);
  second.free_all(5);
  EXPECT_EQ(served(heap, 10000, 1024), num_chunks(heap) / 4);
  heap.reset();
  EXPECT_EQ(heap.verify().problem, "");
  EXPECT_EQ(served(heap, 10000, 256), num_chunks(heap));
}
// A request that is too large for chunks is the backing's, whose memory does not grow.
TEST(Ouroboros, DoesNotGrowForWhatItsBackingRefuses) {
  using heap_t = growing<list, gpuheap::backing_reference>;
  heap_t heap{gpuheap::growth{.initial = 256_KiB, .at_most = 8_MiB}};
  heap.grow_when_exhausted({.bytes = 1_MiB});
  std::size_t const large = heap_t::allocator_type::traits.largest_bytes + 1;
  EXPECT_LT(served(heap, 5000, large), 5000u);
  std::string text;
  try {
    heap.check();
  } catch (gpuheap::out_of_memory const& e) {
    text = e.what();
  }
  EXPECT_NE(text.find("Growth does not help: requests of more than"), std::string::npos) << text;
  EXPECT_EQ(heap.capacity(), 256_KiB);
  EXPECT_LT(served(heap, 5000, 256), 5000u);
  EXPECT_GT(heap.check(), 0u) << "for these it does";
}
TEST(Ouroboros, BeginsWithWhatItSaysIsEnough) {
  using heap_t = growing<list, gpuheap::backing_reference>;
  for (std::size_t const most : {1_MiB, 64_MiB, 1_GiB}) {
    std::size_t const least = heap_t::min_bytes(gpuheap::growth{.at_most = most});
    heap_t heap{gpuheap::growth{.initial = least, .at_most = most}};
    EXPECT_EQ(heap.verify().problem, "");
    EXPECT_EQ(served(heap, 1, 16), 1u);
    std::size_t const too_little = heap_t::allocator_type::min_initial_bytes(most) - 1;
    EXPECT_LT(too_little, least);
    EXPECT_THROW((heap_t{gpuheap::growth{.initial = too_little, .at_most = most}}), gpuheap::error);
  }
}
TEST(Ouroboros, GrowsAndKeepsItsBlocks) {
  grows_and_keeps_its_blocks<growing<ring, refusing_backing>>();
  grows_and_keeps_its_blocks<growing<array, refusing_backing>>();
  grows_and_keeps_its_blocks<growing<list, gpuheap::backing_reference>>();
}
// If queues hold chunks, their words lie in an order of their own.
TEST(Ouroboros, EachChunkHasAWordOfItsOwn) {
  constexpr unsigned count = 5 * ouro::words_of_group, line = 32;
  std::vector<unsigned> chunks_at(count, 0);
  unsigned most = 0;
  for (unsigned chunk = 0; chunk < count; ++chunk) {
    unsigned const at = ouro::spread_over_lines(chunk);
    ASSERT_LT(at, count);
    ++chunks_at[at];
    most = std::max(most, at);
    // The words of the chunks so far have memory, and later chunks clear none of them.
    ASSERT_LT(most, chunk + ouro::words_of_group);
    for (unsigned other = chunk / 128 * 128; other < chunk; ++other) {
      ASSERT_EQ(ouro::spread_over_lines(other) / line == at / line, other / 4 == chunk / 4) << other << " and " << chunk;
    }
  }
  EXPECT_EQ(chunks_at, std::vector<unsigned>(count, 1));
  EXPECT_EQ(ouro::spread_over_lines(0x7fffffff), 0x7fffffffu);
}
// A heap that grows by one region after the other, over the borders of groups of words.
TEST(Ouroboros, GrowsInSmallSteps) {
  using heap_t = growing<list, refusing_backing>;
  heap_t heap{gpuheap::growth{.initial = heap_t::min_bytes(gpuheap::growth{.at_most = 1_MiB}), .at_most = 1_MiB}};
  std::vector<std::unique_ptr<blocks_of<heap_t>>> all;
  unsigned steps = 0;
  for (unsigned there = 0; num_chunks(heap) != there && there < 2200; ++steps) {
    unsigned const now = num_chunks(heap);
    all.push_back(std::make_unique<blocks_of<heap_t>>(heap.ref(), now - there, 256));
    all.back()->malloc_all();
    ASSERT_EQ(all.back()->failed_requests(), 0u) << now << " chunks";
    all.back()->fill();
    ASSERT_EQ(heap.verify().problem, "") << now << " chunks";
    there = now;
    heap.grow(steps % 8 == 0 ? 8_KiB : 24_KiB);
  }
  EXPECT_GE(num_chunks(heap), 2200u);
  EXPECT_GT(steps, 20u);
  for (auto& blocks : all) blocks->expect_intact("after the heap grew");
  for (auto& blocks : all) blocks->free_all(3);
  EXPECT_EQ(heap.verify().problem, "");
  EXPECT_EQ(served(heap, 10000, 1024), num_chunks(heap) / 4);
}
TEST(Ouroboros, AsksTheBackingForMoreThanTheLargestPage) {
  gpuheap::heap<basic_ouroboros<chunks, ring, small, gpuheap::backing_reference>> heap{1_MiB};
  small_heap<chunks, ring> without{1_MiB};
  EXPECT_EQ(served(heap, 40, 1025), 40u);
  EXPECT_EQ(served(heap, 1, 290000), 1u) << "three tenths are the backing's";
  EXPECT_EQ(served(heap, 1, 400000), 0u);
  EXPECT_EQ(served(without, 40, 1024), 40u);
  EXPECT_EQ(served(without, 40, 1025), 0u);
  EXPECT_EQ(heap.stats().foreign_frees + without.stats().foreign_frees, 0u);
}

// ---- as published: what the queues hold, and where chunks come from

// The first request leaves all other pages of its chunk, or the chunk, in the queue.
TEST(Ouroboros, QueuesAreFilledFromTheFirstRequestOn) {
  for_each_sibling([]<class Heap>(Heap*) {
    Heap heap{bytes_of_regions<Heap>(8)};
    using allocator = typename Heap::allocator_type;
    constexpr bool holds_pages = allocator::state_type::holds_pages;
    // Classes of 64 and 128 bytes: 4 and 2 pages, which find room in every ring.
    blocks_of<Heap> one(heap.ref(), 1, 64), two(heap.ref(), 1, 128);
    one.malloc_all(32);
    auto found = heap.verify();
    EXPECT_EQ(found.problem, "");
    EXPECT_EQ(found.queued_pages, holds_pages ? 3u : 0u);
    two.malloc_all(32);
    EXPECT_EQ(heap.verify().queued_pages, holds_pages ? 4u : 0u);
    for (unsigned q : {2u, 3u}) {
      typename allocator::state_type::class_state now;
      simt::copy(&now, &heap.ref().allocator().state()->classes[q], sizeof now);
      EXPECT_EQ(now.queue.size(), holds_pages ? (q == 2 ? 3u : 1u) : 1u) << q;
    }
    one.free_all();
    two.free_all();
  });
}
// The chunks of a launch lie side by side, however many threads ask at once: the addresses span little more than what was asked for.
template <queue_of Holds, stored_in Stored>
void expect_dense_addresses() {
  using heap_type = gpuheap::heap<basic_ouroboros<Holds, Stored, ouroboros_config{}, gpuheap::backing_reference>>;
  for (unsigned bytes : {64u, 256u, 1024u, 8192u}) {
    heap_type heap{32_MiB};
    unsigned const threads = bytes == 8192 ? 512 : 4096;
    blocks_of<heap_type> b(heap.ref(), threads, bytes);
    b.malloc_all(64);
    ASSERT_EQ(b.failed_requests(), 0u);
    auto const p = b.pointers().read();
    auto const [low, high] = std::minmax_element(p.begin(), p.end());
    auto const span = static_cast<double>(static_cast<char*>(*high) - static_cast<char*>(*low) + bytes);
    EXPECT_LE(span / (static_cast<double>(threads) * bytes), 1.15) << heap_type::allocator_type::traits.name << ", " << bytes << " bytes";
    b.free_all();
  }
}
TEST(Ouroboros, AddressesSpanLittleMoreThanTheDemand) {
  expect_dense_addresses<pages, ring>();
  expect_dense_addresses<pages, array>();
  expect_dense_addresses<pages, list>();
  expect_dense_addresses<chunks, ring>();
  expect_dense_addresses<chunks, array>();
  expect_dense_addresses<chunks, list>();
}

}  // namespace
