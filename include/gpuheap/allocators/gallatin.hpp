// `gallatin`: a counter hands out the slices of a block, and the block is reused when all of its slices have been freed. Ordered bit trees
// find the segments that blocks come from.
//   H. McCoy, P. Pandey, "Gallatin: A General-Purpose GPU Memory Manager", PPoPP 2024.
//
// Layout of a region:
//   | state | slots | trees | words of segments, blocks and slices | segment 0 | segment 1 | ...        (gallatin/layout.hpp)
//
//   segment    16 MiB, of one class: | block 0 | block 1 | ... | blocks of 64 KiB << class. A heap of fewer than 64 such segments has
//              shorter ones, and so fewer slices in a block
//   block      4096 slices of 16 << class bytes, classes 0 to 8. Its word counts the slices that were handed out, and the full words of
//              freed bits                                                                           (gallatin/blocks.hpp)
//   slot       the block that serves a multiprocessor's requests of one class                         (gallatin/slots.hpp)
//   trees      segments that are free; for each class, its segments with blocks that no thread has       (gallatin/segments.hpp)
//
// malloc:    up to 4096 bytes, the lanes that want the same class add their number to the word of the block in their multiprocessor's slot,
//            by one atomic. The old value gives each lane its slice. If the block is exhausted, one thread fetches another block for the
//            slot: from the first segment of the class that has blocks, or from the first free segment. A request of up to 32 KiB takes 2,
//            4 or 8 adjacent slices of 4096 bytes. A request of up to a segment takes a whole block, and a larger one a run of segments
//            from the heap's end.
// free:      the lanes that free slices of one word of 64 bits set their bits by one atomic. The thread that fills a word counts it. The
//            thread that counts a block's last word puts the block back into its segment, and the thread that puts the last block back
//            frees the segment.
// Reuse:     a slice is reused once all 4096 slices of its block have been taken and freed. A block that is back in its segment serves its
//            class, and a free segment serves any size.
// Progress:  malloc is blocking: it waits for a thread that fetches a block for its slot. That thread may wait for a thread that makes a
//            segment of the class, which waits for no thread; claims of runs wait for a lock. malloc returns nullptr if an attempt to fetch
//            a block, by this thread or by another one, began after the request and found no block, and no other slot of the class has
//            slices. free is lock-free; the free of a run takes as many steps as the run has segments.
// Misuse:    a second free, or a pointer at which nothing begins, is refused as long as the block has the same use as at the first free.
//            Later, a stale pointer may equal that of a live slice, as in any allocator. A second free that is under way while the block
//            changes its class may free another owner's slice. A pointer into free memory is reported as a double free.
//
// Different from the paper, and why:
//   - A free sets the slice's bit; the bits take 0.8 % of the heap. The paper counts freed slices, so after a second free a block is put
//     back while slices are live, or never. Here a block's word counts full words of bits. As in the paper, lanes that free adjacent slices
//     need one atomic. A free takes up to 1.4 times the published one's time: it reads the block's word, by which it refuses a slice that
//     is not live, and has a fence, by which the owner's accesses come before the next owner's. The published free omits both.
//   - A segment's class and its number of free blocks are one word, changed by compare-exchange. The paper decrements the number first and
//     restores it if the class is not as expected. Meanwhile the number is wrong, so a segment is freed while blocks are live, or never.
//   - The free blocks of a segment are bits, and threads that come at the same time try for different bits. The paper has a ring, whose
//     users wait for their turns. Lanes of a warp that want whole blocks take them together.
//   - A segment is found by its class as soon as one of its blocks is free. In the paper a tenth of the blocks must be free; fewer free
//     blocks are not found. A thread that removes a segment from a tree checks the segment again.
//   - Any thread that finds the block of a slot exhausted may replace the block. A generation in the slot's word shows whether the slot has
//     changed since the thread read it. In the paper this is the duty of the thread that got the last slice. The duty is lost if the block
//     was in another slot meanwhile, or if no block was available. The slot then serves no request any more.
//   - Unused blocks leave their slots when another class finds no segment, so that a heap without live blocks serves any request.
//   - One word has a block's class and a count of 32 bits, and no thread adds to the count of a block that it knows to be exhausted. In the
//     paper the count has 20 bits, and overflows into the class.
//   - A block that is handed out as a whole is never in the state `open`. In the paper, a thread with an old slot word can take slices of
//     such a block before the block's count says that the block is full.
//   - Runs are found across words of the tree, from its last word to its first. The paper finds only runs that begin with a word, and none
//     in the first word. A segment's word says `free` before the tree shows the segment.
//   - The number of tries of a request is not limited: Progress, above, says when malloc gives up.
//   - The smallest class has a slot for each multiprocessor, or fewer if their blocks would exceed a 64th of the heap. At the start, slots
//     get as many blocks as a quarter of the heap holds. The paper has 128, 64, 32, ... slots, whose blocks take 160 MiB.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/allocators/gallatin/heap_state.hpp>
#include <gpuheap/allocators/gallatin/verify.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace gallatin_parts {

// The parts of the allocator. Tests replace some of them by parts with a mistake.
struct parts {
  using tree = structures::bitmap_tree;
  using block = block_state;
  using segment = segment_state;
  using slot = slot_state;
  template <gallatin_config Config, class Parts>
  using state = heap_state<Config, Parts>;
};

}  // namespace gallatin_parts

template <gallatin_config Config = gallatin_config{}, class Parts = gallatin_parts::parts>
class basic_gallatin {
 public:
  using state_type = typename Parts::template state<Config, Parts>;
  using layout_type = gallatin_parts::layout<Config, Parts>;

  static constexpr allocator_traits traits{
      .name = "gallatin",
      .title = "Gallatin",
      .paper = "McCoy, Pandey: Gallatin: A General-Purpose GPU Memory Manager, PPoPP 2024",
      .year = 2024,
      .reuse = "a slice: its class, once all 4096 of its block were taken and freed; a segment of which nothing is in use: any request",
      .reuses_singly = false,
      .detects_double_free = true,
      .detects_foreign_free = true,
  };

  basic_gallatin() = default;

  // Returns memory of `bytes` > 0 bytes; nullptr if there is none.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    if (bytes > most_slice_bytes()) return state_->take_large(simt::active_mask(), bytes);
    unsigned const c = bytes > Config.largest_slice ? layout_type::top_class : layout_type::class_of_slice(bytes);
    unsigned const lg_k = bytes > Config.largest_slice ? simt::ceil_log2(bytes) - layout_type::lg_largest : 0;
    // The mask is captured once for the whole call.
    simt::lane_mask const here = simt::active_mask();
    // The group: the lanes with the same class and length on this heap. The state's address is a multiple of 128, so its low bits have room
    // for both.
    auto group = structures::warp_group::of_equal(here, reinterpret_cast<simt::uintptr_t>(state_) | c << 2 | lg_k);
    simt::lane_mask const mine = simt::lane_mask{1} << simt::lane_id();
    unsigned const slot = simt::sm_id() % at_.num_slots(c);
    void* p = nullptr;
    simt::uint32_t attempt = 0;
    simt::back_off pause;
    // `group`: the lanes that have no answer yet.
    // Ends: in each pass, a group has at least one lane served, or all of its lanes answered, or its leader has waited for a thread that
    // fetches a block. The wait ends when that thread is served or fails.
    GPUHEAP_NO_UNROLL
    do {
      unsigned const leader = group.mask != 0 ? group.leader() : simt::lane_id();
      gallatin_parts::grant got;
      if ((group.mask & mine) != 0 && group.leads()) got = take(c, lg_k, group.size(), slot, attempt, pause);
      got = gallatin_parts::grant::unpacked(simt::shuffle(here, got.packed(), leader));
      // The other lanes acquire what the leader acquired.
      simt::sync_warp(here);
      unsigned const rank = group.rank();
      // The number of the group's lanes that this pass answers.
      unsigned const room = got.none() ? (got.is_final() ? simt::warp_lanes : 0) : (at_.num_slices() - got.first) >> lg_k;
      if ((group.mask & mine) != 0 && !got.none() && rank < room) {
        unsigned const first = got.first + (rank << lg_k);
        if (lg_k != 0) state_->join(got.block, first, lg_k);
        p = at_.slice_at(got.block, c, first);
      }
      group.mask = room < group.size() ? group.mask & (simt::all_lanes << simt::nth_set_bit(group.mask, room)) : 0;
    } while (simt::any_of(here, group.mask != 0));
    return p;
  }

  GPUHEAP_FN free_status free(void* p) const {
    if (p == nullptr) return free_status::null;
    place const at = locate(p);
    if (at.what == thing::nothing) return free_status::foreign;
    if (at.what == thing::unused) return free_status::double_free;
    if (at.what == thing::run) return free_run(at.segment);
    auto const block = at_.block(at.block);
    simt::uint64_t* const word = block.freed + at.index / 64;
    // The lanes that free slices of the same word, from one captured mask.
    auto const group = structures::warp_group::of_equal(simt::active_mask(), reinterpret_cast<simt::uintptr_t>(word));
    simt::uint64_t const bit = simt::uint64_t{1} << (at.index % 64), all = structures::reduce_or(group.mask, bit);
    // All lanes' accesses to their memory come before the leader's release.
    simt::sync_warp(group.mask);
    simt::uint64_t before = 0;
    bool completes = false;
    if (group.leads()) {
      before = block.give(at.index / 64, all);
      completes = block.completes(before, all, at.how);
    }
    before = group.from_leader(before);
    bool given = (before & bit) == 0;
    // If several lanes free the same slice, only the lowest of them has freed it.
    if (simt::popcount(all) != group.size()) given &= simt::lowest_bit(simt::match_any(group.mask, at.index)) == simt::lane_id();
    auto answer = free_status::done;
    if (!given) answer = is_inside(at) ? free_status::foreign : free_status::double_free;
    // This call comes last, so that few values have to be kept in registers across it.
    if (completes) state_->word_is_full(at.block, at.size_class, at.how);
    return answer;
  }

  // Returns the bytes that the owner of the memory at p may use; 0 for a pointer at which no live memory begins.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void const* p) const {
    place const at = locate(p);
    if (at.what == thing::run) return simt::size_t{at_.segment(at.segment).look().count()} << at_.lg_segment();
    if (at.what != thing::slice) return 0;
    if (at.how == gallatin_parts::mode::whole) return at_.block_bytes(at.size_class);
    // relaxed: no other thread changes the bit of a slice that the caller owns; for any other slice the answer is a guess.
    auto const freed = at_.block(at.block).freed_word(at.index / 64).load(simt::relaxed);
    if ((freed >> (at.index % 64) & 1) != 0) return 0;
    return at_.slice_bytes(at.size_class) * (at.size_class == layout_type::top_class ? state_->length_of(at.block, at.index) : 1);
  }
  static constexpr bool rounded_size_is_exact = true;
  [[nodiscard]] GPUHEAP_HD simt::size_t rounded_size(simt::size_t bytes) const {
    if (bytes > at_.segment_bytes()) return simt::round_up_or_same(bytes, at_.segment_bytes());
    if (bytes > most_slice_bytes()) return at_.block_bytes(at_.class_of_block(bytes));
    return bytes <= Config.smallest_slice ? Config.smallest_slice : simt::size_t{1} << simt::ceil_log2(bytes);
  }
  // Whether p lies in a segment.
  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const {
    return p >= at_.base && static_cast<simt::size_t>(static_cast<char const*>(p) - at_.base) >> at_.lg_segment() < at_.num_segments;
  }

#if GPUHEAP_HAS_HOST
  // ---- host

  [[nodiscard]] static simt::size_t min_region_bytes() { return layout_type::least_bytes(sizeof(state_type)); }

  // Initialises the region in stream order and returns the view. The region may be in use by an earlier heap, which is forgotten.
  [[nodiscard]] static basic_gallatin create(memory::region where, stream_ref stream) {
    basic_gallatin heap;
    heap.at_ = layout_type::over(where, simt::query_device().num_sms, sizeof(state_type));
    heap.state_ = static_cast<state_type*>(where.base);
    heap.region_bytes_ = where.bytes;
    simt::fill(where.base, 0, static_cast<simt::size_t>(heap.at_.base - static_cast<char*>(where.base)), stream);
    simt::copy(&heap.state_->at, &heap.at_, sizeof heap.at_, stream);
    using kernel = gallatin_parts::make_heap<Config, Parts>;
    launch(kernel::num_threads(heap.at_), kernel{heap.at_}, {.stream = stream});
    return heap;
  }

  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const {
    std::vector<simt::uint64_t> words(at_.num_segments);
    simt::copy(words.data(), at_.segments, words.size() * sizeof(simt::uint64_t), stream);
    simt::synchronize(stream);
    simt::size_t held = 0;
    for (auto const word : words) held += gallatin_parts::segment_word{word}.is_free() ? 0 : at_.segment_bytes();
    return {held, region_bytes_ - (simt::size_t{at_.num_segments} << at_.lg_segment()), 0};
  }

  // Checks the whole heap. Waits for the stream; no kernel may be running on the heap.
  [[nodiscard]] gallatin_parts::audit verify(stream_ref stream) const {
    gallatin_parts::audit found = gallatin_parts::snapshot<Config, Parts>{at_, stream}.examine();
    simt::uint64_t relocation = 0;
    std::vector<simt::uint32_t> locks(layout_type::num_classes + 1);
    simt::copy(&relocation, &state_->relocation_word, sizeof relocation, stream);
    simt::copy(locks.data(), state_->growth_locks, layout_type::num_classes * sizeof(simt::uint32_t), stream);
    simt::copy(&locks.back(), &state_->run_lock, sizeof(simt::uint32_t), stream);
    simt::synchronize(stream);
    if (!structures::relocation_count::quiet(relocation)) found.problem = "a block or segment is being moved, and no kernel runs";
    for (auto const lock : locks) {
      if (lock != 0) found.problem = "a lock is held";
    }
    return found;
  }
#endif

  // The layout and the state, for tests and tools.
  [[nodiscard]] GPUHEAP_HD layout_type const& geometry() const { return at_; }
  [[nodiscard]] GPUHEAP_HD state_type* state() const { return state_; }

 private:
  // The kind of memory that begins at a pointer. nothing: the pointer is not into the heap, or no memory can begin there. unused: free
  // memory in which a slice or a run could begin.
  enum class thing { nothing, unused, slice, run };
  struct place {
    thing what = thing::nothing;
    gallatin_parts::mode how{};  // the state of the block; a whole one counts as a single slice
    unsigned size_class = 0;
    unsigned index = 0;  // the number of the slice in its block
    simt::uint32_t block = 0, segment = 0;
  };

  [[nodiscard]] GPUHEAP_HD simt::size_t most_slice_bytes() const { return simt::size_t{Config.largest_slice} << at_.lg_most(); }

  // Takes 2^lg_k slices each for n requests, or for fewer of them, from the block in slot i. If the block has none, makes one step towards
  // a new block for the slot. Returns none() and is_final() if the heap is exhausted, and not_yet() if the caller shall take another step.
  // `attempt`: the number of the first attempt to fetch a block for the slot that begins after the request; 0 in the first step.
  [[nodiscard]] GPUHEAP_FN gallatin_parts::grant take(unsigned c, unsigned lg_k, unsigned n, unsigned i, simt::uint32_t& attempt,
                                                      simt::back_off& pause) const {
    auto const seen = at_.slot(c, i).look();
    gallatin_parts::grant got;
    if (attempt == 0 && lg_k == 0 && seen.has_block() && !seen.is_busy()) {
      auto const before = at_.block(seen.block()).take(n);
      if (before.has_slices_of(c) && before.count() + n <= at_.num_slices()) return {seen.block(), before.count()};
      got = state_->settle_single(seen.block(), c, n, before);
    } else {
      got = state_->take_from_slot(seen, c, lg_k, n);
    }
    if (!got.none()) return got;
    if (attempt == 0) attempt = seen.next_attempt();
    if (!seen.has_failed_since(attempt)) {
      if (seen.is_busy()) {
        pause.wait();
        return gallatin_parts::grant::not_yet();
      }
      got = state_->refill(c, lg_k, n, i, seen);
      if (!got.none() || !got.is_final()) return got;
    }
    return state_->take_from_others(c, lg_k, n, i);
  }

  [[nodiscard]] GPUHEAP_FN place locate(void const* p) const {
    place at;
    if (!owns(p)) return at;
    auto const offset = static_cast<simt::size_t>(static_cast<char const*>(p) - at_.base), within = offset & (at_.segment_bytes() - 1);
    at.segment = static_cast<simt::uint32_t>(offset >> at_.lg_segment());
    auto const segment = at_.segment(at.segment).look();
    if (segment.kind() < gallatin_parts::segment_word::first_class) {
      if (segment.is_free() && within % Config.smallest_slice == 0) at.what = thing::unused;
      if (segment.kind() == gallatin_parts::segment_word::head && within == 0) at.what = thing::run;
      return at;
    }
    at.size_class = segment.kind() - gallatin_parts::segment_word::first_class;
    if ((within & (at_.slice_bytes(at.size_class) - 1)) != 0) return at;
    auto const slice = static_cast<simt::uint32_t>(within >> (layout_type::lg_smallest + at.size_class));
    at.index = slice & (at_.num_slices() - 1);
    at.block = at_.block_id(at.segment, slice >> at_.lg_slices);
    auto const block = at_.block(at.block).look();
    at.how = block.state();
    bool const is_out = at.how == gallatin_parts::mode::open && at.index < block.count();
    if (at.how == gallatin_parts::mode::whole) {
      at.what = at.index == 0 ? thing::slice : thing::nothing;
    } else {
      at.what = is_out ? thing::slice : thing::unused;
    }
    return at;
  }
  // Whether the slice at `at` is one of a request of several slices, but not the first of them.
  [[nodiscard]] GPUHEAP_FN bool is_inside(place const& at) const {
    return at.size_class == layout_type::top_class && at.how == gallatin_parts::mode::open && state_->length_of(at.block, at.index) == 0;
  }

  GPUHEAP_FN free_status free_run(simt::uint32_t segment) const {
    // release: publishes the owner's accesses to the memory. Pairs with the claim of the thread that takes the segments next.
    simt::fence(simt::release);
    auto const seen = at_.segment(segment).look();
    bool const mine = seen.kind() == gallatin_parts::segment_word::head && state_->give_run(segment, seen);
    return mine ? free_status::done : free_status::double_free;
  }

  layout_type at_;
  state_type* state_ = nullptr;
  simt::size_t region_bytes_ = 0;
};

using gallatin = basic_gallatin<>;
static_assert(device_allocator<gallatin> && answers_free<gallatin> && has_exact_rounded_size<gallatin>);
#if GPUHEAP_HAS_HOST
static_assert(has_verify<gallatin> && has_footprint<gallatin>);
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
