// `ouroboros_p_s`, `_p_va`, `_p_vl`, `_c_s`, `_c_va`, `_c_vl`: a queue for each page size, whose storage may come from the memory that the
// allocator manages.
//   M. Winter, D. Mlakar, M. Parger, M. Steinberger, "Ouroboros: Virtualized Queues for Dynamic Memory Management on GPUs", ICS 2020;
//   measured again in M. Winter, M. Parger, D. Mlakar, M. Steinberger, "Are Dynamic Memory Managers on GPUs Slow?", PPoPP 2021.
//
// P: the queue holds free pages. C: the queue holds chunks with a free page.
// S: the queue is a static ring. VA: it lies in chunks, which an array leads to. VL: it lies in chunks, which a list leads to.
//
// Layout of a region (ouroboros/layout.hpp):
//   | state | pool and trees | queues | of each chunk: word, bits, records | chunks of 8192 bytes ...                        | backing's |
//   sizes     16 32 64 ... 8192: a chunk has as many pages as fit. 16384 32768: a page is half or all of a region, which is four adjacent
//             chunks; the paper calls these sizes the stacked instance, and this code calls them the second instance
//   chunk     | page 0 | page 1 | ... |     or a segment of a queue: | place 0 | place 1 | ... 2048 places of 4 bytes |
//
// malloc:    the lanes of a warp that ask for the same page size make one request. Their leader acquires a unit for each lane from the
//            size's semaphore (batch_semaphore.hpp). If there are too few units, the leader takes chunks from the pool, unless other
//            threads are bringing enough. A unit is the right to find a page. P: the page is in the queue, or else in a listed chunk. C:
//            the page is in a chunk from the queue, whose pages are bits; a chunk with pages left goes to the queue's end.
// free:      P: the page goes into the queue. If the queue has no room, the page goes into its chunk, and the chunk is listed. C: the free
//            sets the page's bit. If that is the chunk's first free page, the chunk goes into the queue. Then the free gives the units
//            back.
// Larger:    a request of more than the largest page goes to the backing, as published. A fifth of the heap is the backing's.
// Reuse:     P: a freed page serves its page size. Chunks all of whose pages are spare (neither live nor in a queue), and the storage of
//            queues, serve any size. C: a chunk without a live page serves any size, regions included: if the pool is empty, malloc
//            searches for such a chunk (state.hpp says why that is safe). A queue keeps the segments that it uses again, at most a
//            thousandth of all chunks, even if the pool is empty.
// Progress:  malloc is blocking. It may wait for threads that bring chunks, that hold a chunk's entry, or that are between ticket and place
//            of a queue. Each of these waits at most for an older ticket's thread. free is blocking: it may wait for a thread between
//            ticket and place of a queue. malloc returns nullptr if there is no unit, the pool is empty, and no chunk is moving between a
//            class and the pool.
// Growth:    between kernels, by chunks. Over a backing that has memory of its own (process_wide), heaps do not grow.
// Limits:    P manages at most 2^23 chunks of 8192 bytes, as published: it does not use the part of a region beyond 64 GiB.
// Misuse:    a second free, and a pointer at which no page begins, are refused as long as the chunk has the same use. A second free that is
//            under way while the chunk goes to another size may set a bit of the chunk's new contents. A pointer outside the chunks goes to
//            the backing.
//
// Different from the published form, and why (the numbers are those of the hazards in tests/hazards/ouroboros_test.cpp):
//   - A chunk gets a class only after the pool has handed it out (1). No queue traps, hangs or drops entries if it is full (4): a page that
//     finds no room in the queue becomes a bit of its chunk, and a chunk that finds no room becomes a bit of a tree. So free() needs no
//     chunk for a virtual queue's storage while all chunks are in use.
//   - Units have a word of their own, and the demand has another (2, 3). A thread that makes units keeps those that it wants. A claim of
//     units, places or entries is a subtraction, and a thread is refused a unit, place or entry only if another thread gets it (5). A
//     counted entry is in the queue (6).
//   - A thread that takes pages from a chunk has taken the chunk out of its queue. So no thread walks along a queue, and no chunk that
//     other threads look at can change its class, be removed twice or be passed over (7, 8, 9). In the published form, all threads look at
//     the chunk at the front.
//   - Position and segment are one word, records lie outside of the segments, and a segment with an open ticket stays (10, 11). A queue's
//     storage goes back to the one pool (12), and is cleared when it serves as storage again (13).
//   - Memory orders are explicit, at device scope, and headers are read by atomics (14). A free tests the page's bit (15). The last chunk
//     is used, and sizes have 64 bits (16).
//   - The lanes of a warp put a new chunk's pages into the queue together. In the published form one thread does so, and other threads can
//     pop the first of these pages before the last one is pushed.
//   - C: a thread that finds no chunk in the queue takes pages of a chunk that another thread has taken out of it, if that chunk has
//     several pages left (state.hpp). In the published form, all threads do so at the front. Here they change only the chunk's word, by a
//     compare-exchange, which succeeds for one thread at a time. The published form subtracts from the count without regard to the chunk's
//     class (7), so no thread has to try again. Where many warps meet at few chunks, a malloc or a free here takes up to 1.2 times its
//     time. A free in a launch of 1024 threads takes up to 1.3 times that of C-S; which step costs it is not known.
//   - VA, VL: a queue with little room keeps finished segments, up to a thousandth of all chunks, and uses them again. In the published
//     form, VA gives each finished segment to the pool, and VL keeps ten. A push that begins a segment adds the next one.
//   - VL: a hint leads to each of the latest 1024 segments. The published form follows the list from its first segment. Finished segments
//     leave in order in both forms. One exchange here takes up to four of them out if the queue uses them again, and links them to the end
//     of the list together. P-VL's malloc takes at most 0.62 times its original's time from 31,250 requests on, and with 1024 threads up to
//     1.3 times (docs/decisions/originals.md).
//   - Headers lie outside of the chunks, so a page is aligned to its size, or to 256 bytes if it is larger. C: of 128 adjacent chunks, only
//     four have their words in one cache line; headers in the chunks lie in lines of their own. Both instances share one pool, in which
//     regions are split and become whole again.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/allocators/backing.hpp>
#include <gpuheap/allocators/ouroboros/state.hpp>
#include <gpuheap/allocators/ouroboros/verify.hpp>
#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// Any of the six variants, with page sizes that the program chooses, over any backing.
template <queue_of Holds, stored_in Stored, ouroboros_config Config = ouroboros_config{}, class Backing = default_backing,
          class Parts = ouro::parts>
class basic_ouroboros {
  static constexpr bool holds_pages = Holds == queue_of::pages;
  // Whether a free releases before it marks the page. Otherwise its push does.
  static constexpr bool fences_first = !holds_pages || ouro::pushes_relay(Holds, Stored);
  // Without a backing, only the pointers to this heap's pages are valid.
  static constexpr bool alone = simt::is_same_v<Backing, refusing_backing>;
  static constexpr char const* names[2][3] = {{"ouroboros_p_s", "ouroboros_p_va", "ouroboros_p_vl"},
                                              {"ouroboros_c_s", "ouroboros_c_va", "ouroboros_c_vl"}};
  static constexpr char const* variants[2][3] = {
      {"pages in static rings", "pages in virtualised queues, by an array", "pages in virtualised queues, linked"},
      {"chunks in static rings", "chunks in virtualised queues, by an array", "chunks in virtualised queues, linked"}};

 public:
  using layout_type = ouro::layout<Holds, Stored, Config>;
  using state_type = ouro::heap_state<Holds, Stored, Config, Parts>;

  // The same allocator over another backing.
  template <class Other>
  using with_backing = basic_ouroboros<Holds, Stored, Config, Other, Parts>;

  static constexpr allocator_traits traits{
      .name = names[static_cast<int>(Holds)][static_cast<int>(Stored)],
      .title = "Ouroboros",
      .paper = "Winter, Mlakar, Parger, Steinberger: Ouroboros: Virtualized Queues for Dynamic Memory Management on GPUs, ICS 2020",
      .year = 2020,
      .variant = variants[static_cast<int>(Holds)][static_cast<int>(Stored)],
      .reuse = holds_pages ? "a page: its page size" : "a page: its page size; a chunk of which no page is live: anything",
      .largest_bytes = layout_type::largest_bytes,
      .process_wide = Backing::traits.process_wide,
      .full_reuse = !holds_pages && (alone || Backing::traits.full_reuse),
      .detects_double_free = alone || Backing::traits.detects_double_free,
      .detects_foreign_free = alone || Backing::traits.detects_foreign_free,
  };

  basic_ouroboros() = default;

  // Returns memory of `bytes` > 0 bytes; nullptr if there is none.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    // The mask is captured once for the whole call.
    simt::lane_mask const here = simt::active_mask();
    unsigned const q = bytes > layout_type::largest_bytes ? no_class : layout_type::class_of(bytes);
    auto const group = structures::warp_group::of_equal(here, key(q));
    if (q == no_class) return backing_.malloc(bytes);
    unsigned got = 0;
    ouro::chunk_set made;
    if (group.leads()) {
      got = state_->acquire(q, group.size(), made);
      if (made.bits != 0) got |= has_made;
    }
    got = group.from_leader(got);
    if ((got & has_made) != 0) state_type::publish(state_, group, q, made);
    got &= ~has_made;
    void* p = nullptr;
    unsigned served = 0;
    if constexpr (holds_pages) {
      if (got != 0) served = pages_of_queue(at_, state_, group, q, 0, got, p);
    }
    return served == got ? p : serve_others(state_, group, q, served, got, p);
  }

  GPUHEAP_FN free_status free(void* p) const {
    simt::lane_mask const here = simt::active_mask();
    free_status answer = free_status::null;
    place at;
    if (p != nullptr) {
      guess const seen = look(p);
      // release: publishes the owner's accesses to the memory. Pairs with the acquire half of the atomic by which the next owner takes it.
      // The load of look() is under way meanwhile. A push of a page into a virtual queue releases itself.
      if constexpr (fences_first) simt::fence(simt::release);
      at = locate(p, seen);
      answer = free_status::foreign;
      if (at.exact) answer = mark(at) ? free_status::done : free_status::double_free;
    }
    auto const group = structures::warp_group::of_equal(here, key(answer == free_status::done ? at.q : no_class));
    if (answer == free_status::done) give(group, at);
    if (answer == free_status::foreign && at.outside) return detail::free_in(backing_, p);
    return answer;
  }

  // Returns the bytes that the owner of the block at p may use; 0 for a pointer that is no live block's.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void* p) const requires has_usable_size<Backing> {
    if (p == nullptr) return 0;
    place const at = locate(p);
    if (at.outside) return backing_.usable_size(p);
    // relaxed: no thread changes the bit of a live page.
    return at.exact && (bits_of(at).load(simt::relaxed) >> at.page % 32 & 1) == 0 ? layout_type::page_bytes(at.q) : 0;
  }
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t rounded_size(simt::size_t bytes) requires has_rounded_size<Backing> {
    return bytes > layout_type::largest_bytes ? Backing::rounded_size(bytes) : layout_type::page_bytes(layout_type::class_of(bytes));
  }
  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const requires has_owns<Backing> { return !locate(p).outside || backing_.owns(p); }

#if GPUHEAP_HAS_HOST
  // ---- host

  // The fewest bytes that hold two regions of chunks, their metadata, and the bytes that the backing needs.
  [[nodiscard]] static simt::size_t min_region_bytes() {
    layout_type at;
    simt::size_t const own = at.lay_out(nullptr, sizeof(state_type), 2 * layout_type::region_chunks);
    simt::size_t const least = Backing::min_region_bytes();
    return least == 0 ? own : (own + least + 512) / (100 - Config.backing_percent) * 100 + 100;
  }
  [[nodiscard]] static simt::size_t own_bytes(simt::size_t region_bytes) requires(Backing::traits.process_wide) {
    return cut::own_bytes_of(region_bytes, Config.backing_percent);
  }
  [[nodiscard]] static simt::size_t granted_bytes() requires has_granted_bytes<Backing> { return Backing::granted_bytes(); }

  // Initialises the region in stream order and returns the view. The region may be in use by an earlier heap, which is forgotten.
  [[nodiscard]] static basic_ouroboros create(memory::region where, stream_ref stream) {
    cut const parts = cut::of(where, Config.backing_percent);
    basic_ouroboros heap{{where.base, parts.own_bytes}};
    heap.backing_ = Backing::create(parts.rest, stream);
    heap.fixed_chunks_ = heap.at_.max_chunks;
    heap.initialise([](simt::size_t, simt::size_t) {}, stream);
    heap.add_chunks(
        0, heap.at_.max_chunks, [](simt::size_t, simt::size_t) {}, stream);
    return heap;
  }

  // ---- growth (has_grow): chunks and their metadata are added. The backing's share is a part of the initial bytes. It lies at the end of
  // the address range, and never grows

  // The least initial bytes: one region of chunks, the backing's share, and the metadata of all chunks that there may be.
  [[nodiscard]] static simt::size_t min_initial_bytes(simt::size_t whole_bytes) requires(!Backing::traits.process_wide) {
    simt::size_t low = 0, high = whole_bytes;
    // Ends: each pass halves the interval.
    while (low < high) {
      simt::size_t const middle = low + (high - low) / 2;
      // The layout depends only on distances between addresses, so it may be computed for any address.
      if (basic_ouroboros{{reinterpret_cast<void*>(simt::uintptr_t{1} << 40), whole_bytes}, middle}.chunks_within(middle) != 0) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
  // As create(), for a heap that begins with `initial_bytes` of the reserved addresses `whole`. `map` provides the memory. Throws
  // plain_error if `initial_bytes` is too small.
  [[nodiscard]] static basic_ouroboros create_growable(memory::region whole, simt::size_t initial_bytes, memory::map_function const& map,
                                                       stream_ref stream) requires(!Backing::traits.process_wide) {
    basic_ouroboros heap{whole, initial_bytes};
    uint32_t const chunks = heap.chunks_within(initial_bytes);
    if (chunks == 0) {
      throw plain_error("gpuheap: a heap that grows to " + std::to_string(whole.bytes) + " bytes cannot begin with " +
                        std::to_string(initial_bytes) + ": give it at least " + std::to_string(min_initial_bytes(whole.bytes)) + " bytes");
    }
    simt::size_t const share = heap.backing_bytes_, own = (whole.bytes - share) & ~simt::size_t{255};
    if (share != 0) map(own, share);
    heap.backing_ = Backing::create({static_cast<char*>(whole.base) + own, share}, stream);
    heap.initialise(map, stream);
    heap.add_chunks(0, chunks, map, stream);
    return heap;
  }
  // Grows the heap to as many regions of chunks as `new_bytes` holds together with metadata and backing. Waits for the stream.
  void grow(simt::size_t new_bytes, memory::map_function const& map, stream_ref stream) const requires(!Backing::traits.process_wide) {
    uint32_t const there = num_chunks(stream), wanted = chunks_within(new_bytes);
    if (wanted > there) add_chunks(there, wanted, map, stream);
  }

  // Includes the backing's bytes. Chunks that store queues count as held. The peak is not recorded. Waits for the stream.
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const requires(has_footprint<Backing> || alone) {
    unsigned used = 0;
    uint32_t fresh = 0;
    simt::copy(&used, &state_->num_used, sizeof used, stream);
    simt::copy(&fresh, &state_->fresh, sizeof fresh, stream);
    uint32_t const there = num_chunks(stream), free_chunks = used + (fresh < there ? there - fresh : 0);
    allocator_footprint all;
    if constexpr (!alone) all = backing_.footprint(stream);
    all.held_bytes += simt::size_t{there - free_chunks} * Config.chunk_bytes;
    all.metadata_bytes += bytes_of(there) - simt::size_t{there} * Config.chunk_bytes;
    all.peak_held_bytes = 0;
    return all;
  }

  // Checks the whole heap. Waits for the stream; no kernel may be running on the heap.
  [[nodiscard]] ouro::audit verify(stream_ref stream) const { return ouro::verify(state_, num_chunks(stream), stream); }
#endif

  // The state, for tests and tools.
  [[nodiscard]] GPUHEAP_HD state_type* state() const { return state_; }

 private:
  using uint32_t = simt::uint32_t;
  static constexpr unsigned no_class = 127;
  static constexpr unsigned has_made = 64;  // a flag in the same word as a number of lanes
  static_assert(alignof(state_type) >= 128);

  // The chunk and page of a pointer.
  struct place {
    uint32_t chunk = 0;
    unsigned q = 0, page = 0;
    bool outside = false;  // the pointer is outside of the chunks
    bool exact = false;    // a page begins there
  };

  // A key for forming groups: it differs between heaps and between classes.
  [[nodiscard]] GPUHEAP_FN simt::uint64_t key(unsigned q) const { return reinterpret_cast<simt::uintptr_t>(state_) | q; }

  // Pops pages for the lanes of ranks `served` .. `got` - 1, and sets `p` in the lanes that get one. Returns the number of lanes that got
  // one: these are the first of the lanes.
  [[nodiscard]] GPUHEAP_FN static unsigned pages_of_queue(layout_type const& at, state_type* state, structures::warp_group group,
                                                          unsigned q, unsigned served, unsigned got, void*& p) {
    uint32_t handle = 0;
    auto const queue = state->queue(q);  // a copy, so that its members are not loaded again after each atomic
    unsigned const popped = queue.pop(group, got - served, handle, typename state_type::storage{state});
    if (popped == 0) return 0;
    unsigned const rank = group.rank();
    bool const mine = rank >= served && rank - served < popped;
    if (served != 0) {
      // Another lane has popped this lane's page, and acquired what the page's last owner released.
      simt::sync_warp(group.mask);
      handle = simt::shuffle(group.mask, handle, mine ? simt::nth_set_bit(group.mask, rank - served) : simt::lane_id());
    }
    if (mine) {
      uint32_t const chunk = handle >> layout_type::lg_pages, page = handle & ((1u << layout_type::lg_pages) - 1);
      // relaxed: a free by the page's owner comes after this change, by the program's order. For all other threads the bit is a guess.
      at.idle_word(chunk, page / 32).fetch_and(~(1u << page % 32), simt::relaxed);
      p = at.page_at(chunk, q, page);
    }
    return popped;
  }
  // The rest of malloc(): gets a page for each unit from `served` on, and returns the lane's page, or `p` if the lane gets none here. Not
  // inlined, so that malloc() does not need its registers while the queue has enough pages.
  [[nodiscard]] GPUHEAP_COLD static void* serve_others(state_type* state, structures::warp_group group, unsigned q, unsigned served,
                                                       unsigned got, void* p) {
    simt::back_off pause;
    // Ends: there is a page for each unit. It is in the queue or in a listed chunk, or a thread holds its chunk's entry and waits for no
    // thread; see state.hpp. Blocking.
    GPUHEAP_NO_UNROLL
    while (served != got) {
      unsigned const before = served;
      if constexpr (holds_pages) {
        if (state->has_entries(group, q)) served += pages_of_queue(state->at, state, group, q, served, got, p);
      }
      if (served != got) {
        auto const found = state->pages_of_chunks(group, q, served, got);
        if (found.p != nullptr) p = found.p;
        served += found.lanes;
      }
      if (served == before) pause.wait();
    }
    return p;
  }

  // ---- free

  // Whether a pointer lies in the heap's chunks, and if so, the word of the base chunk at its address.
  struct guess {
    bool inside = false;
    ouro::chunk_word word;
  };
  // The offset of p from the first chunk. For a pointer below the chunks, a large number.
  [[nodiscard]] GPUHEAP_FN simt::size_t offset_in_chunks(void const* p) const {
    return static_cast<simt::size_t>(static_cast<char const*>(p) - at_.chunks);
  }
  [[nodiscard]] GPUHEAP_FN guess look(void const* p) const {
    simt::size_t const chunk = offset_in_chunks(p) / Config.chunk_bytes;
    guess seen;
    seen.inside = chunk < (fixed_chunks_ != 0 ? fixed_chunks_ : simt::plain_read(state_->num_chunks));
    // relaxed: a live page's chunk does not change.
    if (seen.inside) seen.word.bits = at_.word(static_cast<uint32_t>(chunk)).load(simt::relaxed);
    return seen;
  }
  [[nodiscard]] GPUHEAP_FN place locate(void const* p) const { return locate(p, look(p)); }
  [[nodiscard]] GPUHEAP_FN place locate(void const* p, guess seen) const {
    place at;
    at.outside = !seen.inside;
    if (at.outside) return at;
    simt::size_t const offset = offset_in_chunks(p);
    at.chunk = static_cast<uint32_t>(offset / Config.chunk_bytes);
    // relaxed: as in look().
    ouro::chunk_word word = seen.word;
    if (word.use() == ouro::chunk_word::tail) {
      at.chunk &= ~(layout_type::region_chunks - 1);
      word.bits = at_.word(at.chunk).load(simt::relaxed);
    }
    at.q = word.size_class();
    simt::size_t const within = offset - simt::size_t{at.chunk} * Config.chunk_bytes;
    if (word.use() != ouro::chunk_word::pages || at.q >= layout_type::num_classes) return at;
    at.page = static_cast<unsigned>(within >> (layout_type::lg_smallest + at.q));
    at.exact = at.page < layout_type::pages_of(at.q) && (within & (layout_type::page_bytes(at.q) - 1)) == 0;
    return at;
  }
  // The word with the page's bit, which is 0 while the page is live.
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint32_t> bits_of(place at) const {
    if constexpr (holds_pages) return at_.idle_word(at.chunk, at.page / 32);
    return at_.spare_word(at.chunk, at.page / 32);
  }
  // Marks a page as free. Returns false if it was not live.
  [[nodiscard]] GPUHEAP_FN bool mark(place at) const {
    uint32_t const bit = 1u << at.page % 32;
    // relay: passes on what the owner's fence released, to the thread that takes the page next. P: the push passes it on.
    return (bits_of(at).fetch_or(bit, simt::relay) & bit) == 0;
  }
  // Gives back one page of class at.q for each lane of the group. Each lane has marked its page.
  GPUHEAP_FN void give(structures::warp_group group, place at) const {
    simt::note_performed();  // mark() has used the result of its read-modify-write
    if constexpr (holds_pages) {
      unsigned const pushed =
          state_->queue(at.q).push(group, at.chunk << layout_type::lg_pages | at.page, typename state_type::storage{state_});
      if (pushed != 0 && group.leads()) state_->units(at.q).release(pushed);
      if (pushed == group.size()) return;
      // The pages for which the queue has no room.
      group.mask &= simt::all_lanes << simt::nth_set_bit(group.mask, pushed);
      if ((group.mask >> simt::lane_id() & 1) == 0) return;
      // release: publishes the owner's accesses to the memory.
      if constexpr (!fences_first) simt::fence(simt::release);
      // relay: as in mark().
      at_.spare_word(at.chunk, at.page / 32).fetch_or(1u << at.page % 32, simt::relay);
    }
    state_->give_pages(group, at.q, at.chunk);
  }

#if GPUHEAP_HAS_HOST
  using cut = detail::backing_cut<Backing>;

  explicit basic_ouroboros(memory::region own)
      : at_{layout_type::over(own, sizeof(state_type))}, state_{static_cast<state_type*>(own.base)} {}
  // A heap that grows. It begins with initial_bytes of `whole`, and has its backing at the end of `whole`.
  basic_ouroboros(memory::region whole, simt::size_t initial_bytes)
      : basic_ouroboros{{whole.base, (whole.bytes - share_of(initial_bytes)) & ~simt::size_t{255}}} {
    backing_bytes_ = share_of(initial_bytes);
  }
  [[nodiscard]] static simt::size_t share_of(simt::size_t initial_bytes) {
    return initial_bytes - cut::own_bytes_of(initial_bytes, Config.backing_percent);
  }

  [[nodiscard]] simt::size_t offset_of(void const* p) const {
    return static_cast<simt::size_t>(static_cast<char const*>(p) - reinterpret_cast<char const*>(state_));
  }
  // The bytes of the metadata of fixed size and of the first `chunks` chunks.
  [[nodiscard]] simt::size_t bytes_of(uint32_t chunks) const {
    simt::size_t each = 0;
    layout_type parts = at_;
    parts.for_each_part([&each](auto*&, simt::size_t bytes, simt::size_t) { each += bytes; });
    return offset_of(at_.later_words) + each * chunks;
  }
  [[nodiscard]] uint32_t chunks_within(simt::size_t bytes) const {
    simt::size_t const fixed = bytes_of(0) + backing_bytes_, each = bytes_of(1) - bytes_of(0);
    if (bytes < fixed) return 0;
    simt::size_t const chunks = (bytes - fixed) / each / layout_type::region_chunks * layout_type::region_chunks;
    return chunks < at_.max_chunks ? static_cast<uint32_t>(chunks) : at_.max_chunks;
  }
  [[nodiscard]] uint32_t num_chunks(stream_ref stream) const {
    uint32_t there = 0;
    simt::copy(&there, &state_->num_chunks, sizeof there, stream);
    simt::synchronize(stream);
    return there;
  }
  // Initialises the parts of fixed size, for a heap that has no chunks yet.
  template <class Map>
  void initialise(Map const& map, stream_ref stream) const {
    map(0, offset_of(at_.later_words));
    simt::fill(state_, 0, offset_of(at_.later_words), stream);
    simt::launch(1, ouro::write_layout<state_type>{state_, at_}, {.block_threads = 32, .stream = stream});
    if constexpr (Stored == stored_in::static_ring) {
      simt::launch(layout_type::queue_capacity(at_.max_chunks), ouro::init_queues<state_type>{state_}, {.stream = stream});
    }
  }
  // Makes chunks first..end-1 usable. `first` and `end` are multiples of region_chunks. Throws what map() throws; the heap has not changed
  // then.
  template <class Map>
  void add_chunks(uint32_t first, uint32_t end, Map const& map, stream_ref stream) const {
    if (first == end) return;
    simt::size_t const more = end - first;
    layout_type parts = at_;
    parts.for_each_part([&](auto*& array, simt::size_t each, simt::size_t) {
      if (each != 0) map(offset_of(array) + first * each, more * each);
    });
    parts.for_each_part([&](auto*& array, simt::size_t each, simt::size_t) {
      void* const part = reinterpret_cast<char*>(array) + first * each;
      if (each != 0 && static_cast<void*>(array) != at_.chunks) simt::fill(part, 0, more * each, stream);
    });
    simt::launch(1, ouro::add_to_pool<state_type>{state_, first, end}, {.block_threads = 32, .stream = stream});
  }
#endif

  layout_type at_;
  uint32_t fixed_chunks_ = 0;  // the chunks of a heap that does not grow; 0: state_->num_chunks says how many there are
  state_type* state_ = nullptr;
  Backing backing_{};
  simt::size_t backing_bytes_ = 0;  // the backing's share in a heap that grows
};

using ouroboros_p_s = basic_ouroboros<queue_of::pages, stored_in::static_ring>;
using ouroboros_p_va = basic_ouroboros<queue_of::pages, stored_in::virtual_array>;
using ouroboros_p_vl = basic_ouroboros<queue_of::pages, stored_in::virtual_list>;
using ouroboros_c_s = basic_ouroboros<queue_of::chunks, stored_in::static_ring>;
using ouroboros_c_va = basic_ouroboros<queue_of::chunks, stored_in::virtual_array>;
using ouroboros_c_vl = basic_ouroboros<queue_of::chunks, stored_in::virtual_list>;
static_assert(device_allocator<ouroboros_p_s> && answers_free<ouroboros_p_s>);
#if GPUHEAP_HAS_HOST
static_assert(has_verify<ouroboros_c_vl> &&
              has_grow<basic_ouroboros<queue_of::chunks, stored_in::virtual_list, ouroboros_config{}, backing_reference>>);
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
