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
  meeting_ = nullptr;
}

thread_view* happens_before::start(std::uint32_t slot) {
  thread_view& v = views_[slot];
  // What the slot's last lane knew stays known: clocks tell slots apart, not lanes, so that a thread that knows of the new lane's epochs is
  // taken to know all that the earlier epochs brought.
  if (v.known == nullptr) v.known = clock_pool::share(zero_);
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

void happens_before::learn(thread_view& v, release_info const& r, order o) {
  if (v.knows_all_of(r)) return;
  if (acquires(o)) return join(v.known, r);
  if (v.pending == nullptr) {
    v.pending = clock_pool::share(zero_);
  } else if (!r.composite && v.pending->epochs()[r.at.slot] >= r.at.epoch) {
    return;
  }
  join(v.pending, r);
}

release_info happens_before::publish(thread_view& v) {
  release_info const r{clock_pool::share(v.known), v.now(), false};
  ++v.epoch;
  return r;
}

release_info happens_before::carried(thread_view& v, order o) { return releases(o) ? publish(v) : share(v.fence); }

release_info happens_before::carried_on(thread_view const& v, release_info own, release_info const& before, order o) {
  if (before.known == nullptr) return own;
  if (own.known == nullptr) return share(before);
  // A release that follows the acquire of `before` carries it already; a fence is older than that.
  if (releases(o) && v.knows_all_of(before)) return own;
  return combined(own, before);
}

release_info happens_before::combined(release_info a, release_info const& b) {
  join(a.known, b);
  a.composite = true;
  return a;
}

void happens_before::fence(thread_view& v, order o) {
  if (acquires(o) && v.pending != nullptr) {
    clocks_.make_sole(v.known);
    clocks_.join(*v.known, *v.pending);
    clocks_.drop(std::exchange(v.pending, nullptr));
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

void happens_before::gather(thread_view const& v) {
  if (meeting_ == nullptr) {
    meeting_ = clocks_.copy_of(v.known);
  } else if (v.known != last_met_) {
    clocks_.join(*meeting_, *v.known);
  }
  last_met_ = v.known;
  meeting_->epochs()[v.slot] = std::max(meeting_->epochs()[v.slot], v.epoch);
}

void happens_before::spread(thread_view& v) {
  clocks_.drop(v.known);
  v.known = clock_pool::share(meeting_);
  ++v.epoch;
}

void happens_before::end_meeting() {
  clocks_.drop(std::exchange(meeting_, nullptr));
  last_met_ = nullptr;
}

}  // namespace gpuheap::simulator
