// The host functions of xmalloc: its initialisation and its check. xmalloc.hpp includes this file.
#pragma once

#include <gpuheap/allocators/xmalloc.hpp>
#include <gpuheap/simt/error.hpp>

#if GPUHEAP_HAS_HOST
#include <string>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace detail {

// Kernel, one thread: stores the state.
template <class A>
struct write_xmalloc_state {
  A heap;
  typename A::layout::state first;
  GPUHEAP_FN void operator()(unsigned) const { *heap.state_ = first; }
};

// Kernel that runs after write_xmalloc_state: thread i initialises cell i of every queue that has a cell i.
template <class A>
struct init_xmalloc {
  A heap;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned c = 0; c < A::num_classes; ++c) {
      auto const second = heap.second_level(c);
      if (i < second.capacity()) second.init(i);
      for (unsigned l = 0; l < A::num_lists; ++l) {
        if (i < heap.list(c, l).capacity()) heap.list(c, l).init(i);
      }
    }
  }
};

// Kernel, one thread: counts, and stores the number of the last fault that it finds. All accesses are relaxed, since no other kernel uses
// the heap.
template <class A>
struct check_xmalloc {
  A heap;
  GPUHEAP_FN void operator()(unsigned) const {
    auto& found = heap.state_->found;
    for (auto& word : found) word = 0;
    for (unsigned c = 0; c < A::num_classes; ++c) {
      auto const& s = heap.of_class(c);
      simt::uint32_t wholly_free = 0;
      auto const second = heap.second_level(c);
      found[0] += s.superblocks;
      found[1] += second.size();
      if (A::refill_word::waiters(s.refill) != 0 || A::refill_word::refillers(s.refill) != 0) found[7] = 1;
      if (second.size() + second.room() != second.capacity() || second.size() > s.superblocks) found[7] = 2;
      for (unsigned k = 0; k < second.size(); ++k) {
        char* const superblock = A::to_pointer(second.peek(k));
        simt::uint32_t const blocks = A::free_blocks(superblock).load(simt::relaxed);
        if (blocks == 0 || (blocks & ~A::all_blocks) != 0) found[7] = 3;
        if (reinterpret_cast<simt::uint32_t*>(superblock)[1] != c) found[7] = 4;
        for (unsigned other = 0; other < k; ++other) {
          if (second.peek(other) == second.peek(k)) found[7] = 5;
        }
        wholly_free += blocks == A::all_blocks;
        found[4] += simt::popcount(blocks);
      }
      if (wholly_free != s.wholly_free) found[7] = 6;
      found[2] += wholly_free;
      for (unsigned l = 0; l < A::num_lists; ++l) check_list(c, heap.list(c, l), found);
    }
  }
  template <class Queue>
  GPUHEAP_FN void check_list(unsigned c, Queue list, simt::uint32_t (&found)[8]) const {
    if (list.size() + list.room() != list.capacity()) found[7] = 7;
    found[3] += list.size();
    for (unsigned k = 0; k < list.size(); ++k) {
      char* const block = A::to_pointer(list.peek(k));
      auto const from = A::read_origin(block);
      if (from.is_direct() || from.size_class() != c || from.index() >= A::num_blocks) {
        found[7] = 8;
        continue;
      }
      char* const superblock = A::superblock_of(block, from);
      if (block != A::block_at(superblock, c, from.index())) found[7] = 9;
      if ((A::free_blocks(superblock).load(simt::relaxed) >> from.index() & 1) != 0) found[7] = 10;
    }
  }
};

}  // namespace detail

template <xmalloc_config Config, class Backing>
basic_xmalloc<Config, Backing> basic_xmalloc<Config, Backing>::create(memory::region region, stream_ref stream) {
  simt::size_t const own = layout::own_bytes_for(region.bytes);
  if (own + Backing::min_region_bytes() > region.bytes) {
    throw plain_error("gpuheap: the allocator 'xmalloc' needs " + std::to_string(own) + " bytes for its queues in a heap of " +
                      std::to_string(region.bytes) + " bytes: make it larger");
  }
  char* const base = static_cast<char*>(region.base);
  basic_xmalloc a;
  a.state_ = reinterpret_cast<typename layout::state*>(base);
  a.backing_ = Backing::create({Backing::traits.process_wide ? nullptr : base + own, region.bytes - own}, stream);
  typename layout::state first;
  first.own_bytes = own;
  first.heap_bytes = region.bytes;
  if constexpr (has_granted_bytes<Backing>) first.heap_bytes = Backing::granted_bytes();
  simt::size_t at = layout::second_level_at;
  unsigned cells = Config.list_capacity;
  for (unsigned c = 0; c < num_classes; ++c) {
    class_state& s = first.classes[c];
    s.second_capacity = layout::second_capacity(region.bytes, c);
    s.second_at = at;
    s.spare = static_cast<simt::uint32_t>(region.bytes / 100 * Config.spare_percent / layout::superblock_bytes(c));
    at += queue::bytes_for(s.second_capacity);
    if (s.second_capacity > cells) cells = s.second_capacity;
  }
  simt::launch(1, detail::write_xmalloc_state<basic_xmalloc>{a, first}, {.block_threads = 32, .stream = stream});
  simt::launch(cells, detail::init_xmalloc<basic_xmalloc>{a}, {.stream = stream});
  return a;
}

template <xmalloc_config Config, class Backing>
typename basic_xmalloc<Config, Backing>::report basic_xmalloc<Config, Backing>::verify(stream_ref stream) const {
  simt::launch(1, detail::check_xmalloc<basic_xmalloc>{*this}, {.block_threads = 32, .stream = stream});
  simt::uint32_t found[8] = {};
  simt::copy(found, state_->found, sizeof found, stream);
  simt::synchronize(stream);
  report r{{}, found[0], found[1], found[2], found[3], found[4]};
  static constexpr char const* problems[] = {
      "",
      "a lane counts as waiting for a refill, or as refilling, and no kernel runs",
      "a second level has lost or gained places or entries",
      "a superblock of a second level has no free block, or a bit beyond its last block",
      "a superblock is in the second level of another class",
      "a superblock is twice in a second level",
      "the number of wholly free superblocks is wrong",
      "a list of the first level has lost or gained places",
      "a list of the first level has an entry that is no block of its class",
      "a block's header does not lead to its superblock",
      "a block is in a list of the first level and free in its superblock",
  };
  r.problem = problems[found[7]];
  return r;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
#endif
