// A set of up to 32 things. One word has a bit for each thing, which is set while a thread has the thing. An atomic OR takes a thing. The
// search begins at a bit of the caller's choice, so that threads with different choices do not collide. An atomic AND gives a thing back,
// and its result tells whether any thread had the thing.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of one word, all of whose bits from `count` on stay clear. Any thread.
struct free_bits {
  using word = simt::uint32_t;
  static constexpr unsigned most = 32;
  static constexpr unsigned none = most;  // no bit

  word* taken = nullptr;
  unsigned count = most;  // 1..32

  // The bits of a word for n things, n in 0..32.
  [[nodiscard]] GPUHEAP_HD static constexpr word bits_of(unsigned n) { return static_cast<word>(simt::low_bits(n)); }
  // The first clear bit of `taken` from bit `from` (0..31) on, wrapping around. `taken` has a clear bit.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned next_clear(word taken, unsigned from) {
    word const behind = ~taken & (~word{0} << from);
    return simt::lowest_bit(behind != 0 ? behind : ~taken);
  }
  // Whether all `count` bits of the word `seen` are set.
  [[nodiscard]] GPUHEAP_HD constexpr bool is_full(word seen) const { return (seen | ~bits_of(count)) == ~word{0}; }

  [[nodiscard]] GPUHEAP_FN simt::global_ref<word> ref() const { return simt::global_ref<word>{*taken}; }

  // Takes thing `start` (below `count`), or the next free one, wrapping around. Returns the thing, or `none` if all were taken at one
  // moment.
  [[nodiscard]] GPUHEAP_FN unsigned claim(unsigned start) const {
    // Ends: the loop is repeated only if the bit was set: another thread has taken the thing. Lock-free.
    GPUHEAP_NO_UNROLL
    for (unsigned bit = start;;) {
      // relay: comes after the fence of the thing's last owner, and before the accesses of this thread, the next owner. Pairs with
      // release().
      word const before = ref().fetch_or(word{1} << bit, simt::relay) | ~bits_of(count);
      if ((before >> bit & 1) == 0) return bit;
      if (before == ~word{0}) return none;
      bit = next_clear(before, bit);
    }
  }

  // Takes thing `bit` for each lane of `group` whose `wants` is true. One atomic serves all lanes whose things are in the same word. All
  // lanes of the group call, and no two want the same thing. Returns whether this lane has got its thing; if not, another thread has it.
  [[nodiscard]] GPUHEAP_FN bool claim_together(simt::lane_mask group, unsigned bit, bool wants) const {
    word* const where = wants ? taken : nullptr;
    simt::lane_mask const same = simt::match_any(group, reinterpret_cast<simt::uintptr_t>(where));
    word const mine = wants ? word{1} << bit : 0, all = simt::reduce_or(same, mine);
    unsigned const leader = simt::lowest_bit(same);
    word before = 0;
    // relay: comes after the fences of the things' last owners, and before the accesses of these lanes, the next owners. Pairs with
    // release().
    if (wants && simt::lane_id() == leader) before = ref().fetch_or(all, simt::relay);
    before = simt::shuffle(same, before, leader);
    // The other lanes get what the leader acquired.
    simt::sync_warp(same);
    return wants && (before & mine) == 0;
  }

  // Gives thing `bit` back and returns the word as it was. If the bit was clear, no thread had the thing, and nothing has changed. Before
  // the call, a fence must have released the owner's accesses to the thing.
  GPUHEAP_FN word release(unsigned bit) const {
    // relay: passes on what that fence released, to the thread that takes the thing next. Pairs with claim().
    return ref().fetch_and(~(word{1} << bit), simt::relay);
  }
  // Gives back the things of all lanes of `group`, which all call. `things`: the bits of all of these things.
  GPUHEAP_FN word release_together(simt::lane_mask group, word things) const {
    simt::sync_warp(group);  // what all owners did, and their fences, come before the AND
    unsigned const leader = simt::lowest_bit(group);
    word before = 0;
    // relay: passes on what the owners' fences released, to the threads that take the things next. Pairs with claim().
    if (simt::lane_id() == leader) before = ref().fetch_and(~things, simt::relay);
    return simt::shuffle(group, before, leader);
  }
};
static_assert(free_bits::next_clear(0, 31) == 31 && free_bits::next_clear(1u << 31, 31) == 0 && free_bits::next_clear(~2u, 5) == 1);
static_assert(free_bits::bits_of(32) == ~0u && free_bits::bits_of(1) == 1 && free_bits::bits_of(0) == 0);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
