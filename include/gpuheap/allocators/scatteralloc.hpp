// `scatteralloc`: requests are scattered over pages by a hash, so that threads which ask at the same time touch different words; bits
// instead of lists.
//   M. Steinberger, M. Kenzel, B. Kainz, D. Schmalstieg, "ScatterAlloc: Massively Parallel Dynamic Memory Allocation for the GPU", InPar
//   2012.
//
// Layout of a region:
//   | state | page usage table: states, masks | visits of regions | pages of 4096 bytes ...                                         |
//                                                                 | region: 16 pages | region | ... | super block: 1/8 | ...        |
//
//   state of a page    {chunk size, chunks in use}, one word (slab_word.hpp): a page has chunks of any multiple of 16 bytes, set by the
//                      first request that opens it. Or: part of a run of pages
//   mask of a page     a bit for each chunk in use; of pages with more than 32 chunks, a bit for each full segment (hinted_bits.hpp)
//   page               | chunk 0 | chunk 1 | ... | of two-level pages at the end: a word for each segment of 32 chunks |
//   visits             how often a region was searched in vain: a hint to pass it over; so many such regions in the active super block,
//                      and the next one becomes active
//
// malloc:    up to a page: the search starts at page hash(size, multiprocessor, warp) of the active super block. In a page with room whose
//            chunks are between the size and twice the size, the thread counts itself in by one compare-exchange, and takes a bit by an
//            atomic OR. It opens a free page. Otherwise it tries the next page, first only in regions that do not look full, then in all.
//            For more than a page see scatteralloc/runs.hpp.
// free:      clears the chunk's bit, then lowers the page's count; at 0 the page is free.
// Reuse:     every page for every size, and for runs, as soon as nothing of it is in use.
// Progress:  malloc is blocking: it waits for a page that another thread is preparing, which that one does without waiting; where it meets
//            none, it is lock-free. It answers nullptr after two looks at every page. Runs: the claim of a run that is not the next one is
//            made under a lock, whose holder never waits. free: wait-free; of a run, as many steps as it has pages.
// Misuse:    a second free, or a pointer at which nothing begins, is refused as long as the page is what it was at the first free. After
//            its next opening a stale pointer may be that of a live chunk, as anywhere; a second free that is under way meanwhile may
//            clear a bit of the page's new contents.
//
// Different from the paper, and why:
//   - Lanes of a warp that want the same size count themselves in together, as many as a page of that size has chunks. They do so in the
//     page that the hash gives all of them, and begin at different chunks, behind as many as the page has in use. In the paper each lane
//     counts itself in alone, all begin at the same page, and each at the chunk of its lane number.
//   - Count and chunk size are one word, and no thread counts itself in beyond the capacity. In the published form the count is an addition
//     that is taken back. So a page that is given a new size may hand out a chunk twice, an empty page may keep its size, and a chunk may
//     be missed by all. By default the published pages keep their first size for ever; here they never do.
//   - Chunk sizes and runs are different kinds of pages. In the published form both are one number, and a run of 4096 bytes passes for a
//     page of chunks. A request of exactly one page is a chunk here.
//   - A hint that a segment is full is confirmed after it was set; in the published form every free clears it.
//   - A free that half-empties a page, or frees it, resets its region's visits; published, frees of more than 2048 bytes never do.
//   - The super block that is active wraps around; the published one only rises or falls by chance, and never reaches the last.
//   - The search for runs ends at the last page, where the published one goes one word too far, and its hint cannot fall below 0.
//     Windows are handed out without a lock as long as there are free ones below all runs.
//   - Interior pointers are foreign. In the published form they name pieces of requests that a warp merged, which this allocator
//     does not do.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/allocators/scatteralloc/runs.hpp>
#include <gpuheap/allocators/scatteralloc/verify.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace scatter {

// The parts that tests replace by parts with a mistake.
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

  // `bytes` > 0.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    if (bytes > Config.page_bytes) return malloc_run(bytes);
    auto const units = static_cast<unsigned>(bytes + scatter::unit_bytes - 1) / scatter::unit_bytes;
    // One captured mask for the whole call.
    simt::lane_mask const here = simt::active_mask();
    // The lanes that ask this heap for the same size; of large chunks, as many neighbours as a page has. The state's address is a multiple
    // of 128 and has at most 53 bits.
    static_assert(layout_type::page_units < (1u << 13));
    unsigned const neighbours = at_.is_two_level(units) ? 0 : simt::lane_id() / at_.capacity(units);
    // The place where a group's leader begins. Every lane computes it, while nothing waits for it. It may be stale: the active super block
    // is a hint, and a thread that finds it full drops the value that its multiprocessor remembers.
    scatter::uint32_t start = at_.first_page({simt::load_cached(state_->extent_bits)}, units, neighbours);
    auto group = structures::warp_group::of_equal(here, reinterpret_cast<simt::uintptr_t>(state_) << 11 | neighbours << 13 | units);
    simt::lane_mask const mine = simt::lane_mask{1} << simt::lane_id();
    void* p = nullptr;
    // `group`: those that have no answer yet.
    // Ends: a pass serves at least one lane of each group, or answers all its lanes.
    GPUHEAP_NO_UNROLL
    do {
      unsigned const leader = group.mask != 0 ? group.leader() : simt::lane_id();
      scatter::grant got;
      if ((group.mask & mine) != 0 && group.leads()) got = reserve(units, group.size(), start);
      got = scatter::grant::unpacked(simt::shuffle(here, got.packed(), leader));
      // The other lanes get what the leader acquired.
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
    // release: what the owner did with its memory. Pairs with the acquire halves of those that take it next.
    simt::fence(simt::release);
    scatter::place const at = locate(p);
    if (!at.exact) return free_status::foreign;
    if (at.seen.is_free() || at.seen.is_opening()) return free_status::double_free;
    if (at.seen.kind() == scatter::run_head) return state_->give_run(at.page) ? free_status::done : free_status::double_free;
    // Lanes whose chunks have their bits in one word give them back together, if they are all that are here, and no two the same.
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
      // Those of one page count them together.
      group = structures::warp_group::of_equal(simt::active_mask(), reinterpret_cast<simt::uint64_t>(at_.state(at.page).at) | was_taken);
    }
    if (!was_taken) return free_status::double_free;
    // First the bits: they must be clear before the count lets others look for them. The answers tell that they are.
    simt::note_performed();
    simt::sync_warp(group.mask);
    if (!group.leads()) return free_status::done;
    unsigned const n = group.size(), before = at_.state(at.page).release(n).fill(), half = (at_.capacity(at.seen.kind()) + 1) / 2;
    // The page has become half empty, or free.
    if (before == n || (before >= half && before - n < half)) state_->room_in_region(at.page / Config.region_pages);
    return free_status::done;
  }

  // 0 for a pointer at which nothing begins.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void const* p) const {
    scatter::place const at = locate(p);
    if (!at.exact || at.seen.is_free()) return 0;
    if (at.seen.kind() == scatter::run_head) return simt::size_t{state_->length_of(at.page)} * Config.page_bytes;
    return simt::size_t{at.seen.kind()} * scatter::unit_bytes;
  }
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t rounded_size(simt::size_t bytes) {
    return simt::round_up_or_same(bytes, bytes > Config.page_bytes ? Config.page_bytes : scatter::unit_bytes);
  }
  // Whether p is a live block's.
  [[nodiscard]] GPUHEAP_FN bool is_live(void const* p) const {
    scatter::place const at = locate(p);
    if (!at.exact || at.seen.is_free() || at.seen.is_opening()) return false;
    if (at.seen.kind() == scatter::run_head) return true;
    auto const chunk = at_.bits_of(at);
    // relaxed: the owner of a live block asks, or gets a guess.
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

  // ---- growth (has_grow, has_trim), in pages: the paper's memory that is added between kernels

  // A page.
  [[nodiscard]] static simt::size_t min_initial_bytes(simt::size_t) { return layout_type::bytes_for(1, state_bytes); }
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
  void grow(simt::size_t new_bytes, memory::map_function const& map, stream_ref stream) const {
    scatter::uint32_t const there = num_pages(stream), wanted = pages_within(new_bytes);
    if (wanted > there) add_pages(there, wanted, map, stream);
  }
  // One page stays.
  [[nodiscard]] simt::size_t trim(stream_ref stream) const {
    scatter::uint32_t const there = num_pages(stream);
    std::vector<scatter::slab_word> states(there);
    simt::copy(states.data(), at_.states, states.size() * sizeof(scatter::slab_word), stream);
    simt::synchronize(stream);
    scatter::uint32_t left = there;
    // Ends: `left` falls.
    while (left > 1 && states[left - 1].is_free()) --left;
    if (left != there) set_pages(left, stream);
    return simt::size_t{there - left} * Config.page_bytes;
  }

  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const {
    scatter::uint32_t const there = num_pages(stream);
    auto const found = scatter::count_pages(at_, &state_->scratch, there, false, stream);
    simt::size_t const pages_offset = offset_of(at_.pages);
    return {found.held_pages * Config.page_bytes,
            at_.sure_pages != 0 ? region_bytes_ - simt::size_t{there} * Config.page_bytes
                                : pages_offset - simt::size_t{at_.max_pages - there} * (layout_type::page_cost - Config.page_bytes),
            0};
  }

  // Walks the whole heap. Waits for the stream; no kernel may be running on the heap.
  [[nodiscard]] scatter::audit verify(stream_ref stream) const { return scatter::verify(at_, state_, &state_->scratch, stream); }
#endif

  // The geometry and the state, for tests and tools.
  [[nodiscard]] GPUHEAP_HD layout_type const& geometry() const { return at_; }
  [[nodiscard]] GPUHEAP_HD state_type* state() const { return state_; }

 private:
  // Up to `wanted` chunks for `units` in one page, from page `start` on.
  [[nodiscard]] GPUHEAP_FN scatter::grant reserve(unsigned units, unsigned wanted, scatter::uint32_t start) const {
    auto const state = at_.state(start);
    scatter::slab_word seen = state.look();
    // Ends: a pass that goes on lost the word to another thread's change, which is progress of that one, and goes on with what that left.
    // Lock-free.
    GPUHEAP_NO_UNROLL
    while (at_.has_room(seen, units)) {
      scatter::slab_word const before = seen;
      unsigned const room = at_.capacity(before.kind()) - before.fill();
      if (state.reserve(seen, room < wanted ? room : wanted)) return {start, before};
    }
    return state_->search(units, wanted, start);
  }

  GPUHEAP_FN void* malloc_run(simt::size_t bytes) const {
    // Before any arithmetic that could wrap.
    if (bytes > simt::size_t{at_.max_pages} * Config.page_bytes) return nullptr;
    return state_->take_run(simt::ceil_div(bytes, Config.page_bytes));
  }

  [[nodiscard]] GPUHEAP_FN bool page_is_there(simt::size_t page) const {
    if (page < at_.sure_pages) return true;
    // Possibly stale, but for the number of pages, which no kernel changes.
    return page < scatter::extent{simt::load_cached(state_->extent_bits)}.pages();
  }
  // The chunk or run that p would be the start of.
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
  // A state without pages.
  void write_state(stream_ref stream) const {
    state_type initial{};
    initial.at = at_;
    simt::copy(state_, &initial, sizeof initial, stream);
  }
  // Makes pages first..end-1 usable. Nothing has changed if map() throws.
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
  // The heap has so many pages now, and its hints know of nothing.
  void set_pages(scatter::uint32_t pages, stream_ref stream) const {
    simt::fill(at_.visits, 0, simt::size_t{at_.num_regions(pages)} * sizeof(scatter::uint32_t), stream);
    simt::fill(state_->full_regions, 0, sizeof state_->full_regions, stream);
    scatter::uint64_t const extent_bits = scatter::extent::of(pages, 0).bits, runs_end = state_type::end_bias + pages;
    simt::copy(&state_->runs_end, &runs_end, sizeof runs_end, stream);
    // The last: num_pages() reads it, so that what failed before it is done again.
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
