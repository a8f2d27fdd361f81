// The slow path of malloc: wait for a refill, refill, search for memory, refuse.
//
// There are no locks. A warp waits only for a shard that another thread refills, and that thread waits for nobody.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/sharded_spans/large.hpp>
#include <gpuheap/simt/far_call.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// The progress of a group's search for memory, in two registers.
//
//   bit  0       32      38      42      45
//        | count | class | shard | stage | next step
//
//   count   relocations begun before the search; the search may refuse only if none begins during it
//   class   the class that is searched now: the requested one, then larger ones
//   shard   the shard at which to claim next
//   stage   the last of these that was searched in vain for the class: nothing; active spans; partial spans; spans of other classes. Or
//           `borrows`: nothing was searched yet, and the group claims in a larger class because its own one is being refilled
struct search {
  enum stage : unsigned { untried, active, scanned, reclaimed, borrows };
  enum step : unsigned { claim, wait, scan, reclaim, refuse };

  uint64_t bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr search at(unsigned c, unsigned k) { return {uint64_t{c} << 32 | uint64_t{k} << 38}; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned relocations() const { return static_cast<unsigned>(bits); }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned size_class() const { return static_cast<unsigned>(bits >> 32) & 63; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned shard() const { return static_cast<unsigned>(bits >> 38) & 15; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned tried() const { return static_cast<unsigned>(bits >> 42) & 7; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned next() const { return static_cast<unsigned>(bits >> 45) & 7; }
  [[nodiscard]] GPUHEAP_HD static constexpr search of(unsigned relocations, unsigned c, unsigned k, unsigned tried, step next) {
    return {relocations | uint64_t{c} << 32 | uint64_t{k} << 38 | uint64_t{tried} << 42 | uint64_t{next} << 45};
  }
  // The state of a group with the demand d that has claimed in class c, at shard k.
  [[nodiscard]] GPUHEAP_HD static constexpr search claimed_at(demand d, unsigned c, unsigned k) {
    return of(0, c, k, c == d.size_class() ? untried : borrows, claim);
  }
};

template <class Named>
struct control;
// See control::serve_by_refill().
template <class Named>
GPUHEAP_COLD void* malloc_by_refill_far(control<Named>* heap, lane_mask here, demand d, uint64_t claimed_bits);

// The control block of a heap: its shared words, and the operations on them.
template <class Named>
struct control : large_allocations<Named> {
  static constexpr tuning Tuning = Named::tuned;
  using spans::active_classes;
  using spans::at;
  using spans::partial_classes;
  using spans::relocations;

  // The state of a lane's request. It lies in the stack frame rather than in registers: a kernel needs as many registers as its longest
  // chain of calls, and these steps call deeply. A thread that never takes the slow path never touches the frame.
  struct request {
    lane_mask here;
    warp_group g;  // lanes that want a slot of the same class; empty for a lane that has its result
    demand d;
    search s;
    shard_word claimed;
    bool has_claim;  // `claimed` is the result of a claim; otherwise it was only loaded
    void* result;
    warp_group claimers;  // lanes of the group that share the claim
    bool duty;            // the claim has the duty to refill the shard
    refill_result got;    // the result of the refill
    // In a leader whose search a relocation crossed: the numbers of its first search after that and of its present search. Otherwise 0.
    uint64_t first_search, this_search;
  };

  [[nodiscard]] GPUHEAP_FN bool refused_already(unsigned c) { return Tuning.remembers_refusals && this->still_exhausted(c); }

  // The state of shard k of class c and of three others. The four loads are in flight together. If the class has fewer than four shards,
  // some are loaded twice.
  struct four_shards {
    static constexpr unsigned none = ~0u;
    unsigned with_room = none;
    bool is_overclaimed = false;  // shard k has overclaim_limit claims or more: no thread may claim there now
    bool being_replaced = false;  // one of the four shards is being refilled or reset
  };
  // Loads the four words. `asked_for`: c is the class that the request asked for.
  GPUHEAP_COLD four_shards look_at_four(unsigned c, unsigned k, bool asked_for) {
    unsigned const shards = at.num_shards() - 1;
    uint64_t words[4];
    // relaxed: the claim acquires, and a search ends with read_end().
    for (unsigned j = 0; j < 4; ++j) words[j] = at.shard(c, (k ^ j) & shards).load(simt::relaxed);
    four_shards found{.is_overclaimed = shard_word{words[0]}.is_overclaimed()};
    for (unsigned j = 0; j < 4; ++j) {
      shard_word const w{words[j]};
      if (w.has_room() && found.with_room == four_shards::none) found.with_room = (k ^ j) & shards;
      // In a larger class, the search does not wait for a shard that has no span, since its refill may find none. If the refill finds one,
      // its relocation crosses this search.
      found.being_replaced |= asked_for ? !w.is_idle() : w.holds_a_span();
    }
    return found;
  }
  // Whether a group with the demand d may take slots of larger classes rather than wait, and whether class c is such a class.
  [[nodiscard]] GPUHEAP_FN bool may_borrow(demand d) { return borrows<Tuning>(warps_of_launch(), at.lg_shards, d.is_uniform()); }
  [[nodiscard]] GPUHEAP_FN bool can_borrow(demand d, unsigned c) { return c < at.num_classes && is_near(d.size_class(), c) && d.suits(c); }

  // Chooses the next step of a group some of whose lanes have no slot, and returns the new state of its search. The group's leader calls.
  GPUHEAP_COLD uint64_t search_on(request& r) {
    search const s = r.s;
    unsigned const c0 = r.d.size_class();
    unsigned c = s.size_class(), k = s.shard(), tried = s.tried(), seen = s.relocations();
    // A claim in a larger class that got too few slots says nothing about the group's own class.
    if (tried == search::borrows) {
      c = c0;
      tried = search::untried;
    }
    // In most cases this shard, or another one that the launch uses, has been refilled meanwhile or will be soon.
    bool being_replaced = false;
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i < 1u << r.d.lg_shards(); i += 4) {
      four_shards const four = look_at_four(c, k ^ i, c == c0);
      if (four.is_overclaimed) return search::of(seen, c, k, tried, search::wait).bits;
      if (four.with_room != four_shards::none) return search::of(seen, c, four.with_room, tried, search::claim).bits;
      being_replaced |= four.being_replaced;
    }
    if ((c == c0 && tried == search::untried && refused_already(c0)) || (r.first_search != 0 && this->refused_since(c0, r.first_search)))
      return search::of(0, c0, k, search::untried, search::refuse).bits;
    if (being_replaced) {
      if (c == c0 && tried == search::untried && may_borrow(r.d)) {
        GPUHEAP_NO_UNROLL
        for (unsigned above = 1; above <= borrowed_classes; ++above) {
          if (!can_borrow(r.d, c0 + above)) continue;
          four_shards const four = look_at_four(c0 + above, k, false);
          if (four.with_room != four_shards::none) return search::of(seen, c0 + above, four.with_room, search::borrows, search::claim).bits;
        }
      }
      return search::of(seen, c, k, tried, search::wait).bits;
    }
    // Ends: a pass goes on to a larger class, of which there are finitely many, or returns.
    GPUHEAP_NO_UNROLL
    for (;;) {
      if (c == c0 && tried == search::untried) {
        if (r.first_search != 0) r.this_search = this->begin_search();
        uint64_t const now = relocations().read_begin();
        // If a relocation is open, this search may refuse nothing. `seen` is then one less than the count, a value that the count does not
        // take again.
        seen = static_cast<unsigned>(now >> 32) - (relocation_count::quiet(now) ? 0 : 1);
      }
      GPUHEAP_NO_UNROLL
      for (unsigned i = 0; i < at.num_shards(); i += 4) {
        four_shards const four = look_at_four(c, k ^ i, c == c0);
        if (four.with_room != four_shards::none) return search::of(seen, c, four.with_room, tried, search::claim).bits;
        being_replaced |= four.being_replaced;
      }
      if (being_replaced) return search::of(seen, c, k, tried, search::wait).bits;
      bool const has_partial = partial_classes().has(c);
      if (tried == search::untried) {
        // A claim at an idle shard refills it.
        if (has_partial || (c == c0 && this->maybe_any_memory())) return search::of(seen, c, k, search::active, search::claim).bits;
        tried = search::active;
      }
      if (tried == search::active) {
        if (has_partial) return search::of(seen, c, k, search::active, search::scan).bits;
        tried = search::scanned;
      }
      if (tried == search::scanned && c == c0) return search::of(seen, c, k, search::reclaimed, search::reclaim).bits;
      // The next larger class that may have a free slot, and whose slots are aligned as the request asks.
      uint64_t const above = c + 1 < at.num_classes ? ~simt::low_bits(c + 1) : 0;
      uint64_t may = (active_classes().load() | partial_classes().load()) & above;
      // Ends: `may` loses its lowest bit.
      GPUHEAP_NO_UNROLL
      while (may != 0 && !r.d.suits(simt::lowest_bit(may))) may &= may - 1;
      if (may == 0) break;
      c = simt::lowest_bit(may);
      tried = search::untried;
    }
    uint64_t const now = relocations().read_end();
    bool const missed_nothing = static_cast<unsigned>(now >> 32) == seen && relocation_count::quiet(now);
    if (missed_nothing) {
      // The refusal of an aligned request says nothing about other requests: this search skipped classes that may serve them.
      if (!r.d.is_aligned()) this->refuse(c0, now, r.this_search);
    } else if (r.first_search == 0) {
      r.first_search = this->begin_search();
    }
    return search::of(0, c0, k, search::untried, missed_nothing ? search::refuse : search::wait).bits;
  }

  // Serves or refuses the lanes of `here`, which are one group with the demand `d`. The group's claim returned `claimed_bits`, and has the
  // duty to refill its shard, which is idle or has a new span. Returns the lane's slot, or nullptr. This function keeps in registers what
  // malloc_slow() keeps in the frame, because other warps wait for it.
  GPUHEAP_FN void* serve_by_refill(lane_mask here, demand d, uint64_t claimed_bits) {
    shard_word const claimed{claimed_bits};
    warp_group const g{here};
    // The first lanes get the `last` slots of the span that ends, the other lanes get the first slots of the next span.
    unsigned const c = d.size_class(), last = claimed.has_room() ? claimed.num_slots() - claimed.next() : 0, wanted = g.size() - last;
    uint64_t bits = 0;
    if (g.leads()) bits = this->refill(d.at(c, d.shard(), wanted), claimed);
    refill_result const got{simt::shuffle(here, bits, g.leader())};
    // All lanes acquire what the leader acquired with the span.
    simt::sync_warp(here);
    search const from = search::claimed_at(d, c, d.shard());
    if (got.takes_slow_path()) return malloc_slow(here, here, d, from, claimed_bits, true, nullptr, got);
    unsigned const num_slots = got.span().num_slots(), rank = g.rank();
    bool const is_last = rank < last;
    unsigned const page = is_last ? claimed.page() : got.span().page(), slot = is_last ? claimed.next() + rank : rank - last;
    void* const result = is_last || slot < num_slots ? at.address(page, slot, c) : nullptr;
    if (wanted <= num_slots) return result;
    return malloc_slow(here, result == nullptr ? here : 0, d, from, claimed_bits, false, result, {});
  }
  // Serves or refuses the lanes of `here`, where the claims of their groups did not serve all of them. A lane's `group` has the demand `d`;
  // the claim of the group's leader returned `claimed_bits`. Returns the lane's slot, or nullptr.
  //
  // Nearly all warps that come here wait while one thread refills their shard, and then claim again. This function does that and no more,
  // in little code, since whole launches come here at once. If a group has anything else to do, the whole warp calls
  // malloc_by_refill_far() or malloc_slow().
  GPUHEAP_FN void* wait_and_claim(lane_mask here, lane_mask group, demand d, uint64_t claimed_bits) {
    warp_group const g{group};
    shard_word claimed{claimed_bits};
    unsigned const c0 = d.size_class();
    unsigned c = c0, k = d.shard();
    bool const larger_too = may_borrow(d);
    bool has_claim = true;
    void* result = nullptr;
    // No lane's shard has a span. Either another thread refills the shard, or no memory is left and the class was refused already.
    if (simt::all_of(here, !claimed.has_span() && !claimed.is_idle())) {
      unsigned const refused = g.leads() && refused_already(c0);
      if (simt::all_of(here, simt::shuffle(here, refused, g.leader()) != 0)) return nullptr;
    }
    // Ends: after Tuning.wait_polls polls.
    GPUHEAP_NO_UNROLL
    for (unsigned polls = 0;; ++polls) {
      if (has_claim && claimed.serves(g.size())) result = at.address(claimed.page(), claimed.next() + g.rank(), c);
      if (simt::all_of(here, result != nullptr)) return result;
      // Of a larger class, only what the group has claimed matters.
      bool const duty = has_claim && claimed.duty_of(g.size()),
                 other_things = duty || ((claimed.is_reused() || claimed.is_idle()) && (has_claim || c == c0));
      if (simt::any_of(here, result == nullptr && other_things) || polls == Tuning.wait_polls) {
        if (simt::all_of(here, group == here && duty && !claimed.is_reused() && c == c0))
          return malloc_by_refill_far(this, here, d.at(c, k, 0), claimed.bits);
        break;
      }
      // Polls another shard, unless all shards of the class reach their ends together, or this one is overclaimed.
      if (!d.is_uniform() && result == nullptr && !claimed.is_overclaimed()) k = other_shard(k, d.lg_shards(), polls);
      if (larger_too) {
        c = c0 + polls % (borrowed_classes + 1);
        if (!can_borrow(d, c)) c = c0;
      }
      uint64_t bits = 0;
      unsigned claims = 0;
      if (result == nullptr && g.leads()) {
        if (polls > 3) simt::back_off{}.wait();
        // The first claim at a neighbouring shard, which is of the group's own class, is made without a load before it.
        claims = polls == 0 && k != d.shard();
        if (claims == 0) {
          bits = at.shard(c, k).load(simt::relaxed);
          claims = shard_word{bits}.has_room() && !shard_word{bits}.is_reused();
        }
        // consume: pairs with the exchange in install().
        if (claims != 0) bits = at.shard(c, k).fetch_add(g.size(), simt::consume);
      }
      claimed.bits = simt::shuffle(here, bits, g.leader());
      has_claim = simt::shuffle(here, claims, g.leader()) != 0;
      // All lanes acquire what the leader acquired.
      simt::sync_warp(here);
    }
    return malloc_slow(here, result == nullptr ? group : 0, d, search::claimed_at(d, has_claim ? c : c0, k), claimed.bits, has_claim,
                       result, {});
  }
  // The shard that a group polls after shard k, of 2^lg shards.
  [[nodiscard]] GPUHEAP_FN static unsigned other_shard(unsigned k, unsigned lg, unsigned polls) {
    return lg == 0 ? k : k ^ (lg == 1 || (polls & 1) == 0 ? 1 : 2);
  }

  // Serves or refuses the lanes of `here`, whatever that takes. `from`: the class and the shard of the group's claim. `result` is a lane's
  // slot, or nullptr; a lane that has a slot is in no group, and its `group` is 0. `has_claim`: `claimed_bits` is the result of the
  // leader's claim; otherwise the leader only loaded it. `begun`: the result of refill(), if the group's leader called it and it said that
  // the slow path is due.
  //
  // The lanes of the warp go through the loop together, and all groups act in the same instruction where they can. Each pass serves lanes,
  // then does every refill for which a claim has the duty, then takes one step of each group's search. So no lane waits while another lane
  // of its warp has a duty, and none waits for a lane of its warp that executes other code.
  GPUHEAP_COLD void* malloc_slow(lane_mask here, lane_mask group, demand d, search from, uint64_t claimed_bits, bool has_claim,
                                 void* result, refill_result begun) {
    request r{here, {group}, d, from, {claimed_bits}, group != 0 && has_claim, result, {group}, false, begun, 0, 0};
    // Ends: a pass serves a lane; or takes a group's search one stage on; or waits for a refill by another thread, which waits for nobody;
    // or begins the search again because another thread relocated memory. A relocation serves its thread, or records once that a span, a
    // list or a class has become full or empty, so some thread always makes progress.
    GPUHEAP_NO_UNROLL
    for (;;) {
      r.duty = r.has_claim && r.claimed.duty_of(r.g.size());
      // From the moment when a reused span leaves its shard until its last group has accounted, a relocation is open. It begins here, and
      // end_reuse() ends it.
      if (r.duty && r.claimed.is_reused() && r.g.leads()) relocations().begin();
      serve(r);
      if (simt::any_of(r.here, r.duty)) {
        do_refills(r);
        hand_out_refills(r);
        serve(r);
      }
      // Every lane acquires what its leader acquired, before it returns its slot.
      simt::sync_warp(r.here);
      lane_mask const left = simt::ballot(r.here, r.g.mask != 0 && r.result == nullptr);
      if (left == 0) return r.result;
      r.g.mask = r.result == nullptr ? r.g.mask & left : 0;
      r.claimers = r.g;
      take_step(r);
    }
  }
  // Gives each lane that wants a slot one of the slots that its group claimed.
  GPUHEAP_COLD void serve(request& r) {
    bool const wants = r.has_claim && r.claimed.has_room() && r.result == nullptr, reuses = wants && r.claimed.is_reused();
    if (wants && !reuses) {
      unsigned const slot = r.claimed.next() + r.claimers.rank();
      if (slot < r.claimed.num_slots()) r.result = at.address(r.claimed.page(), slot, r.s.size_class());
    }
    if (!simt::any_of(r.here, reuses)) return;
    r.result = this->take_reused(r.here, reuses ? r.claimers.mask : 0, r.claimed.bits, r.s.size_class(), r.result);
    unsigned const left = r.claimed.num_claims() - r.claimed.next(), n = r.claimers.size();
    // The leader has taken all slots of the group, so every take comes before this account.
    if (reuses && r.claimers.leads() && this->account(r.claimed.page(), left < n ? left : n, r.claimed.num_claims()))
      this->end_reuse(r.claimed.page(), r.claimed.num_claims());
  }
  // Executes the refills for which a claim has the duty. Each refill also claims slots for the lanes of its group that have none yet.
  GPUHEAP_FN void do_refills(request& r) {
    r.has_claim = r.duty;
    r.claimers.mask = r.g.mask & simt::ballot(r.here, r.result == nullptr);
    refill_result const begun = r.got;
    r.got = {};
    if (r.duty && r.g.leads()) r.got.bits = begun.takes_slow_path() ? begun.bits : this->refill(duty_of(r), r.claimed);
  }
  [[nodiscard]] GPUHEAP_FN demand duty_of(request const& r) { return r.d.at(r.s.size_class(), r.s.shard(), r.claimers.size()); }
  // Executes the refills for which the fast path found no memory.
  GPUHEAP_FN void refill_later(request& r) {
    refill_result reused{};
    if (simt::any_of(r.here, r.got.may_reuse())) reused.bits = this->acquire_best_partial(r.here, duty_of(r), r.got);
    if (simt::any_of(r.here, r.got.takes_over() && !reused.span().has_span())) take_over(r, reused);
    // A refill that got no idle span begins again, and accepts less.
    if (r.duty && r.g.leads() && r.got.bits == 0) r.got.bits = this->refill(duty_of(r), r.claimed);
    if (r.got.takes_slow_path()) r.got.bits = this->refill_slowly(duty_of(r), r.claimed, r.got, reused);
  }
  // Gives idle spans of other classes to the refills that shall take them over and reuse no span. r.got becomes 0 for a refill that gets
  // none.
  GPUHEAP_COLD void take_over(request& r, refill_result& reused) {
    bool const takes = r.got.takes_over() && !reused.span().has_span();
    typename drains<Named>::refill_state f{duty_of(r), r.claimed, 0, refill_result::of(0, reused.is_open()), {}};
    uint64_t const taken = this->take_idle_spans(r.here, f, takes ? r.got : refill_result{});
    if (!takes) return;
    reused = {};
    r.got = {};
    if (taken != 0) {
      r.got.bits = this->publish_idle(f, {taken});
    } else if (f.got.is_open()) {
      relocations().end();
    }
  }
  // Gives each group the span that its leader's refill has put into the shard.
  GPUHEAP_FN void hand_out_refills(request& r) {
    if (simt::any_of(r.here, r.got.takes_slow_path())) refill_later(r);
    r.claimed.bits = simt::shuffle(r.here, r.got.bits, leader_of(r.g));
    // All lanes acquire what the leader acquired with the span: another lane may lead those that still want a slot.
    simt::sync_warp(r.here);
  }
  // Executes the next step of each group's search.
  GPUHEAP_FN void take_step(request& r) {
    uint64_t next = 0;
    if (r.g.mask != 0 && r.g.leads()) next = search_on(r);
    r.s.bits = simt::shuffle(r.here, next, leader_of(r.g));
    unsigned const step = r.s.next();
    r.has_claim = r.g.mask != 0 && step == search::claim;
    // consume: pairs with the exchange in install().
    if (r.has_claim && r.g.leads()) next = at.shard(r.s.size_class(), r.s.shard()).fetch_add(r.g.size(), simt::consume);
    r.claimed.bits = simt::shuffle(r.here, next, leader_of(r.g));
    if (r.g.mask == 0 || r.has_claim) return;
    if (step == search::wait) {
      simt::back_off{}.wait();
    } else if (step == search::scan) {
      r.result = scan_partial(r.g, r.s.size_class());
    } else if (step == search::reclaim) {
      if (this->reclaim(r.g.mask, r.d.size_class())) r.s = search::at(r.d.size_class(), r.s.shard());
    } else {
      r.g.mask = 0;  // refused
    }
  }
  [[nodiscard]] GPUHEAP_FN static unsigned leader_of(warp_group g) { return g.mask != 0 ? g.leader() : simt::lane_id(); }

  // Acquires one partial span of class c and scans it for the group. Returns the lane's slot; nullptr if there was none for it.
  GPUHEAP_FN void* scan_partial(warp_group g, unsigned c) {
    unsigned page = 0;
    if (g.leads()) page = this->acquire_any_partial(c, warp_hash() >> 7);
    page = g.from_leader(page);
    if (page == segment_map::none) return nullptr;
    void* const result = this->scan(g.mask, page, c);
    // The barrier orders the other lanes' marks before the leader's deactivation of the span.
    simt::sync_warp(g.mask);
    bool const found = simt::any_of(g.mask, result != nullptr);
    if (g.leads()) {
      this->deactivate(page, span_header::active, found);
      relocations().end();
    }
    return result;
  }
};

// ---- functions that malloc calls out of line, since it is inlined itself

// See serve_by_refill(). malloc calls it without a step between, since other warps wait. It is no part of malloc_far(), which would save
// and restore the registers of a refill for warps that only wait.
template <class Named>
GPUHEAP_COLD void* malloc_by_refill_far(control<Named>* heap, lane_mask here, demand d, uint64_t claimed_bits) {
  return heap->serve_by_refill(here, d, claimed_bits);
}
// See wait_and_claim().
template <class Named>
GPUHEAP_COLD void* malloc_far(control<Named>* heap, lane_mask here, lane_mask group, demand d, uint64_t claimed_bits) {
  return heap->wait_and_claim(here, group, d, claimed_bits);
}
// See malloc_large().
template <class Named>
GPUHEAP_COLD void* malloc_large_far(control<Named>* heap, lane_mask here, unsigned n, unsigned alignment) {
  return heap->malloc_large(here, n, alignment);
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
