// The default allocator: a few shard words for each size class, from which warps claim slots by one atomic.
//
// malloc   The lanes of a warp that ask for one class add their number to a shard word of the class. The old value names a span and the
//          first of their slots. A claim of unused slots touches no other memory. The claim that reaches the end of a span refills the
//          shard. Other warps of the shard wait, or claim from another shard.
// free     A warp executes one fetch_or for each word of a span's bitmap in which its lanes free slots. The fetch_or that makes a word
//          entirely free counts the word. A span all of whose slots are free becomes unused memory, for any class and any larger request.
// Reuse    The free that leaves no slot of an active span live resets the span. Refills reuse partial spans that earlier launches left.
//          Before malloc refuses a request, it looks at every free slot of the request's class and of larger ones, and drains the unused
//          slots that the shards of other classes hold.
//
// Progress: malloc is blocking. It is wait-free while its shard's span has slots. At the span's end it waits for the thread that refills
// the shard, and that thread waits for no other. free is lock-free, and mostly wait-free. malloc returns nullptr only after a search that
// found no slot of the class or of a larger one and no free page, and during which no other thread relocated memory.
//
// docs/allocator.md has drawings and a table of transitions for each word. The allocator was not published before. It follows from our own
// measurements (docs/decisions/) and from ideas of allocators in this folder: warp aggregation (XMalloc), bitmaps whose words lie apart
// (ScatterAlloc), slabs that change their class when they are empty (Halloc), contiguous segments found in bitmap trees (Gallatin).
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/allocators/sharded_spans/control.hpp>
#include <gpuheap/allocators/sharded_spans/growth.hpp>
#include <gpuheap/allocators/sharded_spans/live.hpp>
#include <gpuheap/allocators/sharded_spans/resize.hpp>
#include <gpuheap/allocators/sharded_spans/verify.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

#if GPUHEAP_HAS_HOST
namespace sharded {

// Returns a number of 26 bits, which no other of the first 2^26 heaps of this process has. Any host thread.
[[nodiscard]] inline unsigned next_heap_id() {
  static unsigned last = 0;
  // relaxed: the counter orders nothing; each call needs only a number of its own.
  return __atomic_fetch_add(&last, 1u, __ATOMIC_RELAXED) & 0x3ffffffu;
}

// Returns every live block. Defined in list.hpp, which leaks.hpp includes.
template <class Runs>
[[nodiscard]] std::vector<block_info> blocks(layout const& at, Runs* heap, stream_ref stream);

}  // namespace sharded
#endif

// The allocator with the parameters `Named::tuned` (policy.hpp).
template <class Named>
class basic_sharded_spans {
 public:
  static constexpr allocator_traits traits{
      .name = "sharded_spans",
      .title = "gpuheap (sharded spans)",
      .variant = "shard words over spans of segments",
      .reuse = "a freed slot its class at once; an emptied span any class or any contiguous request",
      .min_alignment = 16,
      .smallest_bytes = 1,
      .largest_bytes = 0,
      .free = frees::individually,
      .detects_double_free = true,
      .detects_foreign_free = true,
  };
  using control = sharded::control<Named>;
  static constexpr bool takes_census = true;

  basic_sharded_spans() = default;

  // One lane's result of mark(): the data that finish_marked() needs. `before`: the slot word before this lane's atomic, or 0 if another
  // lane's atomic set the bit. `claimed`: the shard word, or 0 if the span has no unclaimed slot.
  struct marked {
    sharded::freed f;
    structures::span_tag tag;
    unsigned page = 0;
    simt::uint64_t before = 0, claimed = 0;
  };

  // ---- device: any thread, any divergence

  // Returns memory of at least `bytes` bytes (0 counts as 1), aligned to 16 bytes; nullptr if no free memory fits.
  // Ordering: the last owner's accesses to the memory, up to its free, happen before the caller's accesses.
  GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    if (bytes > at_.largest_slot()) return malloc_pages(bytes, 1);
    return malloc_class(structures::size_classes::class_of(bytes == 0 ? 1 : static_cast<unsigned>(bytes)));
  }

  // As malloc(), with memory aligned to `alignment` bytes, a power of two up to 2 MiB; nullptr for any other alignment. free() frees the
  // memory.
  GPUHEAP_FN void* aligned_malloc(simt::size_t bytes, simt::size_t alignment) const {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > max_alignment) return nullptr;
    // A span begins at a page boundary, so a slot is aligned to a page's size at most.
    if (bytes <= at_.largest_slot() && alignment <= at_.page_bytes()) {
      unsigned const c =
          structures::size_classes::class_of_aligned(bytes == 0 ? 1 : static_cast<unsigned>(bytes), static_cast<unsigned>(alignment));
      unsigned const lg = simt::highest_bit(static_cast<unsigned>(alignment) | 16) - 4;
      if (c < at_.num_classes) return malloc_class(c, lg);
    }
    return malloc_pages(bytes == 0 ? 1 : bytes, alignment <= at_.page_bytes() ? 1 : static_cast<unsigned>(alignment >> at_.page_shift));
  }

  // Frees p. A pointer that malloc did not return, or that was freed already, changes nothing and is reported. A second free is not
  // detected in three cases: malloc has handed out the memory again, or another thread's free releases or resets the memory's span at the
  // same moment. A wrong free beside a reset, also one of a slot that is unclaimed, may leave the slot's bit or its group's count wrong,
  // and malloc may then hand out a block twice. A free that excludes this would have to load the shard word again after its atomic. The
  // second free of memory that became unused, or whose span was reset before, is reported as foreign.
  GPUHEAP_FN free_status free(void* p) const {
    return free(p, [](void*, free_status) {});
  }
  // The same, and calls refused(p, status) if p is foreign or was freed already. The call comes before the rest of the work, so that no
  // register keeps p until the end.
  template <class Refused>
  GPUHEAP_FN free_status free(void* p, Refused refused) const {
    // One captured mask for the whole call: the lanes that free together.
    simt::lane_mask const here = simt::active_mask();
    // all_lanes is a compile-time constant, so warp operations over it need no check that the lanes have converged.
    marked m;
    bool const rare = here == simt::all_lanes ? mark(simt::all_lanes, p, m) : mark(here, p, m);
    if (!rare) return p == nullptr ? free_status::null : free_status::done;
    return finish_marked(here, p, m, refused);
  }

  // A free for programs that call it rather than inline it. A called function saves each register that it uses beyond a few, so this one
  // serves one case only and needs few registers. It frees p if all lanes of a whole warp call, and their pointers are consecutive slots of
  // one span in the order of the lanes. Otherwise it does nothing and returns false. If it returns true, it has set `status`. If work
  // remains, the status is the result of far(marked), which calls finish_marked().
  template <class Far>
  GPUHEAP_FN bool free_neighbours(void* p, free_status& status, Far far) const {
    if (simt::active_mask() != simt::all_lanes) return false;
    simt::size_t const page = at_.page_of(p);
    auto const found = at_.tag_of(page);
    sharded::layout::place at{};
    if (found.tag.is_slotted()) at = at_.locate(p, static_cast<unsigned>(page), found);
    auto const map = at_.slots_of(at.page);
    unsigned const lane = simt::lane_id();
    if (!are_neighbours(simt::all_lanes, at, map, lane)) return false;
    status = free_status::done;
    marked m;
    structures::shard_word const claimed = claims_of(at);
    share const mine = share_of_neighbours(simt::all_lanes, at.slot % structures::slot_map::slots_per_word, lane);
    if (mark_slots(simt::all_lanes, at, map, claimed, mine, true, false, m)) status = far(m);
    return true;
  }
  // Does the work of a free that mark() or free_neighbours() left, and returns the lane's status. All lanes of `here` call.
  template <class Refused>
  GPUHEAP_FN free_status finish_marked(simt::lane_mask here, void* p, marked const& m, Refused refused) const {
    free_status status = m.f.is_null() ? free_status::null : free_status::done;
    simt::uint64_t last_of = m.f.is_last() ? m.claimed : 0;  // the shard word of a span that may have to be reset
    structures::span_tag tag = m.tag;
    if (simt::any_of(here, m.f.is_rare())) {
      sharded::extent due;
      status = control_->finish_free(here, p, m.page, m.f, m.before, refused, due);
      if (control_->count_groups(here, m.page, m.f, due) && Tuning.resets) {
        // count_groups() ended a span, which takes many registers. So the tag and the shard word are loaded again rather than kept over the
        // call.
        unsigned const page = m.f.is_last() && due.n == 0 ? m.page : structures::segment_map::none;
        tag = at_.tag_of(page).tag;
        last_of = tag.may_have_unclaimed() ? at_.shard(tag.size_class(), tag.shard()).load(simt::relaxed) : 0;
        if (!structures::shard_word{last_of}.mostly_claimed(page, tag.is_successor())) last_of = 0;
      }
      if (due.n != 0) control_->release(due);
    }
    if constexpr (Tuning.resets) {
      if (simt::any_of(here, last_of != 0)) {
        unsigned const page = structures::shard_word{last_of}.page();
        sharded::resets::reset_spans(here, last_of, at_.active(page, tag.size_class(), tag.shard()));
      }
    }
    return status;
  }

  // Resizes the block at p to `bytes` bytes without moving it. Returns whether it did; if not, nothing has changed. A block in a slot can
  // have up to the slot's size. A larger block grows if the pages behind it are free, and releases the pages that it no longer needs.
  // Ordering: memory that the block gains is ordered as by malloc(), memory that it loses as by free().
  [[nodiscard]] GPUHEAP_FN bool try_resize(void* p, simt::size_t bytes) const {
    simt::size_t const page = at_.page_of(p);
    auto const found = at_.tag_of(page);
    if (found.tag.is_slotted()) {
      auto const at = at_.locate(p, static_cast<unsigned>(page), found);
      return at.exact() && bytes <= structures::size_classes::slot_bytes(at.tag.size_class());
    }
    if (!at_.heads_large(p, page, found) || bytes > at_.heap_bytes()) return false;
    return sharded::resize_large(control_, static_cast<unsigned>(page), at_.large_pages(bytes == 0 ? 1 : bytes));
  }

  // Returns the bytes that the owner of the block at p may use, which is at least the request. Returns 0 if p is not the start of a block.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void const* p) const {
    simt::size_t const page = at_.page_of(p);
    auto const found = at_.tag_of(page);
    if (found.tag.is_slotted()) {
      auto const at = at_.locate(p, static_cast<unsigned>(page), found);
      return at.exact() ? structures::size_classes::slot_bytes(at.tag.size_class()) : 0;
    }
    if (!at_.heads_large(p, page, found)) return 0;
    structures::span_header const h{at_.header(static_cast<unsigned>(page)).load(simt::relaxed)};
    return simt::size_t{h.large_pages()} << at_.page_shift;
  }

  // Whether p is the start of a live block of this heap.
  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const {
    simt::size_t const page = at_.page_of(p);
    auto const found = at_.tag_of(page);
    if (!found.tag.is_slotted()) return at_.heads_large(p, page, found);
    auto const at = at_.locate(p, static_cast<unsigned>(page), found);
    if (!at.exact()) return false;
    if (at.tag.may_have_unclaimed()) {
      structures::shard_word const claimed{at_.shard(at.tag.size_class(), at.tag.shard()).load(simt::relaxed)};
      if (claimed.is_unclaimed(at.page, at.slot)) return false;
    }
    using structures::slot_map;
    return (at_.slots_of(at.page).at(at.slot / slot_map::slots_per_word).load(simt::relaxed) >> (at.slot % slot_map::slots_per_word) & 1) ==
           0;
  }

  [[nodiscard]] GPUHEAP_FN bool is_live(void const* p) const { return owns(p); }

  // Returns the bytes of the slot or the pages that a request of `bytes` takes, or `bytes` itself if the heap is smaller than that. A slot
  // of a larger class serves the request while its own class has none. Host and device.
  [[nodiscard]] GPUHEAP_HD simt::size_t rounded_size(simt::size_t bytes) const {
    if (bytes <= at_.largest_slot()) {
      return structures::size_classes::slot_bytes(structures::size_classes::class_of(bytes == 0 ? 1 : static_cast<unsigned>(bytes)));
    }
    if (bytes > at_.heap_bytes()) return bytes;
    return simt::size_t{at_.large_pages(bytes)} << at_.page_shift;
  }

#if GPUHEAP_HAS_HOST
  // ---- host

  [[nodiscard]] static simt::size_t min_region_bytes() { return simt::size_t{128} << 10; }

  [[nodiscard]] static plain_error too_small(memory::region where) {
    return plain_error(
        text_of("gpuheap: a region of %zu bytes is too small for this allocator: give it at least %zu", where.bytes, min_region_bytes()));
  }

  // Initialises the region in stream order and returns a view of the heap. An earlier heap in the region is forgotten. Throws plain_error
  // if the region is too small.
  [[nodiscard]] static basic_sharded_spans create(memory::region where, stream_ref stream) {
    auto const plan = sharded::plan_layout(where, sizeof(control), where.bytes, false);
    if (plan.shape.num_pages == 0) throw too_small(where);
    basic_sharded_spans heap{plan, where};
    heap.metadata_bytes_ = plan.metadata_bytes;
    clear(static_cast<char*>(where.base), plan.metadata_bytes, stream);
    heap.write_control(stream);
    sharded::segment_range const all{0, heap.at_.num_segments()};
    sharded::add_segments const kernel{heap.control_, all, heap.prepared_for(all.end)};
    launch(kernel.num_threads(), kernel, {.stream = stream});
    return heap;
  }

  // ---- growth (has_grow, has_trim), in whole segments: each about a 2048th of the region, at least 64 KiB and at most 4 MiB

  // Returns the fewest bytes with which a heap that may grow to `whole_bytes` can begin: the fixed metadata of the whole heap, and one
  // segment with the metadata of its own.
  [[nodiscard]] static simt::size_t min_initial_bytes(simt::size_t whole_bytes) {
    // The plan depends only on distances between addresses, so it may be made for any address.
    memory::region const whole{reinterpret_cast<void*>(simt::uintptr_t{1} << 40), whole_bytes};
    simt::size_t needed = min_region_bytes();
    // Ends: `initial` rises with every pass, and `needed` takes few values: it depends on `initial` only through the strides that
    // plan_layout() chooses.
    for (simt::size_t initial = 0; initial != needed;) {
      initial = needed;
      auto const plan = sharded::plan_layout(whole, sizeof(control), initial, true);
      if (plan.shape.num_pages == 0) return min_region_bytes();
      basic_sharded_spans const heap{plan, whole};
      simt::size_t const more = heap.parts().metadata_bytes(1) + heap.at_.segment_bytes();
      if (more > needed) needed = more;
    }
    return needed;
  }
  // As create(), for a heap that begins with `initial_bytes` of the reserved addresses `whole`. `map` provides the memory. Throws
  // plain_error if `initial_bytes` holds no segment.
  [[nodiscard]] static basic_sharded_spans create_growable(memory::region whole, simt::size_t initial_bytes,
                                                           memory::map_function const& map, stream_ref stream) {
    auto const plan = sharded::plan_layout(whole, sizeof(control), initial_bytes, true);
    if (plan.shape.num_pages == 0) throw too_small(whole);
    basic_sharded_spans heap{plan, whole};
    auto const parts = heap.parts();
    unsigned const segments = parts.segments_within(initial_bytes);
    if (segments == 0)
      throw plain_error(text_of("gpuheap: a heap that grows to %zu bytes cannot begin with %zu: give it at least %zu bytes", whole.bytes,
                                initial_bytes, parts.metadata_bytes(1) + heap.at_.segment_bytes()));
    map(0, parts.fixed_bytes());
    simt::fill(whole.base, 0, parts.fixed_bytes(), stream);
    heap.write_control(stream);
    parts.add({0, segments}, map, stream, heap.prepared_for(segments));
    return heap;
  }
  // Grows the heap to as many whole segments as `new_bytes` holds together with the metadata. Waits for the stream.
  void grow(simt::size_t new_bytes, memory::map_function const& map, stream_ref stream) const {
    unsigned const there = segments_there(stream), wanted = parts().segments_within(new_bytes);
    if (wanted > there) parts().add({there, wanted}, map, stream);
  }
  // Drains all shards, then removes the free segments at the end of the heap, except the first segment. Returns the bytes of the removed
  // segments. Waits for the stream.
  [[nodiscard]] simt::size_t trim(stream_ref stream) const {
    launch(simt::warp_lanes, sharded::reclaim_all<Named>{control_}, {.block_threads = simt::warp_lanes, .stream = stream});
    return simt::size_t{parts().remove_free(segments_there(stream), stream)} << at_.segment_shift();
  }

  // Returns the bytes of pages that spans and large allocations hold now, the bytes of metadata, and the most bytes of pages held since
  // create(). Waits for the stream.
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const {
    unsigned pages = 0, peak_held = 0, num_free = 0, least_free = 0;
    simt::copy(&pages, &control_->pages_there, sizeof pages, stream);
    simt::copy(&peak_held, &control_->peak_held, sizeof peak_held, stream);
    simt::copy(&num_free, &control_->num_free, sizeof num_free, stream);
    simt::copy(&least_free, &control_->least_free, sizeof least_free, stream);
    simt::synchronize(stream);
    if (pages - least_free > peak_held) peak_held = pages - least_free;
    if (pages - num_free > peak_held) peak_held = pages - num_free;  // a running kernel subtracts from num_free first
    return {simt::size_t{pages - num_free} << at_.page_shift,
            metadata_bytes_ != 0 ? metadata_bytes_ : parts().metadata_bytes(pages >> at_.lg_pages),
            simt::size_t{peak_held} << at_.page_shift};
  }

  // Counts the live blocks of each size (has_live_blocks). Waits for the stream; no kernel may be running on the heap.
  [[nodiscard]] std::vector<live_size> live_blocks(stream_ref stream = {}) const {
    return sharded::live_blocks<sharded::spans>(at_, control_, stream);
  }
  // Returns every live block, in the order of addresses (has_blocks). Waits for the stream; no kernel may be running on the heap. A program
  // that calls it includes leaks.hpp.
  [[nodiscard]] std::vector<block_info> blocks(stream_ref stream = {}) const {
    return sharded::blocks<sharded::spans>(at_, control_, stream);
  }
  // Bytes of the largest request that may ever be served.
  [[nodiscard]] simt::size_t largest_request() const { return at_.heap_bytes(); }

  // Stores the number of live blocks and their bytes in device memory at `into`, in stream order (has_census).
  void take_census(live_total* into, stream_ref stream) const { sharded::take_census<sharded::spans>(at_, control_, into, stream); }

  // Checks the invariants of the whole heap, which verify.hpp lists. Waits for the stream; no kernel may be running on the heap.
  [[nodiscard]] sharded::audit verify(stream_ref stream = {}) const { return sharded::verify<sharded::spans>(at_, control_, stream); }
#endif

  // The address of the first segment: no block lies before it (has_blocks_begin).
  [[nodiscard]] GPUHEAP_HD void const* blocks_begin() const { return at_.base; }
  // The layout and the control block, for tests and tools.
  [[nodiscard]] GPUHEAP_HD sharded::layout const& geometry() const { return at_; }
  [[nodiscard]] GPUHEAP_HD control* control_block() const { return control_; }

 private:
  static constexpr sharded::tuning Tuning = Named::tuned;
  static constexpr simt::size_t max_alignment = simt::size_t{2} << 20;

  // A lane's part in the atomics by which a warp frees slots. `actor`: the lane whose atomic sets this lane's bit. `mask`: the bits that
  // this lane's atomic sets, or 0 if another lane is the actor.
  struct share {
    unsigned actor = 0;
    simt::uint64_t mask = 0;
  };

  // Sets the bits of the slots that the lanes of `here` free. Returns false if no work remains; m then means nothing. Returns true if some
  // remains: a pointer is not a live slot, a span has to be listed, a group (and perhaps its span) became free, or a span may have to be
  // reset. All lanes of `here` call.
  GPUHEAP_FN bool mark(simt::lane_mask here, void* p, marked& m) const {
    using structures::slot_map;
    simt::size_t const page = at_.page_of(p);
    auto const found = at_.tag_of(page);
    bool const several = (here & (here - 1)) != 0;
    sharded::layout::place at{};
    if (found.tag.is_slotted()) at = at_.locate(p, static_cast<unsigned>(page), found);
    structures::shard_word const claimed = claims_of(at);
    unsigned const w = at.slot / slot_map::slots_per_word, b = at.slot % slot_map::slots_per_word;
    auto const map = at_.slots_of(at.page);
    share const mine = several ? aggregate(here, at, map, w, b) : share{simt::lane_id(), at.exact() ? simt::uint64_t{1} << b : 0};
    return mark_slots(here, at, map, claimed, mine, several, p == nullptr, m);
  }
  // Loads the shard word of the span in which this lane frees a slot; 0 if it frees none, or if the span has no unclaimed slot. The load is
  // in flight while the lanes find their shares.
  [[nodiscard]] GPUHEAP_FN structures::shard_word claims_of(sharded::layout::place const& at) const {
    // relaxed: this lane's slot is live until the atomic that frees it, and until then no thread resets its span. The word means nothing to
    // a wrong free, whose slot is not live: see free().
    if (!at.exact() || !at.tag.may_have_unclaimed()) return {};
    return {at_.shard(at.tag.size_class(), at.tag.shard()).load(simt::relaxed)};
  }
  // The second part of mark(), for a lane that knows its slot and its share of the warp's atomics. `claimed`: the result of claims_of().
  GPUHEAP_FN bool mark_slots(simt::lane_mask here, sharded::layout::place const& at, structures::slot_map map,
                             structures::shard_word claimed, share const& mine, bool several, bool is_null, marked& m) const {
    using structures::slot_map;
    unsigned const w = at.slot / slot_map::slots_per_word;
    // Every lane's accesses to its memory, and its load of the shard word, come before the fence of the lane that executes the atomic for
    // it. The atomics below come after the fence, and pass those accesses on.
    if (several) simt::sync_warp(here);
    simt::fence(simt::release);
    // relay: as in slot_map::give().
    simt::uint64_t before = 0;
    unsigned full = 0;
    if (mine.mask != 0) {
      before = map.at(w).fetch_or(mine.mask, simt::relay);
      // The group's number is computed from the slot rather than from w, which saves a register.
      if (slot_map::completes(before, mine.mask))
        full = map.count_words(at.slot / (slot_map::slots_per_word * slot_map::words_per_group), 1) + 1;
    }
    // For a slot near the first unclaimed one, two more facts matter: whether the slot was claimed at all, and whether its free leaves no
    // slot of the span live. The shard word is used here for the first time, together with the atomics' results. So no warp waits for it
    // before its fence.
    bool const found_bits = (before & (mine.mask | slot_map::unlisted)) != 0, crossed = full == slot_map::words_per_group,
               near_end = claimed.may_be_near_next(at.page, at.slot, Tuning.resets ? sharded::resets::near_end(full != 0) : 0);
    bool const special = !at.exact() || found_bits || crossed || near_end;
    if (several ? !simt::any_of(here, special) : !special) return false;
    sharded::freed f = sharded::freed::of(at.exact() ? at.slot : 0, mine.actor, at.exact(), is_null, crossed, (before & mine.mask) != 0,
                                          (before & slot_map::unlisted) != 0);
    if (near_end || (Tuning.resets && crossed)) {
      f = f.near_end(
          claimed.is_unclaimed(at.page, at.slot),
          Tuning.resets && mine.mask != 0 && sharded::resets::may_be_last(claimed, at.page, at.tag, w, before | mine.mask, full));
    }
    m = {f, at.tag, at.page, before, claimed.bits};
    return simt::any_of(here, f.is_rare() || f.is_last());
  }
  // The share of a lane that frees bit b of a word. The lanes of `here` free consecutive slots in the order of the lanes, in one word or
  // two. `rank`: this lane's position in `here`.
  GPUHEAP_FN static share share_of_neighbours(simt::lane_mask here, unsigned b, unsigned rank) {
    // The first lane of a word sets the bits of its own slot and of all lanes after it, as far as the word reaches.
    simt::lane_mask const from_here_on =
        here == simt::all_lanes ? here >> rank : simt::all_lanes >> (simt::warp_lanes - simt::popcount(here) + rank);
    bool const leads = rank == 0 || b == 0;
    return {structures::warp_group{here}.lane(b < rank ? rank - b : 0),
            leads ? simt::uint64_t{from_here_on} << b & structures::slot_map::all_slots : 0};
  }
  // Aggregates the frees of the two or more lanes of `here`, and returns this lane's share. This lane's slot is `at`: bit b of word w of
  // `map`. All lanes of `here` call.
  GPUHEAP_FN static share aggregate(simt::lane_mask here, sharded::layout::place const& at, structures::slot_map map, unsigned w,
                                    unsigned b) {
    simt::lane_mask const me = simt::lane_mask{1} << simt::lane_id();
    unsigned const rank = here == simt::all_lanes ? simt::lane_id() : simt::popcount(here & (me - 1));
    // A warp mostly frees together, and in the same order, the slots that it claimed together: consecutive ones, in one word or two.
    return are_neighbours(here, at, map, rank) ? share_of_neighbours(here, b, rank) : aggregate_any(here, at, map, w, b);
  }
  // Whether the lanes of `here` free consecutive slots of one span in the order of the lanes. `rank`: this lane's position in `here`.
  //
  // Each slot of all heaps has a `number` of its own: the n words of a span have 64 * n numbers, of which its slots, 63 * n at most, have
  // the first. So numbers without a slot lie between the slots of two spans, and lanes with consecutive numbers free slots of one span.
  [[nodiscard]] GPUHEAP_FN static bool are_neighbours(simt::lane_mask here, sharded::layout::place const& at, structures::slot_map map,
                                                      unsigned rank) {
    simt::uint64_t const number = reinterpret_cast<simt::uint64_t>(map.words) * 8 + at.slot, of_first = number - rank;
    return simt::all_of(here, of_first == simt::shuffle(here, of_first, simt::lowest_bit(here)) && at.exact());
  }
  // The same for lanes of which some free no slot, or not the slot after that of the lane before.
  GPUHEAP_FN static share aggregate_any(simt::lane_mask here, sharded::layout::place const& at, structures::slot_map map, unsigned w,
                                        unsigned b) {
    simt::lane_mask const with = simt::ballot(here, at.exact()), me = simt::lane_mask{1} << simt::lane_id();
    unsigned const first = simt::lowest_bit(with == 0 ? me : with);
    // The lanes of each word are a group. A group that frees consecutive slots in the order of its lanes shares one atomic.
    auto const word = at.exact() ? reinterpret_cast<simt::uint64_t>(map.words + w) : 0;
    structures::warp_group const same = structures::warp_group::of_equal(here, word);
    bool const follows = at.slot == simt::shuffle(here, at.slot, same.leader()) + same.rank();
    simt::lane_mask const others = simt::ballot(here, at.exact() && !follows);
    simt::uint64_t const bit = at.exact() ? simt::uint64_t{1} << b : 0;
    if (others != 0) {
      // Slots in any order, if they lie in one word or two, take one atomic for each word.
      simt::uint64_t const word0 = simt::shuffle(here, word, first), word1 = simt::shuffle(here, word, simt::highest_bit(with));
      if (simt::all_of(here, word == word0 || word == word1 || !at.exact())) {
        simt::uint64_t const m0 = structures::reduce_or(here, word == word0 ? bit : 0);
        simt::uint64_t const m1 = word0 != word1 ? structures::reduce_or(here, word == word1 ? bit : 0) : 0;
        // If two lanes free the same slot, each lane executes an atomic of its own, whose result tells it whether it came second.
        if (!at.exact() || simt::popcount(m0) + simt::popcount(m1) != simt::popcount(with)) return {simt::lane_id(), bit};
        return {same.leader(), same.leads() ? word == word0 ? m0 : m1 : 0};
      }
    }
    if (!at.exact() || (others & same.mask) != 0) return {simt::lane_id(), bit};
    return {same.leader(), same.leads() ? simt::low_bits(same.size()) << b : 0};
  }

  // Returns a slot of class c or of a larger class, aligned to 16 << lg_alignment bytes, or nullptr. All slots of class c are aligned so.
  GPUHEAP_FN void* malloc_class(unsigned c, unsigned lg_alignment = 0) const {
    // One captured mask for the whole call, the slow path included.
    simt::lane_mask const here = simt::active_mask();
    if constexpr (!Tuning.aggregates) return malloc_alone(simt::lane_mask{1} << simt::lane_id(), c, lg_alignment);
    if ((here & (here - 1)) == 0) return malloc_alone(here, c, lg_alignment);
    structures::warp_group const g = structures::warp_group::of_equal(here, c | id_ << 6);
    unsigned const num_here = simt::popcount(here),
                   lg = sharded::lg_shards_of_group<Tuning>(sharded::warps_of_launch(), at_, c, num_here, g.size());
    unsigned const k = sharded::shard_of_warp(lg);
    simt::uint64_t bits = 0;
    // consume: pairs with the exchange in install(), which published the span.
    if (g.leads()) bits = at_.shard(c, k).fetch_add(g.size(), simt::consume);
    // One shuffle for all groups: each lane reads from its own leader.
    structures::shard_word const claimed{simt::shuffle(here, bits, g.leader())};
    // All lanes acquire what their leader acquired.
    simt::sync_warp(here);
    if (simt::all_of(here, claimed.serves(g.size()))) return at_.address(claimed.page(), claimed.next() + g.rank(), c);
    // The lanes of a group search together, for slots with the greatest alignment that one of them asked for.
    lg_alignment = greatest(g.mask, lg_alignment);
    sharded::demand const d = sharded::demand::of(c, k, 0, g.size(), lg, lg_alignment, sharded::is_uniform(num_here, g.size()));
    return serve(here, g, d, claimed);
  }

  // The greatest `number` of the lanes of `group`. Each number is below 32.
  [[nodiscard]] GPUHEAP_FN static unsigned greatest(simt::lane_mask group, unsigned number) {
    return simt::highest_bit(simt::reduce_or(group, 1u << number));
  }

  // The same for this lane alone. `me` is the lane's bit.
  GPUHEAP_FN void* malloc_alone(simt::lane_mask me, unsigned c, unsigned lg_alignment) const {
    unsigned const lg = sharded::lg_shards_of_group<Tuning>(sharded::warps_of_launch(), at_, c, 1, 1), k = sharded::shard_of_warp(lg);
    // consume: as in malloc_class().
    structures::shard_word const claimed{at_.shard(c, k).fetch_add(1, simt::consume)};
    if (claimed.serves(1)) return at_.address(claimed.page(), claimed.next(), c);
    return serve(me, structures::warp_group{me}, sharded::demand::of_lone_lane(c, k, lg, lg_alignment), claimed);
  }
  // Serves or refuses the lanes of `here`, whose claims did not serve all of them. A lane's group `g` has the demand `d` and made the claim
  // `claimed`. A group that contains all lanes of `here` refills a shard at once that is idle or whose new span ends, since other warps
  // wait for it.
  GPUHEAP_FN void* serve(simt::lane_mask here, structures::warp_group g, sharded::demand d, structures::shard_word claimed) const {
    // The lanes of one group have the same claim, so all lanes of `here` take the same branch.
    if (g.mask == here && claimed.duty_of(g.size()) && !claimed.is_reused())
      return simt::far_call(&sharded::malloc_by_refill_far<Named>, control_, here, d, claimed.bits);
    return simt::far_call(&sharded::malloc_far<Named>, control_, here, g.mask, d, claimed.bits);
  }

  // Returns whole pages for `bytes` bytes, of which the first is aligned to `alignment` pages, or nullptr.
  GPUHEAP_FN void* malloc_pages(simt::size_t bytes, unsigned alignment) const {
    if (bytes > at_.heap_bytes()) return nullptr;
    return simt::far_call(&sharded::malloc_large_far<Named>, control_, simt::active_mask(), at_.large_pages(bytes), alignment);
  }

#if GPUHEAP_HAS_HOST
  basic_sharded_spans(sharded::layout_plan const& plan, memory::region where)
      : at_{sharded::place_layout(plan, where)},
        control_{reinterpret_cast<control*>(simt::round_up_pow2(reinterpret_cast<simt::uintptr_t>(where.base), 128) + plan.control_at)},
        id_{sharded::next_heap_id()} {}

  // Clears the metadata. In a heap that begins with prepared spans, the first part of long metadata comes last: the L2 then has what the
  // first requests access.
  static void clear(char* metadata, simt::size_t bytes, stream_ref stream) {
    constexpr simt::size_t part = simt::size_t{32} << 20;
    simt::size_t const first = Tuning.prepares && bytes > part ? part : bytes;
    if (first != bytes) simt::fill(metadata + first, 0, bytes - first, stream);
    simt::fill(metadata, 0, first, stream);
  }
  // Writes the control block of a heap that has no segment yet.
  void write_control(stream_ref stream) const {
    control initial{};
    initial.at = at_;
    initial.map = {at_.whole_tree(),    at_.broken_tree(),     at_.pages,        at_.num_segments(), sharded::layout::lg_pages,
                   &control_->num_free, &control_->least_free, at_.segment_tags, at_.tag_stride};
    simt::copy(control_, &initial, sizeof(control), stream);
  }
  [[nodiscard]] sharded::prepared_spans prepared_for(unsigned segments) const {
    return Tuning.prepares ? sharded::prepared_spans::of(segments, at_.page_shift) : sharded::prepared_spans{};
  }
  [[nodiscard]] sharded::growing_parts<sharded::spans> parts() const { return {at_, control_}; }
  [[nodiscard]] unsigned segments_there(stream_ref stream) const {
    unsigned there = 0;
    simt::copy(&there, &control_->segments_there, sizeof there, stream);
    simt::synchronize(stream);
    return there;
  }
#endif

  sharded::layout at_;
  control* control_ = nullptr;
  simt::size_t metadata_bytes_ = 0;  // of a heap that does not grow; 0 if it grows
  unsigned id_ = 0;                  // see next_heap_id(); lanes that use different heaps form different groups
};

using sharded_spans = basic_sharded_spans<sharded::shipped>;
// The allocator with parameters of the program's own.
template <sharded::tuning Tuning>
using tuned_sharded_spans = basic_sharded_spans<sharded::tuned_as<Tuning>>;
static_assert(device_allocator<sharded_spans> && has_try_resize<sharded_spans>);
#if GPUHEAP_HAS_HOST
static_assert(has_grow<sharded_spans> && has_trim<sharded_spans> && has_verify<sharded_spans> && has_live_blocks<sharded_spans>);
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
