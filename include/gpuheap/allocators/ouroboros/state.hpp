// The state of an Ouroboros heap: the pool of chunks; and for each size class its chunks that have free pages, and the number of those
// pages.
//
//   pool    the chunks that no thread has. A chunk of the second instance is a region of them (pool.hpp)
//   entry   the right to take pages from a chunk. A chunk with a spare page has one entry. It lies in the class's queue or in its tree, or
//           a thread holds it. Only the holder takes pages; other threads may give pages back meanwhile
//   give    sets the page's spare bit, then raises the count in the chunk's word. The thread that raises the count from 0 makes the entry,
//           and lists it
//   take    unlists an entry, lowers the count, then takes as many spare bits of one word, or fewer. It adds the number of missing bits to
//           the count again. If the count is 0 then, the entry is gone; otherwise the thread lists it again
//   share   C: a thread that finds no entry in the queue, because others hold them, lowers the count of a chunk that `current` names, but
//           not below 1, by a compare-exchange of the whole word, and takes as many spare bits. The entry stays with its holder
//   new     P: all pages of a new chunk go into the queue, and become spare only if the queue has no room. C: a new chunk's entry goes into
//           the queue
// So at any time there are at least as many spare bits as the counts say, plus those for which threads have lowered a count. An entry
// appears and disappears by the change of one word, so no chunk is listed twice or left out.
//
//   units   the pages of a class that threads may acquire and then find. A thread gives a chunk whose pages are all free back to the pool
//           in three steps: it unlists the chunk's entry, acquires the units of all its pages, and exchanges the chunk's word for that of
//           an unused chunk. Then no thread can find a page of the chunk any more, and no thread has a unit without a page
#pragma once

#include <gpuheap/allocators/ouroboros/layout.hpp>
#include <gpuheap/allocators/ouroboros/pool.hpp>
#include <gpuheap/allocators/ouroboros/queues.hpp>
#include <gpuheap/structures/batch_semaphore.hpp>
#include <gpuheap/structures/relocation_count.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::ouro {

using structures::relocation_count;

// The parts of the allocator. Tests replace some of them by parts with a mistake.
struct parts {
  using semaphore = structures::batch_semaphore;
  template <stored_in Stored, queue_of Holds>
  using queue = typename queue_stored<Stored, Holds>::type;
};

// The counts of verify()'s kernels. Device and host.
struct census {
  uint64_t chunks = 0, live_pages = 0, live_bytes = 0, queued_pages = 0, queue_chunks = 0;
  uint64_t free_pages[32] = {}, units[32] = {}, empty[32] = {};  // for each class
  uint64_t first_fault = 0;                                      // ~{chunk, fault} of the lowest chunk with a fault; 0: no fault
};

// The state. Device, any thread. It lies in the heap's memory.
template <queue_of Holds, stored_in Stored, ouroboros_config Config, class Parts>
struct alignas(256) heap_state {
  using layout_type = layout<Holds, Stored, Config>;
  using semaphore_type = typename Parts::semaphore;
  using queue_type = typename Parts::template queue<Stored, Holds>;
  static constexpr unsigned num_classes = layout_type::num_classes;
  static constexpr bool holds_pages = Holds == queue_of::pages;
  static constexpr unsigned num_shared = 4;

  struct alignas(256) class_state {
    structures::batch_semaphore::words units;
    alignas(64) uint32_t empty = 0;  // chunks all of whose pages are spare. May be below zero for a moment
    // C: 1 + the numbers of chunks that had several spare pages; 0: no chunk. Hints. Chunk c is named in word c modulo num_shared.
    alignas(64) uint32_t current[num_shared] = {};
    alignas(64) bitmap_tree listed;  // this member and the next are constant
    queue_type queue;
  };

  layout_type at;
  chunk_pool pool;
  uint32_t num_chunks = 0;             // chunks that have memory. No kernel of a program changes it
  alignas(128) uint64_t moves = 0;     // a relocation_count of chunks that move between the pool and a class
  alignas(128) unsigned num_used = 0;  // used by the pool, as is the next member
  alignas(128) uint32_t fresh = 0;
  class_state classes[num_classes] = {};
  census found{};

  // ---- the pool

  [[nodiscard]] GPUHEAP_FN relocation_count relocations() { return {&moves}; }
  GPUHEAP_COLD void release_chunk(uint32_t chunk, unsigned span) {
    for (unsigned i = 0; i != span; ++i) at.word(chunk + i).store(chunk_word{}.bits, simt::relaxed);  // relaxed: pool.release() releases
    pool.release(chunk, span);
  }

  // The storage of virtual queues: takes their segments from the pool.
  struct storage {
    heap_state* heap;
    [[nodiscard]] GPUHEAP_FN bool may_have_any() const { return heap->pool.may_have_any(); }
    [[nodiscard]] GPUHEAP_FN uint32_t take() const {
      chunk_set const got = chunk_pool::claim(heap->pool, 1, false, heap->relocations());
      if (got.bits == 0) return no_block;
      heap->relocations().end();
      uint32_t const chunk = got.base + simt::lowest_bit(got.bits);
      // relaxed: readers of this word act only on chunks of a class: frees, which are refused, threads with an old `current`, and verify().
      heap->at.word(chunk).store(chunk_word::of(chunk_word::queue).bits, simt::relaxed);
      return chunk;
    }
    GPUHEAP_FN void give(uint32_t chunk) const {
      heap->relocations().begin();
      heap->release_chunk(chunk, 1);
      heap->relocations().end();
    }
    [[nodiscard]] GPUHEAP_FN uint32_t* places(uint32_t chunk) const {
      return reinterpret_cast<uint32_t*>(heap->at.chunks + size_t{chunk} * layout_type::chunk_bytes);
    }
    [[nodiscard]] GPUHEAP_FN uint64_t* record(uint32_t chunk) const { return heap->at.records + chunk; }
    [[nodiscard]] GPUHEAP_FN uint64_t* number(uint32_t chunk) const { return heap->at.numbers + chunk; }
  };
  [[nodiscard]] GPUHEAP_FN queue_type const& queue(unsigned q) const { return classes[q].queue; }
  [[nodiscard]] GPUHEAP_FN semaphore_type units(unsigned q) { return {&classes[q].units}; }

  // ---- entries

  // Lists an entry, a chunk of class q, for each lane of the group.
  GPUHEAP_FN void list(warp_group group, unsigned q, uint32_t chunk) {
    unsigned listed = 0;
    if constexpr (!holds_pages) listed = queue(q).push(group, chunk, storage{this});
    // The chunks for which the queue has no room.
    if (group.rank() >= listed) classes[q].listed.set(chunk);
  }
  // Takes up to `wanted` entries of the tree, one for each lane of the lowest ranks, and sets `chunk` in these lanes. Returns how many; 0
  // if each leaf was empty when the search looked at it, or other threads took its entries first.
  [[nodiscard]] GPUHEAP_FN unsigned unlist(warp_group group, unsigned q, unsigned wanted, uint32_t& chunk) {
    chunk_set listed;
    if (group.leads()) listed = take_listed(classes[q].listed, wanted);
    uint64_t const bits = group.from_leader(listed.bits);
    uint32_t const base = group.from_leader(listed.base);
    simt::sync_warp(group.mask);  // the other lanes acquire what the leader acquired
    unsigned const got = simt::popcount(bits), rank = group.rank();
    if (rank < got) chunk = base + simt::nth_set_bit(bits, rank);
    return got;
  }

  // ---- pages of a chunk

  // The lowest n (> 0) bits of `bits`, or all of them.
  [[nodiscard]] GPUHEAP_FN static uint32_t lowest_of(uint32_t bits, unsigned n) {
    if (n >= simt::popcount(bits)) return bits;
    uint32_t rest = bits;
    GPUHEAP_NO_UNROLL
    for (; n != 0; --n) rest &= rest - 1;
    return bits ^ rest;
  }
  // Pages that a thread has taken from a chunk.
  struct taken_pages {
    unsigned index = 0;      // the index of a word of spare bits
    uint32_t bits = 0;       // the taken bits of that word. 0: no page
    bool has_entry = false;  // the caller holds the chunk's entry now
    bool was_empty = false;  // all pages were spare before
  };
  // Takes up to n (> 0) pages of a chunk. If `holds`, the caller holds the chunk's entry. Otherwise the chunk may be of another class by
  // now, and the function leaves at least one page in it.
  [[nodiscard]] GPUHEAP_FN taken_pages take_pages(uint32_t chunk, unsigned q, unsigned n, bool holds) {
    unsigned const num_pages = layout_type::pages_of(q), num_words = (num_pages + 31) / 32, rest = holds ? 0 : 1, wanted = n;
    taken_pages mine;
    // relaxed: the exchange confirms it.
    chunk_word seen{at.word(chunk).load(simt::relaxed)};
    // Ends: if an exchange fails, another thread has taken or given back pages meanwhile. For the holder the count stays above 0, since
    // other threads leave one page. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      if (!holds && (seen.use() != chunk_word::pages || seen.size_class() != q || seen.count() < 2)) return mine;
      n = wanted < seen.count() - rest ? wanted : seen.count() - rest;
      uint32_t expected = seen.bits;
      // relay: comes after the bits of threads that gave pages back, and before this thread's changes of bits.
      if (at.word(chunk).compare_exchange(expected, seen.bits - n, simt::relay, simt::relaxed)) break;
      seen.bits = expected;
    }
    bool const took_all = seen.count() == n;
    mine.was_empty = seen.count() == num_pages;
    // The word of the first spare page, if the chunk's pages were taken in order.
    unsigned index = (num_pages - seen.count()) / 32 & (num_words - 1);
    uint32_t bits = 0;
    // Ends: each thread that lowers the count takes no more bits than that, and bits are set before the count rises. So there is a bit for
    // this thread, and a pass finds it unless other threads change its word meanwhile. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      // relaxed: a guess, which the AND below confirms.
      uint32_t const there = at.spare_word(chunk, index).load(simt::relaxed);
      // relay: passes the fences of the pages' last owners on to their next owners. A page that the load showed may be taken by now.
      if (there != 0) bits = at.spare_word(chunk, index).fetch_and(~lowest_of(there, n), simt::relay) & lowest_of(there, n);
      if (bits != 0) break;
      index = index + 1 == num_words ? 0 : index + 1;
    }
    // relaxed: a free by the page's owner comes after this change, by the program's order. For all other threads the bit is a guess.
    if constexpr (holds_pages) at.idle_word(chunk, index).fetch_and(~bits, simt::relaxed);
    mine.index = index;
    mine.bits = bits;
    mine.has_entry = holds && !took_all;
    // If the word had too few bits, the missing pages lie in other words. This thread has not taken those bits, so it adds them to the
    // count again.
    if (unsigned const more = n - simt::popcount(bits); more != 0) {
      // relay: as in give_pages(). The thread that raises the count from 0 makes the entry.
      chunk_word const before{at.word(chunk).fetch_add(more, simt::relay)};
      if (before.count() == 0) mine.has_entry = true;
    }
    return mine;
  }
  // Each lane of the group gives back a page of class q in its chunk. The lane has set the page's spare bit. A fence must have released the
  // lanes' accesses to the pages before.
  GPUHEAP_FN void give_pages(warp_group group, unsigned q, uint32_t chunk) {
    warp_group const same = warp_group::of_equal(group.mask, chunk);
    simt::sync_warp(same.mask);  // the count comes after the bits of all these lanes
    bool makes_entry = false, empties = false;
    if (same.leads()) {
      // relay: passes on the fences of the threads that freed, to the threads that take pages of this chunk next.
      chunk_word const before{at.word(chunk).fetch_add(same.size(), simt::relay)};
      makes_entry = before.count() == 0;
      empties = before.count() + same.size() == layout_type::pages_of(q);
    }
    count_empty(group, q, empties, 1);
    simt::lane_mask const makers = simt::ballot(group.mask, makes_entry);
    if (makes_entry) list(warp_group{makers}, q, chunk);
    simt::sync_warp(group.mask);
    if (group.leads()) units(q).release(group.size());
  }

  // Whether the queue seems to have entries. All lanes of the group call. A hint.
  [[nodiscard]] GPUHEAP_FN bool has_entries(warp_group group, unsigned q) const {
    return group.from_leader(group.leads() ? queue(q).size() : 0) != 0;
  }
  // The result of a search for pages. All lanes of the group call. `p`: the page of this lane, if the search found one for it.
  struct served_page {
    void* p = nullptr;
    unsigned lanes = 0;  // how many lanes of the group got a page
  };
  // Finds pages in chunks, for the lanes of ranks `served` .. `got` - 1.
  [[nodiscard]] GPUHEAP_FN served_page pages_of_chunks(warp_group group, unsigned q, unsigned served, unsigned got) {
    unsigned const wanted = got - served, rank = group.rank(), chunks = layout_type::chunks_for(wanted, q);
    uint32_t chunk = 0;
    unsigned held = 0;
    taken_pages mine;
    if constexpr (!holds_pages) {
      // The load comes first: the queue is often empty, because other threads hold its entries.
      if (has_entries(group, q)) held = queue(q).pop(group, chunks, chunk, storage{this});
      if (held == 0) {
        if (group.leads()) {
          // Warps begin at different chunks, because of several exchanges of one word only one succeeds at a time.
          unsigned const first = simt::global_warp();
          GPUHEAP_NO_UNROLL
          for (unsigned k = 0; k != num_shared && mine.bits == 0; ++k) {
            // relaxed: a hint.
            uint32_t const current = simt::global_ref<uint32_t>{classes[q].current[(first + k) % num_shared]}.load(simt::relaxed);
            chunk = current - 1;
            if (current != 0) mine = take_pages(chunk, q, wanted, false);
          }
        }
        if (simt::any_of(group.mask, mine.bits != 0)) return hand_out(group, q, served, wanted, chunk, mine);
      }
    }
    if (held == 0) held = unlist(group, q, chunks, chunk);
    if (held == 0) return {};
    // The lanes of the lowest ranks hold an entry each. Together they take the wanted number of pages, each of them at most as many as its
    // chunk has by this load.
    unsigned before = 0, most = wanted;
    bool const holds = rank < held;
    if (held != 1) {
      most = holds ? chunk_word{at.word(chunk).load(simt::relaxed)}.count() : 0;
      unsigned total = 0;
      before = group.sum_before(most, total);
    }
    mine.has_entry = holds;
    // Other threads may share the chunk while this one has its entry.
    if (held == 1 && holds) share(q, chunk);
    if (holds && before < wanted) {
      unsigned const rest = wanted - before;
      mine = take_pages(chunk, q, rest < most ? rest : most, true);
    }
    return hand_out(group, q, served, wanted, chunk, mine);
  }

  // ---- units

  // Acquires units of class q for `wanted` lanes, and returns their number, which is lower only if the heap has no more. Sets `made` to new
  // chunks, which the caller's group must publish().
  [[nodiscard]] GPUHEAP_FN unsigned acquire(unsigned q, unsigned wanted, chunk_set& made) {
    unsigned const got = units(q).try_acquire(wanted);
    return got == wanted ? got : got + acquire_slowly(q, wanted - got, made);
  }
  // Puts the new chunks of the leader's `made` into the queue; P: all their pages. All lanes of the group call. The units of these pages
  // exist already, and threads that have acquired them wait for this call.
  GPUHEAP_COLD static void publish(heap_state* heap, warp_group group, unsigned q, chunk_set made) {
    uint32_t const base = group.from_leader(made.base);
    simt::sync_warp(group.mask);  // the other lanes acquire what the leader acquired
    // release: publishes the leader's stores to the new chunks, before all pages that the lanes push.
    if constexpr (pushes_relay(Holds, Stored)) simt::fence(simt::release);
    unsigned const rank = group.rank(), size = group.size();
    // Ends: each pass clears bits.
    GPUHEAP_NO_UNROLL
    for (uint64_t rest = group.from_leader(made.bits); rest != 0;) {
      if constexpr (holds_pages) {
        heap->publish_pages(group, q, base + simt::lowest_bit(rest));
        rest &= rest - 1;
      } else {
        unsigned const left = simt::popcount(rest), n = left < size ? left : size;
        bool const enters = rank < n;
        simt::lane_mask const entering = simt::ballot(group.mask, enters);
        if (enters) heap->list(warp_group{entering}, q, base + simt::nth_set_bit(rest, rank));
        simt::sync_warp(group.mask);
        rest &= ~lowest_bits(rest, n);
      }
    }
  }

 private:
  // Puts all pages of a new chunk into the queue. Pages for which the queue has no room become spare.
  GPUHEAP_FN void publish_pages(warp_group group, unsigned q, uint32_t chunk) {
    unsigned const num_pages = layout_type::pages_of(q);
    unsigned const pushed = queue(q).push_run(group, chunk << layout_type::lg_pages, num_pages, storage{this});
    if (pushed == num_pages) return;
    GPUHEAP_NO_UNROLL
    for (unsigned i = pushed / 32 + group.rank(); i * 32 < num_pages; i += group.size()) {
      unsigned const first = pushed > i * 32 ? pushed - i * 32 : 0, end = num_pages - i * 32 < 32 ? num_pages - i * 32 : 32;
      auto const bits = static_cast<uint32_t>(simt::low_bits(end) & ~simt::low_bits(first));
      at.spare_word(chunk, i).fetch_or(bits, simt::relay);  // relay: as in mark() of the allocator
    }
    simt::sync_warp(group.mask);  // the count comes after the bits of all lanes
    if (!group.leads()) return;
    chunk_word const before{at.word(chunk).fetch_add(num_pages - pushed, simt::relay)};
    if (before.count() + num_pages - pushed == num_pages) count_empty(q, 1);
    if (before.count() == 0) classes[q].listed.set(chunk);
  }
  // Makes a page that this thread has popped from the queue a spare page of its chunk.
  GPUHEAP_COLD void spare_page(uint32_t chunk, unsigned page, unsigned q) {
    // acq_rel: comes after the page's last owner, which the pop has acquired, and before the thread that takes the page next.
    simt::fence(simt::acq_rel);
    at.spare_word(chunk, page / 32).fetch_or(1u << page % 32, simt::relay);
    // relay: as in give_pages().
    chunk_word const before{at.word(chunk).fetch_add(1, simt::relay)};
    if (before.count() + 1 == layout_type::pages_of(q)) count_empty(q, 1);
    if (before.count() == 0) classes[q].listed.set(chunk);
  }
  // The rest of pages_of_chunks(): lists the entries that lanes still hold, and distributes the pages.
  [[nodiscard]] GPUHEAP_FN served_page hand_out(warp_group group, unsigned q, unsigned served, unsigned wanted, uint32_t chunk,
                                                taken_pages const& mine) {
    unsigned const rank = group.rank();
    count_empty(group, q, mine.was_empty, -1);
    if (mine.has_entry) share(q, chunk);
    simt::lane_mask const keepers = simt::ballot(group.mask, mine.has_entry);
    if (mine.has_entry) list(warp_group{keepers}, q, chunk);
    simt::sync_warp(group.mask);  // the other lanes acquire what the holders acquired
    served_page found;
    GPUHEAP_NO_UNROLL
    for (simt::lane_mask rest = group.mask; found.lanes != wanted && rest != 0; rest &= rest - 1) {
      unsigned const holder = simt::lowest_bit(rest);
      uint32_t const taken = simt::shuffle(group.mask, mine.bits, holder), of = simt::shuffle(group.mask, chunk, holder);
      unsigned const word = simt::shuffle(group.mask, mine.index, holder), k = simt::popcount(taken);
      if (rank >= served + found.lanes && rank - served - found.lanes < k) {
        found.p = at.page_at(of, q, word * 32 + simt::nth_set_bit(taken, rank - served - found.lanes));
      }
      found.lanes += k;
    }
    return found;
  }
  // Names a chunk to the threads that find no entry. relaxed: a hint.
  GPUHEAP_FN void share(unsigned q, uint32_t chunk) {
    if constexpr (!holds_pages) {
      if (layout_type::pages_of(q) > 1) simt::global_ref<uint32_t>{classes[q].current[chunk % num_shared]}.store(chunk + 1, simt::relaxed);
    }
  }
  // Changes the number of empty chunks by `change` for each lane with `counts`. All lanes of the group call.
  GPUHEAP_FN void count_empty(warp_group group, unsigned q, bool counts, int change) {
    simt::lane_mask const lanes = simt::ballot(group.mask, counts);
    if (lanes != 0 && group.leads()) count_empty(q, change * static_cast<int>(simt::popcount(lanes)));
  }
  GPUHEAP_FN void count_empty(unsigned q, int change) {
    // relaxed: the number is a hint while other threads change it.
    simt::global_ref<uint32_t>{classes[q].empty}.fetch_add(static_cast<uint32_t>(change), simt::relaxed);
  }

  // Takes up to `wanted` (1 to 32) chunks from one leaf of a tree. Warps that come at the same time begin at different leaves, of the first
  // 64 leaves with chunks, and at different bits, so that they try for different chunks.
  [[nodiscard]] GPUHEAP_COLD static chunk_set take_listed(bitmap_tree const& tree, unsigned wanted) {
    chunk_set taken;
    uint32_t const spread = simt::global_warp() * 0x9e3779b1u;
    unsigned const first = tree.successor(0), leaf = first / 4096 * 64 + (spread >> 26);
    tree.for_each_leaf(leaf < tree.num_leaves ? leaf : 0, [&](unsigned i) {
      uint64_t seen = tree.leaf(i).load(simt::relaxed);  // relaxed: a guess, which take_mask() confirms
      if (seen == 0) tree.clear_stale(i);
      // Ends: each pass clears bits of `seen`.
      GPUHEAP_NO_UNROLL
      while (seen != 0 && taken.bits == 0) {
        uint64_t const above = seen & ~simt::low_bits(spread >> 20 & 63), chosen = lowest_bits(above != 0 ? above : seen, wanted);
        taken = {i * 64, tree.take_mask(i, chosen)};
        seen &= ~chosen;
      }
      return taken.bits != 0;
    });
    return taken;
  }

  // The rest of acquire(), if there are too few units.
  [[nodiscard]] GPUHEAP_COLD unsigned acquire_slowly(unsigned q, unsigned wanted, chunk_set& made) {
    semaphore_type const there = units(q);
    unsigned got = 0;
    simt::back_off pause;
    there.want(wanted);
    // Ends: a pass that does not return has got units. Or it has put a chunk into the pool; this thread takes that chunk next, or another
    // thread has taken it and keeps units of it. Or it saw that another thread, which waits for no thread, moves a chunk, makes units, or
    // still pushes to or pops from an empty queue. A thread that finds the pool empty and no chunk moving gives up. Lock-free, except for
    // waiting for threads that make units.
    GPUHEAP_NO_UNROLL
    while (true) {
      uint64_t const seen = relocations().read_begin();
      // The load comes first, so that waiting threads do not write to an exhausted count.
      unsigned const more = there.available() > 0 ? there.try_acquire(wanted) : 0;
      if (more != 0) there.want_no_more(more);
      got += more;
      wanted -= more;
      if (wanted == 0) return got;
      unsigned const batch = layout_type::chunks_for(wanted, q) << layout_type::lg_pages_of(q);
      if (there.may_make(batch)) {
        // An earlier pass made chunks. This lane publishes them alone.
        if (made.bits != 0) publish(this, warp_group{simt::lane_mask{1} << simt::lane_id()}, q, made);
        unsigned const mine = make_units(q, batch, wanted, made);
        there.made(batch);
        there.want_no_more(mine);
        got += mine;
        wanted -= mine;
        if (wanted == 0) return got;
        if (mine != 0) continue;
        reclaimed const more_chunks = reclaim();
        if (more_chunks == reclaimed::one) continue;
        if (more_chunks == reclaimed::none && relocation_count::quiet(seen) && relocations().read_end() == seen) {
          there.want_no_more(wanted);
          return got;
        }
      }
      pause.wait();
    }
  }

  // Takes chunks from the pool for about n pages of class q. Keeps up to `wanted` units for the caller, so that no other thread can put the
  // new chunks back into the pool before the caller has got a page. Returns how many it kept; 0 if there was no chunk. Sets `made_chunks`
  // to the chunks, which the caller has to publish.
  [[nodiscard]] GPUHEAP_COLD unsigned make_units(unsigned q, unsigned n, unsigned wanted, chunk_set& made_chunks) {
    unsigned const span = layout_type::span(q), num_pages = layout_type::pages_of(q);
    chunk_set const got = chunk_pool::claim(pool, n >> layout_type::lg_pages_of(q), span != 1, relocations());
    made_chunks = {};
    if (got.bits == 0) return 0;
    unsigned made = 0;
    uint64_t heads = 0;
    // Ends: one pass per chunk.
    GPUHEAP_NO_UNROLL
    for (uint64_t rest = got.bits; rest != 0; made += num_pages) {
      unsigned const bit = simt::lowest_bit(rest);
      prepare(got.base + bit, q, span, num_pages);
      heads |= uint64_t{1} << bit;
      rest &= ~(simt::low_bits(span) << bit);
    }
    made_chunks = {got.base, heads};
    if (wanted > made) wanted = made;
    if (made != wanted) units(q).release(made - wanted);
    relocations().end();
    return wanted;
  }
  // Makes the claimed chunk, of `span` base chunks, a chunk of class q.
  GPUHEAP_FN void prepare(uint32_t chunk, unsigned q, unsigned span, unsigned num_pages) {
    // relaxed, all but the last store, which publishes the others.
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i * 32 < num_pages; ++i) {
      auto const bits = static_cast<uint32_t>(simt::low_bits(num_pages - i * 32 < 32 ? num_pages - i * 32 : 32));
      at.spare_word(chunk, i).store(holds_pages ? 0 : bits, simt::relaxed);
      if constexpr (holds_pages) at.idle_word(chunk, i).store(bits, simt::relaxed);
    }
    for (unsigned i = 1; i < span; ++i) at.word(chunk + i).store(chunk_word::of(chunk_word::tail).bits, simt::relaxed);
    if constexpr (!holds_pages) count_empty(q, 1);
    // release: publishes the bits. Pairs with take_pages().
    at.word(chunk).store(chunk_word::of(chunk_word::pages, q, holds_pages ? 0 : num_pages).bits, simt::release);
  }

  // The result of reclaim(). busy: no chunk was reclaimed, but a queue will need none of its segments once the threads that push and pop
  // have ended.
  enum class reclaimed { none, one, busy };
  // Gives a chunk whose pages are all free back to the pool, or the segments of a queue that needs none.
  [[nodiscard]] GPUHEAP_COLD reclaimed reclaim() {
    GPUHEAP_NO_UNROLL
    for (unsigned q = 0; q != num_classes; ++q) {
      // relaxed: a hint; this search need not find a chunk that becomes empty later.
      if (static_cast<int>(simt::global_ref<uint32_t>{classes[q].empty}.load(simt::relaxed)) <= 0) continue;
      if (units(q).available() >= layout_type::pages_of(q) && reclaim_of(q)) return reclaimed::one;
    }
    reclaimed found = reclaimed::none;
    if constexpr (Stored != stored_in::static_ring) {
      GPUHEAP_NO_UNROLL
      for (unsigned q = 0; q != num_classes && found != reclaimed::one; ++q) {
        reclaimed const here = vacate_queue(q);
        if (here != reclaimed::none) found = here;
      }
    }
    return found;
  }
  // Reclaims the segments of a queue that is empty or has few entries. The entries move into the tree, or become spare bits.
  [[nodiscard]] GPUHEAP_FN reclaimed vacate_queue(unsigned q) {
    constexpr unsigned few = holds_pages ? 4 * layout_type::places : 64;
    unsigned const n = queue(q).size();
    if (n > few || !queue(q).has_segments()) return reclaimed::none;
    GPUHEAP_NO_UNROLL
    for (unsigned left = n; left != 0; --left) {
      uint32_t entry = no_block;
      if (queue(q).pop(warp_group{simt::lane_mask{1} << simt::lane_id()}, 1, entry, storage{this}) == 0) break;
      if constexpr (holds_pages) {
        spare_page(entry >> layout_type::lg_pages, entry & ((1u << layout_type::lg_pages) - 1), q);
      } else {
        classes[q].listed.set(entry);
      }
    }
    return queue(q).vacate(storage{this}) ? reclaimed::one : reclaimed::busy;
  }
  // Gives a chunk of class q whose pages are all free back to the pool. Returns whether it found one.
  [[nodiscard]] GPUHEAP_FN bool reclaim_of(unsigned q) {
    if constexpr (!holds_pages) {
      warp_group const alone{simt::lane_mask{1} << simt::lane_id()};
      uint32_t chunk = no_block;
      // Entries that stay go to the tree, whose chunks a search can check without taking their entries out.
      GPUHEAP_NO_UNROLL
      for (unsigned left = queue(q).size(); left != 0; --left) {
        if (queue(q).pop(alone, 1, chunk, storage{this}) == 0) break;
        if (give_chunk(chunk, q)) return true;
        classes[q].listed.set(chunk);
      }
    }
    bitmap_tree const& tree = classes[q].listed;
    return tree.for_each_leaf(0, [&](unsigned i) {
      // relaxed: guesses. Taking the entry and give_chunk() confirm them.
      GPUHEAP_NO_UNROLL
      for (uint64_t bits = tree.leaf(i).load(simt::relaxed); bits != 0; bits &= bits - 1) {
        uint32_t const chunk = i * 64 + simt::lowest_bit(bits);
        if (chunk_word{at.word(chunk).load(simt::relaxed)}.count() != layout_type::pages_of(q) || !tree.take(chunk)) continue;
        if (give_chunk(chunk, q)) return true;
        tree.set(chunk);
      }
      return false;
    });
  }
  // Gives a chunk whose entry the caller holds back to the pool; the entry then ceases to exist. Returns false if the chunk is in use.
  [[nodiscard]] GPUHEAP_FN bool give_chunk(uint32_t chunk, unsigned q) {
    unsigned const num_pages = layout_type::pages_of(q);
    // consume: comes after the threads that gave its pages back.
    if (chunk_word{at.word(chunk).load(simt::consume)}.count() != num_pages) return false;
    // If a thread holds units of the chunk, and waits for more units, the chunk stays.
    if (units(q).available() < num_pages) return false;
    relocations().begin();
    bool given = units(q).try_acquire_all(num_pages);
    if (given) {
      uint32_t expected = chunk_word::of(chunk_word::pages, q, num_pages).bits;
      // If a thread with other chunks' units has taken pages of this chunk meanwhile, the exchange fails and the chunk stays. relay: comes
      // after the threads that gave pages back.
      given = at.word(chunk).compare_exchange(expected, chunk_word{}.bits, simt::relay, simt::relaxed);
      if (given) {
        count_empty(q, -1);
        release_chunk(chunk, layout_type::span(q));
      } else {
        units(q).release(num_pages);
      }
    }
    relocations().end();
    return given;
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::ouro
