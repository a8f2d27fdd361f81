// Refills: how a shard whose span is used up gets its next span.
//
// One claim has the duty to refill a shard: the claim that finds the shard idle, or that reaches the end of its span. Claims are ordered,
// so there is exactly one such claim. Its thread waits for no other thread.
//
//   refill()            loads the input of plan_refill() (policy.hpp), and claims a row of whole segments as planned
//   refill_slowly()     if refill() claimed none: uses a partial span (partial.hpp), or claims segments or pages anywhere
//   publish()           makes the span, puts it into the shard by one exchange, then does the work that no thread waits for
//
// From its claim, or from its removal from the partial list, until the exchange, no thread finds the new span. From the exchange until the
// old span is listed, no thread finds the old span. A relocation is open during both.
#pragma once

#include <gpuheap/allocators/sharded_spans/partial.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// The work of the thread whose claim has the refill duty.
template <class Named>
struct refills : partial_choice<Named> {
  static constexpr tuning Tuning = Named::tuned;
  using spans::active_classes;
  using spans::at;
  using spans::failed_reuses_of;
  using spans::held_pages;
  using spans::relocations;
  using spans::segments;

  // ---- the fast path

  // Refills shard d.shard() of class d.size_class(), which `old` says is idle or used up. One thread, which has the duty. The first
  // d.wanted() slots of the new span are claimed for the caller's group before the span is published, so the group gets its slots even if
  // another class drains the shard at once. Returns the bits of a refill_result: the span, as a shard word of which nothing is claimed, or
  // the answer that the slow path is due.
  //
  // A burst of requests waits for this function, on an SM that has none of its code in its caches. So the code is small, its loads are in
  // flight together, and rare steps are out of line.
  GPUHEAP_COLD uint64_t refill(demand d, shard_word old) {
    unsigned const c = d.size_class(), k = d.shard();
    bitmap_tree const& whole = segments().whole;
    unsigned const leaves = bitmap_tree::leaves_for(this->segments_there);
    unsigned const warps = warps_of_launch();
    bool const large = is_large_launch<Tuning>(warps, at.lg_shards);
    // relaxed, all: hints. Every load stands before the first use of a loaded value.
    unsigned const held = held_pages(c).load(simt::relaxed), free = segments().free_hint(),
                   failures = failed_reuses_of(c).load(simt::relaxed), cursor = this->cursor_of(c).load(simt::relaxed);
    bool const has_partial = static_cast<int>(this->inactive_spans(c).load(simt::relaxed)) > 0;
    uint64_t const others = active_classes().load() & ~(uint64_t{1} << c);
    unsigned const without_idle = this->last_without_idle().load(simt::relaxed);
    shard_word const now{at.shard(c, k).load(simt::relaxed)};
    uint64_t const low_leaves = whole.mid(0).load(simt::relaxed);

    // Slots for which threads wait: the claims beyond the old span's end, or at least those of this group.
    unsigned const excess = now.next() - old.num_claims(), asked = excess > d.wanted() ? excess : d.wanted();
    refill_plan const plan = plan_refill<Tuning>({.slot_bytes = size_classes::slot_bytes(c),
                                                  .lanes = d.lanes(),
                                                  .is_uniform = d.is_uniform(),
                                                  .is_alone = d.is_alone(),
                                                  .asked = asked,
                                                  .warps = warps,
                                                  .lg_shards = d.lg_shards(),
                                                  .is_large_launch = large,
                                                  .launch = simt::launch_id(),
                                                  .page_shift = at.page_shift,
                                                  .lg_pages = at.lg_pages,
                                                  .max_segments = at.max_span_segments(c),
                                                  .all_pages = this->pages_there,
                                                  .free_pages = free,
                                                  .held_pages = held,
                                                  .ended_slots = old.num_slots(),
                                                  .has_partial = has_partial,
                                                  .others_idle = others != 0 && without_idle != simt::launch_id(),
                                                  .failures = {failures}});
    // relaxed: a hint.
    if (plan.finds_no_partial) failed_reuses_of(c).store(reuse_failures{failures}.no_partial_span(simt::launch_id()).bits, simt::relaxed);
    unsigned const over = plan.takes_over;
    refill_result const slow_path =
        refill_result::on_slow_path(over != 0 ? over : plan.pages, plan.reuses, plan.memory_is_low, old.has_span(), cursor, over != 0);
    unsigned n = plan.segments;
    if (n == 0) return slow_path.bits;
    bool const apart = large && !d.is_uniform(), side_by_side = !apart && d.lg_shards() != 0;
    row_place const place =
        place_row(n, c, k, at.num_shards(), d.lg_shards(), leaves, low_leaves, Tuning.prepares ? this->divided : 0, apart, side_by_side);
    unsigned leaf = place.leaf, bit = place.bit, looks = plan.memory_is_low ? looks_for_row - 1 : 0;
    lazy_relocation relocation{relocations()};
    segment_map::claim won{};
    uint64_t bits = whole.leaf(leaf).load(simt::relaxed);
    // A claim fails only if other threads have taken segments of the row. Of the claims that meet in a leaf, the first gets its row.
    GPUHEAP_NO_UNROLL
    for (unsigned passes = 0; passes < 32; ++passes) {
      bool const whole_row = needs_whole_row(large, plan.wants_long_row, looks);
      bool const only_there = place.only_there && looks == 0;
      free_row const row = find_row(bits, n, bit, whole_row, only_there);
      // Before a row will do that is too short for the launch, the slow path looks for an idle span.
      if (row.length < n && row.length << at.lg_pages < over && (row.length != 0 || looks == looks_for_row)) break;
      if (row.length == 0) {
        if (looks == looks_for_row && n > 1) n >>= 1;
        if (looks++ == looks_for_row + looks_for_half) break;
        // On to the next leaf that has a row, of four. Their loads are in flight together.
        uint64_t ahead[4];
        for (unsigned j = 0; j < 4; ++j) ahead[j] = whole.leaf(wrap(leaf + (j + 1) * place.step, leaves)).load(simt::relaxed);
        unsigned j = 0;
        // Ends: `j` rises to 3.
        while (j < 3 && find_row(ahead[j], n, bit, whole_row, only_there).length == 0) ++j;
        leaf = wrap(leaf + (j + 1) * place.step, leaves);
        bits = j == 0 ? ahead[0] : j == 1 ? ahead[1] : j == 2 ? ahead[2] : ahead[3];
      } else {
        // This relocation is also the old span's, from the exchange of the shard word until that span is listed.
        relocation.begin();
        bool emptied = false;
        uint64_t const mask = simt::low_bits(row.length) << row.first, got = whole.take_leaf_only(leaf, mask, emptied);
        if (got == mask) {
          won = {leaf * 64 + row.first, row.length, true, emptied};
          break;
        }
        segments().put_back(leaf, got, emptied);
        leaf = wrap(leaf + place.step, leaves);
        bits = whole.leaf(leaf).load(simt::relaxed);
        if (!large && !d.is_uniform()) bit = bit_after_loss(c, k);
      }
    }
    // The lanes that refill together leave the loop first, so that all of them publish together.
    if (won.first != segment_map::none) return publish(d, old, refill_result::of(0, true), won);
    relocation.end();
    return slow_path.bits;
  }

  // ---- the slow path

  // The state of a refill. It lies in the stack frame, as control::request does.
  struct slow_refill {
    demand d;
    shard_word old;
    unsigned pages;
    refill_result got;
    segment_map::claim claimed;
  };
  // Refills the shard after refill() returned `how`, which says that the slow path is due. `reused`: the result of acquire_best_partial(),
  // if `how` said that the group may reuse a span. Returns the span as refill() does.
  GPUHEAP_COLD uint64_t refill_slowly(demand d, shard_word old, refill_result how, refill_result reused) {
    slow_refill f{d, old, how.pages(), reused, {}};
    // This relocation is the old span's, as in refill().
    if (old.has_span() && !reused.is_open()) {
      relocations().begin();
      f.got.bits |= refill_result::open;
    }
    if (f.got.span().has_span()) {
      // relaxed: a hint. The record 0 makes the next refill sample again.
      failed_reuses_of(d.size_class()).store(0, simt::relaxed);
    } else {
      // relaxed, all: hints.
      if (how.may_reuse())
        failed_reuses_of(d.size_class())
            .store(reuse_failures{failed_reuses_of(d.size_class()).load(simt::relaxed)}.one_more(simt::launch_id()).bits, simt::relaxed);
      claim_for(f);
      // No unused memory is left, only freed slots. So the record 0 makes later refills sample partial spans.
      if (f.claimed.first == segment_map::none) failed_reuses_of(d.size_class()).store(0, simt::relaxed);
    }
    return publish(d, old, f.got, f.claimed);
  }
  // Claims about f.pages pages of unused memory, from the first of these that has enough: whole segments, pages of the first few broken
  // segments, a whole segment to break up, pages of any broken segment. One thread.
  GPUHEAP_FN void claim_for(slow_refill& f) {
    unsigned const c = f.d.size_class(), most = 1u << at.lg_pages, pages = f.pages < most ? f.pages : most;
    lazy_relocation relocation{relocations(), f.got.is_open()};
    GPUHEAP_NO_UNROLL
    for (unsigned step = 0; step < 4 && f.claimed.first == segment_map::none; ++step) {
      if (step == 0) {
        f.claimed = segments().claim_segments(f.pages, at.max_span_segments(c), spread(f.d), relocation);
      } else if (step == 2) {
        f.claimed = segments().break_segment(pages, spread(f.d), relocation);
      } else {
        f.claimed = segments().claim_pages(pages, step == 1 ? pages : pages_of(size_classes::slot_bytes(c), at.page_shift),
                                           step == 1 ? few_segments : ~0u, spread(f.d), relocation);
      }
    }
    f.got = refill_result::of(0, relocation.open);
  }
  static constexpr unsigned few_segments = 3;
  // The seed of the place where a claim begins. 0 stands for the lowest place, where the claims of small launches begin. The claims of a
  // large launch begin at different places.
  [[nodiscard]] GPUHEAP_FN unsigned spread(demand d) {
    return is_large_launch<Tuning>(warps_of_launch(), at.lg_shards) ? (d.bits & 0x3ff) * 0x9e3779b9u >> 4 | 1 : 0;
  }

  // ---- from claimed memory to a shard's span

  // Makes a span of the `claimed` memory, if there is any. Then puts that span, or the span `got`, or none, into the shard, and does the
  // work that can wait. `got` also says whether a relocation is open, which the call ends. Returns the span as a shard word of which
  // nothing is claimed; 0 if there is none. One thread.
  GPUHEAP_COLD uint64_t publish(demand d, shard_word old, refill_result got, segment_map::claim claimed) {
    bool const is_new = claimed.first != segment_map::none;
    unsigned length = 0, left = 0;
    shard_word const next = is_new ? prepare(d, old, claimed, length) : got.span();
    install(d, old, next);
    if (is_new) left = finish_new_span(d, claimed, length);
    if (got.is_stale()) this->clear_stale_partial(at.partial_tree(d.size_class()), d.size_class(), next.page() / 64);
    retire(d, old, next, got.is_open());
    // Only now, since it needs the result of an atomic, for which the relocation's end has waited.
    if (is_new) segments().note_free(left);
    return next.bits;
  }
  // Makes a span of the claimed memory. Returns its shard word, and the units of the memory that the span has.
  GPUHEAP_FN shard_word prepare(demand d, shard_word old, segment_map::claim claimed, unsigned& length) {
    bool const of_segments = claimed.of_segments;
    unsigned const c = d.size_class(), page = of_segments ? claimed.first << at.lg_pages : claimed.first;
    unsigned const num_slots = at.span_slots(c, claimed.length, of_segments);
    length = of_segments ? claimed.length : at.units_for(c, num_slots, false);
    // relaxed, all: published by the exchange of the shard word.
    at.header(page).fetch_add(span_header::to_new_span(c, length, of_segments), simt::relaxed);
    at.slots_of(page).prepare(num_slots);
    bool const is_successor = old.has_span() && d.lg_shards() != 0;
    this->write_tags(page, of_segments, span_tag::of_slots(c, length, d.shard(), true).as_successor(is_successor), length);
    return shard_word::of_span(page, num_slots);
  }
  // Replaces the shard word `old`, which other claims have raised meanwhile: by the span `next` with d.wanted() claims made; by 0 if there
  // is no span, or these are all of its claims.
  GPUHEAP_FN void install(demand d, shard_word old, shard_word next) {
    unsigned const c = d.size_class(), k = d.shard();
    bool const used_up = next.next() + d.wanted() >= next.num_claims();
    if (used_up && next.is_reused()) relocations().begin();  // end_reuse() ends it
    // consume_release: publishes the span's header, bits and tags to the threads that claim, and acquires earlier claims.
    at.shard(c, k).exchange(used_up ? 0 : next.bits + d.wanted(), simt::consume_release);
    // A shard whose span is used up holds that span until the exchange. So the class is in the set, or a thread that has a relocation open
    // is about to add it: the thread that put the first of these spans into the shard, or one that erased the class (erase_if_inactive()).
    if (!used_up && !old.has_span()) active_classes().add(c);
  }
  // The work that can wait until a new span is in use: counts its pages, clears stale summary bits, and releases claimed pages that the
  // span has no use for. Returns the number of free pages, for note_free().
  GPUHEAP_FN unsigned finish_new_span(demand d, segment_map::claim got, unsigned length) {
    unsigned const left = segments().finish_claim(got);
    if (length < got.length) segments().release_pages(got.first + length, got.length - length, relocations());
    // relaxed: a hint.
    held_pages(d.size_class()).fetch_add(got.of_segments ? length << at.lg_pages : length, simt::relaxed);
    return left;
  }
  // Deactivates the spans that no shard holds any more: the old span, and the next span if install() claimed all of its slots. end_reuse()
  // deactivates reused spans. Other threads may see the old span inactive before they see the exchange: the word of a used-up span names no
  // slot that is unclaimed, and no thread drains or resets such a span.
  GPUHEAP_FN void retire(demand d, shard_word old, shard_word next, bool is_open) {
    if (old.has_span() && !old.is_reused()) this->deactivate(old.page(), span_header::active, true);
    if (next.has_span() && next.next() + d.wanted() >= next.num_claims() && !next.is_reused())
      this->deactivate(next.page(), span_header::active, true);
    if (is_open) relocations().end();
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
