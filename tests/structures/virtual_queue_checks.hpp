// Checks of a queue in segments, for the real one and for queues with a mistake in them. Those of a bounded queue (ring_queue_checks.hpp)
// hold as well.
#pragma once

#include "ring_queue_checks.hpp"

#include <gpuheap/structures/virtual_queue.hpp>

#include <algorithm>

namespace structures_test {

using gpuheap::structures::array_directory;
using gpuheap::structures::list_directory;
using gpuheap::structures::no_block;
using gpuheap::structures::virtual_queue;
using gpuheap::structures::warp_group;

// A view of a virtual queue, and of the 32 blocks at most that its segments are. Blocks that are given back are scribbled on.
template <class Directory, unsigned Places, unsigned MoreBlocks = 2, unsigned Kept = 0>
struct pooled_queue {
  static constexpr unsigned most_blocks = 32, directory_places = 64;
  using queue_type = virtual_queue<Directory>;
  using word = simt::uint32_t;

  struct memory_type {
    alignas(64) char queue[queue_type::bytes_for(directory_places)];
    word free_blocks;
    simt::uint64_t records[most_blocks], numbers[most_blocks];
    alignas(8) word places[most_blocks][Places];
  };
  struct storage {
    memory_type* at;
    GPUHEAP_FN bool may_have_any() const { return simt::atomic_ref<word>{at->free_blocks}.load(simt::relaxed) != 0; }
    GPUHEAP_FN word take() const {
      simt::atomic_ref<word> const free{at->free_blocks};
      word seen = free.load(simt::relaxed);
      while (seen != 0) {
        if (free.compare_exchange(seen, seen & (seen - 1), simt::acq_rel, simt::relaxed)) return simt::lowest_bit(seen);
      }
      return no_block;
    }
    GPUHEAP_FN void give(word block) const {
      for (unsigned i = 0; i < Places; ++i) simt::atomic_ref<word>{at->places[block][i]}.store(12345, simt::relaxed);
      simt::atomic_ref<word>{at->free_blocks}.fetch_or(word{1} << block, simt::acq_rel);
    }
    GPUHEAP_FN word* places(word block) const { return at->places[block]; }
    GPUHEAP_FN simt::uint64_t* record(word block) const { return at->records + block; }
    GPUHEAP_FN simt::uint64_t* number(word block) const { return at->numbers + block; }
  };

  [[nodiscard]] static constexpr simt::size_t bytes_for(word) { return sizeof(memory_type); }
  // As many blocks as hold `capacity` values, and more for segments that are partly used.
  pooled_queue(void* memory, word capacity)
      : at{static_cast<memory_type*>(memory)},
        queue{at->queue, directory_places, Places, Kept},
        num_blocks{capacity / Places + MoreBlocks} {}
  GPUHEAP_FN void init(word i) const {
    if (i == 0) at->free_blocks = all_blocks();
  }
  [[nodiscard]] GPUHEAP_HD word all_blocks() const { return static_cast<word>(simt::low_bits(num_blocks)); }

  GPUHEAP_FN static warp_group alone() { return {simt::lane_mask{1} << simt::lane_id()}; }
  GPUHEAP_FN bool try_push(word value) const { return queue.push(alone(), value, storage{at}) == 1; }
  GPUHEAP_FN bool try_pop(word& value) const { return queue.pop(alone(), 1, value, storage{at}) == 1; }
  GPUHEAP_FN bool vacate() const { return queue.vacate(storage{at}); }
  [[nodiscard]] GPUHEAP_FN unsigned blocks_out() const { return simt::popcount(at->free_blocks ^ all_blocks()); }

  memory_type* at;
  queue_type queue;
  unsigned num_blocks;
};

// A queue whose directory has few places for its many blocks, so that threads that add segments wait for older ones.
template <class Directory, unsigned Places, unsigned MoreBlocks, unsigned Kept, unsigned DirectoryPlaces>
struct queue_of_a_small_ring : pooled_queue<Directory, Places, MoreBlocks, Kept> {
  using base = pooled_queue<Directory, Places, MoreBlocks, Kept>;
  queue_of_a_small_ring(void* memory, simt::uint32_t capacity) : base{memory, capacity} {
    base::queue = typename base::queue_type{base::at->queue, DirectoryPlaces, Places, Kept};
  }
};
// Two queues that share blocks, as the queues of a heap do: a block of one becomes a block of the other, and records and numbers of old
// segments are of the other queue. Odd values go into one queue, and even values into the other.
template <class Directory, unsigned Places, unsigned MoreBlocks = 4, unsigned Kept = 0>
struct queues_with_one_pool : pooled_queue<Directory, Places, MoreBlocks, Kept> {
  using base = pooled_queue<Directory, Places, MoreBlocks, Kept>;
  using typename base::queue_type, typename base::storage, typename base::word;
  struct memory_type {
    typename base::memory_type pool;
    alignas(64) char other[queue_type::bytes_for(base::directory_places)];
  };
  static constexpr word wrong_value = 1;  // no thread pushes it

  [[nodiscard]] static constexpr simt::size_t bytes_for(word) { return sizeof(memory_type); }
  queues_with_one_pool(void* memory, word capacity)
      : base{memory, capacity}, other{static_cast<memory_type*>(memory)->other, base::directory_places, Places, Kept} {}

  GPUHEAP_FN bool try_push(word value) const { return of(value % 2).push(base::alone(), value, storage{base::at}) == 1; }
  GPUHEAP_FN bool try_pop(word& value) const {
    unsigned const first = simt::lane_id() % 2;
    return try_pop_of(first, value) || try_pop_of(1 - first, value);
  }
  GPUHEAP_FN bool vacate() const {
    bool const one = of(0).vacate(storage{base::at});
    return of(1).vacate(storage{base::at}) || one;
  }

  queue_type other;

 private:
  [[nodiscard]] GPUHEAP_FN queue_type const& of(unsigned which) const { return which == 0 ? base::queue : other; }
  GPUHEAP_FN bool try_pop_of(unsigned which, word& value) const {
    if (of(which).pop(base::alone(), 1, value, storage{base::at}) == 0) return false;
    if (value % 2 != which) value = wrong_value;
    return true;
  }
};

// Kernel, one thread: blocks that an empty queue keeps when it was told to leave them. Those who push may have added more than they needed.
template <class Queue>
struct empty_and_vacate {
  Queue queue;
  unsigned* kept;
  GPUHEAP_FN void operator()(unsigned) const {
    simt::uint32_t v = 0;
    while (queue.try_pop(v)) {
    }
    (void)queue.vacate();
    kept[0] = queue.blocks_out();
    kept[1] = !queue.try_push(7) || !queue.try_pop(v) || v != 7;  // it goes on
  }
};

// Each pushed item is popped, and all blocks come back.
template <class Queue>
std::string segments_come_and_go(unsigned threads, unsigned capacity, unsigned rounds) {
  queue_memory<Queue> memory(capacity);
  test::device_array<unsigned> pushed(threads * rounds), popped(threads * rounds), garbage(1), left(1), kept(2);
  cell_memory cells(threads * rounds);
  push_and_pop<Queue, simt::uint32_t> const kernel{memory.queue(), threads,       rounds,        cells.view(),
                                                   pushed.data(),  popped.data(), garbage.data()};
  std::string problems;
  for (unsigned launch = 0; launch < 2; ++launch) {
    gpuheap::launch(threads, kernel, {.block_threads = 64});
    gpuheap::launch(1, pop_the_rest<Queue, simt::uint32_t>{kernel, 100 * capacity, left.data()});
    gpuheap::launch(1, empty_and_vacate<Queue>{memory.queue(), kept.data()});
    auto const out = kept.read();
    require(problems, out[0] == 0, std::to_string(out[0]) + " blocks are lost");
    require(problems, out[1] == 0, "a queue that was vacated does not go on");
  }
  problems += cells.problem();
  require(problems, garbage.first() == 0, "values were popped that nobody pushed");
  require(problems, pushed.read() == popped.read(), "not every value that was pushed was popped once");
  return problems;
}

// Kernel: groups of a warp push together and pop together, some threads vacate.
template <class Queue>
struct move_in_groups {
  Queue queue;
  unsigned rounds;
  unsigned* seen;  // by thread and round
  unsigned* pushed;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      simt::lane_mask const here = simt::active_mask();
      auto const group = warp_group::of_equal(here, random.below(3));
      typename Queue::storage const storage{queue.at};
      if (group.rank() < queue.queue.push(group, i * rounds + round + 1, storage)) count(&pushed[i * rounds + round]);
      simt::uint32_t v = 0;
      unsigned const wanted = group.size() / 2 + 1;
      if (group.rank() < queue.queue.pop(group, wanted, v, storage)) count(&seen[v - 1]);
      if (random.below(8) == 0) (void)queue.vacate();
    }
  }
};
// Kernel, one thread.
template <class Queue>
struct see_what_is_left {
  move_in_groups<Queue> of;
  GPUHEAP_FN void operator()(unsigned) const {
    simt::uint32_t v = 0;
    while (of.queue.try_pop(v)) count(&of.seen[v - 1]);
  }
};
template <class Queue>
std::string groups_lose_nothing(unsigned threads, unsigned capacity, unsigned rounds) {
  queue_memory<Queue> memory(capacity);
  test::device_array<unsigned> seen(threads * rounds), pushed(threads * rounds), kept(2);
  move_in_groups<Queue> const kernel{memory.queue(), rounds, seen.data(), pushed.data()};
  gpuheap::launch(threads, kernel, {.block_threads = 64});
  gpuheap::launch(1, see_what_is_left<Queue>{kernel});
  gpuheap::launch(1, empty_and_vacate<Queue>{memory.queue(), kept.data()});
  std::string problems;
  auto const in = pushed.read();
  require(problems, in == seen.read(), "not every value that was pushed was popped once");
  require(problems, std::count(in.begin(), in.end(), 1u) > 0, "no group pushed anything");
  require(problems, kept.read()[0] == 0, "blocks are lost");
  return problems;
}

}  // namespace structures_test
