// The part of the simulated GPU that one OS thread runs: resident blocks, their warps and lanes, and the fibers that run the lanes.
//
// A machine runs on one host thread. Its fibers jump to one another directly: the lane that reaches a scheduling point chooses the next
// lane and jumps there. A fiber jumps to the host thread's own stack only when all blocks have ended or the launch has failed.
#pragma once

#include <gpuheap_simulator/failure.hpp>
#include <gpuheap_simulator/lane.hpp>
#include <gpuheap_simulator/launch.hpp>
#include <gpuheap_simulator/settings.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "random.hpp"
#include "run_queue.hpp"
#include "sanitizer_hooks.hpp"
#include "stack_pool.hpp"

namespace boost::context {
class fiber;
}

namespace gpuheap::simulator {

using lane_bits = std::uint32_t;
class weak_memory;

// All masks have bit i for lane i. A lane of `existing` is in at most one of `exited`, `waiting`, `gathered`, `at_barrier`. A lane in none
// of them can run, unless it is in `stalled`.
struct warp {
  block* in = nullptr;
  lane* lanes = nullptr;
  std::uint32_t index = 0;  // in the block
  lane_bits existing = 0;
  lane_bits exited = 0;
  lane_bits waiting = 0;     // in a warp operation, for the other lanes of its mask
  lane_bits gathered = 0;    // in active_mask()
  lane_bits at_barrier = 0;  // in sync_block()
  std::uint32_t num_runnable = 0;
  lane_bits stalled = 0;              // could run, but the setting `stopped` keeps them from running
  std::uint64_t gather_deadline = 0;  // in points; meaningful while `gathered` is not 0
};

struct block {
  std::uint32_t index = 0;  // in the grid
  std::uint32_t sm = 0;
  std::uint32_t num_threads = 0;
  std::uint32_t num_exited = 0;
  std::uint32_t num_at_barrier = 0;
  bool barrier_of_living = false;  // whether the barrier in which threads wait ignores exited threads
  site barrier{};                  // the call of the first thread that arrived
  lane* lanes = nullptr;
  warp* warps = nullptr;
  std::uint32_t num_warps = 0;
};

// One launch, shared by the machines that run it.
struct grid {
  kernel what;
  std::uint32_t num_blocks = 0;
  std::uint32_t id = 0;
  std::atomic<std::uint32_t> next_block{0};
  std::atomic<std::uint64_t> blocks_done{0};
  std::atomic<bool> abandoned{false};  // a machine has failed: the others stop
};

// The multiprocessors that a machine simulates (every num_machines-th, from machine_index on), and the seed of its random numbers.
struct share {
  unsigned machine_index = 0, num_machines = 1;
  std::uint64_t seed = 0;
};

class machine : public core {
 public:
  machine();
  ~machine();
  machine(machine const&) = delete;
  machine& operator=(machine const&) = delete;

  // Runs blocks of the grid until none is left. Throws failure, or an exception of device code.
  void run(grid& g, settings const& s, share const& mine);

  [[nodiscard]] run_statistics const& statistics() const { return statistics_; }

  // ---- Called by lanes, on their fibers.

  void reschedule(lane* me);
  // Ends the turn of `me` early.
  void back_off(lane* me);
  // Stops `me`. The caller has already put `me` into a mask of its warp: `waiting`, `gathered` or `at_barrier`. Returns when another lane
  // has woken `me`.
  void park(lane* me);
  // Makes the lanes of `who` runnable. The caller has already removed them from the masks of `w`.
  void wake(warp& w, lane_bits who);
  // Releases all threads that wait in the block's barrier. `running` is the thread among them that has not been parked, or null.
  void open_barrier(block& b, lane const* running);
  // Releases all lanes of `w` that wait in active_mask().
  void release_gathers(warp& w);
  // Notes that `me` is about to wait in active_mask(). The first lane of a warp to do so sets the point at which all of them are released
  // at the latest.
  void note_gather(warp& w);
  // Draws whether active_mask() releases the waiting lanes at once.
  [[nodiscard]] bool releases_early() { return early_release_one_in_ != 0 && random_.one_in(early_release_one_in_); }
  // While the result lives, ThreadSanitizer takes the running fiber for the host. Needed where the simulator itself uses the process heap.
  [[nodiscard]] hooks::as_host as_host() const { return hooks::as_host(host_); }
  // Reports a failure in two steps, so that no temporary string is alive when the lane's frames are abandoned.
  void note_failure(failure_kind kind, std::string text);
  [[noreturn]] void stop();

  [[nodiscard]] std::uint64_t points() const { return points_ + static_cast<std::uint64_t>(turn_ - points_left); }
  [[nodiscard]] weak_memory& memory() { return *memory_; }  // only in the weak mode
  [[nodiscard]] grid const& running() const { return *grid_; }

  // The body of every fiber. Never returns.
  void fiber_main();
  static machine& of(lane const* l) { return *static_cast<machine*>(l->home); }
  // After a jump to `me`: keeps the fiber that jumped, so that it can be resumed.
  void landed(boost::context::fiber&& caller, resumable const& me);

 private:
  friend class report;

  void prepare(settings const& s, share const& mine);
  bool start_block(block& slot);
  // Marks `me` as exited. Returns the lane that runs next, or null when all lanes have exited.
  lane* finish(lane* me);
  void begin(lane* l);
  void release(stack* s);
  void jump(resumable* from, resumable& to);
  void switch_to(lane* from, lane* to);
  [[noreturn]] void leave_to_host();
  [[noreturn]] void fail_deadlocked();
  void end_turn();
  void start_turn();
  void events();
  // For the setting `stopped`: counts a scheduling point of `me`, and stops or resumes the setting's warp at the points that the setting
  // gives.
  void count_for_stall(lane* me);
  // Resumes the stopped warp. Returns false if no warp was stopped.
  bool end_stall();
  void abandon_lanes();

  settings settings_;
  share share_;
  grid* grid_ = nullptr;
  random_source random_;
  run_queue queue_;
  stack_pool stacks_;
  std::unique_ptr<weak_memory> memory_;

  // Slots for resident blocks. Slot i has the warps from i * n on, and the lanes from i * n * 32 on, where n is the number of warps of a
  // full block.
  std::unique_ptr<lane[]> lanes_;
  std::unique_ptr<warp[]> warps_;
  std::vector<block> slots_;
  std::size_t lanes_made_ = 0, warps_made_ = 0;
  std::uint64_t live_lanes_ = 0;

  std::uint64_t points_ = 0;  // points passed before the running turn
  std::int64_t turn_ = 0;     // length of the running turn in points
  std::uint64_t next_event_ = 0;
  std::uint64_t last_progress_ = 0;  // point at which the last lane finished
  std::uint64_t seen_blocks_done_ = 0;
  unsigned early_release_one_in_ = 0;

  warp* stalled_ = nullptr;              // the stopped warp, or null
  std::uint64_t stall_points_seen_ = 0;  // points that the warp of the setting has passed
  std::uint64_t stall_deadline_ = 0;     // the point at which it resumes

  resumable host_;
  resumable grave_;  // where a fiber that never runs again leaves its context
  resumable* jumped_from_ = nullptr;
  stack* dying_ = nullptr;  // of the lane that is finishing
  stack host_stack_{};      // AddressSanitizer tells its bounds at the first jump away from it

  bool failed_ = false;
  bool stopped_ = false;  // another machine failed
  failure_kind failure_kind_ = failure_kind::misuse;
  std::string failure_text_;
  std::exception_ptr thrown_;

  run_statistics statistics_;
};

// Text about lanes: "block 0 warp 1 lanes 0-3,7 wait in ballot(mask 0x0000008f) at f.hpp:12", one line for each group of lanes that do the
// same.
class report {
 public:
  [[nodiscard]] static std::string lanes_of(machine const& m);
  [[nodiscard]] static std::string name_of(lane const& l);
  [[nodiscard]] static std::string lane_list(lane_bits lanes);
  [[nodiscard]] static std::string place(site where);
  [[nodiscard]] static std::string hex(lane_bits mask);
};

}  // namespace gpuheap::simulator
