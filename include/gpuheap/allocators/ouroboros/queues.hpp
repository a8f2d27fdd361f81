// The queue of a size class, stored in one of three ways behind the same interface. All lanes of a group call its functions together.
//
// A push into a virtual queue is a release, as its places lie in memory that may be a block's later. A push of a chunk is a release, as it
// also publishes what other lanes have done to the chunk. A push of a page into a ring is a relay: the thread that frees the page, or has
// made its chunk, has a fence before (pushes_relay).
#pragma once

#include <gpuheap/allocators/ouroboros/layout.hpp>
#include <gpuheap/structures/ring_queue.hpp>
#include <gpuheap/structures/virtual_queue.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::ouro {

using structures::warp_group;

// A static ring with the interface of a virtual queue. It does not use the storage.
template <simt::memory_order Put>
class basic_static_queue {
 public:
  basic_static_queue() = default;
  GPUHEAP_HD basic_static_queue(void* memory, uint32_t places, unsigned, uint32_t = 0) : ring_{memory, places} {}

  // Pushes the values of as many lanes as find room, in the order of their ranks. Returns their number.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN unsigned push(warp_group group, uint32_t value, Storage const&) const {
    uint32_t first = 0;
    unsigned got = 0;
    if (group.leads()) got = ring_.claim_pushes(group.size(), first, false);
    got = group.from_leader(got);
    first = group.from_leader(first);
    if (group.rank() < got) ring_.put(first + group.rank(), value);
    simt::sync_warp(group.mask);
    if (got != 0 && group.leads()) ring_.publish(got);
    return got;
  }
  // Pushes value, value + 1, ... value + n - 1, or as many of them as find room. Returns their number.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN unsigned push_run(warp_group group, uint32_t value, unsigned n, Storage const&) const {
    uint32_t first = 0;
    unsigned got = 0;
    if (group.leads()) got = ring_.claim_pushes(n < ring_.capacity() ? n : ring_.capacity(), first);
    got = group.from_leader(got);
    first = group.from_leader(first);
    GPUHEAP_NO_UNROLL
    for (unsigned i = group.rank(); i < got; i += group.size()) ring_.put(first + i, value + i);
    simt::sync_warp(group.mask);
    if (got != 0 && group.leads()) ring_.publish(got);
    return got;
  }
  // Pops up to `wanted` values, at most one a lane, for the lanes of the lowest ranks. Returns their number.
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN unsigned pop(warp_group group, unsigned wanted, uint32_t& value, Storage const&) const {
    uint32_t first = 0;
    unsigned got = 0;
    if (group.leads()) got = ring_.claim_pops(wanted, first, false);
    got = group.from_leader(got);
    first = group.from_leader(first);
    if (got == 0) return 0;
    // consume: the popped value names a page or a chunk, and the thread's later accesses go there.
    if (group.rank() < got) value = ring_.take(first + group.rank(), simt::consume);
    simt::sync_warp(group.mask);
    if (group.leads()) ring_.recycle(got);
    return got;
  }

  [[nodiscard]] GPUHEAP_FN unsigned size() const { return ring_.size(); }
  template <class Storage>
  [[nodiscard]] GPUHEAP_FN uint32_t peek(unsigned k, Storage const&) const {
    return ring_.peek(k);
  }
  // Initialises cell i of the ring.
  GPUHEAP_FN void init(uint32_t i) const { ring_.init(i); }

 private:
  static_ring<Put> ring_;
};
struct static_queue : basic_static_queue<simt::release> {
  using basic_static_queue::basic_static_queue;
};

// Whether a push is a relay, which passes on what the pushing thread's fence has released.
[[nodiscard]] GPUHEAP_HD constexpr bool pushes_relay(queue_of holds, stored_in stored) {
  return holds == queue_of::pages && stored == stored_in::static_ring;
}

// The queue type for each way of storing.
template <stored_in Stored, queue_of Holds>
struct queue_stored {
  using type = basic_static_queue<pushes_relay(Holds, Stored) ? simt::relay : simt::release>;
};
template <queue_of Holds>
struct queue_stored<stored_in::virtual_array, Holds> {
  using type = structures::virtual_queue<structures::array_directory>;
};
template <queue_of Holds>
struct queue_stored<stored_in::virtual_list, Holds> {
  using type = structures::virtual_queue<structures::list_directory>;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::ouro
