// The default allocator as it grows, is trimmed, and resizes allocations in place: under chosen schedules, audited after each launch.
#include "sharded.hpp"

#include <gpuheap/memory/address_range.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace sharded_test {
namespace {

using gpuheap::free_status;

// A heap in addresses of its own, of which only what the allocator asked for can be touched: anything else ends the test.
template <class Allocator>
class growing_heap {
 public:
  growing_heap(std::size_t whole, std::size_t initial) : range_{whole} {
    view = Allocator::create_growable(range_.where(), initial, mapper(), {});
  }
  void grow(std::size_t bytes) { view.grow(bytes, mapper(), {}); }
  // As heap::trim() does it. Returns the bytes that the allocator gave up.
  std::size_t trim() {
    std::size_t const given_up = view.trim({});
    reach_ -= given_up;
    range_.unmap(reach_, range_.bytes() - reach_);
    return given_up;
  }
  void reset(std::size_t bytes) {
    reach_ = 0;
    view = Allocator::create_growable(range_.where(), bytes, mapper(), {});
  }
  [[nodiscard]] std::size_t reach() const { return reach_; }
  [[nodiscard]] gpuheap::memory::address_range const& range() const { return range_; }
  [[nodiscard]] unsigned segments() const { return view.control_block()->segments_there; }

 private:
  gpuheap::memory::map_function mapper() {
    return [this](std::size_t offset, std::size_t bytes) {
      range_.map(offset, bytes);
      reach_ = std::max(reach_, offset + bytes);
    };
  }
  gpuheap::memory::address_range range_;
  std::size_t reach_ = 0;

 public:
  Allocator view;
};

struct verdict {
  unsigned overwritten = 0, refused = 0, served = 0, failed_requests = 0, wrong_size = 0, longer = 0, shorter = 0, not_resized = 0;
};

// A block and what it was filled with.
struct block {
  unsigned* words = nullptr;
  std::size_t bytes = 0;
  unsigned mark = 0;

  // Every so many words: checked accesses, so that the weak mode reports any that is not ordered after the last owner's.
  static constexpr unsigned step = 61;
  GPUHEAP_FN void fill(unsigned new_mark) {
    mark = new_mark;
    for (unsigned i = 0; i < bytes / 4; i += step) simt::plain_write(words[i], mark + i);
    simt::plain_write(words[bytes / 4 - 1], mark);
  }
  [[nodiscard]] GPUHEAP_FN bool intact(std::size_t up_to) const {
    for (unsigned i = 0; i < up_to / 4; i += step) {
      if (i != bytes / 4 - 1 && simt::plain_read(words[i]) != mark + i) return false;
    }
    return true;
  }
};

// Every thread keeps `slots` blocks, replaces and resizes them in random order, and frees all at the end or leaves them in `keep`.
template <class Allocator>
struct churn {
  static constexpr unsigned max_slots = 4;

  Allocator heap;
  verdict* out;
  block* kept;  // max_slots a thread, from the launch before; or nullptr
  unsigned rounds, slots, seed;
  std::size_t min_bytes, max_bytes;
  bool resizes, leaves;

  GPUHEAP_FN static unsigned next(unsigned& state) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
  }
  GPUHEAP_FN void drop(block& b) const {
    if (b.words == nullptr) return;
    if (!b.intact(b.bytes)) count(out->overwritten);
    if (heap.free(b.words) != free_status::done) count(out->refused);
    b = {};
  }
  GPUHEAP_FN void resize(block& b, std::size_t bytes, unsigned mark) const {
    std::size_t const before = heap.usable_size(b.words);
    bool const done = heap.try_resize(b.words, bytes);
    if (!b.intact(done && bytes < b.bytes ? bytes : b.bytes)) count(out->overwritten);
    std::size_t const now = heap.usable_size(b.words);
    if (!done) {
      if (now != before || bytes <= before) count(out->wrong_size);
      return count(out->not_resized);
    }
    if (now < bytes || (before > heap.geometry().largest_slot() &&
                        now != (bytes + heap.geometry().page_bytes() - 1) >> heap.geometry().page_shift << heap.geometry().page_shift))
      count(out->wrong_size);
    if (now > before) count(out->longer);
    if (now < before) count(out->shorter);
    b.bytes = bytes;
    b.fill(mark);
  }
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned state = (seed * 2654435761u) ^ ((i + 1) * 40503u);
    if (state == 0) state = 1;
    block b[max_slots];
    for (unsigned k = 0; kept != nullptr && k < slots; ++k) b[k] = kept[i * max_slots + k];
    for (unsigned r = 0; r < rounds; ++r) {
      block& one = b[next(state) % slots];
      std::size_t const bytes = (min_bytes + next(state) % (max_bytes - min_bytes + 1)) & ~std::size_t{3};
      unsigned const mark = (seed << 20) + i * 331 + r * 7;
      if (one.words != nullptr && resizes && next(state) % 4 != 0) {
        resize(one, bytes, mark);
        continue;
      }
      drop(one);
      one = {static_cast<unsigned*>(heap.malloc(bytes)), bytes, 0};
      if (one.words == nullptr) {
        one = {};
        count(out->failed_requests);
        continue;
      }
      count(out->served);
      one.fill(mark);
    }
    for (unsigned k = 0; k < slots; ++k) {
      if (leaves && k % 2 == 0) {
        if (kept != nullptr) kept[i * max_slots + k] = b[k];
      } else {
        drop(b[k]);
        if (kept != nullptr) kept[i * max_slots + k] = {};
      }
    }
  }
};

void expect_good(verdict const& v) {
  EXPECT_EQ(v.overwritten, 0u);
  EXPECT_EQ(v.refused, 0u);
  EXPECT_EQ(v.wrong_size, 0u);
  EXPECT_GT(v.served, 0u);
}

// ---- growth

struct stage {
  char const* name;
  unsigned threads, rounds;
  std::size_t min_bytes, max_bytes;
  bool resizes;
};

// Launches before and after the heap has grown, been trimmed and grown again; blocks stay over all of them.
template <class Allocator>
void explore_growth(stage const& s) {
  constexpr std::size_t whole = 2 << 20;
  explore(s.name, [&] {
    growing_heap<Allocator> heap{whole, 192 << 10};
    verdict v;
    std::vector<block> kept(std::size_t{s.threads} * churn<Allocator>::max_slots);
    unsigned seed = s.threads;
    auto const launch = [&](bool leaves) {
      gpuheap::launch(s.threads,
                      churn<Allocator>{heap.view, &v, kept.data(), s.rounds, 3, ++seed, s.min_bytes, s.max_bytes, s.resizes, leaves},
                      {.block_threads = 96});
      EXPECT_EQ(heap.view.verify().problem, "");
    };
    launch(true);
    unsigned const first = heap.segments();
    heap.grow(400 << 10);
    EXPECT_GT(heap.segments(), first);
    EXPECT_EQ(heap.view.verify().problem, "");
    launch(true);
    heap.trim();
    EXPECT_EQ(heap.view.verify().problem, "");
    launch(true);
    heap.grow(1 << 20);
    unsigned const most = heap.segments();
    launch(false);
    auto const empty = heap.view.verify();
    EXPECT_EQ(empty.live_slots + empty.large_allocations, 0u);
    // Memory that shards hold without using it does not prevent the trim.
    EXPECT_EQ(heap.trim(), (most - 1) * heap.view.geometry().segment_bytes());
    EXPECT_EQ(heap.segments(), 1u);
    EXPECT_EQ(heap.view.verify().problem, "");
    expect_good(v);
  });
}

TEST(ShardedGrowth, BetweenLaunchesOfSmallBlocks) { explore_growth<plain>({"small", 160, 8, 16, 700, false}); }
TEST(ShardedGrowth, BetweenLaunchesOfAllSizes) { explore_growth<eager>({"all sizes", 64, 8, 16, 40000, true}); }
TEST(ShardedGrowth, BetweenLaunchesOfWholeSegments) { explore_growth<plain>({"segments", 32, 8, 9000, 60000, true}); }

// One thread takes blocks until refused.
template <class Allocator>
struct take_all {
  Allocator heap;
  void** out;
  unsigned* num;
  std::size_t bytes;
  GPUHEAP_FN void operator()(unsigned) const {
    while (void* const p = heap.malloc(bytes)) out[simt::atomic_ref<unsigned>{*num}.fetch_add(1, simt::relaxed)] = p;
  }
};
template <class Allocator>
struct free_some {
  Allocator heap;
  void** p;
  unsigned* refused;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (heap.free(p[i]) != free_status::done) count(*refused);
  }
};

TEST(ShardedGrowth, EverySegmentThatCameIsHandedOut) {
  growing_heap<plain> heap{1 << 20, 128 << 10};
  auto const& at = heap.view.geometry();
  std::vector<void*> p(at.num_segments());
  for (std::size_t bytes : {128u << 10, 300u << 10, 301u << 10, 1u << 20}) {
    heap.grow(bytes);
    auto const parts_end =
        static_cast<std::size_t>(at.base - static_cast<char*>(heap.range().base())) + heap.segments() * at.segment_bytes();
    EXPECT_EQ(heap.reach(), parts_end);
    unsigned num = 0, refused = 0;
    gpuheap::launch(33, take_all<plain>{heap.view, p.data(), &num, at.segment_bytes()});
    EXPECT_EQ(num, heap.segments());
    EXPECT_EQ(heap.view.footprint({}).held_bytes, heap.segments() * at.segment_bytes());
    EXPECT_EQ(heap.view.footprint({}).peak_held_bytes, heap.segments() * at.segment_bytes());
    EXPECT_LE(heap.view.footprint({}).metadata_bytes + heap.segments() * at.segment_bytes(), bytes);
    EXPECT_EQ(heap.trim(), 0u) << "all of it is in use";
    gpuheap::launch(num, free_some<plain>{heap.view, p.data(), &refused});
    EXPECT_EQ(refused, 0u);
    EXPECT_EQ(heap.view.verify().problem, "");
    EXPECT_EQ(heap.view.footprint({}).held_bytes, 0u);
  }
  EXPECT_EQ(heap.segments(), at.num_segments()) << "all of the region";
  std::size_t const peak = heap.view.footprint({}).peak_held_bytes;
  heap.trim();
  EXPECT_EQ(heap.segments(), 1u);
  EXPECT_EQ(heap.view.footprint({}).peak_held_bytes, peak) << "what was held once stays known";
  EXPECT_EQ(heap.view.footprint({}).held_bytes, 0u);
}

TEST(ShardedGrowth, AResetHeapForgetsAndMayBeSmaller) {
  growing_heap<plain> heap{1 << 20, 600 << 10};
  auto const& at = heap.view.geometry();
  std::vector<void*> p(at.num_segments());
  unsigned num = 0;
  gpuheap::launch(1, take_all<plain>{heap.view, p.data(), &num, at.segment_bytes()});
  heap.reset(300 << 10);
  EXPECT_EQ(heap.view.verify().problem, "");
  EXPECT_LT(heap.segments(), num);
  num = 0;
  gpuheap::launch(1, take_all<plain>{heap.view, p.data(), &num, at.segment_bytes()});
  EXPECT_EQ(num, heap.segments());
  heap.grow(700 << 10);
  EXPECT_EQ(heap.view.verify().problem, "");
  EXPECT_EQ(heap.view.verify().large_allocations, num);
}

TEST(ShardedGrowth, WhatCannotBeMappedChangesNothing) {
  growing_heap<plain> heap{1 << 20, 256 << 10};
  unsigned const before = heap.segments();
  for (unsigned good_parts = 0; good_parts < 4; ++good_parts) {
    unsigned parts = 0;
    EXPECT_THROW(heap.view.grow(900 << 10,
                                [&](std::size_t, std::size_t) {
                                  if (parts++ == good_parts) throw gpuheap::out_of_memory("none left");
                                },
                                {}),
                 gpuheap::out_of_memory);
    EXPECT_EQ(heap.segments(), before);
    EXPECT_EQ(heap.view.verify().problem, "");
  }
  heap.grow(900 << 10);
  EXPECT_GT(heap.segments(), before);
  EXPECT_EQ(heap.view.verify().problem, "");
}

TEST(ShardedGrowth, TooLittleToBeginWithIsRefused) {
  gpuheap::memory::address_range range{std::size_t{1} << 30};
  std::string text;
  auto const map = [&](std::size_t offset, std::size_t bytes) { range.map(offset, bytes); };
  try {
    (void)plain::create_growable(range.where(), 128 << 10, map, {});
  } catch (gpuheap::error const& e) {
    text = e.what();
  }
  EXPECT_NE(text.find("a heap that grows to 1073741824 bytes cannot begin with 131072: give it at least "), std::string::npos) << text;
  // The size that the message names is enough.
  std::size_t const enough = std::strtoul(text.c_str() + text.find("at least ") + 9, nullptr, 10);
  EXPECT_EQ(plain::create_growable(range.where(), enough, map, {}).verify().problem, "");
  EXPECT_THROW((void)plain::create_growable(range.where(), enough - 1, map, {}), gpuheap::error);
}

// Asks about, resizes and frees pointers where nothing is.
template <class Allocator>
struct misuse {
  Allocator heap;
  char* const* pointers;
  unsigned* accepted;
  GPUHEAP_FN void operator()(unsigned i) const {
    char* const p = pointers[i];
    if (heap.usable_size(p) != 0 || heap.owns(p) || heap.try_resize(p, 1) || heap.free(p) != free_status::foreign) count(*accepted);
  }
};

TEST(ShardedGrowth, PointersBeyondWhatIsThereAreForeign) {
  growing_heap<plain> heap{std::size_t{64} << 30, 64 << 20};
  auto const& at = heap.view.geometry();
  std::vector<char*> wrong;
  for (unsigned s = heap.segments(); s < at.num_segments(); s += 1 + s / 3) {
    for (std::size_t offset : {std::size_t{0}, std::size_t{16}, at.page_bytes(), at.segment_bytes() - 16})
      wrong.push_back(at.base + s * at.segment_bytes() + offset);
  }
  wrong.push_back(at.base + at.heap_bytes());
  wrong.push_back(at.base - 16);
  unsigned accepted = 0;
  gpuheap::launch(static_cast<unsigned>(wrong.size()), misuse<plain>{heap.view, wrong.data(), &accepted});
  EXPECT_EQ(accepted, 0u);
  EXPECT_EQ(heap.view.verify().problem, "");
  EXPECT_LT(heap.range().mapped_bytes(), std::size_t{80} << 20) << "64 GiB of addresses, 64 MiB of memory";
}

TEST(ShardedGrowth, PointersIntoWhatWasTrimmedAreForeign) {
  growing_heap<plain> heap{1 << 20, 900 << 10};
  std::vector<void*> p(10000);
  unsigned num = 0, refused = 0, accepted = 0;
  gpuheap::launch(64, take_all<plain>{heap.view, p.data(), &num, 500});
  gpuheap::launch(num, free_some<plain>{heap.view, p.data(), &refused});
  EXPECT_GT(heap.trim(), 0u);
  std::vector<char*> wrong;
  for (unsigned i = 0; i < num; ++i) {
    if (p[i] >= heap.view.geometry().base + heap.view.geometry().segment_bytes()) wrong.push_back(static_cast<char*>(p[i]));
  }
  gpuheap::launch(static_cast<unsigned>(wrong.size()), misuse<plain>{heap.view, wrong.data(), &accepted});
  EXPECT_EQ(accepted + refused, 0u);
  EXPECT_EQ(heap.view.verify().problem, "");
}

// ---- in place

template <class Allocator>
void explore_resizing(stage const& s, std::size_t heap_bytes) {
  verdict all;
  explore(s.name, [&] {
    fixed_heap<Allocator> heap{heap_bytes};
    verdict v;
    for (unsigned launch = 0; launch < 2; ++launch) {
      gpuheap::launch(s.threads, churn<Allocator>{heap.view, &v, nullptr, s.rounds, 3, launch + 5, s.min_bytes, s.max_bytes, true, false},
                      {.block_threads = 96});
      auto const found = heap.view.verify();
      EXPECT_EQ(found.problem, "");
      EXPECT_EQ(found.live_slots + found.large_allocations, 0u);
    }
    expect_good(v);
    all.longer += v.longer;
    all.shorter += v.shorter;
    all.not_resized += v.not_resized;
  });
  EXPECT_GT(all.longer, 0u);
  EXPECT_GT(all.shorter, 0u);
  EXPECT_GT(all.not_resized, 0u);
}

TEST(ShardedResize, SegmentsContended) { explore_resizing<plain>({"segments", 48, 12, 9000, 80000, true}, 1 << 20); }
TEST(ShardedResize, BesideSmallBlocks) { explore_resizing<eager>({"mixed", 64, 12, 100, 50000, true}, 1 << 20); }
TEST(ShardedResize, OverSeveralLeaves) { explore_resizing<plain>({"leaves", 24, 12, 200000, 1500000, true}, 4 << 20); }

template <class Allocator>
struct ups_and_downs {
  Allocator heap;
  std::size_t bytes;
  unsigned* wrong;
  GPUHEAP_FN void expect(bool what) const {
    if (!what) count(*wrong);
  }
  GPUHEAP_FN void operator()(unsigned) const {
    // Lengths of `unit`: a page, or a segment, which an allocation owns in another way than pages of one.
    std::size_t const unit = bytes, page = heap.geometry().page_bytes();
    // Large allocations come from the top, each below the one before.
    auto* const high = static_cast<char*>(heap.malloc(2 * unit));
    auto* const low = static_cast<char*>(heap.malloc(3 * unit));
    expect(low + 3 * unit == high);
    expect(!heap.try_resize(low, 3 * unit + 1) && heap.usable_size(low) == 3 * unit);
    expect(heap.try_resize(low, unit + 1) && heap.usable_size(low) == unit + page);
    expect(heap.try_resize(low, 3 * unit) && heap.usable_size(low) == 3 * unit);
    expect(heap.try_resize(low, unit) && heap.usable_size(low) == unit);
    auto* const between = static_cast<char*>(heap.malloc(2 * unit));
    expect(between == low + unit);
    expect(!heap.try_resize(low, 2 * unit));
    expect(heap.free(between) == free_status::done);
    expect(heap.free(high) == free_status::done);
    expect(heap.try_resize(low, 5 * unit) && heap.usable_size(low) == 5 * unit);
    expect(!heap.try_resize(low, 5 * unit + 1) && "the end of the heap");
    expect(!heap.try_resize(low, ~std::size_t{0}));
    expect(!heap.try_resize(low + unit, unit) && !heap.try_resize(low + 16, 16) && !heap.try_resize(nullptr, 16));
    // Every length down and up again, a page at a time.
    for (std::size_t now = 5 * unit; now >= unit; now -= page) expect(heap.try_resize(low, now) && heap.usable_size(low) == now);
    for (std::size_t now = unit; now <= 5 * unit; now += page) expect(heap.try_resize(low, now) && heap.usable_size(low) == now);
    expect(heap.free(low) == free_status::done);
    expect(!heap.try_resize(low, unit));
    auto* const small = static_cast<char*>(heap.malloc(100));
    std::size_t const usable = heap.usable_size(small);
    expect(heap.try_resize(small, usable) && heap.try_resize(small, 1) && !heap.try_resize(small, usable + 1));
    expect(heap.usable_size(small) == usable && !heap.try_resize(small + 16, 1));
    expect(heap.free(small) == free_status::done);
  }
};

TEST(ShardedResize, TakesWhatIsBehindAndGivesTheTailBack) {
  for (unsigned pages : {16u, 20u, 64u, 72u}) {
    fixed_heap<plain> heap{1 << 20};
    unsigned wrong = 0;
    gpuheap::launch(1, ups_and_downs<plain>{heap.view, pages * heap.view.geometry().page_bytes(), &wrong});
    EXPECT_EQ(wrong, 0u) << pages;
    auto const found = heap.view.verify();
    EXPECT_EQ(found.problem, "");
    EXPECT_EQ(found.large_allocations + found.live_slots, 0u);
  }
}

// The threads resize and free one pointer at once, which no program may do. Whichever wins, nothing is lost and nothing is owned twice.
template <class Allocator>
struct everyone_at_once {
  Allocator heap;
  void* p;
  unsigned* freed;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i % 3 == 0) {
      if (heap.free(p) == free_status::done) count(*freed);
    } else {
      (void)heap.try_resize(p, (1 + i % 5) * heap.geometry().segment_bytes());
    }
  }
};

TEST(ShardedResize, AFreeOfTheSamePointerAtOnceLosesNothing) {
  explore("at once", [] {
    fixed_heap<plain> heap{1 << 20};
    void* p = nullptr;
    unsigned freed = 0;
    struct one {
      plain heap;
      void** p;
      GPUHEAP_FN void operator()(unsigned) const {
        *p = heap.malloc(2 * heap.geometry().segment_bytes());
        void* const above = *p;
        // Room behind it.
        *p = heap.malloc(2 * heap.geometry().segment_bytes());
        heap.free(above);
      }
    };
    gpuheap::launch(1, one{heap.view, &p});
    gpuheap::launch(64, everyone_at_once<plain>{heap.view, p, &freed});
    EXPECT_EQ(freed, 1u);
    auto const found = heap.view.verify();
    EXPECT_EQ(found.problem, "");
    EXPECT_EQ(found.large_allocations, 0u);
  });
}

}  // namespace
}  // namespace sharded_test
