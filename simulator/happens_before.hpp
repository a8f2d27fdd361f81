// The happens-before relation of the weak mode, as one vector clock per resident lane.
//
// A release store carries its lane's clock, an acquire load of it joins that clock. A release fence is carried by the lane's later stores;
// an acquire fence joins what the lane's earlier loads saw. A seq_cst fence joins the last seq_cst fence and becomes it, so two of them
// synchronise, as PTX's fence.sc do. A lane that takes the slot of one that has exited happens after it.
//
// A lane has three clocks, as a GPU has two kinds of accesses and a release has its price there. Atomic accesses go to the L2, where all of
// the device meets; plain reads and cached loads may find an old line in the multiprocessor's L1, which only an acquire empties.
//   known      comes before the lane's plain reads and cached loads: what it acquired, and what barriers told
//   reached    comes before its atomic accesses and plain writes: that, and what it consumed. At least `known`
//   performed  has reached the whole device: what it acquired or consumed, and what a release of its own carried. A barrier or its own
//              accesses alone do not count. At most `reached`
// A consume learns `reached` and `performed`. A release carries `reached`. A relay carries `performed`.
#pragma once

#include <gpuheap_simulator/operation.hpp>

#include <cstdint>
#include <vector>

#include "vector_clock.hpp"

namespace gpuheap::simulator {

// All that the lane in a slot did up to and including its `epoch`. Epoch 0: before the launch.
struct moment {
  std::uint32_t slot = 0;
  std::int32_t epoch = 0;
};

// The clock that an acquire gets from a store. If `composite`, `known` is more than what the lane in `at.slot` knew at `at.epoch`, so a
// thread that knows that epoch need not know all of it.
struct release_info {
  vector_clock* known = nullptr;  // null: nothing
  moment at{};
  bool composite = false;
};

// The knowledge of a lane.
struct thread_view {
  std::uint32_t slot = 0;
  std::int32_t epoch = 1;  // grows with each release
  // The three pointers may share a clock.
  vector_clock* known = nullptr;
  vector_clock* reached = nullptr;
  vector_clock* performed = nullptr;
  std::int32_t performed_epoch = 0;  // the lane's own: that of its last release
  release_info fence{};              // of the last release fence
  vector_clock* pending = nullptr;   // what loads saw without acquiring it; null: nothing

  // Whether everything of that moment happens before a plain read or a cached load that the lane does now.
  [[nodiscard]] bool knows(moment m) const { return has(*known, m); }
  // The same for an atomic access or a plain write.
  [[nodiscard]] bool reaches(moment m) const { return has(*reached, m); }
  [[nodiscard]] bool knows_all_of(release_info const& r) const { return r.known == nullptr || (!r.composite && knows(r.at)); }
  [[nodiscard]] bool reaches_all_of(release_info const& r) const { return r.known == nullptr || (!r.composite && reaches(r.at)); }
  [[nodiscard]] moment now() const { return {slot, epoch}; }

 private:
  [[nodiscard]] bool has(vector_clock const& c, moment m) const { return m.epoch == 0 || m.slot == slot || c.epochs()[m.slot] >= m.epoch; }
};

class happens_before {
 public:
  // Forgets everything: a new launch.
  void reset(std::size_t num_slots);
  [[nodiscard]] std::size_t num_slots() const { return views_.size(); }
  // A new lane takes the slot. It knows the launch and what the last lane of the slot knew.
  [[nodiscard]] thread_view* start(std::uint32_t slot);

  // A load with order `o` has read a store that carries `r`.
  void learn(thread_view& v, release_info const& r, order o);
  // The clock that a store with order `o` carries. The caller owns it.
  [[nodiscard]] release_info carried(thread_view& v, order o);
  // The clock that a read-modify-write carries: `own`, joined with that of the store that it replaces (`before`), since the release
  // sequence goes on. Takes over `own`.
  [[nodiscard]] release_info carried_on(thread_view const& v, release_info own, release_info const& before, order o);
  // The join of `a` and `b`. Takes over `a`.
  [[nodiscard]] release_info combined(release_info a, release_info const& b);
  void fence(thread_view& v, order o);
  // All that the lane did and learned has reached the whole device.
  void note_performed(thread_view& v) { drop(publish(v)); }

  [[nodiscard]] static release_info share(release_info const& r) { return {clock_pool::share(r.known), r.at, r.composite}; }
  void drop(release_info const& r) { clocks_.drop(r.known); }

  // A meeting of lanes: all that each did before it happens before all that any of them does afterwards. Call gather() for each lane, then
  // spread() for each, then end_meeting().
  void gather(thread_view const& v);
  void spread(thread_view& v);
  void end_meeting();

 private:
  void join(vector_clock*& to, release_info const& r);
  // Joins `r` into both clocks.
  void join(vector_clock*& a, vector_clock*& b, release_info const& r);
  // `to` becomes `from`.
  void assign(vector_clock*& to, vector_clock* from);
  [[nodiscard]] release_info publish(thread_view& v);

  clock_pool clocks_;
  std::vector<thread_view> views_;
  vector_clock* zero_ = nullptr;
  release_info last_seq_cst_{};
  // One of the three clocks of a meeting. A clock that several lanes share is joined once.
  struct meeting {
    vector_clock* clock = nullptr;
    vector_clock const* last_met = nullptr;
  };
  void gather(meeting& m, vector_clock* from, std::uint32_t slot, std::int32_t epoch);

  meeting known_, reached_, performed_;
};

}  // namespace gpuheap::simulator
