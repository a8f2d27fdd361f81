// The happens-before relation of the weak mode, as vector clocks of each resident lane.
//
// A release store carries its lane's clock, and an acquire load that reads the store joins that clock into its own lane's. The lane's later
// stores carry the clock of its release fence. An acquire fence joins the clocks of the stores that the lane's earlier loads read. A
// seq_cst fence joins the clock of the last seq_cst fence, and becomes the last one, so two seq_cst fences synchronise, as two fence.sc of
// PTX do. A lane that takes the slot of an exited lane happens after that lane.
//
// A lane has three clocks, because a GPU has two paths to memory, and because a release costs time there. Atomic accesses go to the L2,
// which the whole device shares. Plain reads and cached loads may find an old line in the multiprocessor's L1, which only an acquire
// invalidates.
//   known      happens before the lane's plain reads and cached loads: what it acquired, and what barriers ordered before them
//   reached    happens before its atomic accesses and plain writes: `known`, and what it consumed
//   performed  is visible to the whole device: what it acquired or consumed, and what a release of its own carried. What it learned from a
//              barrier, and its own accesses since its last release, do not count. A part of `reached`
// A consume extends `reached` and `performed`. A release carries `reached`. A relay carries `performed`.
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

// The clock that an acquire gets from a store. If `composite`, `known` holds more than the lane in `at.slot` knew at `at.epoch`, so a
// thread that knows that epoch need not know all of `known`.
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
  std::int32_t performed_epoch = 0;  // the lane's own epoch at its last release
  release_info fence{};              // what the lane's last release fence published
  vector_clock* pending = nullptr;   // what the lane's loads read without acquiring it; null: nothing

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
  // Forgets everything, at the start of a launch.
  void reset(std::size_t num_slots);
  [[nodiscard]] std::size_t num_slots() const { return views_.size(); }
  // A new lane takes the slot. It knows what happened before the launch, and what the slot's last lane knew.
  [[nodiscard]] thread_view* start(std::uint32_t slot);

  // A load with order `o` has read a store that carries `r`.
  void learn(thread_view& v, release_info const& r, order o);
  // The clock that a store with order `o` carries. The caller owns it.
  [[nodiscard]] release_info carried(thread_view& v, order o);
  // The clock that a read-modify-write carries: `own` joined with `before`, the clock of the store that it replaces, because it continues
  // that store's release sequence. Takes ownership of `own`.
  [[nodiscard]] release_info carried_on(thread_view const& v, release_info own, release_info const& before, order o);
  // The join of `a` and `b`. Takes ownership of `a`.
  [[nodiscard]] release_info combined(release_info a, release_info const& b);
  void fence(thread_view& v, order o);
  // Records that all that the lane did and learned is visible to the whole device.
  void note_performed(thread_view& v) { drop(publish(v)); }

  [[nodiscard]] static release_info share(release_info const& r) { return {clock_pool::share(r.known), r.at, r.composite}; }
  void drop(release_info const& r) { clocks_.drop(r.known); }

  // A meeting of lanes is a barrier or a sync_warp: all that each of the lanes did before the meeting happens before all that any of them
  // does after it. Call gather() for each lane, then spread() for each, then end_meeting().
  void gather(thread_view const& v);
  void spread(thread_view& v);
  void end_meeting();

 private:
  void join(vector_clock*& to, release_info const& r);
  // Joins `r` into both clocks.
  void join(vector_clock*& a, vector_clock*& b, release_info const& r);
  // Makes `to` share the clock `from`.
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
