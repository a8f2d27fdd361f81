// The machine: turns, lanes that wait, blocks, and the fibers that run the lanes.
#include "machine.hpp"

#include <boost/context/fiber.hpp>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "weak_memory.hpp"

namespace gpuheap::simulator {

namespace context = boost::context;

namespace detail {
__thread lane* current_lane = nullptr;

void reschedule(lane* me) { machine::of(me).reschedule(me); }
}  // namespace detail

using detail::current_lane;

namespace {

constexpr std::uint64_t event_interval_points = 1 << 16;
// A lane that calls active_mask() waits, so that other lanes of its warp can arrive at the same call. While another lane of the warp can
// run, the wait lasts at most this many points, plus 32 for each runnable lane of the machine. The machine counts from the point at which
// the first lane of the warp begins to wait. It compares only when a turn ends, so a wait may exceed the limit by the rest of a turn.
constexpr std::uint64_t gather_patience_points = 256;
constexpr std::size_t default_stack_bytes = hooks::under_tsan || hooks::under_asan ? 256 * 1024 : 64 * 1024;
// Limits of a machine's resident lanes. ThreadSanitizer allows about 8000 fibers in a process, for the lanes of all machines together. In
// the weak mode each vector clock has an entry for each resident lane.
constexpr unsigned most_lanes_under_tsan = 1024;
constexpr unsigned most_lanes_in_weak_mode = 512;

// The pool owns the stacks, so a fiber does not free its own.
struct pooled_stack {
  static void deallocate(context::stack_context const&) {}
};

// A resumable's context holds a fiber. It is overwritten and never destroyed, because Boost's destructor would unwind the stack, and so run
// destructors of a kernel that the machine has abandoned.
static_assert(sizeof(context::fiber) == sizeof(resumable::context));
void keep(context::fiber&& f, resumable& in) { new (&in.context) context::fiber(std::move(f)); }
context::fiber taken_from(resumable& from) { return std::move(*std::launder(reinterpret_cast<context::fiber*>(&from.context))); }

}  // namespace

machine::machine() = default;
machine::~machine() = default;

// ---- a launch

void machine::run(grid& g, settings const& s, share const& mine) {
  grid_ = &g;
  host_.on = &host_stack_;
  host_stack_.fiber = hooks::host_fiber();
  prepare(s, mine);
  queue_.set_starting(true);
  for (block& slot : slots_) {
    if (!start_block(slot)) break;
  }
  queue_.set_starting(false);
  if (live_lanes_ != 0) {
    lane* const first = queue_.after_removal();
    begin(first);
    start_turn();
    hooks::release(&host_);
    current_lane = first;
    jump(&host_, *first);
    current_lane = nullptr;
  }
  statistics_.points = points_;
  if (weak) statistics_.stale_loads = memory_->num_stale_loads();
  if (failed_ || stopped_ || thrown_ != nullptr) abandon_lanes();
  stacks_.end_launch();
  hooks::acquire(this);
  if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
  if (failed_) throw failure(failure_kind_, failure_text_);
}

void machine::prepare(settings const& s, share const& mine) {
  settings_ = s;
  share_ = mine;
  weak = s.weak && !hooks::under_tsan;
  random_ = random_source(mine.seed);
  queue_.reset(s, random_);
  static constexpr unsigned release_rates[] = {0, 4, 32};
  early_release_one_in_ = queue_.draws_by_chance() ? release_rates[random_.below(3)] : 0;
  stacks_.set_stack_bytes(s.stack_bytes != 0 ? s.stack_bytes : default_stack_bytes);

  unsigned const block_threads = grid_->what.block_threads;
  unsigned const warps_per_block = (block_threads + warp_lanes - 1) / warp_lanes;
  unsigned const my_sms = (s.num_sms - mine.machine_index + mine.num_machines - 1) / mine.num_machines;
  unsigned per_sm = std::clamp(s.threads_per_sm / block_threads, 1u, std::max(1u, s.blocks_per_sm));
  unsigned num_slots = my_sms * per_sm;
  if constexpr (hooks::under_tsan) num_slots = std::min(num_slots, std::max(1u, most_lanes_under_tsan / mine.num_machines / block_threads));
  if (weak) num_slots = std::min(num_slots, std::max(1u, most_lanes_in_weak_mode / block_threads));
  num_slots = std::min(num_slots, grid_->num_blocks);

  std::size_t const num_lanes = std::size_t{num_slots} * warps_per_block * warp_lanes;
  if (num_lanes > lanes_made_) {
    lanes_ = std::make_unique<lane[]>(num_lanes);
    lanes_made_ = num_lanes;
  }
  std::size_t const num_warps = std::size_t{num_slots} * warps_per_block;
  if (num_warps > warps_made_) {
    warps_ = std::make_unique<warp[]>(num_warps);
    warps_made_ = num_warps;
  }
  slots_.assign(num_slots, block{});
  for (unsigned i = 0; i < num_slots; ++i) {
    slots_[i].sm = mine.machine_index + i % my_sms * mine.num_machines;
    slots_[i].lanes = &lanes_[std::size_t{i} * warps_per_block * warp_lanes];
    slots_[i].warps = &warps_[std::size_t{i} * warps_per_block];
  }
  for (std::size_t i = 0; i < num_lanes; ++i) {
    lanes_[i] = lane{};
    lanes_[i].home = this;
    lanes_[i].slot = static_cast<std::uint32_t>(i);
  }
  if (weak) {
    if (memory_ == nullptr) memory_ = std::make_unique<weak_memory>();
    // If all blocks are resident, no lane takes the last slots of the last block when that block is partial.
    std::size_t const block_slots = std::size_t{warps_per_block} * warp_lanes;
    std::size_t const last_block_threads = grid_->what.num_threads - std::size_t{grid_->num_blocks - 1} * block_threads;
    memory_->reset(s, random_, num_slots == grid_->num_blocks ? num_lanes - block_slots + last_block_threads : num_lanes);
  }

  live_lanes_ = 0;
  points_ = 0;
  turn_ = points_left = 0;
  next_event_ = std::min(event_interval_points, s.step_budget);
  last_progress_ = 0;
  seen_blocks_done_ = 0;
  failed_ = stopped_ = false;
  stalled_ = nullptr;
  stall_points_seen_ = 0;
  statistics_ = {};
}

bool machine::start_block(block& slot) {
  if (grid_->abandoned.load(std::memory_order_relaxed)) return false;
  kernel const& k = grid_->what;
  std::uint32_t const index = grid_->next_block.fetch_add(1, std::memory_order_relaxed);
  if (index >= grid_->num_blocks) return false;
  slot.index = index;
  slot.num_threads = std::min(k.block_threads, k.num_threads - index * k.block_threads);
  slot.num_exited = 0;
  slot.num_at_barrier = 0;
  slot.num_warps = (slot.num_threads + warp_lanes - 1) / warp_lanes;
  for (std::uint32_t w = 0; w < slot.num_warps; ++w) {
    std::uint32_t const lanes_here = std::min(warp_lanes, slot.num_threads - w * warp_lanes);
    warp& it = slot.warps[w];
    it = {};
    it.in = &slot;
    it.lanes = slot.lanes + std::size_t{w} * warp_lanes;
    it.index = w;
    it.existing = lanes_here == warp_lanes ? ~lane_bits{0} : (lane_bits{1} << lanes_here) - 1;
    it.num_runnable = lanes_here;
    for (std::uint32_t i = 0; i < lanes_here; ++i) {
      lane& l = it.lanes[i];
      l.context = nullptr;
      l.on = nullptr;
      l.in = &it;
      l.global_index = index * k.block_threads + w * warp_lanes + i;
      note(&l, operation::none, {});
      l.index = static_cast<std::uint8_t>(i);
      l.release_fenced = false;
      if (weak) memory_->start(&l);
      queue_.add(&l);
    }
  }
  live_lanes_ += slot.num_threads;
  return true;
}

void machine::abandon_lanes() {
  if (dying_ != nullptr) stacks_.release(std::exchange(dying_, nullptr));
  for (block& slot : slots_) {
    for (std::uint32_t i = 0; i < slot.num_warps * warp_lanes; ++i) {
      lane& l = slot.lanes[i];
      if (l.on == nullptr) continue;
      hooks::release_as(l.on->fiber, this);
      stacks_.release_abandoned(std::exchange(l.on, nullptr));
    }
  }
}

// ---- turns

void machine::start_turn() {
  points_left = turn_ = queue_.turn_length(points_);
  if (settings_.stopped.points != 0) points_left = turn_ = 1;  // count_for_stall() counts every point
}

void machine::end_turn() {
  points_ += static_cast<std::uint64_t>(turn_ - points_left);
  turn_ = points_left = 0;
  if (points_ >= next_event_) events();
}

void machine::reschedule(lane* me) {
  end_turn();
  if (settings_.stopped.points != 0) [[unlikely]] {
    count_for_stall(me);
    if (!me->runnable) {  // count_for_stall() has stopped its warp
      lane* next = queue_.after_removal();
      if (next == nullptr && end_stall()) next = queue_.after_removal();
      start_turn();
      if (next != me) switch_to(me, next);
      return;
    }
  }
  lane* const next = queue_.after_turn(me, points_);
  start_turn();
  if (next != me) switch_to(me, next);
}

void machine::count_for_stall(lane* me) {
  if (stalled_ != nullptr) {
    if (points_ >= stall_deadline_) (void)end_stall();
    return;
  }
  stall const& asked = settings_.stopped;
  unsigned const warps_per_block = (grid_->what.block_threads + warp_lanes - 1) / warp_lanes;
  warp& w = *me->in;
  if (w.in->index * warps_per_block + w.index != asked.warp || stall_points_seen_++ != asked.at) return;
  stalled_ = &w;
  statistics_.stalled = true;
  stall_deadline_ = asked.points == stall::ever_after ? ~std::uint64_t{0} : points_ + asked.points;
  for (lane_bits rest = w.existing; rest != 0; rest &= rest - 1) {
    lane& l = w.lanes[__builtin_ctz(rest)];
    if (!l.runnable) continue;
    queue_.remove(&l);
    w.stalled |= lane_bits{1} << l.index;
  }
}

// Returns false if no warp was stopped.
bool machine::end_stall() {
  if (stalled_ == nullptr) return false;
  warp& w = *std::exchange(stalled_, nullptr);
  for (lane_bits rest = std::exchange(w.stalled, 0); rest != 0; rest &= rest - 1) queue_.add(&w.lanes[__builtin_ctz(rest)]);
  return true;
}

void machine::back_off(lane* me) {
  --points_left;
  queue_.backs_off(me);
  reschedule(me);
}

void machine::events() {
  if (grid_->abandoned.load(std::memory_order_relaxed)) {
    stopped_ = true;
    leave_to_host();
  }
  if (points_ - last_progress_ >= settings_.step_budget) {
    std::uint64_t const done = grid_->blocks_done.load(std::memory_order_relaxed);
    if (done == seen_blocks_done_) {
      note_failure(failure_kind::livelock, "livelock: " + std::to_string(points_ - last_progress_) +
                                               " scheduling points have passed since the last thread finished\n" + report::lanes_of(*this));
      stop();
    }
    seen_blocks_done_ = done;
    last_progress_ = points_;
  }
  next_event_ = std::min(points_ + event_interval_points, last_progress_ + settings_.step_budget);
  for (block& slot : slots_) {
    for (std::uint32_t w = 0; w < slot.num_warps; ++w) {
      warp& it = slot.warps[w];
      if (it.gathered == 0) continue;
      if (it.gather_deadline <= points_) {
        release_gathers(it);
      } else {
        next_event_ = std::min(next_event_, it.gather_deadline);
      }
    }
  }
}

// ---- waiting

void machine::park(lane* me) {
  --points_left;
  warp& w = *me->in;
  if (w.num_runnable == 1 && w.gathered != 0) release_gathers(w);
  --w.num_runnable;
  queue_.remove(me);
  end_turn();
  lane* next = queue_.after_removal();
  if (next == nullptr && end_stall()) next = queue_.after_removal();
  if (next == nullptr) fail_deadlocked();
  start_turn();
  if (next != me) switch_to(me, next);
}

void machine::wake(warp& w, lane_bits who) {
  w.num_runnable += static_cast<std::uint32_t>(__builtin_popcount(who));
  if (stalled_ == &w) {
    w.stalled |= who;
    return;
  }
  if (settings_.scheduler == scheduler_kind::run_through) {
    // Each woken lane goes in front of the lanes woken before it. The loop starts with the highest number, so that the lanes run in
    // ascending order.
    for (; who != 0;) {
      unsigned const i = 31u - static_cast<unsigned>(__builtin_clz(who));
      who &= ~(lane_bits{1} << i);
      queue_.add(&w.lanes[i]);
    }
  } else {
    for (; who != 0; who &= who - 1) queue_.add(&w.lanes[__builtin_ctz(who)]);
  }
  if (queue_.preempts() && points_left > 1) {
    turn_ -= points_left - 1;
    points_left = 1;
  }
}

void machine::note_gather(warp& w) {
  if (w.gathered != 0) return;
  w.gather_deadline = points() + gather_patience_points + 32 * queue_.size();
  next_event_ = std::min(next_event_, w.gather_deadline);
}

void machine::release_gathers(warp& w) {
  lane_bits const all = std::exchange(w.gathered, 0);
  for (lane_bits rest = all; rest != 0;) {
    lane const& first = w.lanes[__builtin_ctz(rest)];
    lane_bits group = 0;
    for (lane_bits others = rest; others != 0; others &= others - 1) {
      unsigned const i = static_cast<unsigned>(__builtin_ctz(others));
      if (w.lanes[i].at() == first.at()) group |= lane_bits{1} << i;
    }
    for (lane_bits members = group; members != 0; members &= members - 1) w.lanes[__builtin_ctz(members)].result = group;
    rest &= ~group;
  }
  // The running lane may be one of them. It has not been parked, so it is not woken.
  lane const* const me = current_lane;
  bool const own = me->in == &w && me->runnable;
  wake(w, own ? all & ~(lane_bits{1} << me->index) : all);
}

void machine::fail_deadlocked() {
  note_failure(failure_kind::deadlock, "deadlock: no thread can run\n" + report::lanes_of(*this));
  stop();
}

// ---- the end

lane* machine::finish(lane* me) {
  hooks::release(this);
  auto const host = as_host();
  warp& w = *me->in;
  block& b = *w.in;
  lane_bits const bit = lane_bits{1} << me->index;
  for (lane_bits rest = w.waiting; rest != 0; rest &= rest - 1) {
    lane const& peer = w.lanes[__builtin_ctz(rest)];
    if ((peer.mask & bit) != 0) {
      note_failure(failure_kind::misuse, report::name_of(*me) + " has exited, but is named in the mask of " + report::name_of(peer) +
                                             ", which waits in " + simulator::name_of(peer.doing) + "(mask " + report::hex(peer.mask) +
                                             ")" + report::place(peer.at()));
      stop();
    }
  }
  if (b.num_at_barrier != 0 && !b.barrier_of_living) {
    note_failure(failure_kind::misuse, "sync_block()" + report::place(b.barrier) + " is not reached by all threads of block " +
                                           std::to_string(b.index) + ": " + report::name_of(*me) + " has exited, " +
                                           std::to_string(b.num_at_barrier) + " of " + std::to_string(b.num_threads) + " threads wait");
    stop();
  }
  w.exited |= bit;
  ++b.num_exited;
  --live_lanes_;
  ++statistics_.lanes;
  if (w.num_runnable == 1 && w.gathered != 0) release_gathers(w);
  --w.num_runnable;
  queue_.remove(me);
  end_turn();
  last_progress_ = points_;
  dying_ = std::exchange(me->on, nullptr);
  if (b.num_at_barrier != 0 && b.num_at_barrier + b.num_exited == b.num_threads) open_barrier(b, nullptr);
  if (b.num_exited == b.num_threads) {
    grid_->blocks_done.fetch_add(1, std::memory_order_relaxed);
    queue_.set_starting(true);
    if (!start_block(b)) b.num_warps = 0;
    queue_.set_starting(false);
  }
  lane* next = queue_.after_removal();
  if (next == nullptr && end_stall()) next = queue_.after_removal();
  if (next == nullptr) {
    if (live_lanes_ != 0) fail_deadlocked();
    return nullptr;
  }
  start_turn();
  return next;
}

void machine::note_failure(failure_kind kind, std::string text) {
  failed_ = true;
  failure_kind_ = kind;
  failure_text_ = std::move(text);
}

void machine::stop() {
  hooks::release(this);
  grid_->abandoned.store(true, std::memory_order_relaxed);
  leave_to_host();
}

// ---- fibers

void machine::begin(lane* l) {
  auto const host = as_host();
  l->on = stacks_.take();
  hooks::renew(*l->on);
  std::size_t const bytes = static_cast<std::size_t>(l->on->top - l->on->bottom);
  context::stack_context where;
  where.sp = l->on->top;
  where.size = bytes;
  keep(context::fiber(std::allocator_arg, context::preallocated(l->on->top, bytes, where), pooled_stack{},
                      [this](context::fiber&& caller) {
                        landed(std::move(caller), *current_lane);
                        fiber_main();
                        return context::fiber();  // not reached
                      }),
       *l);
}

void machine::release(stack* s) {
  auto const host = as_host();
  stacks_.release(s);
}

void machine::jump(resumable* from, resumable& to) {
  hooks::leaving(from, to);
  jumped_from_ = from != nullptr ? from : &grave_;
  context::fiber caller = taken_from(to).resume();
  if (from == nullptr) __builtin_unreachable();  // nothing can resume this fiber
  landed(std::move(caller), *from);
}

void machine::landed(context::fiber&& caller, resumable const& me) {
  keep(std::move(caller), *jumped_from_);
  hooks::arrived(me, jumped_from_ == &host_ ? &host_stack_ : nullptr);
}

void machine::switch_to(lane* from, lane* to) {
  if (to->on == nullptr) [[unlikely]]
    begin(to);
  current_lane = to;
  jump(from, *to);
}

void machine::leave_to_host() {
  current_lane = nullptr;
  jump(nullptr, host_);
  __builtin_trap();  // not reached
}

void machine::fiber_main() {
  // Ends: by a jump that does not return. A pass runs one lane to its end. The fiber then goes on with a lane that has not started, or
  // releases its stack and jumps to another lane's fiber or to the host. (In switch_to(), a fiber jumps away in the middle of a lane and
  // keeps its stack.)
  for (;;) {
    lane* const me = current_lane;
    hooks::acquire(&host_);
    std::exception_ptr thrown;
    try {
      grid_->what.body(grid_->what.functor, me->global_index);
    } catch (...) {
      thrown = std::current_exception();
    }
    if (thrown != nullptr) {
      thrown_ = std::move(thrown);
      stop();
    }
    lane* const next = finish(me);
    stack* const mine = std::exchange(dying_, nullptr);
    if (next == nullptr) {
      release(mine);
      leave_to_host();
    }
    if (next->on == nullptr) {
      if (!hooks::under_tsan) {
        // A lane that has not started begins on this stack.
        next->on = mine;
        current_lane = next;
        continue;
      }
      begin(next);
    }
    release(mine);
    current_lane = next;
    jump(nullptr, *next);
  }
}

}  // namespace gpuheap::simulator
