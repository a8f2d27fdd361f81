// The happens-before relation of the weak mode, as one vector clock per resident lane.
//
// A release store carries its lane's clock, an acquire load of it joins that clock. A release fence is carried by the lane's later stores;
// an acquire fence joins what the lane's earlier loads saw. A seq_cst fence joins the last seq_cst fence and becomes it, so two of them
// synchronise, as PTX's fence.sc do. A lane that takes the slot of one that has exited happens after it.
#pragma once

#include <gpuheap_simulator/operation.hpp>

#include <cstdint>
#include <vector>

#include "vector_clock.hpp"

namespace gpuheap::simulator {

// What the lane in a slot did up to and including its `epoch`. Epoch 0: before the launch.
struct moment {
  std::uint32_t slot = 0;
  std::int32_t epoch = 0;
};

// What an acquire learns from a store. `composite`: `known` holds more than what `at.slot` knew at `at.epoch`.
struct release_info {
  vector_clock* known = nullptr;  // null: nothing
  moment at{};
  bool composite = false;
};

// What a lane knows.
struct thread_view {
  std::uint32_t slot = 0;
  std::int32_t epoch = 1;  // grows with each release
  vector_clock* known = nullptr;
  release_info fence{};             // of the last release fence
  vector_clock* pending = nullptr;  // what loads saw without acquiring it; null: nothing

  // Whether everything of that moment happens before what the lane does now.
  [[nodiscard]] bool knows(moment m) const { return m.epoch == 0 || m.slot == slot || known->epochs()[m.slot] >= m.epoch; }
  [[nodiscard]] bool knows_all_of(release_info const& r) const { return r.known == nullptr || (!r.composite && knows(r.at)); }
  [[nodiscard]] moment now() const { return {slot, epoch}; }
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
  // What a store with order `o` carries. The caller owns it.
  [[nodiscard]] release_info carried(thread_view& v, order o);
  // What a read-modify-write carries that `own` comes from, after a store that carried `before`: the release sequence goes on. Takes over
  // `own`.
  [[nodiscard]] release_info carried_on(thread_view const& v, release_info own, release_info const& before, order o);
  // Both. Takes over `a`.
  [[nodiscard]] release_info combined(release_info a, release_info const& b);
  void fence(thread_view& v, order o);

  [[nodiscard]] static release_info share(release_info const& r) { return {clock_pool::share(r.known), r.at, r.composite}; }
  void drop(release_info const& r) { clocks_.drop(r.known); }

  // The lanes' pasts happen before the futures of all of them: gather() each, spread() to each, end_meeting().
  void gather(thread_view const& v);
  void spread(thread_view& v);
  void end_meeting();

 private:
  void join(vector_clock*& to, release_info const& r);
  [[nodiscard]] release_info publish(thread_view& v);

  clock_pool clocks_;
  std::vector<thread_view> views_;
  vector_clock* zero_ = nullptr;
  release_info last_seq_cst_{};
  vector_clock* meeting_ = nullptr;
  vector_clock const* last_met_ = nullptr;
};

}  // namespace gpuheap::simulator
