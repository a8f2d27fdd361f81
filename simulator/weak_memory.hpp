// The weak memory mode: which values a load may return, and which plain accesses race.
//
// Memory itself always holds the newest store of each location. A load may return any store of the location's history that is not older
// than
//   - a store that happens before the load,
//   - a store that was read by a load which happens before this one (coherence; this rule does not bind load_cached(), which may read an
//   old line of the L1).
// A read-modify-write reads the newest store and continues its release sequence. A seq_cst operation is a seq_cst fence followed by the
// acquire or release operation, which is how libcu++ compiles it. sync_warp and sync_block synchronise their lanes; other warp operations
// do not. The launch happens before every lane.
//
// Limits of the mode: a load never returns a store that is executed later (load buffering); a failed compare-exchange sees the newest
// store; a load never returns a store older than the last 16 of its location.
//
// A location is the bytes of one atomic object. If atomic accesses of different size or offset overlap, the aligned 8 bytes around them
// become a mixed granule until the launch ends. A mixed granule has no history: loads return the newest value, and acquires join every
// release made there. A plain assignment in device code changes memory without the model's knowledge. When an atomic access then finds that
// memory does not hold the newest store, the location's history starts again.
//
// Plain accesses (plain_read, plain_write) are checked against the last 8 plain accesses to the same 8 bytes, against the atomic stores in
// the histories of those bytes, and against the recorded atomic loads. Two accesses are a data race, and end the kernel, if neither happens
// before the other, at least one of them is a store, and at least one is plain.
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
  // Begins a launch with `num_slots` resident lanes. `random` must outlive the launch.
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
  // The location with exactly these bytes. Null if there is none, or if the granule is mixed. If another location overlaps the bytes, the
  // granule becomes mixed.
  [[nodiscard]] location* location_in(granule& g, byte_mask bytes);
  // The location with exactly these bytes, which is added if there is none. Its newest store then has the value `before`. Null if the
  // granule is mixed.
  [[nodiscard]] location* location_for_store(granule& g, byte_mask bytes, std::uint64_t before);
  // Makes the granule mixed.
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
