// Checks the invariants of a heap that no kernel uses. Host only: for tests, and for users who suspect that their heap is damaged
// (heap::verify).
//
// While no kernel runs on the heap:
//   1. no relocation is open, and every page is either free (in a whole segment or a broken one), in a span, or in a large allocation;
//   2. free memory has no tag and an unused header; used memory has the tags that its header implies;
//   3. a span's group counts and its header's count say how many words and groups are entirely free;
//   4. a span is active exactly if one shard holds it; the unclaimed slots of a new span have bit 0;
//   5. a search can find each span with a free slot: in the partial list or in a shard; no inactive span is entirely free;
//   6. the summary bits above each set bit of a tree are set; the class of each active or partial span is in the set of classes that have
//      such spans;
//   7. a segment with separate free pages is in the tree of broken segments; it is not a whole one, and not all of its pages are free;
//   8. a segment without memory is in no tree, and has no free page and no tag;
//   9. the counters of free pages, and of the pages that each class holds, are right.
#pragma once

#include <gpuheap/allocators/sharded_spans/image.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#include <vector>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// The result of verify().
struct audit {
  std::string problem;  // empty: every invariant holds
  simt::size_t free_bytes = 0, spans = 0, large_allocations = 0;
  simt::size_t live_slots = 0;  // slots that were claimed and not freed
  simt::size_t live_bytes = 0;  // bytes of the live slots and of the large allocations
};

// Checks the whole heap, whose control block begins with `heap`, a sharded::spans. A template, so that programs that do not use it compile
// none of it. Waits for the stream; no kernel may be running on the heap.
template <class Spans>
[[nodiscard]] audit verify(layout const& at, Spans const* heap, stream_ref stream) {
  detail::image<Spans> const now{at, heap, stream};
  audit found;
  auto const fail = [&found](std::string const& what) {
    if (found.problem.empty()) found.problem = what;
  };
  auto const name = [](unsigned page) { return "page " + std::to_string(page); };
  unsigned const num_segments = now.block.segments_there, num_pages = now.block.pages_there;

  if (!structures::relocation_count::quiet(now.block.relocation_word)) fail("a relocation is open, or was never ended");

  // The shard that holds the span of each page.
  std::vector<shard_word> holder(num_pages);
  for (unsigned c = 0; c < at.num_classes; ++c) {
    for (unsigned k = 0; k < at.num_shards(); ++k) {
      shard_word const w{now.shards[size_t{(c << at.lg_shards) + k} * at.shard_stride]};
      if (!w.has_span()) {
        if (!w.is_idle()) fail("class " + std::to_string(c) + " has a shard whose refill or reset never ended");
        continue;
      }
      if (!w.has_room()) fail("class " + std::to_string(c) + " has a used-up shard that no thread refills");
      if (!now.header(w.page()).serves(c))
        fail("a shard of class " + std::to_string(c) + " holds " + name(w.page()) + ", which does not serve it");
      if (holder[w.page()].has_span()) fail(name(w.page()) + " is held by two shards");
      if ((now.block.active_word >> c & 1) == 0)
        fail("class " + std::to_string(c) + " holds a span but is not among the classes with active spans");
      holder[w.page()] = w;
    }
  }

  std::vector<unsigned> held(at.num_classes);
  unsigned free_pages = 0;
  // Ends: `page` rises: every pass continues behind the page, the span or the allocation that it checked.
  for (unsigned page = 0; page < num_pages;) {
    span_header const h = now.header(page);
    unsigned const s = page >> at.lg_pages;
    if (now.is_free(page)) {
      if (now.page_tag(page) != 0) fail(name(page) + " is free but tagged");
      if (now.segment_tag(s) != (now.is_whole(s) ? 0 : span_tag::broken_up))
        fail(name(page) + " is free, and its segment has the tag of another state");
      if ((h.bits & (span_header::slots | span_header::large)) != 0) fail(name(page) + " is free but its header is in use");
      for (unsigned w = 0; w < at.words_per_page; ++w) {
        if (now.words[size_t{page} * at.words_per_page + w] != 0) fail(name(page) + " is free but has bits set");
      }
      ++free_pages;
      ++page;
      continue;
    }
    if (h.is_large()) {
      unsigned const n = h.large_pages(), end = page + n;
      ++found.large_allocations;
      found.live_bytes += size_t{n} << at.page_shift;
      if (end > num_pages) {
        fail(name(page) + " begins a large allocation that is longer than the heap");
        break;
      }
      for (unsigned i = page; i < end; ++i) {
        unsigned const segment = i / 64;
        // Whether the allocation covers all of this segment.
        bool const all = segment * 64 >= page && segment * 64 + 64 <= end;
        span_tag::word const of_segment = all ? (segment * 64 == page ? span_tag::large_head : 0) : span_tag::broken_up;
        if (now.segment_tag(segment) != of_segment) fail(name(i) + " is in a large allocation and its segment has another tag");
        if (now.page_tag(i) != (i == page && !all ? span_tag::large_head : 0))
          fail(name(i) + " is in a large allocation and has another tag");
        if (now.is_free(i)) fail(name(i) + " is free and in a large allocation");
      }
      page = end;
      continue;
    }
    if ((h.bits & span_header::slots) == 0) {
      fail(name(page) + " is lost: neither free nor in use");
      ++page;
      continue;
    }
    ++found.spans;
    unsigned const c = h.size_class(), length = h.length();
    unsigned const span_pages = h.of_segments() ? length << at.lg_pages : length;
    held[c] += span_pages;
    bool const is_held = holder[page].has_span();
    if (h.is_active() != is_held) fail(name(page) + (is_held ? " is held by a shard but not active" : " is active but no shard holds it"));
    for (unsigned i = 0; i < length; ++i) {
      span_tag const tag{h.of_segments() ? now.segment_tag(s + i) : now.page_tag(page + i)};
      if (!h.of_segments() && now.segment_tag(s) != span_tag::broken_up)
        fail(name(page) + " is in a span, and its segment is not broken up");
      if (!tag.is_slotted() || tag.size_class() != c || tag.length() != length || tag.distance() != i)
        fail(name(page) + " has a tag that does not match its span");
    }
    for (unsigned i = 0; i < span_pages; ++i) {
      if (now.is_free(page + i)) fail(name(page + i) + " is free and in a span");
    }
    unsigned const num_slots = at.span_slots(h), num_words = slot_map::words_for(num_slots);
    unsigned full_groups = 0, free_slots = 0;
    for (unsigned g = 0; g < slot_map::groups_for(num_words); ++g) {
      unsigned full_words = 0;
      for (unsigned w = g * slot_map::words_per_group; w < (g + 1) * slot_map::words_per_group; ++w) {
        if (w >= num_words) {
          ++full_words;
          continue;
        }
        uint64_t const bits = now.words[size_t{page} * at.words_per_page + w] & slot_map::all_slots, has = slot_map::slots_in(w, num_slots);
        if ((bits | has) != slot_map::all_slots) fail(name(page) + " has bit 0 for a slot beyond its end");
        free_slots += simt::popcount(bits & has);
        full_words += bits == slot_map::all_slots;
      }
      if (now.groups[(size_t{page} * at.groups_per_page + g) * at.group_stride] != full_words)
        fail(name(page) + " has a wrong count in a group");
      full_groups += full_words == slot_map::words_per_group;
    }
    if (h.full_groups() != full_groups) fail(name(page) + " has a wrong count of full groups");
    unsigned handed_out = num_slots;
    if (is_held && !holder[page].is_reused()) handed_out -= holder[page].num_slots() - holder[page].next();
    if (is_held && (holder[page].is_reused() ? holder[page].num_claims() > slot_map::words_for(num_slots) * slot_map::slots_per_word
                                             : holder[page].num_slots() != num_slots))
      fail(name(page) + " has another number of slots than its shard says");
    if (free_slots > handed_out) fail(name(page) + " has more freed slots than were handed out");
    if (h.accounted() != (is_held && holder[page].is_reused() ? holder[page].next() : 0))
      fail(name(page) + " has a wrong number of accounted claims");
    bool const listed = now.has(now.here(at.partial_tree(c)), page) && (now.block.partial_word >> c & 1) != 0;
    if (!is_held && free_slots == num_slots) fail(name(page) + " has no live slot and was not released");
    if (!is_held && free_slots != 0 && !listed) fail(name(page) + " has free slots and is not in the partial list");
    found.live_slots += handed_out - free_slots;
    found.live_bytes += size_t{handed_out - free_slots} * size_classes::slot_bytes(c);
    page += span_pages;
  }
  found.free_bytes = size_t{free_pages} << at.page_shift;

  for (unsigned s = 0; s < num_segments; ++s) {
    uint64_t const pages = now.pages[s];
    if (pages == 0) continue;
    if (now.is_whole(s)) fail("segment " + std::to_string(s) + " is whole and broken up");
    if (pages == ~uint64_t{0}) fail("segment " + std::to_string(s) + " is broken up and all free");
    if (!now.has(now.here(at.broken_tree()), s))
      fail("segment " + std::to_string(s) + " has free pages and is not in the tree of broken segments");
  }
  for (unsigned s = num_segments; s < at.num_segments(); ++s) {
    if (now.is_whole(s) || now.pages[s] != 0 || now.segment_tag(s) != 0)
      fail("segment " + std::to_string(s) + " has no memory and is in use");
  }
  auto const check_tree = [&](bitmap_tree const& tree, unsigned leaves, std::string const& which) {
    auto const missing = now.missing_summary(now.here(tree), leaves);
    if (!missing.empty()) fail("the tree of " + which + " has " + missing);
  };
  check_tree(at.whole_tree(), at.segment_leaves(), "whole segments");
  check_tree(at.broken_tree(), at.segment_leaves(), "broken segments");
  for (unsigned c = 0; c < at.num_classes; ++c) {
    check_tree(at.partial_tree(c), num_segments, "partial spans of class " + std::to_string(c));
    if (now.block.held[c] != held[c])
      fail("class " + std::to_string(c) + " holds " + std::to_string(held[c]) + " pages, not " + std::to_string(now.block.held[c]));
  }
  if (free_pages != now.block.num_free)
    fail("the count of free pages is " + std::to_string(now.block.num_free) + ", not " + std::to_string(free_pages));
  return found;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
#endif
