// UAlloc: objects of up to 1024 bytes from bins of one page. Bins come from chunks, and chunks are blocks of TBuddy. Each multiprocessor
// has an arena. A request of a class first acquires a unit of a bulk semaphore, then takes an object of some bin in the class's list.
//
//   bin     | header 128 | data 3968 |  with a tail of 128 bytes for objects of up to 128 bytes, so that 4096 / size objects fit
//   chunk   | header | 31 tails | header | 31 tails | 62 bins |     (64 pages; a chunk of 32 pages or fewer has one page of tails)
//
//   take  units -= n. In a bin of the list, under read-copy-update: free -= m (at most n), then m bits are set. A take that lowers `free`
//         to 0 unlinks the bin. If fewer than n units are there or promised, a page of a chunk becomes a bin, the bin is linked, and units
//         += the objects that are left over
//   give  the bit is cleared, free += m, units += m. A give that raises `free` from 0 links the bin. A give after which all objects are
//         free acquires the units of the others, sets `free` to closed, and unlinks the bin. When all readers have left, the bin goes back
//         to its chunk, and a chunk without bins to TBuddy
// Bits are cleared before `free` counts them, so a thread that lowered `free` by m finds m clear bits. `free` rises before units are added,
// so the sum of all `free` is at least the number of units, including the units that searching threads hold. If all objects of a bin are
// free, but not all of their units are there, the bin stays: other threads hold these units and will take objects, or are about to add the
// units.
//
// Locks are collective mutexes: lanes of a warp that come to the lock of one list together, each with a bin of its own, acquire the lock
// once for all of them, and act one after the other. This happens in frees only: everywhere else, one leader takes the lock. The list's
// lock is held while links change, while a bin is closed, and while a give raises `free` from 0 or to all objects. So no bin is given back
// while a thread that freed its objects still links it. A take that lowers `free` to 0 needs no lock, because the object that it took keeps
// the bin.
#pragma once

#include <gpuheap/allocators/bulkalloc/tbuddy.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::bulk {

// The objects of one bin that a group got.
struct object_grant {
  uint32_t page = no_page;  // the bin's page
  uint32_t count = 0;
  uint32_t before = 0;  // objects of the bin that were free before; 0 if the bin is new, and its first `count` objects are marked as taken
};

// The state of a heap. It lies in device memory, at the start of the region.
template <class Parts>
struct heap_state {
  using semaphore = typename Parts::semaphore;
  using answer = typename semaphore::answer;
  using mutex = typename Parts::mutex;
  using readers = typename Parts::readers;
  using bits = typename Parts::bits;
  using tree = typename Parts::template tree<Parts>;

  tree blocks;
  census scratch;  // used by verify()

  // The state of a leader's search: the arena, and the units of the arena's class that the leader holds already.
  struct search {
    uint32_t own = 0;   // the arena of this multiprocessor
    uint32_t step = 0;  // arenas that were searched in vain
    uint32_t held = 0;
    static constexpr unsigned arena_bits = 12;
    [[nodiscard]] GPUHEAP_FN uint32_t packed() const { return own | step << arena_bits | held << 2 * arena_bits; }
    [[nodiscard]] GPUHEAP_FN static search unpacked(uint32_t p) {
      constexpr uint32_t mask = (1u << arena_bits) - 1;
      return {p & mask, p >> arena_bits & mask, p >> 2 * arena_bits};
    }
  };

  [[nodiscard]] GPUHEAP_FN geometry const& at() const { return blocks.at; }
  [[nodiscard]] GPUHEAP_FN class_list& list(uint32_t arena, unsigned c) { return at().arenas[arena].classes[c]; }
  [[nodiscard]] GPUHEAP_FN static bits objects_of(bin_header& bin, unsigned c) {
    bits all;
    all.hints = &bin.hints;
    all.segments = bin.taken;
    all.count = objects(c);
    return all;
  }
  [[nodiscard]] GPUHEAP_FN static simt::global_ref<uint32_t> word(uint32_t& w) { return simt::global_ref<uint32_t>{w}; }
  [[nodiscard]] GPUHEAP_FN static simt::global_ref<uint64_t> word(uint64_t& w) { return simt::global_ref<uint64_t>{w}; }

  // ---- objects

  // Takes up to `wanted` objects of class c. The grant has count 0 if no arena has an object, and no chunk is available.
  [[nodiscard]] GPUHEAP_FN static object_grant take_objects(heap_state* self, unsigned c, unsigned wanted, search& where) {
    uint32_t const num_arenas = self->at().num_arenas;
    unsigned const n = wanted < objects(c) ? wanted : objects(c);
    // The own arena is tried again at the end, since other threads may have added objects meanwhile.
    // Ends: `step` rises with each pass that does not return.
    GPUHEAP_NO_UNROLL
    for (; where.step <= num_arenas; ++where.step) {
      uint32_t arena = where.own + where.step;
      if (arena >= num_arenas) arena -= num_arenas;
      if (where.held == 0) {
        semaphore const units{&self->list(arena, c).units};
        uint32_t page = no_page;
        if (where.step == 0) {
          // If no units are there or promised, makes a bin from a page of one of the arena's chunks, or of a new chunk.
          bool const served = units.wait(n, objects(c), [&] {
            page = take_bin(self, arena, true);
            if (page != no_page) open_bin(self, arena, c, page, n);
            return page != no_page;
          });
          if (served && page == no_page) where.held = n;
        } else {
          where.held = self->look_elsewhere(arena, c, n);
          if (where.held == 0 && self->has_free_bin(arena)) page = take_bin(self, arena, false);
          if (page != no_page) {
            open_bin(self, arena, c, page, n);
            units.signal(objects(c) - n);
          }
        }
        if (page != no_page) return {page, n, 0};
        if (where.held == 0) continue;
      }
      object_grant const got = self->walk(arena, c, where.held);
      where.held -= got.count;
      if (got.before == got.count) unlink_if_empty(self, arena, c, got.page);
      return got;
    }
    return {};
  }

  // Acquires up to n units of another arena's class, and returns their number; 0 if none are there or promised.
  [[nodiscard]] GPUHEAP_FN unsigned look_elsewhere(uint32_t arena, unsigned c, unsigned n) {
    semaphore const units{&list(arena, c).units};
    auto const seen = units.look();
    if (semaphore::count(seen) + semaphore::surplus(seen) <= 0) return 0;
    unsigned const got = units.try_wait_up_to(n, 1);
    return got != 0 ? got : units.wait_promised(1) ? 1 : 0;
  }
  // Whether the arena's chunks have a free bin, or one is promised. A guess.
  [[nodiscard]] GPUHEAP_FN bool has_free_bin(uint32_t arena) {
    auto const seen = semaphore{&at().arenas[arena].chunks.units}.look();
    return semaphore::count(seen) + semaphore::surplus(seen) > 0;
  }

  // Takes up to `wanted` objects of a bin in the list. The caller holds as many units.
  [[nodiscard]] GPUHEAP_FN object_grant walk(uint32_t arena, unsigned c, unsigned wanted) {
    class_list& mine = list(arena, c);
    readers const domain{&mine.rcu};
    object_grant got;
    simt::back_off pause;
    // Ends: the list has at least as many free objects as units are held. A walk that finds none lost them to other threads, which were
    // served, or passed a place in the list before an object was added there. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      unsigned const parity = domain.enter();
      // acquire, here and below: pairs with link(), so the bin's words are those that it has in this list.
      uint32_t page = word(mine.first).load(simt::acquire);
      // Ends: the list is acyclic. A bin that is linked again while a walk passes it leads back to the list's start, but then another
      // thread has freed an object of it.
      GPUHEAP_NO_UNROLL
      while (page != no_page && got.count == 0) {
        bin_header& bin = at().bin(page);
        uint32_t seen = word(bin.free).load(simt::relaxed);  // relaxed: the compare-exchange confirms it
        // Ends: a pass that does not break lost the word to another thread's change. Lock-free.
        GPUHEAP_NO_UNROLL
        while (seen != 0 && seen < bin_header::closed) {
          unsigned const n = seen < wanted ? seen : wanted;
          // relay: comes after threads that gave objects back, and before the accesses to the bin's bits.
          if (word(bin.free).compare_exchange(seen, seen - n, simt::relay, simt::relaxed)) {
            got = {page, n, seen};
            break;
          }
        }
        page = word(bin.next).load(simt::acquire);
      }
      domain.leave(parity);
      if (got.count != 0) return got;
      pause.wait();
    }
  }

  // Counts m objects, whose bits are cleared, as free. Until they are counted, the bin is not given back.
  GPUHEAP_COLD static void give_objects(heap_state* self, uint32_t arena, unsigned c, uint32_t page, unsigned m) {
    class_list& mine = self->list(arena, c);
    semaphore const units{&mine.units};
    bin_header& bin = self->at().bin(page);
    uint32_t seen = word(bin.free).load(simt::relaxed);  // relaxed: the compare-exchange confirms it
    bool counted = false, closed = false;
    // Ends: a failed exchange lost the word to another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    while (!counted && seen != 0 && seen + m != objects(c)) {
      // relay: passes on the fences of the threads that freed, to a thread that takes objects or closes the bin.
      counted = word(bin.free).compare_exchange(seen, seen + m, simt::relay, simt::relaxed);
    }
    simt::back_off pause;
    // Ends: a pass that does not count lost the word to another thread's change, or all other objects of the bin are free and not all of
    // their units are there. Then other threads hold these units. Until they have taken an object, of this bin or of another one, they wait
    // for the lock at most.
    GPUHEAP_NO_UNROLL
    while (!counted) {
      mutex{&mine.lock}.run_each([&] {
        seen = word(bin.free).load(simt::relaxed);
        bool const linked = (word(bin.info).load(simt::relaxed) & bin_header::linked) != 0;
        if (seen + m != objects(c)) {
          counted = word(bin.free).compare_exchange(seen, seen + m, simt::relay, simt::relaxed);
          if (counted && !linked) self->link(mine, page);
        } else if (seen == 0 || units.try_wait(seen)) {
          // acq_rel: comes after all threads that freed objects of the bin.
          counted = closed = word(bin.free).compare_exchange(seen, bin_header::closed, simt::acq_rel, simt::relaxed);
          if (!closed) units.signal(objects(c) - m);
          if (closed && linked) self->unlink(mine, page);
        }
      });
      // Waits without the lock, since threads that hold the units may want the lock.
      // relaxed: a guess. The next pass looks again under the lock.
      // Ends: the threads that hold the units take their objects, of this bin or of another one, and wait for no thread but the lock's
      // holder.
      GPUHEAP_NO_UNROLL
      while (!counted && word(bin.free).load(simt::relaxed) + m == objects(c) && semaphore::count(units.look()) + m < objects(c))
        pause.wait();
    }
    if (closed) {
      readers{&mine.rcu}.retire(bin.link, end_of_bin{self});
    } else {
      units.signal(m);
    }
  }
  // Gives a bin back to its chunk when no reader is left.
  struct end_of_bin {
    heap_state* self;
    GPUHEAP_FN void operator()(structures::rcu_link* link) const {
      auto const offset = static_cast<size_t>(reinterpret_cast<char*>(link) - self->at().pool);
      give_bin(self, static_cast<uint32_t>(offset / page_bytes));
    }
  };

  // ---- the list of a class

  // Turns a page into a bin of class c, whose first n objects the caller takes. The caller adds the units of the others.
  GPUHEAP_COLD static void open_bin(heap_state* self, uint32_t arena, unsigned c, uint32_t page, unsigned n) {
    bin_header& bin = self->at().bin(page);
    // All stores are relaxed: link() publishes the words, or the program does so when it passes on the objects.
    word(bin.hints).store(0, simt::relaxed);
    GPUHEAP_NO_UNROLL
    for (unsigned s = 0; s != 8; ++s) {
      unsigned const before = s * 32, here = n <= before ? 0 : n - before;
      word(bin.taken[s]).store(static_cast<uint32_t>(simt::low_bits(here < 32 ? here : 32)), simt::relaxed);
    }
    unsigned const left = objects(c) - n;
    word(bin.next).store(no_page, simt::relaxed);
    word(bin.info).store(c, simt::relaxed);
    word(bin.free).store(left, simt::relaxed);
    if (left == 0) return;
    class_list& mine = self->list(arena, c);
    mutex{&mine.lock}.run_alone([&] { self->link(mine, page); });
  }
  // Takes a bin without free objects out of the list.
  GPUHEAP_COLD static void unlink_if_empty(heap_state* self, uint32_t arena, unsigned c, uint32_t page) {
    class_list& mine = self->list(arena, c);
    mutex{&mine.lock}.run_alone([&] {
      bin_header& bin = self->at().bin(page);
      // relaxed, both: the lock orders the accesses.
      bool const linked = (word(bin.info).load(simt::relaxed) & bin_header::linked) != 0;
      if (linked && word(bin.free).load(simt::relaxed) == 0) self->unlink(mine, page);
    });
  }
  // Called under the list's lock. The accesses are relaxed, since the lock orders them; only the stores to words that readers follow are
  // release stores.
  GPUHEAP_FN void link(class_list& mine, uint32_t page) {
    bin_header& bin = at().bin(page);
    uint32_t const next = word(mine.first).load(simt::relaxed);
    word(bin.previous).store(no_page, simt::relaxed);
    // release, both: publish the bin's words, and those of the bins behind it. Pair with walk().
    word(bin.next).store(next, simt::release);
    if (next != no_page) word(at().bin(next).previous).store(page, simt::relaxed);
    word(mine.first).store(page, simt::release);
    word(bin.info).store(word(bin.info).load(simt::relaxed) | bin_header::linked, simt::relaxed);
  }
  // Called under the list's lock; the orders are those of link(). The bin keeps its `next`, so a thread that has reached the bin continues
  // along the list.
  GPUHEAP_FN void unlink(class_list& mine, uint32_t page) {
    bin_header& bin = at().bin(page);
    uint32_t const next = word(bin.next).load(simt::relaxed), previous = word(bin.previous).load(simt::relaxed);
    // release, both: as in link().
    word(previous == no_page ? mine.first : at().bin(previous).next).store(next, simt::release);
    if (next != no_page) word(at().bin(next).previous).store(previous, simt::relaxed);
    word(bin.info).store(word(bin.info).load(simt::relaxed) & ~bin_header::linked, simt::relaxed);
  }

  // ---- bins and chunks. A chunk's words are changed under its arena's lock. Units of bins are added once threads can find the bins.

  // Takes a page of a chunk of the arena. If there is none and `may_grow`, takes a page of a new chunk. no_page if that fails too.
  [[nodiscard]] GPUHEAP_COLD static uint32_t take_bin(heap_state* self, uint32_t arena, bool may_grow) {
    geometry const& at = self->at();
    chunk_list& mine = at.arenas[arena].chunks;
    semaphore const units{&mine.units};
    unsigned const all = at.bins_per_chunk();
    uint32_t page = no_page;
    bool const served = may_grow ? units.wait(1, all,
                                              [&] {
                                                page = take_chunk(self, arena);
                                                return page != no_page;
                                              })
                                 : units.wait_promised(1);
    if (!served || page != no_page) return page;
    mutex{&mine.lock}.run_alone([&] {
      // relaxed, all: the lock orders the accesses.
      uint32_t const first = word(mine.first).load(simt::relaxed);
      chunk_header& chunk = at.chunk(first);
      uint64_t const used = word(chunk.used).load(simt::relaxed), bit = ~used & (0 - ~used);
      word(chunk.touched).store(word(chunk.touched).load(simt::relaxed) | bit, simt::relaxed);
      word(chunk.used).store(used | bit, simt::relaxed);
      if ((used | bit) == at.all_bits()) self->unlink_chunk(mine, first);
      page = first + simt::lowest_bit(bit);
    });
    return page;
  }
  // Takes a new chunk, and returns its first page for a bin, which then belongs to the caller; no_page if there is no chunk. The caller
  // adds the units of the other pages.
  [[nodiscard]] GPUHEAP_COLD static uint32_t take_chunk(heap_state* self, uint32_t arena) {
    geometry const& at = self->at();
    uint32_t const first = tree::take_block(&self->blocks, at.chunk_order());
    if (first == no_page) return no_page;
    chunk_header& chunk = at.chunk(first);
    uint64_t const used = at.header_bits() << 1 | 1;
    // relaxed, all: the release store below publishes them to threads that free, and the lock to threads that take pages.
    word(chunk.used).store(used, simt::relaxed);
    word(chunk.touched).store(used, simt::relaxed);
    word(chunk.arena).store(arena, simt::relaxed);
    word(chunk.linked).store(0, simt::relaxed);
    // release: publishes the chunk's words to a thread that frees one of its objects.
    at.word(first).store(page_word::of(at.chunk_order(), page_word::live | page_word::chunk).bits, simt::release);
    chunk_list& mine = at.arenas[arena].chunks;
    mutex{&mine.lock}.run_alone([&] { self->link_chunk(mine, first); });
    return first + at.header_pages();
  }

  // Gives back a bin of which no RCU reader is left.
  GPUHEAP_COLD static void give_bin(heap_state* self, uint32_t page) {
    geometry const& at = self->at();
    uint32_t const first = at.chunk_of(page);
    chunk_header& chunk = at.chunk(first);
    // relaxed: the chunk belongs to this arena as long as one of its bins is in use.
    chunk_list& mine = at.arenas[word(chunk.arena).load(simt::relaxed)].chunks;
    semaphore const units{&mine.units};
    bool empty = false, done = false;
    simt::back_off pause;
    // Ends: a pass that does not end the loop found all other bins of the chunk free, and not all of their units there. Then other threads
    // hold these units. Until they have taken a bin, of this chunk or of another one, they wait for this lock at most. Until then, this
    // thread's own bin keeps the chunk.
    GPUHEAP_NO_UNROLL
    while (!done) {
      mutex{&mine.lock}.run_alone([&] {
        // relaxed, all: the lock orders the accesses.
        uint64_t const used = word(chunk.used).load(simt::relaxed) & ~(uint64_t{1} << (page - first));
        bool const linked = word(chunk.linked).load(simt::relaxed) != 0;
        if (used != at.header_bits()) {
          word(chunk.used).store(used, simt::relaxed);
          if (!linked) self->link_chunk(mine, first);
          units.signal(1);
          done = true;
        } else if (units.try_wait(at.bins_per_chunk() - 1)) {
          if (linked) self->unlink_chunk(mine, first);
          done = empty = true;
        }
      });
      uint64_t const alone = at.header_bits() | uint64_t{1} << (page - first);
      // Waits without the lock, since threads that hold the units may want the lock.
      // relaxed: a guess. The next pass looks again under the lock.
      // Ends: the threads that hold the units take a bin, of this chunk or of another one, and wait for no thread but the lock's holder.
      GPUHEAP_NO_UNROLL
      while (!done && word(chunk.used).load(simt::relaxed) == alone && semaphore::count(units.look()) + 1 < at.bins_per_chunk())
        pause.wait();
    }
    if (!empty) return;
    at.word(first).store(0, simt::relaxed);  // relaxed: no thread has an object of the chunk
    tree::give(&self->blocks, simt::lane_mask{1} << simt::lane_id(), first >> at.chunk_order(), at.chunk_order());
  }

  // Both are called under the arena's lock, which orders their accesses, so all of them are relaxed.
  GPUHEAP_FN void link_chunk(chunk_list& mine, uint32_t first) {
    chunk_header& chunk = at().chunk(first);
    uint32_t const next = word(mine.first).load(simt::relaxed);
    word(chunk.next).store(next, simt::relaxed);
    word(chunk.previous).store(no_page, simt::relaxed);
    word(chunk.linked).store(1, simt::relaxed);
    if (next != no_page) word(at().chunk(next).previous).store(first, simt::relaxed);
    word(mine.first).store(first, simt::relaxed);
  }
  GPUHEAP_FN void unlink_chunk(chunk_list& mine, uint32_t first) {
    chunk_header& chunk = at().chunk(first);
    uint32_t const next = word(chunk.next).load(simt::relaxed), previous = word(chunk.previous).load(simt::relaxed);
    word(previous == no_page ? mine.first : at().chunk(previous).next).store(next, simt::relaxed);
    if (next != no_page) word(at().chunk(next).previous).store(previous, simt::relaxed);
    word(chunk.linked).store(0, simt::relaxed);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::bulk
