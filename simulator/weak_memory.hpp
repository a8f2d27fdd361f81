// The weak memory mode: which values a load may return, and which plain accesses race.
//
// Memory itself always holds the newest store of each location. A load may return any store of the location's history that is not older
// than
//   - a store that happens before the load,
//   - a store that was read by a load which happens before this one (coherence; load_cached() leaves this rule out, like a line of an L1).
// A read-modify-write reads the newest store and carries on its release sequence. A seq_cst operation is a seq_cst fence followed by the
// acquire or release operation, which is how libcu++ compiles it. sync_warp and sync_block synchronise their lanes; other warp operations
// do not. The launch happens before every lane.
//
// Limits of the mode: a load never returns a store that is executed later (load buffering), a failed compare-exchange sees the
// newest store, stores that have left the history (the last 16) are gone.
//
// A location is a word of the size in which it is accessed. Accesses to overlapping bytes in different shapes turn the 8 bytes around them
// into a granule without history until the launch ends: loads return the newest value, and acquires join every release made there. Memory
// changed behind the model's back (a plain assignment) is noticed when memory does not hold the newest store: the location then starts
// anew.
//
// Plain accesses (plain_read, plain_write) are checked against the last 8 plain accesses to the same 8 bytes, against the atomic stores in
// the histories there and against the atomic loads of these: two accesses of which neither happens before the other, at least one of them a
// store and at least one plain, are a data race and end the kernel.
#pragma once

#include <gpuheap_simulator/atomic.hpp>
#include <gpuheap_simulator/settings.hpp>

#include <cstdint>

#include "granule_table.hpp"
#include "happens_before.hpp"
#include "random.hpp"

namespace gpuheap::simulator {

class weak_memory {
 public:
  // Begins a launch with that many resident lanes. `random` must outlive it.
  void reset(settings const& s, random_source& random, std::size_t num_slots);
  void start(lane* l) { l->view = order_.start(l->slot); }

  // See gpuheap_simulator/atomic.hpp, namespace weak.
  [[nodiscard]] std::uint64_t load(lane* me, void const* p, unsigned size, std::uint64_t latest, order o, bool cached);
  void store(lane* me, void const* p, unsigned size, std::uint64_t before, std::uint64_t after, order o);
  void read_modify_write(lane* me, void const* p, unsigned size, std::uint64_t before, std::uint64_t after, order o);
  void observe(lane* me, void const* p, unsigned size, std::uint64_t latest, order o);
  void fence(lane* me, order o) { order_.fence(*me->view, o); }
  void note_performed(lane* me) { order_.note_performed(*me->view); }
  void plain_access(lane* me, void const* p, std::size_t bytes, bool writes);

  [[nodiscard]] happens_before& order_of_events() { return order_; }
  [[nodiscard]] std::uint64_t num_stale_loads() const { return num_stale_loads_; }

 private:
  // The location with exactly these bytes; null if there is none, or if the granule is mixed (then or from now on).
  [[nodiscard]] location* location_in(granule& g, byte_mask bytes);
  [[nodiscard]] location* location_for_store(granule& g, byte_mask bytes, std::uint64_t before);
  void collapse(granule& g);
  void release_in_mixed(thread_view& v, granule& g, order o);

  // `reads_l1`: the access may find an old line in the L1 (happens_before.hpp).
  void check_against_plain(lane* me, granule& g, byte_mask bytes, bool writes, bool reads_l1);
  void check_against_atomic(lane* me, granule& g, byte_mask bytes, bool writes);
  void note_plain(lane* me, granule& g, byte_mask bytes, bool writes);

  random_source* random_ = nullptr;
  unsigned stale_one_in_ = 2;
  std::uint64_t num_stale_loads_ = 0;
  happens_before order_;
  granule_table table_;
};

}  // namespace gpuheap::simulator
