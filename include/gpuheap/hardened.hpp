// A heap that wrong frees cannot break. hardened<Allocator> is the allocator with a bit beside it for each place where a block may begin.
// The bit is set while a live block begins there.
//
//   gpuheap::heap<gpuheap::hardened<>> heap{1_GiB};                    over the default allocator
//
// Layout of a region:  | misuse record | a copy of this view | control | bits | the allocator's own region |
//
// malloc: sets the bit of the block's address, by one atomic for each word of bits that a warp's blocks need. No thread waits for the
//         atomic's result.
// free:   clears the bit in the same way, and frees the block only if the bit was set. Of all frees of a block, exactly one finds the bit
//         set.
//
// So each pointer that the inner allocator's free gets is one that its malloc returned and that was not freed since. A hardened heap serves
// requests correctly whatever pointers a program frees, even if it frees one several times, or in several threads at once. docs/misuse.md
// says which attacks and mistakes this covers.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/checking/begin_bits.hpp>
#include <gpuheap/checking/kind_name.hpp>
#include <gpuheap/default_allocator.hpp>
#include <gpuheap/misuse.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/warp.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace detail {
struct hardened_kind {
  static constexpr char word[] = "hardened";
};
}  // namespace detail

#if defined(GPUHEAP_NO_DEFAULT_ALLOCATOR)
template <device_allocator Allocator, class Bits = checking::begin_bits>
class hardened;
#else
template <device_allocator Allocator = sharded_spans, class Bits = checking::begin_bits>
class hardened;
#endif

// @brief An allocator whose heap no wrong free can break. The heap refuses and records wrong frees, and never hands out a live block again.
// @tparam Allocator the allocator that serves the requests: one that takes its memory from the heap's region, aligns to 16 bytes and frees
// blocks one by one
// @tparam Bits the record of where live blocks begin. Tests replace it
// @note The bits take 1/128 of the region. If the allocator keeps its metadata apart from the blocks, as the default one does, no write
// into the memory of blocks changes metadata either. A second free of a block whose memory was handed out again frees the new block: no
// allocator can tell the two apart.
template <device_allocator Allocator, class Bits>
class hardened {
  static_assert(Allocator::traits.free == frees::individually, "gpuheap: hardened<> needs an allocator that frees blocks one by one");
  static_assert(!Allocator::traits.process_wide, "gpuheap: hardened<> needs an allocator that takes its memory from the heap's region");
  static_assert(!Allocator::traits.overwrites && !Allocator::traits.warp_level && Allocator::traits.min_alignment >= 16,
                "gpuheap: hardened<> needs an allocator that gives each thread memory of its own, aligned to 16 bytes");

  GPUHEAP_HD static constexpr allocator_traits make_traits() {
    allocator_traits made = Allocator::traits;
    made.name = checking::kind_name<detail::hardened_kind, Allocator>::all.words;
    made.detects_double_free = true;
    made.detects_foreign_free = true;
    return made;
  }

 public:
  static constexpr allocator_traits traits = make_traits();
  static constexpr bool takes_census = has_census<Allocator>;

  // ---- device: any thread, any divergence

  // As malloc() of the inner allocator.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    // The mask is captured once for the whole call: the lanes that ask together.
    simt::lane_mask const here = simt::active_mask();
    void* const p = inner_.malloc(bytes);
    bits_.add(here, number_of(p));
    return p;
  }
  // As aligned_malloc() of the inner allocator.
  [[nodiscard]] GPUHEAP_FN void* aligned_malloc(simt::size_t bytes, simt::size_t alignment) const requires has_aligned_malloc<Allocator> {
    simt::lane_mask const here = simt::active_mask();
    void* const p = inner_.aligned_malloc(bytes, alignment);
    bits_.add(here, number_of(p));
    return p;
  }
  // Frees the block at p, or records why p is wrong. nullptr does nothing.
  GPUHEAP_FN free_status free(void* p) const {
    simt::lane_mask const here = simt::active_mask();
    bool const mine = bits_.take(here, may_begin(p) ? number_of(p) : 0);
    // All lanes call together, also those with nothing to free, since the inner allocator serves whole warps best.
    inner_.free(mine ? p : nullptr);
    if (mine) return free_status::done;
    return p == nullptr ? free_status::null : refuse_far(self_, number_of(p));
  }

  // Whether p is the start of a live block.
  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const { return may_begin(p) && bits_.has(number_of(p)); }
  [[nodiscard]] GPUHEAP_FN bool is_live(void const* p) const { return owns(p); }
  // The usable size of the live block that begins at p; 0 if no live block begins there.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void* p) const requires has_usable_size<Allocator> {
    return owns(p) ? inner_.usable_size(p) : 0;
  }
  // As try_resize() of the inner allocator. The block's bit is clear during the call, so the heap refuses a concurrent free of the block.
  [[nodiscard]] GPUHEAP_FN bool try_resize(void* p, simt::size_t bytes) const requires has_try_resize<Allocator> {
    if (!may_begin(p) || !bits_.take_alone(number_of(p))) return false;
    bool const holds = inner_.try_resize(p, bytes);
    bits_.add_alone(number_of(p));
    return holds;
  }
  [[nodiscard]] GPUHEAP_HD simt::size_t rounded_size(simt::size_t bytes) const requires has_rounded_size<Allocator> {
    return inner_.rounded_size(bytes);
  }
  [[nodiscard]] GPUHEAP_HD misuse_record* record() const { return record_; }

#if GPUHEAP_HAS_HOST
  // ---- host

  [[nodiscard]] static simt::size_t min_region_bytes() {
    simt::size_t const inner = Allocator::min_region_bytes();
    // The region has bits for all of its bytes, its own metadata included.
    return fixed_bytes() + inner + inner / 64 + 4 * Bits::bytes_for(1);
  }
  [[nodiscard]] static hardened create(memory::region where, stream_ref stream) {
    simt::size_t const own = own_bytes_for(where.bytes);
    hardened made{where, own};
    simt::fill(where.base, 0, own, stream);
    made.inner_ = Allocator::create({static_cast<char*>(where.base) + own, where.bytes - own}, stream);
    made.write_self(stream);
    return made;
  }

  // ---- growth: the addresses of all bits lie before the allocator's region. Bits get memory when the memory that they stand for is mapped

  [[nodiscard]] static simt::size_t min_initial_bytes(simt::size_t whole_bytes) requires has_grow<Allocator> {
    simt::size_t const own = own_bytes_for(whole_bytes);
    if (own >= whole_bytes) return min_region_bytes();
    simt::size_t const inner = Allocator::min_initial_bytes(whole_bytes - own);
    return fixed_bytes() + inner + inner / 64 + 4 * Bits::bytes_for(1);
  }
  [[nodiscard]] static hardened create_growable(memory::region whole, simt::size_t initial_bytes, memory::map_function const& map,
                                                stream_ref stream) requires has_grow<Allocator> {
    simt::size_t const own = own_bytes_for(whole.bytes);
    if (own >= whole.bytes || inner_share(initial_bytes) == 0) throw too_small(whole);
    hardened made{whole, own};
    map(0, fixed_bytes());
    simt::fill(whole.base, 0, fixed_bytes(), stream);
    simt::uint64_t const begin = made.first_;
    simt::uint64_t reach = begin;
    made.inner_ = Allocator::create_growable(
        {static_cast<char*>(whole.base) + own, whole.bytes - own}, inner_share(initial_bytes),
        [&](simt::size_t offset, simt::size_t bytes) {
          map(own + offset, bytes);
          if (reach < begin + offset + bytes) reach = begin + offset + bytes;
        },
        stream);
    // The memory before the first block needs no bits.
    if constexpr (has_blocks_begin<Allocator>) made.first_ = number_of(made.inner_.blocks_begin());
    made.bits_ = Bits{made.words(), made.first_};
    made.reach_ = made.control();
    made.add_bits(made.first_, reach, map, stream);
    made.write_reach(reach, stream);
    made.write_self(stream);
    return made;
  }
  void grow(simt::size_t new_bytes, memory::map_function const& map, stream_ref stream) requires has_grow<Allocator> {
    simt::size_t const own = own_bytes_for(end_ - number_of(record_));
    simt::uint64_t const inner = number_of(record_) + own;
    simt::uint64_t reach = read_reach(stream);
    inner_.grow(
        inner_share(new_bytes),
        [&](simt::size_t offset, simt::size_t bytes) {
          // The bits come first. If there is no memory for them or for the part, the inner allocator stays as it was, and no thread uses
          // the bits past `reach`.
          if (simt::uint64_t const end = inner + offset + bytes; reach < end) {
            add_bits(reach, end, map, stream);
            reach = end;
          }
          map(own + offset, bytes);
        },
        stream);
    write_reach(reach, stream);
  }
  [[nodiscard]] simt::size_t trim(stream_ref stream) requires has_trim<Allocator> { return inner_.trim(stream); }
  [[nodiscard]] simt::size_t largest_request() const requires has_largest_request<Allocator> { return inner_.largest_request(); }

  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const requires has_footprint<Allocator> {
    allocator_footprint made = inner_.footprint(stream);
    made.metadata_bytes += fixed_bytes() + Bits::bytes_for((reach_ != nullptr ? read_reach(stream) : end_) - first_);
    return made;
  }
  [[nodiscard]] auto verify(stream_ref stream) const requires has_verify<Allocator> { return inner_.verify(stream); }
  void take_census(live_total* into, stream_ref stream) const requires has_census<Allocator> { inner_.take_census(into, stream); }
  [[nodiscard]] std::vector<live_size> live_blocks(stream_ref stream = {}) const requires has_live_blocks<Allocator> {
    return inner_.live_blocks(stream);
  }
  [[nodiscard]] std::vector<block_info> blocks(stream_ref stream = {}) const requires has_blocks<Allocator> {
    return inner_.blocks(stream);
  }
  // Nothing to check: the heap finds a wrong free when the program makes it.
  void check_blocks(stream_ref) const {}
#endif

  hardened() = default;

 private:
  [[nodiscard]] GPUHEAP_HD static simt::uint64_t number_of(void const* p) { return reinterpret_cast<simt::uintptr_t>(p); }

  // Whether a block of this heap may begin at p. If so, p has a bit.
  [[nodiscard]] GPUHEAP_FN bool may_begin(void const* p) const {
    simt::uint64_t const address = number_of(p);
    return address % 16 == 0 && address >= first_ && address < end_ && (reach_ == nullptr || is_reached(address));
  }
  // For a heap that grows: whether the address lies before the highest end that the mapped memory has had since the heap was made or reset.
  // The word only rises, so a cached value that exceeds the address is enough.
  [[nodiscard]] GPUHEAP_FN bool is_reached(simt::uint64_t address) const {
    if (address < simt::load_cached(*reach_)) return true;
    // relaxed: a kernel that has a valid pointer to the address began after the host wrote the word.
    return address < simt::global_ref<simt::uint64_t>{*reach_}.load(simt::relaxed);
  }

  // Finds out why no live block begins at a pointer, records that, and returns the status of the free.
  GPUHEAP_COLD static free_status refuse_far(hardened const* me, simt::uint64_t pointer) {
    misuse_finding found{};
    found.what = misuse::foreign_free;
    found.pointer = pointer;
    void* const p = reinterpret_cast<void*>(static_cast<simt::uintptr_t>(pointer));
    bool const aligned = pointer % 16 == 0;
    void* const granule = reinterpret_cast<void*>(static_cast<simt::uintptr_t>(pointer & ~simt::uint64_t{15}));
    if (me->may_begin(granule)) {
      found.what = misuse::unknown_free;
      if constexpr (has_usable_size<Allocator> && Allocator::traits.detects_foreign_free) {
        simt::uint64_t const begin = me->bits_.last_until(pointer);
        simt::size_t const bytes = begin != 0 ? me->inner_.usable_size(reinterpret_cast<void*>(static_cast<simt::uintptr_t>(begin))) : 0;
        if (pointer - begin < bytes) {
          found.what = misuse::interior_free;
          found.address = begin;
          found.bytes = bytes;
        } else if (simt::size_t const freed = aligned ? me->inner_.usable_size(p) : 0; freed != 0) {
          found.what = misuse::double_free;
          found.address = pointer;
          found.bytes = freed;
        }
      }
    }
    detail::record_misuse(me->record_, found);
    return found.what == misuse::double_free ? free_status::double_free : free_status::foreign;
  }

#if GPUHEAP_HAS_HOST
  static constexpr simt::size_t record_bytes = simt::round_up_pow2(sizeof(misuse_record), 256), control_bytes = 256;

  hardened(memory::region where, simt::size_t own) {
    auto* const base = static_cast<char*>(where.base);
    record_ = reinterpret_cast<misuse_record*>(base);
    self_ = reinterpret_cast<hardened*>(base + record_bytes);
    first_ = reinterpret_cast<simt::uintptr_t>(base) + own;
    end_ = reinterpret_cast<simt::uintptr_t>(base) + where.bytes;
    bits_ = Bits{words(), first_};
  }
  [[nodiscard]] static constexpr simt::size_t self_bytes() { return simt::round_up_pow2(sizeof(hardened), 256); }
  [[nodiscard]] static constexpr simt::size_t fixed_bytes() { return record_bytes + self_bytes() + control_bytes; }
  [[nodiscard]] static simt::size_t own_bytes_for(simt::size_t region_bytes) { return fixed_bytes() + Bits::bytes_for(region_bytes); }
  [[nodiscard]] simt::uint64_t* control() const {
    return reinterpret_cast<simt::uint64_t*>(reinterpret_cast<char*>(record_) + record_bytes + self_bytes());
  }
  [[nodiscard]] simt::uint64_t* words() const {
    return reinterpret_cast<simt::uint64_t*>(reinterpret_cast<char*>(record_) + fixed_bytes());
  }
  void write_self(stream_ref stream) const { simt::copy(self_, this, sizeof *this, stream); }
  [[nodiscard]] static plain_error too_small(memory::region where) {
    return plain_error(
        text_of("gpuheap: a region of %zu bytes is too small for this allocator: give it at least %zu", where.bytes, min_region_bytes()));
  }

  // For a heap that grows: how many of its `bytes` the inner allocator may use. The others are for the fixed parts and for the bits, two
  // rows of which may be incomplete.
  [[nodiscard]] static simt::size_t inner_share(simt::size_t bytes) {
    simt::size_t const others = fixed_bytes() + bytes / 128 + 2 * Bits::bytes_for(1);
    return bytes > others ? bytes - others : 0;
  }
  // Maps and clears the bits of the addresses [from, to). The bits of addresses before `from` are mapped already.
  void add_bits(simt::uint64_t from, simt::uint64_t to, memory::map_function const& map, stream_ref stream) const {
    simt::size_t const there = from == first_ ? 0 : Bits::bytes_for(from - first_), wanted = Bits::bytes_for(to - first_);
    if (wanted == there) return;
    map(fixed_bytes() + there, wanted - there);
    simt::fill(reinterpret_cast<char*>(words()) + there, 0, wanted - there, stream);
  }
  [[nodiscard]] simt::uint64_t read_reach(stream_ref stream) const {
    simt::uint64_t reach = 0;
    simt::copy(&reach, reach_, sizeof reach, stream);
    simt::synchronize(stream);
    return reach;
  }
  void write_reach(simt::uint64_t reach, stream_ref stream) const {
    simt::copy(reach_, &reach, sizeof reach, stream);
    simt::synchronize(stream);  // the copy reads the local variable `reach` until then
  }
#endif

  Allocator inner_{};
  Bits bits_{};
  misuse_record* record_ = nullptr;
  // A copy of this view in the heap's memory, for rarely called functions. Their callers then need no copy in their stack frames.
  hardened* self_ = nullptr;
  simt::uint64_t first_ = 0, end_ = 0;  // the first address that has a bit, and the one after the region's last
  simt::uint64_t* reach_ = nullptr;     // for a heap that grows: a word with the highest end of its mapped memory so far
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
