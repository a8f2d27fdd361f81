// `scatteralloc`: a hash scatters requests over pages, so that threads that ask at the same time access different words. Bits take the
// place of lists.
//   M. Steinberger, M. Kenzel, B. Kainz, D. Schmalstieg, "ScatterAlloc: Massively Parallel Dynamic Memory Allocation for the GPU", InPar
//   2012.
//
// Layout of a region:
//   | state | page usage table: states, masks | visits of regions | pages of 4096 bytes ...                                         |
//                                                                 | region: 16 pages | region | ... | super block: 1/8 | ...        |
//
//   state of a page    {chunk size, chunks in use}, one word (slab_word.hpp). A page has chunks of one size, any multiple of 16 bytes,
//                      which the first request that opens the page sets; or it is part of a run of pages
//   mask of a page     a bit for each chunk in use; in a page with more than 32 chunks, a bit for each full segment (hinted_bits.hpp)
//   page               | chunk 0 | chunk 1 | ... | in a page with more than 32 chunks, a word for each segment of 32 chunks at the end |
//   visits             how often a region was searched in vain: a hint to skip it. If many regions of the active super block look full, the
//                      next super block becomes active
//
// malloc:    for a request of up to a page, the search starts at page hash(size, multiprocessor, warp) of the active super block. If the
//            page has room, and its chunks have between one and two times the requested size, the thread raises the page's count by one
//            compare-exchange, and takes a bit by an atomic OR. If the page is free, the thread opens it. Otherwise it tries the next page,
//            first only in regions that do not look full, then in all. For requests of more than a page see scatteralloc/runs.hpp.
// free:      clears the chunk's bit, then lowers the page's count. At 0 the page is free.
// Reuse:     a page without live chunks serves every size, and runs, at once.
// Progress:  malloc is blocking: it waits for a page that another thread is preparing, and that thread does not wait. A malloc that meets
//            no such page is lock-free. malloc of up to a page returns nullptr only after it has seen every page without room. A claim of a
//            run that is not the next window (scatteralloc/runs.hpp) is made under a lock, whose holder never waits. free is wait-free; the
//            free of a run takes as many steps as the run has pages.
// Misuse:    a second free, or a pointer at which nothing begins, is refused as long as the page has the same use as at the first free.
//            After the page's next opening, a stale pointer may equal that of a live chunk, as in any allocator. A second free that is
//            under way at that time may clear a bit of the page's new contents.
//
// Different from the paper, and why:
//   - Lanes of a warp that want the same size raise a page's count together, but no more lanes than a page of that size has chunks. The
//     hash gives all of these lanes the same page. Their searches begin at different chunks, after as many chunks as the page has in use.
//     In the paper each lane raises the count alone, all lanes begin at the same page, and each lane begins at the chunk of its lane
//     number.
//   - Count and chunk size are one word, and the count never exceeds the capacity. In the published form a thread adds to the count first,
//     and subtracts again if the page is full. So a page that gets a new size may hand out a chunk twice, an empty page may keep its size,
//     and all threads may miss a chunk. By default the published pages keep their first size for ever; here they never do.
//   - Pages with chunks and pages of runs are different kinds. In the published form one number stands for both, and a run of 4096 bytes
//     counts as a page of chunks. A request of exactly one page gets a chunk here.
//   - A thread that sets the hint that a segment is full checks the segment again afterwards. In the published form every free clears the
//     hint.
//   - A free that makes a page half empty, or frees it, resets the visits of the page's region. In the published form, frees of more than
//     2048 bytes never do so.
//   - After the last super block, the first becomes active again. The number of the published active super block rises, falls only by
//     chance, and never reaches that of the last super block.
//   - A free has a fence, and waits for the atomic on the chunk's bit, by whose result it refuses a second free. Then it lowers the count.
//     The published form has no fence, and for chunks of a larger size it does not wait for the bit. So a free in a launch of 1024 threads
//     takes up to 1.5 times the published one's time (docs/decisions/originals.md).
//   - The search for runs ends at the last page. The published one goes one word too far. The hint where runs end cannot fall below 0.
//     Windows are handed out without a lock as long as there are free ones below all runs.
//   - Pointers into the interior of a chunk are foreign. In the published form they name pieces of requests that a warp merged, which this
//     allocator does not do.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/allocators/scatteralloc/runs.hpp>
#include <gpuheap/allocators/scatteralloc/verify.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace scatter {

// The parts of the allocator. Tests replace some of them by parts with a mistake.
struct parts {
  using slab = structures::slab_state;
  using bits = structures::free_bits;
  using chunks = structures::hinted_bits;
  template <scatteralloc_config Config, class Parts>
  using state = heap_state<Config, Parts>;
};

}  // namespace scatter

template <scatteralloc_config Config = scatteralloc_config{}, class Parts = scatter::parts>
class basic_scatteralloc {
 public:
  using state_type = typename Parts::template state<Config, Parts>;
  using layout_type = scatter::layout<Config, Parts>;

  static constexpr allocator_traits traits{
      .name = "scatteralloc",
      .title = "ScatterAlloc",
      .paper =
          "Steinberger, Kenzel, Kainz, Schmalstieg: ScatterAlloc: Massively Parallel Dynamic Memory Allocation for the GPU, InPar 2012",
      .year = 2012,
      .reuse = "a page of which nothing is in use: any request; a chunk: requests of half its size or more",
      .detects_double_free = true,
      .detects_foreign_free = true,
  };

  basic_scatteralloc() = default;

  // Returns memory of `bytes` > 0 bytes; nullptr if there is none.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    if (bytes > Config.page_bytes) return malloc_run(bytes);
    auto const units = static_cast<unsigned>(bytes + scatter::unit_bytes - 1) / scatter::unit_bytes;
    // The mask is captured once for the whole call.
    simt::lane_mask const here = simt::active_mask();
    // The group: the lanes that ask this heap for the same size. If a page has fewer such chunks than a warp has lanes, at most that many
    // adjacent lanes form a group. The state's address is a multiple of 128 and has at most 53 bits, so the shifted address leaves the low
    // bits free.
    static_assert(layout_type::page_units < (1u << 13));
    unsigned const neighbours = at_.is_two_level(units) ? 0 : simt::lane_id() / at_.capacity(units);
    // The page where a group's leader begins. All lanes compute it, although only the leader uses it: the load is in flight while the group
    // forms. The cached load may return an old value: the active super block is only a hint, and search() empties the L1 of a
    // multiprocessor that finds it full.
    scatter::uint32_t start = at_.first_page({simt::load_cached(state_->extent_bits)}, units, neighbours);
    auto group = structures::warp_group::of_equal(here, reinterpret_cast<simt::uintptr_t>(state_) << 11 | neighbours << 13 | units);
    simt::lane_mask const mine = simt::lane_mask{1} << simt::lane_id();
    void* p = nullptr;
    // `group`: the lanes that have no answer yet.
    // Ends: in each pass, a group has at least one lane served, or all of its lanes answered.
    GPUHEAP_NO_UNROLL
    do {
      unsigned const leader = group.mask != 0 ? group.leader() : simt::lane_id();
      scatter::grant got;
      if ((group.mask & mine) != 0 && group.leads()) got = reserve(units, group.size(), start);
      got = scatter::grant::unpacked(simt::shuffle(here, got.packed(), leader));
      // The other lanes acquire what the leader acquired.
      simt::sync_warp(here);
      start = got.page;
      unsigned const kind = got.before.kind(), room = got.none() ? simt::warp_lanes : at_.capacity(kind) - got.before.fill();
      unsigned const rank = group.rank();
      if ((group.mask & mine) != 0 && !got.none()) {
        bool const wants = rank < room;
        void* const taken = at_.take_chunks(group.mask, got.page, kind, wants ? got.before.fill() + rank : 0, wants);
        if (wants) p = taken;
      }
      group.mask = room < group.size() ? group.mask & (simt::all_lanes << simt::nth_set_bit(group.mask, room)) : 0;
    } while (simt::any_of(here, group.mask != 0));
    return p;
  }

  GPUHEAP_FN free_status free(void* p) const {
    if (p == nullptr) return free_status::null;
    // release: publishes the owner's accesses to the memory. Pairs with the acquire half of the claim by which the next owner takes it.
    simt::fence(simt::release);
    scatter::place const at = locate(p);
    if (!at.exact) return free_status::foreign;
    if (at.seen.is_free() || at.seen.is_opening()) return free_status::double_free;
    if (at.seen.kind() == scatter::run_head) return state_->give_run(at.page) ? free_status::done : free_status::double_free;
    // If the bits of all lanes here are in one word, and all different, the lanes clear them by one atomic.
    simt::lane_mask const here = simt::active_mask();
    auto const chunk = at_.bits_of(at);
    auto group = structures::warp_group::of_equal(here, reinterpret_cast<simt::uint64_t>(chunk.bits.taken));
    simt::uint32_t const bit = simt::uint32_t{1} << chunk.bit;
    bool was_taken = false;
    if (simt::uint32_t all = 0; group.mask == here && simt::popcount(all = simt::reduce_or(here, bit)) == group.size()) {
      simt::uint32_t const before = chunk.bits.release_together(here, all);
      was_taken = (before & bit) != 0;
      if (group.leads()) at_.filled_no_more(at, before);
      group.mask = simt::ballot(here, was_taken);
    } else {
      was_taken = at_.release_chunk(at);
      // The lanes of one page whose chunks were taken lower its count together.
      group = structures::warp_group::of_equal(simt::active_mask(), reinterpret_cast<simt::uint64_t>(at_.state(at.page).at) | was_taken);
    }
    if (!was_taken) return free_status::double_free;
    // The bits are cleared first: they must be clear before the lower count lets other threads search for them. The results of the atomics
    // show that they are clear.
    simt::note_performed();
    simt::sync_warp(group.mask);
    if (!group.leads()) return free_status::done;
    unsigned const n = group.size(), before = at_.state(at.page).release(n).fill(), half = (at_.capacity(at.seen.kind()) + 1) / 2;
    // The page has become half empty or free.
    if (before == n || (before >= half && before - n < half)) state_->room_in_region(at.page / Config.region_pages);
    return free_status::done;
  }

  // Returns the bytes that the owner of the block at p may use; 0 for a pointer at which nothing begins.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void const* p) const {
    scatter::place const at = locate(p);
    if (!at.exact || at.seen.is_free()) return 0;
    if (at.seen.kind() == scatter::run_head) return simt::size_t{state_->length_of(at.page)} * Config.page_bytes;
    return simt::size_t{at.seen.kind()} * scatter::unit_bytes;
  }
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t rounded_size(simt::size_t bytes) {
    return simt::round_up_or_same(bytes, bytes > Config.page_bytes ? Config.page_bytes : scatter::unit_bytes);
  }
  // Whether p is the address of a live block.
  [[nodiscard]] GPUHEAP_FN bool is_live(void const* p) const {
    scatter::place const at = locate(p);
    if (!at.exact || at.seen.is_free() || at.seen.is_opening()) return false;
    if (at.seen.kind() == scatter::run_head) return true;
    auto const chunk = at_.bits_of(at);
    // relaxed: the answer is exact for the block's owner, and a guess for any other thread.
    return (chunk.bits.ref().load(simt::relaxed) >> chunk.bit & 1) != 0;
  }
  // Whether p lies in a page.
  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const {
    auto const* const byte = static_cast<char const*>(p);
    return byte >= at_.pages && page_is_there(static_cast<simt::size_t>(byte - at_.pages) / Config.page_bytes);
  }

#if GPUHEAP_HAS_HOST
  // ---- host

  [[nodiscard]] static simt::size_t min_region_bytes() { return layout_type::bytes_for(4, state_bytes); }

  // Initialises the region in stream order and returns the view. The region may be in use by an earlier heap, which is forgotten.
  [[nodiscard]] static basic_scatteralloc create(memory::region where, stream_ref stream) {
    auto const everywhere = [](simt::size_t, simt::size_t) {};
    basic_scatteralloc heap{layout_type::over(where, state_bytes), where};
    heap.at_.sure_pages = heap.at_.max_pages;
    heap.write_state(stream);
    heap.add_pages(0, heap.at_.max_pages, everywhere, stream);
    return heap;
  }

  // ---- growth (has_grow, has_trim), in pages. The paper too adds memory between kernels

  // The fewest initial bytes: those of one page and the metadata.
  [[nodiscard]] static simt::size_t min_initial_bytes(simt::size_t) { return layout_type::bytes_for(1, state_bytes); }
  // As create(), for a heap that begins with `initial_bytes` of the reserved addresses `whole`. `map` provides the memory. Throws
  // plain_error if `initial_bytes` holds no page.
  [[nodiscard]] static basic_scatteralloc create_growable(memory::region whole, simt::size_t initial_bytes, memory::map_function const& map,
                                                          stream_ref stream) {
    basic_scatteralloc heap{layout_type::over(whole, state_bytes), whole};
    auto const pages = heap.pages_within(initial_bytes);
    if (pages == 0 || heap.at_.max_pages == 0) {
      throw plain_error("gpuheap: a heap that grows to " + std::to_string(whole.bytes) + " bytes cannot begin with " +
                        std::to_string(initial_bytes) + ": give it at least " + std::to_string(min_initial_bytes(whole.bytes)) + " bytes");
    }
    map(0, state_bytes);
    heap.write_state(stream);
    heap.add_pages(0, pages, map, stream);
    return heap;
  }
  // Grows the heap to as many pages as `new_bytes` holds together with the metadata. Waits for the stream.
  void grow(simt::size_t new_bytes, memory::map_function const& map, stream_ref stream) const {
    scatter::uint32_t const there = num_pages(stream), wanted = pages_within(new_bytes);
    if (wanted > there) add_pages(there, wanted, map, stream);
  }
  // Removes the free pages at the end of the heap, except the first page. Returns the bytes of the removed pages. Waits for the stream.
  [[nodiscard]] simt::size_t trim(stream_ref stream) const {
    scatter::uint32_t const there = num_pages(stream);
    std::vector<scatter::slab_word> states(there);
    simt::copy(states.data(), at_.states, states.size() * sizeof(scatter::slab_word), stream);
    simt::synchronize(stream);
    scatter::uint32_t left = there;
    // Ends: `left` falls to 1.
    while (left > 1 && states[left - 1].is_free()) --left;
    if (left != there) set_pages(left, stream);
    return simt::size_t{there - left} * Config.page_bytes;
  }

  // Held bytes are whole pages. The peak is not recorded. Waits for the stream.
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const {
    scatter::uint32_t const there = num_pages(stream);
    auto const found = scatter::count_pages(at_, &state_->scratch, there, false, stream);
    simt::size_t const pages_offset = offset_of(at_.pages);
    return {found.held_pages * Config.page_bytes,
            at_.sure_pages != 0 ? region_bytes_ - simt::size_t{there} * Config.page_bytes
                                : pages_offset - simt::size_t{at_.max_pages - there} * (layout_type::page_cost - Config.page_bytes),
            0};
  }

  // Checks the whole heap. Waits for the stream; no kernel may be running on the heap.
  [[nodiscard]] scatter::audit verify(stream_ref stream) const { return scatter::verify(at_, state_, &state_->scratch, stream); }
#endif

  // The layout and the state, for tests and tools.
  [[nodiscard]] GPUHEAP_HD layout_type const& geometry() const { return at_; }
  [[nodiscard]] GPUHEAP_HD state_type* state() const { return state_; }

 private:
  // Reserves up to `wanted` chunks for requests of `units` units in one page. The search begins at page `start`.
  [[nodiscard]] GPUHEAP_FN scatter::grant reserve(unsigned units, unsigned wanted, scatter::uint32_t start) const {
    auto const state = at_.state(start);
    scatter::slab_word seen = state.look();
    // Ends: a pass that does not return lost the word to another thread's change, which is that thread's progress. Lock-free.
    GPUHEAP_NO_UNROLL
    while (at_.has_room(seen, units)) {
      scatter::slab_word const before = seen;
      unsigned const room = at_.capacity(before.kind()) - before.fill();
      if (state.reserve(seen, room < wanted ? room : wanted)) return {start, before};
    }
    return state_->search(units, wanted, start);
  }

  // Returns a run of pages for `bytes` bytes, or nullptr.
  GPUHEAP_FN void* malloc_run(simt::size_t bytes) const {
    // This comes before any arithmetic that could wrap around.
    if (bytes > simt::size_t{at_.max_pages} * Config.page_bytes) return nullptr;
    return state_->take_run(simt::ceil_div(bytes, Config.page_bytes));
  }

  [[nodiscard]] GPUHEAP_FN bool page_is_there(simt::size_t page) const {
    if (page < at_.sure_pages) return true;
    // The cached load may return an old active super block, but the number of pages is right, since no kernel changes it.
    return page < scatter::extent{simt::load_cached(state_->extent_bits)}.pages();
  }
  // The chunk or run that begins at p, if the result is `exact`.
  [[nodiscard]] GPUHEAP_FN scatter::place locate(void const* p) const {
    scatter::place at;
    auto const* const byte = static_cast<char const*>(p);
    auto const offset = static_cast<simt::size_t>(byte - at_.pages);
    simt::size_t const page = offset / Config.page_bytes;
    if (byte < at_.pages || !page_is_there(page)) return at;
    at.page = static_cast<scatter::uint32_t>(page);
    at.seen = at_.state(at.page).look();
    auto const within = static_cast<unsigned>(offset % Config.page_bytes);
    unsigned const kind = at.seen.kind(), unit = within / scatter::unit_bytes;
    if (kind == 0 || kind > layout_type::page_units) {
      at.exact = kind == scatter::run_head && within == 0;
      return at;
    }
    at.chunk = unit / kind;
    at.exact = within == at.chunk * kind * scatter::unit_bytes && at.chunk < at_.capacity(kind);
    return at;
  }

#if GPUHEAP_HAS_HOST
  static constexpr simt::size_t state_bytes = sizeof(state_type);

  basic_scatteralloc(layout_type const& at, memory::region where)
      : at_{at},
        state_{
            reinterpret_cast<state_type*>(simt::round_up_pow2(reinterpret_cast<simt::uintptr_t>(where.base), layout_type::part_alignment))},
        region_bytes_{where.bytes} {}

  [[nodiscard]] simt::size_t offset_of(void const* p) const {
    return static_cast<simt::size_t>(static_cast<char const*>(p) - reinterpret_cast<char const*>(state_));
  }
  [[nodiscard]] scatter::uint32_t pages_within(simt::size_t bytes) const {
    auto const pages = static_cast<scatter::uint32_t>(layout_type::pages_within(bytes, state_bytes));
    return pages < at_.max_pages ? pages : at_.max_pages;
  }
  [[nodiscard]] scatter::uint32_t num_pages(stream_ref stream) const {
    scatter::extent there;
    simt::copy(&there, &state_->extent_bits, sizeof there, stream);
    simt::synchronize(stream);
    return there.pages();
  }
  // Writes the state of a heap that has no pages yet.
  void write_state(stream_ref stream) const {
    state_type initial{};
    initial.at = at_;
    simt::copy(state_, &initial, sizeof initial, stream);
  }
  // Adds the pages first..end-1, and provides their memory. Throws what map() throws; the heap has not changed then.
  void add_pages(scatter::uint32_t first, scatter::uint32_t end, memory::map_function const& map, stream_ref stream) const {
    simt::size_t const more = end - first, first_region = first / Config.region_pages;
    simt::size_t const regions = at_.num_regions(end) - first_region;
    map(offset_of(at_.states + first), more * sizeof(scatter::uint32_t));
    map(offset_of(at_.masks + first), more * sizeof(scatter::uint32_t));
    map(offset_of(at_.visits + first_region), regions * sizeof(scatter::uint32_t));
    map(offset_of(at_.page_at(first)), more * Config.page_bytes);
    simt::fill(at_.states + first, 0, more * sizeof(scatter::uint32_t), stream);
    simt::fill(at_.masks + first, 0, more * sizeof(scatter::uint32_t), stream);
    set_pages(end, stream);
  }
  // Sets the number of the heap's pages, and resets all hints.
  void set_pages(scatter::uint32_t pages, stream_ref stream) const {
    simt::fill(at_.visits, 0, simt::size_t{at_.num_regions(pages)} * sizeof(scatter::uint32_t), stream);
    simt::fill(state_->full_regions, 0, sizeof state_->full_regions, stream);
    scatter::uint64_t const extent_bits = scatter::extent::of(pages, 0).bits, runs_end = state_type::end_bias + pages;
    simt::copy(&state_->runs_end, &runs_end, sizeof runs_end, stream);
    // This copy comes last, because num_pages() reads the word: if a step before it has failed, the next call repeats all steps.
    simt::copy(&state_->extent_bits, &extent_bits, sizeof extent_bits, stream);
  }
#endif

  layout_type at_;
  state_type* state_ = nullptr;
  simt::size_t region_bytes_ = 0;
};

using scatteralloc = basic_scatteralloc<>;
static_assert(device_allocator<scatteralloc> && answers_free<scatteralloc>);
#if GPUHEAP_HAS_HOST
static_assert(has_grow<scatteralloc> && has_trim<scatteralloc> && has_verify<scatteralloc> && has_footprint<scatteralloc>);
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
