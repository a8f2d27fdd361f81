// Lists and queues in pages from a heap: alone, contended, under many schedules, and when the heap is full.
#include "../support/device_array.hpp"
#include "../support/rng.hpp"
#include "../support/seeds.hpp"

#include <gpuheap/allocators/kma.hpp>
#include <gpuheap/containers/paged_list.hpp>
#include <gpuheap/containers/paged_queue.hpp>
#include <gpuheap/heap.hpp>
#include <gpuheap/simt/explore.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

namespace simt = gpuheap::simt;
using namespace gpuheap::literals;
using heap_type = gpuheap::heap<gpuheap::kma>;
using ref_type = heap_type::ref_type;
using entry = simt::uint64_t;

using test::num_seeds;
template <class Check>
void expect_passes(std::uint64_t seeds, Check check) {
  std::string problem;
  simt::exploration const e = simt::explore(num_seeds(seeds), [&] {
    problem = check();
    return problem.empty();
  });
  EXPECT_TRUE(e) << problem << "\n" << e.what;
}

// ---- list

using list_type = gpuheap::paged_list<entry, ref_type>;

// Kernels: each thread appends its entries, some warps only in parts; and a look at all.
struct append {
  list_type list;
  unsigned rounds;
  unsigned* refused;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned round = 0; round < rounds; ++round) {
      if (i % 5 == 3 && round % 2 == 1) continue;
      if (!list.push(entry{i} * rounds + round)) simt::atomic_ref<unsigned>{*refused}.fetch_add(1, simt::relaxed);
    }
  }
};
struct copy_list {
  list_type list;
  entry* to;
  GPUHEAP_FN void operator()(unsigned i) const { to[i] = simt::plain_read(list[i]); }
};
struct clear_list {
  list_type list;
  GPUHEAP_FN void operator()(unsigned) const { list.clear(); }
};
std::string lists_hold_what_is_appended(unsigned threads, unsigned rounds, simt::size_t heap_bytes, bool may_be_refused) {
  heap_type heap{heap_bytes};
  test::device_array<gpuheap::paged_list_state> state(1);
  test::device_array<unsigned> refused(1);
  list_type const list{heap.ref(), state.data()};
  for (unsigned use = 0; use < 2; ++use) {
    refused.write({0});
    gpuheap::launch(threads, append{list, rounds, refused.data()}, {.block_threads = 64});
    std::vector<entry> wanted;
    for (entry i = 0; i < threads; ++i) {
      for (entry round = 0; round < rounds; ++round) {
        if (i % 5 != 3 || round % 2 != 1) wanted.push_back(i * rounds + round);
      }
    }
    auto const size = state.first().size;
    if (size + refused.first() != wanted.size()) return "entries are neither there nor refused";
    if ((refused.first() != 0) != may_be_refused) return may_be_refused ? "nothing was refused" : "an entry was refused";
    test::device_array<entry> copy(size);
    gpuheap::launch(static_cast<unsigned>(size), copy_list{list, copy.data()});
    auto found = copy.read();
    std::sort(found.begin(), found.end());
    if (std::adjacent_find(found.begin(), found.end()) != found.end()) return "an entry is there twice";
    if (!std::includes(wanted.begin(), wanted.end(), found.begin(), found.end())) return "an entry is there that nobody appended";
    gpuheap::launch(1, clear_list{list});
    if (heap.stats().live_allocations != 0) return "pages are left";
  }
  return heap.verify().problem;
}
TEST(PagedList, HoldsWhatIsAppended) {
  EXPECT_EQ(lists_hold_what_is_appended(1, 1000, 16_MiB, false), "");
  EXPECT_EQ(lists_hold_what_is_appended(4096, 20, 16_MiB, false), "");
  expect_passes(700, [] { return lists_hold_what_is_appended(80, 6, 1_MiB, false); });
}
TEST(PagedList, RefusesWhatTheHeapHasNoPageFor) {
  EXPECT_EQ(lists_hold_what_is_appended(2048, 60, 700_KiB, true), "");
  expect_passes(500, [] { return lists_hold_what_is_appended(80, 20, heap_type::min_bytes(), true); });
}

// ---- queue

using queue_type = gpuheap::paged_queue<entry, ref_type>;
// A page has three entries, and there are four.
using small_queue = gpuheap::paged_queue<entry, ref_type, 64, 4>;
static_assert(small_queue::page_entries == 3);

template <class Queue>
struct init_queue {
  Queue queue;
  GPUHEAP_FN void operator()(unsigned i) const { queue.init(i); }
};
template <class Queue>
struct clear_queue {
  Queue queue;
  GPUHEAP_FN void operator()(unsigned i) const { queue.clear(i); }
};
// Kernel: threads push and pop; what each popped is counted, and that the values of one producer come in order to one consumer.
template <class Queue>
struct push_and_pop {
  Queue queue;
  unsigned rounds;
  unsigned* pushed;  // by value
  unsigned* popped;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    entry last[4] = {};
    for (unsigned round = 0; round < rounds; ++round) {
      entry const mine = entry{i} * rounds + round;
      if (random.below(4) != 0 && queue.try_push(mine)) simt::atomic_ref<unsigned>{pushed[mine]}.fetch_add(1, simt::relaxed);
      entry value = 0;
      if (random.below(3) == 0 || !queue.try_pop(value)) continue;
      simt::atomic_ref<unsigned>{popped[value]}.fetch_add(1, simt::relaxed);
      entry const producer = value / rounds;
      // Of the first threads' values: each later than the one before.
      if (producer >= 4) continue;
      if (value % rounds + 1 <= last[producer]) simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
      last[producer] = value % rounds + 1;
    }
  }
};
// Kernel, one thread: what is left.
template <class Queue>
struct pop_rest {
  push_and_pop<Queue> of;
  GPUHEAP_FN void operator()(unsigned) const {
    entry value = 0;
    while (of.queue.try_pop(value)) simt::atomic_ref<unsigned>{of.popped[value]}.fetch_add(1, simt::relaxed);
    if (of.queue.size() != 0) simt::atomic_ref<unsigned>{*of.wrong}.fetch_add(1, simt::relaxed);
  }
};
template <class Queue>
std::string values_are_popped_once(unsigned threads, unsigned rounds, simt::size_t heap_bytes, unsigned num_frames) {
  heap_type heap{heap_bytes};
  test::device_array<typename Queue::state> state(1);
  test::device_array<unsigned> pushed(threads * rounds), popped(threads * rounds), wrong(1);
  Queue const queue{heap.ref(), state.data()};
  gpuheap::launch(num_frames, init_queue<Queue>{queue});
  push_and_pop<Queue> const kernel{queue, rounds, pushed.data(), popped.data(), wrong.data()};
  for (unsigned use = 0; use < 2; ++use) {
    gpuheap::launch(threads, kernel, {.block_threads = 64});
    gpuheap::launch(1, pop_rest<Queue>{kernel});
  }
  auto const in = pushed.read();
  if (in != popped.read()) return "not every value that was pushed was popped once";
  if (std::count(in.begin(), in.end(), 2u) == 0) return "nothing was pushed twice";
  if (wrong.first() != 0) return "values of one producer were popped in another order";
  gpuheap::launch(num_frames, clear_queue<Queue>{queue});
  if (heap.stats().live_allocations != 0) return "pages are left";
  return heap.verify().problem;
}
TEST(PagedQueue, PopsEveryValueOnce) {
  unsigned const num_threads = gpuheap::simt::has_builtin_heap || test::in_full() ? 4096 : 1024;  // on a GPU always as many
  EXPECT_EQ((values_are_popped_once<queue_type>(1, 500, 16_MiB, 1024)), "");
  EXPECT_EQ((values_are_popped_once<queue_type>(num_threads, 20, 16_MiB, 1024)), "");
  expect_passes(500, [] { return values_are_popped_once<queue_type>(80, 5, 1_MiB, 1024); });
  expect_passes(600, [] { return values_are_popped_once<small_queue>(80, 5, 1_MiB, 4); });
  expect_passes(1000, [] { return values_are_popped_once<small_queue>(6, 20, 1_MiB, 4); });
}

// Kernel, one thread: pushes until it is refused, and pops again; twice.
template <class Queue>
struct fill_and_empty {
  Queue queue;
  unsigned* count;
  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned use = 0; use < 2; ++use) {
      entry n = 0, value = 0;
      while (queue.try_push(n)) ++n;
      count[use] = static_cast<unsigned>(n);
      for (entry k = 0; k < n; ++k) {
        if (!queue.try_pop(value) || value != k) count[2] += 1;
      }
      if (queue.try_pop(value)) count[2] += 1;
    }
  }
};
TEST(PagedQueue, IsRefusedAPageOrAFrame) {
  {
    // Frames: four pages of three entries.
    heap_type heap{1_MiB};
    test::device_array<small_queue::state> state(1);
    test::device_array<unsigned> count(3);
    small_queue const queue{heap.ref(), state.data()};
    gpuheap::launch(4, init_queue<small_queue>{queue});
    gpuheap::launch(1, fill_and_empty<small_queue>{queue, count.data()});
    EXPECT_EQ(count.read(), (std::vector<unsigned>{12, 12, 0}));
    EXPECT_EQ(heap.stats().live_allocations, 0u);
  }
  {
    // Pages of the heap.
    heap_type heap{heap_type::min_bytes()};
    unsigned const superblocks = heap.ref().allocator().geometry().num_superblocks;
    test::device_array<queue_type::state> state(1);
    test::device_array<unsigned> count(3);
    queue_type const queue{heap.ref(), state.data()};
    gpuheap::launch(1024, init_queue<queue_type>{queue});
    gpuheap::launch(1, fill_and_empty<queue_type>{queue, count.data()});
    EXPECT_EQ(count.read(), (std::vector<unsigned>{superblocks * queue_type::page_entries, superblocks * queue_type::page_entries, 0}));
    EXPECT_EQ(heap.stats().live_allocations, 0u);
  }
}

}  // namespace
