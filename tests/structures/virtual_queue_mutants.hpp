// Directories of a queue in segments with one published or typical mistake each.
#pragma once

#include <gpuheap/structures/virtual_queue.hpp>

#include <stdexcept>

namespace structures_test {

namespace simt = gpuheap::simt;
using gpuheap::structures::array_directory;
using gpuheap::structures::list_directory;
using gpuheap::structures::no_block;
using gpuheap::structures::segment_place;
using gpuheap::structures::segment_record;

// A segment whose block still has what its last owner left there.
struct array_of_old_blocks : array_directory {
  using array_directory::array_directory;
  template <class Queue, class Storage>
  void add(Queue const& queue, simt::uint32_t block, Storage const& storage) const {
    simt::atomic_ref<simt::uint32_t>{storage.places(block)[0]}.store(12345, simt::relaxed);
    array_directory::add(queue, block, storage);
  }
};
// A directory whose words do not say of which segment they are.
struct array_without_numbers : array_directory {
  using array_directory::array_directory;
  template <class Storage>
  simt::uint32_t find(simt::uint32_t segment, bool, Storage const&) const {
    simt::back_off pause;
    while (true) {
      segment_place const at{simt::atomic_ref<simt::uint64_t>{ring[segment & (capacity - 1)]}.load(simt::relaxed)};
      if (!at.none()) return at.block();
      pause.wait();
    }
  }
};
// The last pop of a segment that does not come after the reads of the others.
struct array_that_goes_early : array_directory {
  using array_directory::array_directory;
  template <class Queue, class Storage>
  bool popped(Queue const& queue, simt::uint32_t segment, simt::uint32_t block, unsigned n, Storage const& storage) const {
    segment_record const before{ref{*storage.record(block)}.fetch_add(n, simt::acq_rel)};
    if (before.popped() + n != queue.places() - 1) return false;
    ref{ring[segment & (capacity - 1)]}.store(empty_before(segment + capacity), simt::relaxed);
    queue.give(block, storage);
    return true;
  }
};
// An empty slot that does not say whose turn it is: a segment may come before the one of an earlier lap, whose thread waits for ever.
struct array_without_laps : array_directory {
  using array_directory::array_directory;
  ref slot_of(simt::uint32_t segment) const { return ref{ring[segment & (capacity - 1)]}; }
  template <class Queue, class Storage>
  void add(Queue const&, simt::uint32_t block, Storage const& storage) const {
    ref{*storage.record(block)}.store(0, simt::relaxed);
    auto& added = *reinterpret_cast<simt::uint32_t*>(reinterpret_cast<char*>(ring) - 64);
    simt::uint32_t const segment = simt::atomic_ref<simt::uint32_t>{added}.fetch_add(1, simt::relaxed);
    simt::back_off pause;
    while (slot_of(segment).load(simt::relaxed) != 0) pause.wait();
    slot_of(segment).store(segment_place::of(segment, block).bits, simt::release);
  }
  template <class Queue, class Storage>
  bool popped(Queue const& queue, simt::uint32_t segment, simt::uint32_t block, unsigned n, Storage const& storage) const {
    segment_record const before{ref{*storage.record(block)}.fetch_add(n, simt::acq_rel)};
    if (before.popped() + n != queue.places()) return false;
    slot_of(segment).store(0, simt::relaxed);
    queue.give(block, storage);
    return true;
  }
  template <class Queue, class Storage>
  bool leave(Queue const& queue, simt::uint32_t segment, unsigned n, Storage const& storage) const {
    return n != 0 && popped(queue, segment, find(segment, true, storage), n, storage);
  }
};
// The way to a segment, where a record is believed whatever segment it is of by now.
struct list_of_old_records : list_directory {
  using list_directory::list_directory;
  template <class Storage>
  simt::uint32_t find(simt::uint32_t segment, bool, Storage const& storage) const {
    simt::back_off pause;
    segment_place here{};
    while (here.none() || here.segment() != segment) {
      if (!here.none()) {
        segment_record const there{ref{*storage.record(here.block())}.load(simt::acquire)};
        if (there.has_next()) {
          here = segment_place::of(here.segment() + 1, there.next());
          continue;
        }
      }
      pause.wait();
      if (here.none()) here.bits = ref{at->first}.load(simt::acquire);
    }
    return here.block();
  }
};
// The first segment's number and block, read one after the other.
struct list_of_two_words : list_directory {
  using list_directory::list_directory;
  template <class Storage>
  simt::uint32_t find(simt::uint32_t segment, bool, Storage const& storage) const {
    simt::back_off pause;
    for (unsigned tries = 0; tries < 100000; ++tries) {
      segment_place const one{ref{at->first}.load(simt::acquire)}, two{ref{at->first}.load(simt::acquire)};
      if (!one.none() && !two.none()) {
        simt::uint32_t block = two.block();
        for (simt::uint32_t s = one.segment(); s != segment && block != no_block; ++s) {
          block = segment_record{ref{*storage.record(block)}.load(simt::acquire)}.next();
        }
        if (block != no_block) return block;
      }
      pause.wait();
    }
    throw std::runtime_error("a segment is not found");
  }
};
// A hint that is believed whatever segment it is of.
struct list_of_old_hints : gpuheap::structures::basic_list_directory<2> {
  using directory = gpuheap::structures::basic_list_directory<2>;
  using directory::basic_list_directory;
  template <class Storage>
  simt::uint32_t find(simt::uint32_t segment, bool pops, Storage const& storage) const {
    segment_place const there{ref{at->hints[segment % 2]}.load(simt::consume)};
    return there.none() ? directory::find(segment, pops, storage) : there.block();
  }
};
// Finished segments that only the last pop looks at.
struct list_that_forgets : list_directory {
  using list_directory::list_directory;
  template <class Queue, class Storage>
  void popped(Queue const& queue, simt::uint32_t segment, simt::uint32_t block, unsigned n, Storage const& storage) const {
    segment_record const before{ref{*storage.record(block)}.fetch_add(n, simt::acq_rel)};
    segment_place first{ref{at->first}.load(simt::acquire)};
    if (before.popped() + n != queue.places() || !before.has_next() || first.segment() != segment) return;
    ref{at->first}.store(segment_place::of(segment + 1, before.next()).bits, simt::release);
    queue.give(block, storage);
  }
};
// A segment that leaves together with a finished one before it, whether it is finished itself or not.
struct list_that_leaps : list_directory {
  using list_directory::list_directory;
  template <class Queue, class Storage>
  void popped(Queue const& queue, simt::uint32_t segment, simt::uint32_t block, unsigned n, Storage const& storage) const {
    leap(queue, storage);
    list_directory::popped(queue, segment, block, n, storage);
  }
  template <class Queue, class Storage>
  void leap(Queue const& queue, Storage const& storage) const {
    segment_place const here{ref{at->first}.load(simt::acquire)};
    if (here.none()) return;
    segment_record const one{ref{*storage.record(here.block())}.load(simt::acquire)};
    if (one.popped() != queue.places() || !one.has_next()) return;
    segment_record const other{ref{*storage.record(one.next())}.load(simt::acquire)};
    simt::uint64_t expected = here.bits;
    simt::uint64_t const after = segment_place::of(here.segment() + 2, other.next()).bits;
    if (!other.has_next() || !ref{at->first}.compare_exchange(expected, after, simt::acq_rel, simt::relaxed)) return;
    queue.give(here.block(), storage);
    queue.give(one.next(), storage);
  }
};
// A queue that is vacated without regard to who has claimed the places.
struct list_that_leaves : list_directory {
  using list_directory::list_directory;
  template <class Queue, class Storage>
  bool leave(Queue const& queue, simt::uint32_t, unsigned n, Storage const& storage) const {
    segment_place const last{ref{at->last}.load(simt::relaxed)};
    if (last.none()) return false;
    ref{*storage.record(last.block())}.fetch_add(n, simt::acq_rel);
    ref{at->first}.store(0, simt::relaxed);
    ref{at->last}.store(0, simt::relaxed);
    queue.give(last.block(), storage);
    return true;
  }
};

}  // namespace structures_test
