// Runs parked beside shards: the next one is there when the present one ends.
//
// Whoever reaches the end of a run would have to claim memory, write a header and tags, and publish them, while all who draw from that
// shard wait. So the draw that takes a run past a mark long before its end (tuning::standby_at) fetches a fresh run and parks it in the
// shard's standby word; the draw that reaches the end only moves it over (supply::relieve).
//
//   standby word:   0  none  --claim-->  making  --park-->  run, as its shard word, drawn at 0  --take-->  0
//                   ^                      |  |
//                   +---- found none ------+  +-- the shard's run ends meanwhile: left --> 0, and the maker does the duty of that end
//
// The maker waits for nobody between claim and park, so whoever waits for a shard whose duty was left waits as for any replacement. A
// shard has one standby at most, and one maker.
//
// A parked run is bound, fresh, and all its slots are held back. It is memory like any other that shards hold unused: searches of its class
// draw from a shard that is idle beside it, those of other classes and large requests close it. Parking and taking are moves, bracketed in
// `transit`.
#pragma once

#include <gpuheap/allocators/sharded_runs/frees.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// What is done with standby words. Any thread.
struct standbys : frees {
  static constexpr uint64_t making = 1, left = 2;
  [[nodiscard]] GPUHEAP_HD static constexpr bool is_parked(uint64_t standby) { return shard_word{standby}.has_run(); }

  // Takes what is parked at shard k of class c, which is in nobody's sight afterwards: then a transit is open. Returns the run, or 0. One
  // thread.
  GPUHEAP_COLD uint64_t take_standby(unsigned c, unsigned k) {
    // relaxed: a hint, or part of a search that ends with transit_count::look_again().
    uint64_t seen = at.standby(c, k).load(simt::relaxed);
    if (!is_parked(seen)) return 0;
    moves().begin();
    // handed_on: takes over the run as its maker prepared it; goes on to the one who publishes or ends it. Pairs with park().
    if (at.standby(c, k).compare_exchange(seen, 0, simt::handed_on, simt::relaxed)) return seen;
    moves().end();
    return 0;
  }

  // For the thread that has the duty to replace shard k's run: takes what is parked, as take_standby(), or leaves the duty to the thread
  // that is making a standby. Returns the run, or `left`, or 0: there is none.
  GPUHEAP_COLD uint64_t take_or_leave(unsigned c, unsigned k) {
    uint64_t seen = at.standby(c, k).load(simt::relaxed);
    // Ends: an exchange fails because the maker has parked its run or found none, or because a search took the run; the next pass sees
    // that. Each other maker has been served by a draw from this shard before. Lock-free.
    GPUHEAP_NO_UNROLL
    while (seen != 0) {
      bool const parked = is_parked(seen);
      if (parked) moves().begin();
      // handed_on: as in take_standby(); `left` tells the maker that the end has been reached. Pairs with park().
      if (at.standby(c, k).compare_exchange(seen, parked ? 0 : left, simt::handed_on, simt::relaxed)) return parked ? seen : left;
      if (parked) moves().end();
    }
    return 0;
  }

  // Makes the caller the maker of shard k's standby. False: there is one, or a maker.
  [[nodiscard]] GPUHEAP_FN bool claim_standby(unsigned c, unsigned k) {
    uint64_t none = 0;
    // relaxed: only who may go on.
    return at.standby(c, k).compare_exchange(none, making, simt::relaxed, simt::relaxed);
  }

  // The maker parks its run, or none, and is the maker no longer. False: it has the duty that was left to it, to replace `ended`, and still
  // has its run. In a transit, if there is a run.
  [[nodiscard]] GPUHEAP_FN bool park(unsigned c, unsigned k, shard_word run, shard_word& ended) {
    uint64_t state = making;
    // handed_over: publishes the run's header and tags to whoever takes it. On failure dependent: the end of the shard's run has been
    // reached before.
    if (at.standby(c, k).compare_exchange(state, run.bits, simt::handed_over, simt::dependent)) {
      // Perhaps the shard was closed meanwhile, and the class dropped.
      if (run.has_run()) bound_classes().add(c);
      return true;
    }
    // relaxed: until the shard is replaced nobody else changes this word; then the exchange in install() publishes it.
    at.standby(c, k).store(0, simt::relaxed);
    ended = ended_run(c, k);
    return false;
  }
  // The word of a shard that the caller has the duty to replace. Read by an atomic, so that it is not older than what told of the duty.
  [[nodiscard]] GPUHEAP_FN shard_word ended_run(unsigned c, unsigned k) { return {at.shard(c, k).fetch_add(0, simt::dependent)}; }

  // The shard of class c, from k on, that is idle beside a parked run: a draw from it brings that run. num_shards() if there is none. One
  // thread, in a search.
  GPUHEAP_COLD unsigned shard_beside_standby(unsigned c, unsigned k) {
    // Ends: one pass per shard.
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i < at.num_shards(); ++i) {
      // relaxed: part of a search that ends with transit_count::look_again().
      if (is_parked(at.standby(c, k ^ i).load(simt::relaxed))) return k ^ i;
    }
    return at.num_shards();
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
