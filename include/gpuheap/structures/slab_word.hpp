// One word for the kind of a slab's things and the number of its users. A thread that adds itself to the users by a compare-exchange knows
// the kind that the slab has at that moment.
//
//   bit  0      12     30        31
//        | fill | kind | unused | opening |
//
//   fill      how many of the slab's things threads have taken or reserved. 0: the slab is free, whatever its kind
//   kind      the kind of the things. A free slab keeps its kind: a thread may reserve things of that kind, or open the slab for another
//             kind
//   opening   a thread prepares the slab for its new kind, and waits for no thread meanwhile. No other thread may change the word
//
// fill never exceeds the capacity, not even for a moment, since reservations are compare-exchanges. The slab becomes free in the step in
// which fill becomes 0, so freeing it takes no second step that another thread's change could prevent.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// The word, as a value. A word of zeros is a free slab.
struct slab_word {
  using word = simt::uint32_t;
  static constexpr unsigned fill_bits = 12, kind_bits = 18;
  static constexpr unsigned max_fill = (1u << fill_bits) - 1, max_kind = (1u << kind_bits) - 1;
  static constexpr word opening = word{1} << 31;

  word bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr slab_word of(unsigned kind, unsigned fill) { return {word{kind} << fill_bits | fill}; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned fill() const { return bits & max_fill; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned kind() const { return bits >> fill_bits & max_kind; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_free() const { return fill() == 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_opening() const { return (bits & opening) != 0; }
};
static_assert(slab_word::of(255, 17).kind() == 255 && slab_word::of(255, 17).fill() == 17 && slab_word{}.is_free());
static_assert(slab_word::of(slab_word::max_kind, slab_word::max_fill).bits < slab_word::opening);

// A view of the word in memory. Any thread.
struct slab_state {
  slab_word::word* at = nullptr;

  [[nodiscard]] GPUHEAP_FN simt::global_ref<slab_word::word> ref() const { return simt::global_ref<slab_word::word>{*at}; }
  // relaxed: the value is a guess that a compare-exchange confirms, or the caller has one of the things, so that the kind cannot change.
  [[nodiscard]] GPUHEAP_FN slab_word look() const { return {ref().load(simt::relaxed)}; }

  // Reserves n things if the word is still `seen`. Otherwise returns false, and `seen` becomes the present word. `seen` is not opening, and
  // its fill leaves room for n things.
  [[nodiscard]] GPUHEAP_FN bool reserve(slab_word& seen, unsigned n) const { return replace(seen, {seen.bits + n}); }
  // Opens the slab for `kind` with n (> 0) reservations of the caller, if the word is still `seen`, which is free. Otherwise returns false,
  // and `seen` becomes the present word. With `prepares`, no other thread may reserve things before publish().
  [[nodiscard]] GPUHEAP_FN bool open(slab_word& seen, unsigned kind, unsigned n, bool prepares) const {
    return replace(seen, {slab_word::of(kind, n).bits | (prepares ? slab_word::opening : 0)});
  }
  // Ends the opening that open() began with `prepares`.
  GPUHEAP_FN void publish(unsigned kind, unsigned n) const {
    // release: publishes what this thread prepared. Pairs with reserve().
    ref().store(slab_word::of(kind, n).bits, simt::release);
  }
  // Gives n things or reservations back, and returns the word as it was. Before the call, a fence must have released the owner's accesses
  // to the things. The words that record which things are taken must have been changed before too, by atomics whose results the caller has
  // used (simt::note_performed).
  GPUHEAP_FN slab_word release(unsigned n) const {
    // relay: passes on what that fence released, to the threads that reserve next. Pairs with reserve() and open().
    return {ref().fetch_sub(n, simt::relay)};
  }

 private:
  GPUHEAP_FN bool replace(slab_word& seen, slab_word by) const {
    // relay: comes after all releases of things, and after publish(). The caller accesses only places whose addresses follow from the
    // slab's number and kind.
    return ref().compare_exchange(seen.bits, by.bits, simt::relay, simt::relaxed);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
