// Rendezvous of lanes: warp operations, the active mask and the block barrier.
#include <gpuheap_simulator/warp.hpp>

#include <string>

#include "machine.hpp"
#include "weak_memory.hpp"

namespace gpuheap::simulator {

namespace {

constexpr std::uint64_t poison = 0xdeadbeefdeadbeef;  // the result of shuffle_up, _down and _xor if the source lane is not in the mask

// stop() abandons the lane's frames, and no destructor runs. So the text is finished, and its parts are destroyed, before that call.
template <class Text, class... Lanes>
[[noreturn, gnu::cold, gnu::noinline]] void misuse(machine& m, Text text, Lanes const&... lanes) {
  m.note_failure(failure_kind::misuse, text(lanes...));
  m.stop();
}

std::string call(lane const& l) { return std::string(name_of(l.doing)) + "(mask " + report::hex(l.mask) + ")" + report::place(l.at()); }

std::string bad_mask(lane const& me) {
  std::string text = report::name_of(me) + " calls " + call(me);
  lane_bits const exited = me.mask & me.in->exited, missing = me.mask & ~me.in->existing;
  if ((me.mask >> me.index & 1) == 0) {
    text += ", a mask without the caller";
  } else if (missing != 0) {
    text += ", which names lanes " + report::lane_list(missing) + ": they do not exist in this warp";
  } else {
    text += ", which names lanes " + report::lane_list(exited) + ": they have exited";
  }
  return text;
}

std::string different_call(lane const& me, lane const& peer) {
  return report::name_of(me) + " calls " + call(me) + ", but lane " + std::to_string(peer.index) + ", which the mask names, waits in " +
         call(peer);
}

std::string bad_source(lane const& l) {
  return report::name_of(l) + " calls " + call(l) + " with source lane " + std::to_string(l.argument) + ", which is not in the mask";
}

std::string barrier_after_exit(lane const& me) {
  block const& b = *me.in->in;
  return report::name_of(me) + " calls sync_block()" + report::place(me.at()) + ", but " + std::to_string(b.num_exited) + " of the " +
         std::to_string(b.num_threads) + " threads of the block have exited";
}

std::string other_barrier(lane const& me) {
  block const& b = *me.in->in;
  return report::name_of(me) + " calls sync_block()" + report::place(me.at()) + " while " + std::to_string(b.num_at_barrier) +
         " threads of its block wait in sync_block()" + report::place(b.barrier);
}

template <class Op>
void reduce(warp& w, lane_bits mask, Op op) {
  std::uint32_t total = static_cast<std::uint32_t>(w.lanes[__builtin_ctz(mask)].value);
  for (lane_bits rest = mask & (mask - 1); rest != 0; rest &= rest - 1)
    total = op(total, static_cast<std::uint32_t>(w.lanes[__builtin_ctz(rest)].value));
  for (lane_bits rest = mask; rest != 0; rest &= rest - 1) w.lanes[__builtin_ctz(rest)].result = total;
}

// Calls f(lane) for each lane of the mask.
template <class F>
void each(warp& w, lane_bits mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(w.lanes[__builtin_ctz(mask)]);
}

// `source(lane)` is the number of the lane that `lane` reads from. If it is above 31, `lane` gets its own value.
template <class Source>
void shuffle(warp& w, lane_bits mask, Source source) {
  each(w, mask, [&](lane& l) {
    unsigned const from = source(l);
    if (from >= warp_lanes) {
      l.result = l.value;
    } else {
      l.result = (mask >> from & 1) != 0 ? w.lanes[from].value : poison;
    }
  });
}

// Called when all lanes of the mask have arrived. Computes the result of each.
void complete(machine& m, warp& w, operation what, lane_bits mask) {
  switch (what) {
    case operation::ballot:
    case operation::all_of:
    case operation::any_of: {
      lane_bits votes = 0;
      each(w, mask, [&](lane const& l) { votes |= static_cast<lane_bits>(l.value != 0) << l.index; });
      std::uint64_t const result = what == operation::ballot ? votes : what == operation::all_of ? votes == mask : votes != 0;
      each(w, mask, [&](lane& l) { l.result = result; });
      return;
    }
    case operation::shuffle:
      each(w, mask, [&](lane const& l) {
        if (l.argument >= warp_lanes || (mask >> l.argument & 1) == 0) misuse(m, bad_source, l);
      });
      return shuffle(w, mask, [](lane const& l) { return l.argument; });
    case operation::shuffle_up:
      return shuffle(w, mask, [](lane const& l) { return l.index - l.argument; });
    case operation::shuffle_down:
      return shuffle(w, mask, [](lane const& l) { return l.argument >= warp_lanes ? warp_lanes : l.index + l.argument; });
    case operation::shuffle_xor:
      return shuffle(w, mask, [](lane const& l) { return l.index ^ l.argument; });
    case operation::match_any:
      each(w, mask, [&](lane& l) {
        lane_bits same = 0;
        each(w, mask, [&](lane const& other) { same |= static_cast<lane_bits>(other.value == l.value) << other.index; });
        l.result = same;
      });
      return;
    case operation::reduce_or:
      return reduce(w, mask, [](std::uint32_t a, std::uint32_t b) { return a | b; });
    case operation::reduce_and:
      return reduce(w, mask, [](std::uint32_t a, std::uint32_t b) { return a & b; });
    case operation::reduce_add:
      return reduce(w, mask, [](std::uint32_t a, std::uint32_t b) { return a + b; });
    case operation::reduce_min:
      return reduce(w, mask, [](std::uint32_t a, std::uint32_t b) { return a < b ? a : b; });
    case operation::reduce_max:
      return reduce(w, mask, [](std::uint32_t a, std::uint32_t b) { return a < b ? b : a; });
    case operation::sync_warp:
      if (m.weak) {
        happens_before& order = m.memory().order_of_events();
        each(w, mask, [&](lane const& l) { order.gather(*l.view); });
        each(w, mask, [&](lane const& l) { order.spread(*l.view); });
        order.end_meeting();
      }
      return;
    default:
      return;
  }
}

// Orders, in the weak mode, the accesses of the threads that wait in the barrier.
void meet(machine& m, block& b) {
  happens_before& order = m.memory().order_of_events();
  for (std::uint32_t i = 0; i < b.num_warps; ++i) each(b.warps[i], b.warps[i].at_barrier, [&](lane const& l) { order.gather(*l.view); });
  for (std::uint32_t i = 0; i < b.num_warps; ++i) each(b.warps[i], b.warps[i].at_barrier, [&](lane const& l) { order.spread(*l.view); });
  order.end_meeting();
}

lane* caller(operation what) {
  lane* const me = current();
  if (me == nullptr) [[unlikely]]
    detail::called_from_host(name_of(what));
  return me;
}

// Waits for all lanes of me->mask to make the call that `me` describes, and computes the results.
void rendezvous(lane* me) {
  machine& m = machine::of(me);
  warp& w = *me->in;
  lane_bits const mask = me->mask;
  lane_bits const self = lane_bits{1} << me->index;
  if ((mask & self) == 0 || (mask & ~w.existing) != 0 || (mask & w.exited) != 0) [[unlikely]]
    misuse(m, bad_mask, *me);
  w.waiting |= self;
  if ((w.waiting & mask) != mask) return m.park(me);
  // A lane of the mask that waits in a call with another mask may still make this call later, so its absence is no mistake yet. If the lane
  // never makes the call, no thread can run in the end, and the launch fails with a list of the threads and the operations that they wait
  // in. Different calls with the same mask can never meet, so they are misuse at once.
  bool here = true;
  each(w, mask, [&](lane const& peer) {
    if (peer.mask == mask && peer.doing != me->doing) [[unlikely]]
      misuse(m, different_call, *me, peer);
    here &= peer.mask == mask;
  });
  if (!here) return m.park(me);
  complete(m, w, me->doing, mask);
  w.waiting &= ~mask;
  m.wake(w, mask & ~self);
  if (--m.points_left <= 0) m.reschedule(me);
}

}  // namespace

std::uint32_t active_mask(site where) {
  lane* const me = caller(operation::active_mask);
  machine& m = machine::of(me);
  warp& w = *me->in;
  note(me, operation::active_mask, where);
  m.note_gather(w);
  w.gathered |= lane_bits{1} << me->index;
  if (m.releases_early()) {
    // The lanes that wait at this line are released now. The caller has not been parked, so it is not woken.
    lane_bits group = 0;
    each(w, w.gathered, [&](lane const& l) { group |= static_cast<lane_bits>(l.at() == where) << l.index; });
    each(w, group, [&](lane& l) { l.result = group; });
    w.gathered &= ~group;
    m.wake(w, group & ~(lane_bits{1} << me->index));
    std::uint32_t const answer = group;
    if (--m.points_left <= 0) m.reschedule(me);
    return answer;
  }
  if (w.num_runnable == 1) {
    m.release_gathers(w);
    std::uint32_t const answer = static_cast<std::uint32_t>(me->result);
    if (--m.points_left <= 0) m.reschedule(me);
    return answer;
  }
  m.park(me);
  return static_cast<std::uint32_t>(me->result);
}

void sync_warp(std::uint32_t mask, site where) {
  lane* const me = caller(operation::sync_warp);
  note(me, operation::sync_warp, where);
  me->mask = mask;
  hooks::release(me->in);
  rendezvous(me);
  hooks::acquire(me->in);
}

std::uint64_t exchange_in_warp(operation what, std::uint32_t mask, std::uint64_t value, std::uint32_t argument, site where) {
  lane* const me = caller(what);
  note(me, what, where);
  me->mask = mask;
  me->value = value;
  me->argument = argument;
  rendezvous(me);
  return me->result;
}

void machine::open_barrier(block& b, lane const* running) {
  if (weak) meet(*this, b);
  b.num_at_barrier = 0;
  for (std::uint32_t i = 0; i < b.num_warps; ++i) {
    warp& w = b.warps[i];
    lane_bits const all = std::exchange(w.at_barrier, 0);
    wake(w, running != nullptr && &w == running->in ? all & ~(lane_bits{1} << running->index) : all);
  }
}

void sync_block(site where, bool of_living) {
  lane* const me = caller(operation::sync_block);
  machine& m = machine::of(me);
  warp& w = *me->in;
  block& b = *w.in;
  note(me, operation::sync_block, where);
  if (b.num_exited != 0 && !of_living) misuse(m, barrier_after_exit, *me);
  if (b.num_at_barrier == 0) {
    b.barrier = where;
    b.barrier_of_living = of_living;
  } else if (!(b.barrier == where)) {
    misuse(m, other_barrier, *me);
  }
  ++b.num_at_barrier;
  w.at_barrier |= lane_bits{1} << me->index;
  hooks::release(&b);
  if (b.num_at_barrier + b.num_exited != b.num_threads) {
    m.park(me);
  } else {
    m.open_barrier(b, me);
    if (--m.points_left <= 0) m.reschedule(me);
  }
  hooks::acquire(&b);
}

}  // namespace gpuheap::simulator
