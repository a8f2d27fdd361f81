// `backing_reference`: a plain first-fit heap behind one lock. In the simulator it takes the place of the toolkit's heap under allocators
// that need a backing. It is also the reference for comparisons: simple enough to be verified by reading, and not fast.
//
// Layout of a region:
//   +0                  state {lock, first free block, held bytes, most held}
//   +256                one bit per 32 bytes of the blocks: 1 = a live block's payload begins here
//   origin              blocks, end to end up to `end`; origin and every block's address are 16 modulo 32
//
//   block    +0   bytes of the whole block, a multiple of 32; lowest bit: live       (8 bytes)
//            +8   bytes of the block before it, 0 for the first                      (8 bytes)
//            +16  payload, at a multiple of 32; in a free block: next and previous free block as offsets from origin, `none` at the ends
//
// Invariants, whenever the lock is free: the blocks' sizes sum up to end - origin; no two neighbours are both free; the free list holds
// exactly the free blocks; the bits set are exactly those of live payloads.
//
// malloc:    takes the first block of the free list that is large enough; the rest of that block stays in the list.
// free:      joins the block with free neighbours and puts it first in the list.
// Reuse:     freed bytes serve any request that fits.
// Progress:  blocking. A call waits for the lock, whose holder never waits for anything. Under independent thread scheduling the holder
//            runs on while lanes of its own warp wait.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/spin_lock.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace detail {
struct init_backing_reference;
}

class backing_reference {
 public:
  static constexpr allocator_traits traits{
      .name = "backing_reference",
      .title = "Locked first fit",
      .variant = "one lock",
      .reuse = "any request that fits",
      .min_alignment = 32,
      .detects_double_free = true,
      .detects_foreign_free = true,
  };

  // Returns memory of `bytes` > 0 bytes, aligned to 32; nullptr if no free block is large enough.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const { return aligned_malloc(bytes, 32); }

  // As malloc(), but aligned to `alignment` bytes, a power of two.
  [[nodiscard]] GPUHEAP_FN void* aligned_malloc(simt::size_t bytes, simt::size_t alignment) const {
    if (bytes > blocks_bytes_) return nullptr;
    simt::uint64_t const need = rounded_size(bytes) + header_bytes;
    void* p = nullptr;
    locked([&] { p = take_first_fit(need, alignment < 32 ? 32 : alignment); });
    return p;
  }

  // Reports a pointer into free memory as a double free, and any other pointer that is not a live block's as foreign.
  GPUHEAP_FN free_status free(void* p) const {
    if (p == nullptr) return free_status::null;
    if (!owns(p)) return free_status::foreign;
    free_status status = free_status::foreign;
    locked([&] {
      if (is_live(p)) {
        deallocate(offset_of(p) - header_bytes);
        status = free_status::done;
      } else if (lies_in_free_block(offset_of(p))) {
        status = free_status::double_free;
      }
    });
    return status;
  }

  // Returns the bytes that the owner of the block at p may use; 0 if p is not a live block's pointer.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void* p) const {
    if (!owns(p)) return 0;
    simt::size_t bytes = 0;
    locked([&] {
      if (is_live(p)) bytes = bytes_of(offset_of(p) - header_bytes) - header_bytes;
    });
    return bytes;
  }
  static constexpr bool rounded_size_is_exact = true;
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t rounded_size(simt::size_t bytes) {
    simt::size_t const with_header = simt::round_up_pow2(bytes + header_bytes, 32);
    return with_header < bytes ? bytes : with_header - header_bytes;
  }

  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const {
    auto const* const byte = static_cast<char const*>(p);
    return byte >= origin_ && byte < origin_ + blocks_bytes_;
  }

#if GPUHEAP_HAS_HOST
  [[nodiscard]] static simt::size_t min_region_bytes() { return 1024; }

  [[nodiscard]] static backing_reference create(memory::region region, stream_ref stream);

  // Held bytes include the blocks' headers. Waits for the stream.
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const {
    state now;
    simt::copy(&now, state_, sizeof now, stream);
    simt::synchronize(stream);
    return {.held_bytes = now.held_bytes, .metadata_bytes = region_bytes_ - blocks_bytes_, .peak_held_bytes = now.peak_held_bytes};
  }
#endif

 private:
  static constexpr simt::uint64_t header_bytes = 16;
  static constexpr simt::uint64_t live_bit = 1;
  static constexpr simt::uint64_t none = ~simt::uint64_t{0};
  static constexpr simt::size_t state_bytes = 256;
  static constexpr simt::size_t bytes_per_word = 64 * 32;
  static_assert(header_bytes == 16, "payloads are aligned to 32 because blocks lie at 16 modulo 32");

  struct state {
    simt::uint32_t lock = 0;        // 1: held
    simt::uint64_t first_free = 0;  // guarded by the lock, as are the members below
    simt::uint64_t held_bytes = 0;
    simt::uint64_t peak_held_bytes = 0;
  };

  // Called by create()'s kernel: all of the blocks' memory becomes one free block.
  friend struct detail::init_backing_reference;
  GPUHEAP_FN void make_first_block() const {
    simt::plain_write(word(0, 0), blocks_bytes_);
    simt::plain_write(word(0, 8), simt::uint64_t{0});
    simt::plain_write(state_->first_free, none);
    push_free(0);
  }

  // Runs f while no other thread does. Lanes that call together take turns, so that only one lane of a warp competes for the lock.
  template <class F>
  GPUHEAP_FN void locked(F f) const {
    simt::lane_mask const here = simt::active_mask();
    // The holder's steps are bounded by the number of blocks, and the holder waits for nothing, as spin_lock requires.
    GPUHEAP_NO_UNROLL
    for (simt::lane_mask rest = here; rest != 0; rest &= rest - 1) {
      if (simt::lane_id() == simt::lowest_bit(rest)) structures::spin_lock{&state_->lock}.run(f);
      simt::sync_warp(here);
    }
  }

  // ---- the parts of a block (under the lock); `block` is an offset from origin

  [[nodiscard]] GPUHEAP_FN simt::uint64_t& word(simt::uint64_t block, unsigned at) const {
    return *reinterpret_cast<simt::uint64_t*>(origin_ + block + at);
  }
  [[nodiscard]] GPUHEAP_FN simt::uint64_t bytes_word(simt::uint64_t block) const { return simt::plain_read(word(block, 0)); }
  [[nodiscard]] GPUHEAP_FN simt::uint64_t bytes_of(simt::uint64_t block) const { return bytes_word(block) & ~live_bit; }
  [[nodiscard]] GPUHEAP_FN bool is_free(simt::uint64_t block) const { return (bytes_word(block) & live_bit) == 0; }
  // Sets a block's size, and stores it in the header of the block after it, too.
  GPUHEAP_FN void set_bytes(simt::uint64_t block, simt::uint64_t bytes, simt::uint64_t live) const {
    simt::plain_write(word(block, 0), bytes | live);
    if (block + bytes < blocks_bytes_) simt::plain_write(word(block + bytes, 8), bytes);
  }

  [[nodiscard]] GPUHEAP_FN simt::uint64_t offset_of(void const* p) const {
    return static_cast<simt::uint64_t>(static_cast<char const*>(p) - origin_);
  }
  // Payload offsets are 16 modulo 32 from origin: bit number = offset / 32.
  [[nodiscard]] GPUHEAP_FN bool is_live(void const* p) const {
    simt::uint64_t const payload = offset_of(p);
    if (payload % 32 != header_bytes) return false;
    return (simt::plain_read(live_[payload / bytes_per_word]) >> (payload / 32 % 64) & 1) != 0;
  }
  GPUHEAP_FN void set_live(simt::uint64_t payload, bool live) const {
    simt::uint64_t& bits = live_[payload / bytes_per_word];
    simt::uint64_t const bit = simt::uint64_t{1} << (payload / 32 % 64);
    simt::plain_write(bits, live ? simt::plain_read(bits) | bit : simt::plain_read(bits) & ~bit);
  }

  // ---- the free list (under the lock)

  GPUHEAP_FN void push_free(simt::uint64_t block) const {
    simt::uint64_t const next = simt::plain_read(state_->first_free);
    simt::plain_write(word(block, 16), next);
    simt::plain_write(word(block, 24), none);
    if (next != none) simt::plain_write(word(next, 24), block);
    simt::plain_write(state_->first_free, block);
  }
  GPUHEAP_FN void unlink_free(simt::uint64_t block) const {
    simt::uint64_t const next = simt::plain_read(word(block, 16));
    simt::uint64_t const previous = simt::plain_read(word(block, 24));
    if (next != none) simt::plain_write(word(next, 24), previous);
    if (previous != none) {
      simt::plain_write(word(previous, 16), next);
    } else {
      simt::plain_write(state_->first_free, next);
    }
  }
  GPUHEAP_FN void add_held(simt::uint64_t change) const {
    simt::uint64_t const now = simt::plain_read(state_->held_bytes) + change;
    simt::plain_write(state_->held_bytes, now);
    if (now > simt::plain_read(state_->peak_held_bytes)) simt::plain_write(state_->peak_held_bytes, now);
  }

  // ---- malloc and free (under the lock)

  // Takes the first free block that holds `need` bytes, which include the header and are a multiple of 32. Returns the payload, or nullptr.
  [[nodiscard]] GPUHEAP_FN void* take_first_fit(simt::uint64_t need, simt::uint64_t alignment) const {
    simt::uint64_t block = simt::plain_read(state_->first_free);
    // Ends: the list is acyclic and does not change meanwhile.
    GPUHEAP_NO_UNROLL
    for (; block != none; block = simt::plain_read(word(block, 16))) {
      // `gap` bytes lie before the first aligned payload. They are a multiple of 32, so they can stay behind as a free block.
      auto const payload = reinterpret_cast<simt::uintptr_t>(origin_ + block + header_bytes);
      simt::uint64_t const gap = simt::round_up_pow2(payload, alignment) - payload;
      simt::uint64_t const there = bytes_of(block);
      if (gap + need > there) continue;
      simt::uint64_t const taken = block + gap;
      if (gap == 0) {
        unlink_free(block);
      } else {
        set_bytes(block, gap, 0);
      }
      set_bytes(taken, need, live_bit);
      if (simt::uint64_t const rest = there - gap - need; rest != 0) {
        set_bytes(taken + need, rest, 0);
        push_free(taken + need);
      }
      set_live(taken + header_bytes, true);
      add_held(need);
      return origin_ + taken + header_bytes;
    }
    return nullptr;
  }

  GPUHEAP_FN void deallocate(simt::uint64_t block) const {
    simt::uint64_t bytes = bytes_of(block);
    set_live(block + header_bytes, false);
    add_held(0 - bytes);
    if (simt::uint64_t const next = block + bytes; next < blocks_bytes_ && is_free(next)) {
      unlink_free(next);
      bytes += bytes_of(next);
    }
    if (simt::uint64_t const before = simt::plain_read(word(block, 8)); before != 0 && is_free(block - before)) {
      block -= before;
      bytes += before;
      unlink_free(block);
    }
    set_bytes(block, bytes, 0);
    push_free(block);
  }

  // Whether the offset lies in a free block. Visits one block after the other, so only a refused free calls it.
  [[nodiscard]] GPUHEAP_FN bool lies_in_free_block(simt::uint64_t offset) const {
    simt::uint64_t block = 0;
    // Ends: every block has at least 32 bytes, so at most blocks_bytes_ / 32 passes.
    GPUHEAP_NO_UNROLL
    while (block + bytes_of(block) <= offset) block += bytes_of(block);
    return is_free(block);
  }

  state* state_ = nullptr;
  simt::uint64_t* live_ = nullptr;
  char* origin_ = nullptr;
  simt::uint64_t blocks_bytes_ = 0;  // a multiple of 32
  simt::uint64_t region_bytes_ = 0;
};

static_assert(device_allocator<backing_reference>);

#if GPUHEAP_HAS_HOST
namespace detail {
// Kernel, one thread: makes the first free block.
struct init_backing_reference {
  backing_reference heap;
  GPUHEAP_FN void operator()(unsigned) const { heap.make_first_block(); }
};
}  // namespace detail

inline backing_reference backing_reference::create(memory::region region, stream_ref stream) {
  // One word of bits for each 2 KiB of blocks; rounding up wastes less than 2 KiB.
  simt::size_t const bits_bytes = simt::ceil_div(region.bytes, bytes_per_word) * 8;
  simt::size_t const origin = simt::round_up_pow2(state_bytes + bits_bytes, 32) + 16;
  auto* const base = static_cast<char*>(region.base);
  backing_reference a;
  a.state_ = reinterpret_cast<state*>(base);
  a.live_ = reinterpret_cast<simt::uint64_t*>(base + state_bytes);
  a.origin_ = base + origin;
  a.blocks_bytes_ = (region.bytes - origin) & ~simt::size_t{31};
  a.region_bytes_ = region.bytes;
  simt::fill(base, 0, state_bytes + bits_bytes, stream);
  simt::launch(1, detail::init_backing_reference{a}, {.block_threads = 32, .stream = stream});
  return a;
}
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
