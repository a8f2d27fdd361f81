// The happens-before relation: what each lane learns from the others.
#include "happens_before.hpp"

#include <algorithm>
#include <utility>

namespace gpuheap::simulator {

void happens_before::reset(std::size_t num_slots) {
  clocks_.reset(num_slots);
  views_.assign(num_slots, {});
  zero_ = clocks_.make_zero();
  for (std::size_t i = 0; i < num_slots; ++i) {
    views_[i].slot = static_cast<std::uint32_t>(i);
    views_[i].epoch = 0;
  }
  last_seq_cst_ = {};
  known_ = reached_ = performed_ = {};
}

thread_view* happens_before::start(std::uint32_t slot) {
  thread_view& v = views_[slot];
  // The new lane keeps what the slot's last lane knew, because clocks distinguish slots, not lanes: a thread that knows an epoch of the new
  // lane counts as knowing all earlier epochs of the slot.
  if (v.known == nullptr) {
    v.known = clock_pool::share(zero_);
    v.reached = clock_pool::share(zero_);
    v.performed = clock_pool::share(zero_);
  }
  drop(std::exchange(v.fence, {}));
  clocks_.drop(std::exchange(v.pending, nullptr));
  ++v.epoch;
  return &v;
}

void happens_before::join(vector_clock*& to, release_info const& r) {
  clocks_.make_sole(to);
  clocks_.join(*to, *r.known);
  std::int32_t& theirs = to->epochs()[r.at.slot];
  theirs = std::max(theirs, r.at.epoch);
}

void happens_before::join(vector_clock*& a, vector_clock*& b, release_info const& r) {
  if (a != b) {
    join(a, r);
    join(b, r);
    return;
  }
  // Dropping the reference of `b` first lets join() change the clock in place.
  clocks_.drop(std::exchange(b, nullptr));
  join(a, r);
  b = clock_pool::share(a);
}

void happens_before::assign(vector_clock*& to, vector_clock* from) {
  if (to == from) return;
  clocks_.drop(to);
  to = clock_pool::share(from);
}

void happens_before::learn(thread_view& v, release_info const& r, order o) {
  if (acquires(o)) {
    if (v.knows_all_of(r)) return;
    bool const same = v.known == v.reached;
    if (same) clocks_.drop(std::exchange(v.known, nullptr));
    join(v.reached, v.performed, r);
    if (same) {
      v.known = clock_pool::share(v.reached);
    } else {
      join(v.known, r);
    }
    return;
  }
  if (consumes(o)) {
    if (!v.reaches_all_of(r)) join(v.reached, v.performed, r);
    return;
  }
  if (v.knows_all_of(r)) return;
  if (v.pending == nullptr) {
    v.pending = clock_pool::share(zero_);
  } else if (!r.composite && v.pending->epochs()[r.at.slot] >= r.at.epoch) {
    return;
  }
  join(v.pending, r);
}

release_info happens_before::publish(thread_view& v) {
  release_info const r{clock_pool::share(v.reached), v.now(), v.reached != v.known};
  assign(v.performed, v.reached);
  v.performed_epoch = v.epoch;
  ++v.epoch;
  return r;
}

release_info happens_before::carried(thread_view& v, order o) {
  if (releases(o)) return publish(v);
  if (o != order::relay) return share(v.fence);
  return {clock_pool::share(v.performed), {v.slot, v.performed_epoch}, true};
}

release_info happens_before::carried_on(thread_view const& v, release_info own, release_info const& before, order o) {
  if (before.known == nullptr) return own;
  if (own.known == nullptr) return share(before);
  // If this operation releases and has learned `before`, `own` carries `before` already. In all other cases, `own` may be the older clock
  // of a release fence, so `before` has to be joined to it.
  if (o == order::relay || (releases(o) && v.reaches_all_of(before))) return own;
  return combined(own, before);
}

release_info happens_before::combined(release_info a, release_info const& b) {
  join(a.known, b);
  a.composite = true;
  return a;
}

void happens_before::fence(thread_view& v, order o) {
  if (acquires(o)) {
    if (v.pending != nullptr) {
      bool const same = v.performed == v.reached;
      if (same) clocks_.drop(std::exchange(v.performed, nullptr));
      clocks_.make_sole(v.reached);
      clocks_.join(*v.reached, *v.pending);
      if (same) {
        v.performed = clock_pool::share(v.reached);
      } else {
        clocks_.make_sole(v.performed);
        clocks_.join(*v.performed, *v.pending);
      }
      clocks_.drop(std::exchange(v.pending, nullptr));
    }
    assign(v.known, v.reached);
  }
  if (o == order::seq_cst) learn(v, last_seq_cst_, order::acquire);
  if (releases(o)) {
    drop(v.fence);
    v.fence = publish(v);
  }
  if (o == order::seq_cst) {
    drop(last_seq_cst_);
    last_seq_cst_ = share(v.fence);
  }
}

void happens_before::gather(meeting& m, vector_clock* from, std::uint32_t slot, std::int32_t epoch) {
  if (m.clock == nullptr) {
    m.clock = clocks_.copy_of(from);
  } else if (from != m.last_met) {
    clocks_.join(*m.clock, *from);
  }
  m.last_met = from;
  m.clock->epochs()[slot] = std::max(m.clock->epochs()[slot], epoch);
}

void happens_before::gather(thread_view const& v) {
  gather(known_, v.known, v.slot, v.epoch);
  gather(reached_, v.reached, v.slot, v.epoch);
  gather(performed_, v.performed, v.slot, v.performed_epoch);
}

void happens_before::spread(thread_view& v) {
  assign(v.known, known_.clock);
  assign(v.reached, reached_.clock);
  assign(v.performed, performed_.clock);
  v.performed_epoch = std::max(v.performed_epoch, performed_.clock->epochs()[v.slot]);
  ++v.epoch;
}

void happens_before::end_meeting() {
  for (meeting* const m : {&known_, &reached_, &performed_}) {
    clocks_.drop(m->clock);
    *m = {};
  }
}

}  // namespace gpuheap::simulator
