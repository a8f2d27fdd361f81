// The slow paths of malloc and free: fetching the next run, taking back what other classes hold, whole segments, refusing.
//
// Locks: none. Waits: only for a shard whose run another thread is replacing; that thread does not wait for anyone (see malloc_slow).
#pragma once

#include <gpuheap/allocators/sharded_runs/runs.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// What may be tuned. The defaults are measured ones: docs/measurements.md.
struct tuning {
  unsigned lg_run_slots = 16;   // a run has at most 2^this slots
  unsigned guide = 128;         // a fresh run takes at most 1/guide of the free segments
  unsigned pressure = 4;        // with less than 1/pressure of the segments free, freed slots are reused before fresh segments are bound
  unsigned rich = 4;            // a listed run is swept if 1/rich of its sampled slots are free
  unsigned adoption_tries = 6;  // listed runs sampled before a fresh one is taken
};

template <tuning Tuning>
struct control : runs {
  // ---- fetching the next run

  // Binds a listed run with many free slots, for a sweep. In a transit.
  GPUHEAP_FN shard_word adopt_rich(unsigned c, unsigned seed) {
    shard_word found{};
    if (!listed_classes().has(c)) return found;
    unsigned tries = Tuning.adoption_tries;
    bitmap_tree const listed = list_of(c);
    for_each_listed(listed, seed, [&](unsigned s) {
      run_header const h{at.header(s).load(simt::relaxed)};
      if (h.serves(c) && !h.is_bound()) {
        if (tries == 0) return true;
        --tries;
        unsigned sampled = 1;
        unsigned const free = at.slots_of(s, c, h.order()).sample(seed >> 8, sampled);
        if (free * Tuning.rich < sampled) return false;
      }
      if (!adopt(listed, c, s)) return false;
      unsigned const order = run_header{at.header(s).load(simt::relaxed)}.order();
      found = shard_word::of_run(s, at.run_slots(c, order), order, true);
      return true;
    });
    return found;
  }

  // The largest order whose run of class c has at most 2^lg slots.
  [[nodiscard]] GPUHEAP_FN unsigned order_for(unsigned c, unsigned lg) {
    unsigned order = 0;
    // Ends: at most max_order steps.
    GPUHEAP_NO_UNROLL
    while (order < layout::max_order && at.run_slots(c, order + 1) <= 1u << lg) ++order;
    return order;
  }

  // Claims and prepares a fresh run for shard k of class c. In a transit. Empty if no segment is free.
  GPUHEAP_FN shard_word fresh(unsigned c, unsigned k, shard_word old, unsigned num_free_now, unsigned seed) {
    unsigned order = order_for(c, Tuning.lg_run_slots);
    // A shard's first run is one segment, each next one twice as long: a class holds little more than it has used.
    unsigned const grown = old.has_run() ? old.order() + 1 : 0;
    if (grown < order) order = grown;
    unsigned const guided = num_free_now / Tuning.guide;
    unsigned const most = guided != 0 ? simt::highest_bit(guided) : 0;
    if (most < order) order = most;
    segment_map::claim const got = segments().claim_block(order, seed);
    if (got.first == segment_map::none) return {};
    // relaxed stores: published by the exchange of the shard word.
    uint64_t const generation = run_header{at.header(got.first).load(simt::relaxed)}.generation() + 1;
    at.header(got.first).store(run_header::fresh_slots(c, got.order, generation).bits, simt::relaxed);
    segment_tag::word const tag = segment_tag::of_slots(c, got.order, k, true).bits;
    // Ends: one pass per segment.
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i < 1u << got.order; ++i) at.tag(got.first + i).store(tag, simt::relaxed);
    return shard_word::of_run(got.first, at.run_slots(c, got.order), got.order, false);
  }

  // The duty of the draw that found shard k of class c idle or reached its end: puts the next run there, or none. One thread; waits for
  // nobody. The next run comes with its first `wanted` slots drawn for the caller's group: whoever fetches a run has memory from it,
  // however soon another class takes the rest back. Returns the run as drawn at 0.
  GPUHEAP_COLD shard_word replace(unsigned c, unsigned k, shard_word old, unsigned wanted) {
    unsigned const seed = (simt::global_warp() + k) * 0x9e3779b9u >> 7;
    moves().begin();
    unsigned const free = segments().free_hint();
    bool const pressed = free < at.num_segments / Tuning.pressure;
    shard_word next{};
    if (pressed) next = adopt_rich(c, seed);
    if (!next.has_run()) next = fresh(c, k, old, free, seed);
    if (!next.has_run() && !pressed) next = adopt_rich(c, seed);
    bool const used_up = next.has_run() && wanted >= next.num_slots();
    if (used_up && next.is_sweep()) moves().begin();  // ended by account()
    // acq_rel: publishes the run's header and tags to those who draw; acquires the draws for retire_fresh.
    at.shard(c, k).exchange(next.has_run() && !used_up ? next.bits + wanted : 0, simt::acq_rel);
    if (next.has_run() && !used_up) bound_classes().add(c);
    if (old.has_run() && !old.is_sweep()) retire_fresh(old.segment());
    if (used_up && !next.is_sweep()) retire_fresh(next.segment());
    moves().end();
    return next;
  }

  // ---- taking back what a class holds

  // Whether no slot of a shard's run is live: those drawn from a fresh run, or all of a swept one, are free. A hint.
  [[nodiscard]] GPUHEAP_FN bool nothing_live(shard_word w, unsigned c) {
    slot_map const map = at.slots_of(w.segment(), c, w.order());
    unsigned const drawn = w.is_sweep() ? w.num_slots() : w.next();
    // Ends: one pass per word of the drawn slots.
    GPUHEAP_NO_UNROLL
    for (unsigned slot = 0, i = 0; slot < drawn; slot += slot_map::slots_per_word, ++i) {
      uint64_t const whole = simt::low_bits(drawn - slot < slot_map::slots_per_word ? drawn - slot : slot_map::slots_per_word);
      if ((map.at(i).load(simt::relaxed) & whole) != whole) return false;
    }
    return true;
  }

  // Empties shard k of class c if its run has no live slot: the run's segments become free. One thread. True if it was done.
  GPUHEAP_FN bool close(unsigned c, unsigned k) {
    uint64_t seen = at.shard(c, k).load(simt::acquire);
    // Ends: a failed exchange means that others drew, and a run has a bounded number of slots; or the run was replaced, which is their
    // progress.
    GPUHEAP_NO_UNROLL
    while (shard_word{seen}.has_room() && nothing_live(shard_word{seen}, c)) {
      moves().begin();
      // Only a shard with room may be emptied: past its end it belongs to the thread that replaces it. acq_rel: as in replace().
      if (at.shard(c, k).compare_exchange(seen, 0, simt::acq_rel, simt::acquire)) {
        shard_word const w{seen};
        if (w.is_sweep()) {
          account(w.segment(), w.num_slots() - w.next(), w.num_slots());  // ends the transit, now or when the last group has accounted
        } else {
          give_back(w, c);
          retire_fresh(w.segment());
          moves().end();
        }
        return true;
      }
      moves().end();
    }
    return false;
  }

  // Marks the slots of a closed fresh run that were never handed out as free.
  GPUHEAP_FN void give_back(shard_word w, unsigned c) {
    slot_map const map = at.slots_of(w.segment(), c, w.order());
    // Ends: `slot` moves on to the next word.
    GPUHEAP_NO_UNROLL
    for (unsigned slot = w.next(); slot < w.num_slots();) {
      unsigned const i = slot / slot_map::slots_per_word;
      uint64_t const rest = map.full(i) & ~simt::low_bits(slot % slot_map::slots_per_word);
      if (map.give(i, rest).group_crossed) at.header(w.segment()).fetch_add(run_header::full_one, simt::acq_rel);
      slot = (i + 1) * slot_map::slots_per_word;
    }
  }

  [[nodiscard]] GPUHEAP_FN bool holds_a_run(unsigned c) {
    // Ends: one pass per shard.
    GPUHEAP_NO_UNROLL
    for (unsigned k = 0; k < at.num_shards(); ++k) {
      if (shard_word{at.shard(c, k).load(simt::acquire)}.has_run()) return true;
    }
    return false;
  }

  // Closes what every class but `c` holds without using it, lane by lane. All lanes of the group call. True if anything was taken back.
  GPUHEAP_FN bool reclaim(warp_group g, unsigned c) {
    bool any = false;
    // Ends: one pass per class.
    GPUHEAP_NO_UNROLL
    for (uint64_t classes = g.from_leader(bound_classes().load()) & ~(uint64_t{1} << c); classes != 0; classes &= classes - 1) {
      unsigned const other = simt::lowest_bit(classes);
      // Ends: one pass per shard.
      GPUHEAP_NO_UNROLL
      for (unsigned k = g.rank(); k < at.num_shards(); k += g.size()) any |= close(other, k);
      simt::sync_warp(g.mask);
      if (g.leads() && !holds_a_run(other)) {
        moves().begin();
        bound_classes().drop(other);
        if (holds_a_run(other)) bound_classes().add(other);
        moves().end();
      }
    }
    return simt::any_of(g.mask, any);
  }

  // ---- malloc, out of line

  enum class look { draw, wait, dry };

  // Looks for a shard of class c with room, from k on; k receives it.
  GPUHEAP_FN look look_for_room(unsigned c, unsigned& k) {
    bool being_replaced = false;
    unsigned const mask = at.num_shards() - 1;
    // Ends: one pass per shard.
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i <= mask; ++i) {
      // relaxed: the draw acquires.
      shard_word const w{at.shard(c, (k + i) & mask).load(simt::relaxed)};
      if (w.has_room()) {
        k = (k + i) & mask;
        return look::draw;
      }
      being_replaced |= !w.is_idle();
    }
    return being_replaced ? look::wait : look::dry;
  }

  // The slots of group `g` that drew `drawn`, which has room. Each lane gets a pointer or nullptr.
  GPUHEAP_FN void* serve(warp_group g, shard_word drawn, unsigned c) {
    if (drawn.is_sweep()) return sweep(g, drawn, c);
    unsigned const slot = drawn.next() + g.rank();
    return slot < drawn.num_slots() ? at.address(drawn.segment(), slot, c) : nullptr;
  }

  // How far a group's search for memory has come. The same in all its lanes.
  struct search {
    bool counted = false;  // `moves_seen` is set: the search has begun
    bool tried_bind = false, harvested = false, reclaimed = false;
    uint64_t moves_seen = 0;
  };

  // The lanes of `here`, in groups `g` of equal class c0, of which lane leaders drew `drawn` from shard k. Serves or refuses them all.
  //
  // The warp goes through the loop together: each pass first does every duty that its draws brought, then serves, then takes ONE look per
  // group. So no lane waits while another lane of its warp has a duty, and a lane of the same warp that is elsewhere is not waited for.
  GPUHEAP_COLD void* malloc_slow(lane_mask here, lane_mask group, unsigned c0, unsigned k, uint64_t drawn_bits) {
    warp_group g{group};
    shard_word drawn{drawn_bits};
    bool has_draw = true;
    void* result = nullptr;
    unsigned c = c0;
    search s;
    simt::back_off pause;
    // Ends: a pass serves a lane, or moves a group's search one stage on, or waits for a replacement by another thread (which waits for
    // nobody), or starts the search again because another thread moved something meanwhile. A move serves its thread (replace, harvest), or
    // finds out once that something is full or empty, so some thread gets on. Lock-free.
    GPUHEAP_NO_UNROLL
    for (;;) {
      if (g.mask != 0 && has_draw) {
        bool const duty = drawn.duty_of(g.size());
        // A sweep that leaves its shard is in transit until its last group has accounted: account() ends what begins here.
        if (duty && drawn.is_sweep() && g.leads()) moves().begin();
        if (drawn.has_room()) result = serve(g, drawn, c);
        if (duty) {
          warp_group const rest{simt::ballot(g.mask, result == nullptr)};
          uint64_t bits = 0;
          if (g.leads()) bits = replace(c, k, drawn, rest.size()).bits;
          shard_word const next{g.from_leader(bits)};
          if (result == nullptr && next.has_run()) result = serve(rest, next, c);
        }
      }
      // Every lane has what its leader acquired, before it returns with it.
      simt::sync_warp(here);
      lane_mask const left = simt::ballot(here, g.mask != 0 && result == nullptr);
      if (left == 0) return result;
      g.mask = result == nullptr ? g.mask & left : 0;
      has_draw = false;
      if (g.mask != 0) {
        look seen = look::dry;
        if (g.leads()) seen = look_for_room(c, k);
        seen = static_cast<look>(g.from_leader(static_cast<unsigned>(seen)));
        k = g.from_leader(k);
        if (seen == look::wait) pause.wait();
        if (seen == look::dry) {
          if (search_on(g, s, c0, c, result, has_draw)) g.mask = 0;  // refused
          if (!s.counted) pause.wait();                              // starts again
        }
        if (seen == look::draw || has_draw) {
          has_draw = true;
          uint64_t bits = 0;
          // acquire: pairs with the exchange in replace().
          if (g.leads()) bits = at.shard(c, k).fetch_add(g.size(), simt::acquire);
          drawn.bits = g.from_leader(bits);
        }
      }
    }
  }

  // One stage of the search of a group that found every shard of class c idle. True: nothing fits, refuse. `draw`: draw from an idle shard,
  // which fetches a run.
  GPUHEAP_FN bool search_on(warp_group g, search& s, unsigned c0, unsigned& c, void*& result, bool& draw) {
    if (!s.counted) {
      s.counted = true;
      s.moves_seen = g.from_leader(g.leads() ? moves().look() : 0);
    }
    bool const listed = g.from_leader(static_cast<unsigned>(listed_classes().has(c))) != 0;
    if (!s.tried_bind) {
      s.tried_bind = true;
      draw = listed || g.from_leader(static_cast<unsigned>(segments().tree.maybe_any())) != 0;
      if (draw) return false;
    }
    if (!s.harvested) {
      s.harvested = true;
      if (listed) {
        result = harvest(g, c, simt::global_warp() * 0x9e3779b9u >> 7);
        return false;
      }
    }
    if (!s.reclaimed) {
      s.reclaimed = true;
      if (reclaim(g, c0)) {
        s.tried_bind = false;
        return false;
      }
    }
    // The next larger class that may have something.
    uint64_t const above = c + 1 < at.num_classes ? ~simt::low_bits(c + 1) : 0;
    uint64_t const may = g.from_leader(bound_classes().load() | listed_classes().load()) & above;
    if (may != 0) {
      c = simt::lowest_bit(may);
      s.tried_bind = s.harvested = false;
      return false;
    }
    c = c0;
    uint64_t const now = g.from_leader(g.leads() ? moves().look() : 0);
    if (now == s.moves_seen && transit_count::quiet(now)) return true;
    s = search{};
    return false;
  }

  // ---- whole segments

  // One allocation of `n` segments, the first of which is aligned to `alignment` segments. One thread; nullptr if nothing fits.
  GPUHEAP_COLD void* malloc_large(uint64_t n, unsigned alignment) {
    if (n > at.num_segments) return nullptr;
    unsigned const phase = static_cast<unsigned>(reinterpret_cast<simt::uintptr_t>(at.base) >> at.segment_shift) & (alignment - 1);
    simt::back_off pause;
    // Ends: a pass succeeds, or takes something back, or saw another warp's move (its progress), or refuses. A search that finds nothing is
    // no move, so threads that are all about to be refused do not keep each other searching.
    GPUHEAP_NO_UNROLL
    for (;;) {
      uint64_t const before = moves().look();
      unsigned const s = segments().claim_span(static_cast<unsigned>(n), alignment, phase, moves());
      if (s != segment_map::none) {
        uint64_t const generation = run_header{at.header(s).load(simt::relaxed)}.generation() + 1;
        // relaxed: the pointer reaches another thread only through the caller's own synchronisation.
        at.header(s).store(run_header::fresh_large(static_cast<unsigned>(n), generation).bits, simt::relaxed);
        tag_large(s, static_cast<unsigned>(n), segment_tag::large_head, segment_tag::large_body);
        return at.address(s, 0, 0);
      }
      if (reclaim(warp_group{lane_mask{1} << simt::lane_id()}, size_classes::count)) continue;
      if (transit_count::quiet(before) && moves().look() == before) return nullptr;
      pause.wait();
    }
  }

  // Frees the large allocation whose head is segment s. False: it was freed already.
  GPUHEAP_COLD bool free_large(unsigned s) {
    // acquire: pairs with nothing but the header's own history; the caller's pointer carries the order.
    uint64_t seen = at.header(s).load(simt::acquire);
    if (!run_header{seen}.is_large()) return false;
    unsigned const n = run_header{seen}.large_segments();
    // acq_rel: of several frees of the same pointer, one wins.
    if (!at.header(s).compare_exchange(seen, run_header::unused(run_header{seen}.generation()).bits, simt::acq_rel, simt::relaxed))
      return false;
    tag_large(s, n, 0, 0);
    segments().release_span(s, n);
    return true;
  }

  GPUHEAP_FN void tag_large(unsigned s, unsigned n, segment_tag::word head, segment_tag::word body) {
    at.tag(s).store(head, simt::relaxed);
    // Ends: one pass per segment. relaxed: as for the header, or before release_span's release.
    GPUHEAP_NO_UNROLL
    for (unsigned i = 1; i < n; ++i) at.tag(s + i).store(body, simt::relaxed);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
