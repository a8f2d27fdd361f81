// gpuheap's own allocator: per size class a few shard words through which whole warps draw slots, one atomic a warp.
//
// Not published before. It descends from measurements of our own (docs/measurements.md) and from ideas of many allocators in this folder:
// warp aggregation (XMalloc), bitmaps hashed apart (ScatterAlloc), slabs that change class when empty (Halloc), contiguous segments found
// in bitmap trees (Gallatin).
//
// malloc: the lanes of a warp that ask for one class draw together: one fetch_add on the class's shard word returns the run AND the slots.
// Fresh slots touch no
//         other memory. The draw that reaches the end of a run replaces it, all others go on elsewhere.
// free:   one fetch_or in the run's bitmap per word that the warp's pointers lie in. Only a word that became entirely free is counted; a
// run all of whose slots
//         are free goes back to the free segments, for any class or any larger request.
// Reuse:  below a quarter of free segments, runs with many freed slots are swept by the same draws; before anyone is refused, every freed
// slot of the class and of
//         larger classes is looked at, and unused slots held by other classes' shards are taken back.
//
// Progress: malloc and free are lock-free; the common path of each is wait-free. malloc returns nullptr only after a search, crossed by no
// other thread's internal move, that found no slot of the class or a larger one and no free segment.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/sharded_runs/control.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <atomic>
#include <string>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace sharded {

// Sets the bits of the free segments: one thread per leaf of the tree.
struct fill_free_segments {
  layout at;
  GPUHEAP_FN void operator()(unsigned leaf) const {
    unsigned const first = leaf * bitmap_tree::bits_per_leaf;
    unsigned const here = at.num_segments - first;
    at.tree(0).set_mask(leaf, simt::low_bits(here < bitmap_tree::bits_per_leaf ? here : bitmap_tree::bits_per_leaf));
  }
};

#if GPUHEAP_HAS_HOST
// A number that no other heap of this process has, until 2^26 have been made.
[[nodiscard]] inline unsigned next_heap_id() {
  static std::atomic<unsigned> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) & 0x3ffffffu;
}
#endif

}  // namespace sharded

template <sharded::tuning Tuning>
class basic_sharded_runs {
 public:
  static constexpr allocator_traits traits{
      .name = "gpuheap",
      .title = "gpuheap sharded runs",
      .variant = "shard words over runs of segments",
      .reuse = "a freed slot its class at once; an emptied run any class or any contiguous request",
      .min_alignment = 16,
      .smallest_bytes = 1,
      .largest_bytes = 0,
      .free = frees::individually,
      .detects_double_free = true,
      .detects_foreign_free = true,
  };
  using control = sharded::control<Tuning>;

  // ---- device: any thread, any divergence

  // At least `bytes` (0 counts as 1), aligned to 16; nullptr when nothing fits.
  // Ordering: what the last owner of the memory did to it before its free happens before what the caller does to it.
  GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    if (bytes > at_.largest_slot()) return malloc_segments(bytes, 1);
    return malloc_class(structures::size_classes::class_of(bytes == 0 ? 1 : static_cast<unsigned>(bytes)));
  }

  // The same with an alignment that is a power of two up to 2 MiB; nullptr for other alignments. Freed by free().
  GPUHEAP_FN void* aligned_malloc(simt::size_t bytes, simt::size_t alignment) const {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > max_alignment) return nullptr;
    if (bytes <= at_.largest_slot() && alignment <= at_.largest_slot()) {
      unsigned const c =
          structures::size_classes::class_of_aligned(bytes == 0 ? 1 : static_cast<unsigned>(bytes), static_cast<unsigned>(alignment));
      if (c < at_.num_classes) return malloc_class(c);
    }
    return malloc_segments(bytes == 0 ? 1 : bytes,
                           alignment <= at_.segment_bytes() ? 1 : static_cast<unsigned>(alignment >> at_.segment_shift));
  }

  // Gives p back. A pointer that malloc did not return, or that was freed already, changes nothing and is reported, with two exceptions
  // that no allocator can tell: the memory has been handed out again meanwhile, or is being released at this moment by a free of the last
  // other slot. The second free of memory that has gone back to the free segments is reported as foreign.
  GPUHEAP_FN free_status free(void* p) const {
    // One captured mask for the whole call: the lanes that free into this heap together.
    simt::lane_mask here = simt::active_mask();
    if (!simt::all_of(here, id_ == simt::shuffle(here, id_, simt::lowest_bit(here)))) here = simt::match_any(here, id_);
    simt::size_t const s = at_.segment_of(p);
    // relaxed: a rightful free comes after the malloc that came after the tag was written.
    structures::segment_tag const tag{s < at_.num_segments ? at_.tag(static_cast<unsigned>(s)).load(simt::relaxed)
                                                           : structures::segment_tag::word{0}};
    free_status status = free_status::done;
    sharded::layout::place at{};
    if (tag.is_slotted()) {
      at = at_.locate(p, static_cast<unsigned>(s), tag);
      if (!at.exact || (tag.maybe_fresh() && never_drawn(at))) status = free_status::foreign;
    } else {
      status = p == nullptr ? free_status::null : free_segments(p, static_cast<unsigned>(s), tag);
      at.exact = false;
    }
    bool const in_slot = at.exact && status == free_status::done;
    if (!simt::any_of(here, in_slot)) return status;
    return free_slots(here, in_slot, at, status);
  }

  // Bytes that the allocation at p may use: at least what was asked. 0 if p is not an allocation's start.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void const* p) const {
    simt::size_t const s = at_.segment_of(p);
    if (s >= at_.num_segments) return 0;
    structures::segment_tag const tag{at_.tag(static_cast<unsigned>(s)).load(simt::relaxed)};
    if (tag.is_slotted()) {
      auto const at = at_.locate(p, static_cast<unsigned>(s), tag);
      return at.exact ? structures::size_classes::slot_bytes(at.size_class) : 0;
    }
    if (tag.bits != structures::segment_tag::large_head || p != at_.address(static_cast<unsigned>(s), 0, 0)) return 0;
    return simt::size_t{structures::run_header{at_.header(static_cast<unsigned>(s)).load(simt::relaxed)}.large_segments()}
           << at_.segment_shift;
  }

  // Whether p is the start of a live allocation of this heap.
  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const {
    simt::size_t const s = at_.segment_of(p);
    if (usable_size(p) == 0) return false;
    structures::segment_tag const tag{at_.tag(static_cast<unsigned>(s)).load(simt::relaxed)};
    if (!tag.is_slotted()) return true;
    auto const at = at_.locate(p, static_cast<unsigned>(s), tag);
    if (tag.maybe_fresh() && never_drawn(at)) return false;
    auto const map = at_.slots_of(at.segment, at.size_class, at.order);
    unsigned const w = at.slot / structures::slot_map::slots_per_word;
    return (map.at(w).load(simt::relaxed) >> (at.slot % structures::slot_map::slots_per_word) & 1) == 0;
  }

  // Bytes that a request of `bytes` takes. Host and device.
  [[nodiscard]] GPUHEAP_HD simt::size_t rounded_size(simt::size_t bytes) const {
    if (bytes <= at_.largest_slot()) {
      return structures::size_classes::slot_bytes(structures::size_classes::class_of(bytes == 0 ? 1 : static_cast<unsigned>(bytes)));
    }
    return (bytes + at_.segment_bytes() - 1) >> at_.segment_shift << at_.segment_shift;
  }

#if GPUHEAP_HAS_HOST
  // ---- host

  [[nodiscard]] static simt::size_t min_region_bytes() { return simt::size_t{128} << 10; }

  // Initialises the region in stream order and returns the view. The region may be in use by an earlier heap, which is forgotten.
  [[nodiscard]] static basic_sharded_runs create(memory::region where, stream_ref stream) {
    auto const plan = sharded::plan_layout(where, sizeof(control));
    if (!plan.fits)
      throw error("gpuheap: a region of " + std::to_string(where.bytes) +
                  " bytes is too small for this allocator: give it at least 131072");
    basic_sharded_runs heap;
    heap.at_ = sharded::place_layout(plan, where);
    heap.metadata_bytes_ = plan.metadata_bytes;
    heap.id_ = sharded::next_heap_id();
    char* const begin = reinterpret_cast<char*>(simt::round_up_pow2(reinterpret_cast<simt::uintptr_t>(where.base), 128));
    heap.control_ = reinterpret_cast<control*>(begin + plan.control_at);
    simt::fill(where.base, 0, plan.metadata_bytes, stream);
    control initial{};
    initial.at = heap.at_;
    initial.num_free = initial.least_free = heap.at_.num_segments;
    simt::copy(heap.control_, &initial, sizeof(control), stream);
    launch(heap.at_.num_leaves, sharded::fill_free_segments{heap.at_}, {.stream = stream});
    return heap;
  }

  // What is held now, and at most since create(). Waits for the stream.
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const {
    unsigned num_free = 0, least_free = 0;
    simt::copy(&num_free, &control_->num_free, sizeof num_free, stream);
    simt::copy(&least_free, &control_->least_free, sizeof least_free, stream);
    simt::synchronize(stream);
    return {simt::size_t{at_.num_segments - num_free} << at_.segment_shift, metadata_bytes_,
            simt::size_t{at_.num_segments - least_free} << at_.segment_shift};
  }
#endif

  // The geometry, for tests and tools.
  [[nodiscard]] GPUHEAP_HD sharded::layout const& geometry() const { return at_; }
  [[nodiscard]] GPUHEAP_HD control* control_block() const { return control_; }

 private:
  static constexpr simt::size_t max_alignment = simt::size_t{2} << 20;

  GPUHEAP_FN void* malloc_class(unsigned c) const {
    // One captured mask for the whole call, the slow path included.
    simt::lane_mask const here = simt::active_mask();
    // Lanes of one warp may hold views of different heaps.
    auto const group = structures::warp_group::of_equal(here, id_ << 6 | c);
    // A multiplicative hash of the warp's number spreads bursts evenly over the shards and keeps a lone warp on one.
    unsigned const k = static_cast<unsigned>((simt::uint64_t{simt::global_warp() * 0x9e3779b9u} << at_.lg_shards) >> 32);
    simt::uint64_t bits = 0;
    // acquire: pairs with the exchange that put the run there: its header, its tags, and every access of the slots' former owners come
    // before.
    if (group.leads()) bits = at_.shard(c, k).fetch_add(group.size(), simt::acquire);
    structures::shard_word const drawn{group.from_leader(bits)};
    // A shuffle moves a value, not memory order: the barrier lets every lane have what its leader acquired.
    simt::sync_warp(here);
    bool const plain = !drawn.is_sweep() && drawn.next() + group.size() < drawn.num_slots();
    if (simt::all_of(here, plain)) return at_.address(drawn.segment(), drawn.next() + group.rank(), c);
    return control_->malloc_slow(here, group.mask, c, k, drawn.bits);
  }

  GPUHEAP_FN void* malloc_segments(simt::size_t bytes, unsigned alignment) const {
    if (bytes > at_.heap_bytes()) return nullptr;
    return control_->malloc_large((bytes + at_.segment_bytes() - 1) >> at_.segment_shift, alignment);
  }

  // Whether the slot lies in a fresh run beyond what its shard has handed out.
  [[nodiscard]] GPUHEAP_FN bool never_drawn(sharded::layout::place const& at) const {
    // relaxed: the draw of a rightful pointer happened before, so its count is seen.
    structures::shard_word const w{at_.shard(at.size_class, at.tag.shard()).load(simt::relaxed)};
    return w.has_run() && !w.is_sweep() && w.segment() == at.segment && at.slot >= w.next();
  }

  GPUHEAP_FN free_status free_segments(void* p, unsigned s, structures::segment_tag tag) const {
    if (tag.bits != structures::segment_tag::large_head || p != at_.address(s, 0, 0)) return free_status::foreign;
    return control_->free_large(s) ? free_status::done : free_status::double_free;
  }

  // Frees the slots of the lanes with `in_slot`. All lanes of `here` call. Returns each lane's status.
  GPUHEAP_FN free_status free_slots(simt::lane_mask here, bool in_slot, sharded::layout::place const& at, free_status status) const {
    using structures::slot_map;
    unsigned const w = at.slot / slot_map::slots_per_word;
    simt::uint64_t const bit = simt::uint64_t{1} << (at.slot % slot_map::slots_per_word);
    unsigned const word = in_slot ? at.segment * at_.words_per_segment() + w : ~0u;
    auto const map = at_.slots_of(at.segment, at.size_class, at.order);

    // The pointers of a warp that were drawn together lie in one word or two: then two lanes do it for all. Otherwise each does its own.
    simt::lane_mask const with = simt::ballot(here, in_slot);
    unsigned const first = simt::lowest_bit(with), last = simt::highest_bit(with);
    unsigned const word0 = simt::shuffle(here, word, first), word1 = simt::shuffle(here, word, last);
    simt::lane_mask const in0 = simt::ballot(here, word == word0), in1 = word1 != word0 ? simt::ballot(here, word == word1) : 0;
    unsigned const lane = simt::lane_id();
    bool acts = in_slot;
    simt::uint64_t mask = bit;
    if ((in0 | in1) == with) {
      simt::uint64_t const m0 = reduce_or(here, word == word0 ? bit : 0);
      simt::uint64_t const m1 = in1 != 0 ? reduce_or(here, word == word1 ? bit : 0) : 0;
      // A pointer freed twice by the warp at once: let each lane learn its own outcome.
      if (simt::popcount(m0) + simt::popcount(m1) == simt::popcount(with)) {
        acts = lane == first || (lane == last && in1 != 0);
        mask = lane == first ? m0 : m1;
      }
    }
    slot_map::change change{};
    // The barrier puts every lane's accesses to its memory before the release of the lane that acts for it.
    simt::sync_warp(here);
    if (acts) change = map.give(w, mask);
    bool const again = acts && (change.before & mask) != 0;
    if (simt::any_of(here, again)) status = free_again(here, with, in0, acts, mask, bit, change.before, status);
    if (acts && (change.before & slot_map::unlisted) != 0) control_->list(at.size_class, at.segment);
    bool const ended = change.group_crossed && control_->count_full_group(at.segment);
    simt::lane_mask const all_ended = simt::ballot(here, ended);
    if (all_ended != 0) control_->release_ended(here, all_ended, at.segment, at.size_class | at.order << 6);
    return status;
  }

  // Some bit was set already: which lanes freed in vain? All lanes of `here` call.
  GPUHEAP_COLD static free_status free_again(simt::lane_mask here, simt::lane_mask with, simt::lane_mask in0, bool acts,
                                             simt::uint64_t mask, simt::uint64_t bit, simt::uint64_t before, free_status status) {
    // A lane that acted alone has its own answer; otherwise the answer is with the lane that acted for its word.
    unsigned const lane = simt::lane_id();
    bool const in_with = (with >> lane & 1) != 0;
    simt::lane_mask const actors = simt::ballot(here, acts);
    bool const alone = actors == with && simt::all_of(here, !acts || mask == bit);
    unsigned const source = alone ? lane : (in0 >> lane & 1) != 0 ? simt::lowest_bit(with) : simt::highest_bit(with);
    simt::uint64_t const theirs = simt::shuffle(here, before, source);
    return in_with && (theirs & bit) != 0 ? free_status::double_free : status;
  }

  [[nodiscard]] GPUHEAP_FN static simt::uint64_t reduce_or(simt::lane_mask mask, simt::uint64_t value) {
    return simt::uint64_t{simt::reduce_or(mask, static_cast<unsigned>(value >> 32))} << 32 |
           simt::reduce_or(mask, static_cast<unsigned>(value));
  }

  sharded::layout at_;
  control* control_ = nullptr;
  simt::size_t metadata_bytes_ = 0;
  unsigned id_ = 0;  // tells this process's heaps apart, in 26 bits
};

using sharded_runs = basic_sharded_runs<sharded::tuning{}>;
static_assert(device_allocator<sharded_runs>);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
