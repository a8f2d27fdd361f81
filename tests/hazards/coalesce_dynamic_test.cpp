// The hazards of chains of headers (coalesce_dynamic): the duty to give a superblock back, the time at which a header may be read, the
// width of its flag. Each mistake is restored in a chain of the tests alone. The protocol is also tried in every order of its steps, as a
// model.
#include "coalesce_checks.hpp"

#include <array>
#include <set>

namespace {

using namespace hazards;
using gpuheap::coalesce_parts::chain;
using gpuheap::coalesce_parts::segment_shape;

template <class Chain = chain, coalesce_alignment Alignment = coalesce_alignment::strict16, class Upstream = backing_reference>
using dynamic = gpuheap::basic_coalesce_dynamic<coalesce_dynamic_config{.alignment = Alignment}, Upstream, Chain>;

// Blocks of up to `most` bytes; threads of a warp come and go by themselves.
template <class A>
[[nodiscard]] bool segments_live_together(unsigned threads, unsigned rounds, unsigned most, std::size_t bytes) {
  auto heap = heap_with<A>(bytes);
  return lives_together(
      heap, threads, rounds, [most](test::rng& random) { return 1 + random.below(most); }, [&] { return is_sound_and_empty(heap); });
}

TEST(CoalesceDynamic, SegmentsLiveTogetherUnderManySchedules) {
  expect_right(num_seeds(2000), [] { return segments_live_together<dynamic<>>(40, 4, 100, 8_KiB); });
  expect_right(num_seeds(500), [] { return segments_live_together<dynamic<>>(80, 4, 5000, 64_KiB); });
  // Hardly any room: superblocks are refused.
  expect_right(num_seeds(500), [] { return segments_live_together<dynamic<>>(40, 4, 100, 1_KiB); });
  expect_right(num_seeds(1000), [] { return blocks_change_hands<dynamic<>>(56, 40, 2, 12_KiB); });
}
TEST(CoalesceDynamic, NarrowHeadersLiveTogetherUnderManySchedules) {
  using natural = dynamic<chain, coalesce_alignment::natural>;
  expect_right(num_seeds(700), [] { return segments_live_together<natural>(40, 4, 3, 4_KiB); });
  expect_right(num_seeds(500), [] { return segments_live_together<natural>(40, 4, 7, 4_KiB); });
  expect_right(num_seeds(700), [] { return segments_live_together<natural>(40, 4, 40, 8_KiB); });
  expect_right(num_seeds(500), [] { return segments_live_together<dynamic<chain, coalesce_alignment::paper>>(40, 4, 7, 4_KiB); });
}

// ---- the protocol in every order of its steps

// Segments 0..n-1 of one superblock, all freed at once; each thread's step is one access to one header.
class model {
 public:
  // `plain`: `free` is set by a load and a later store.
  model(unsigned segments, bool plain) : n_{segments}, plain_{plain} {}

  // Empty if in every order one thread gives the superblock back, and nobody touches it afterwards.
  [[nodiscard]] std::string problem() {
    state s{};
    for (unsigned i = 0; i < n_; ++i) {
      s.flags[i] = i + 1 == n_ ? last : 0;
      s.at[i] = static_cast<unsigned char>(i);
    }
    explore(s);
    return problem_;
  }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }

 private:
  static constexpr unsigned char free = 1, last = 2;
  enum step : unsigned char { frees, stores, hands_on, done };
  static constexpr unsigned most = 6;
  struct state {
    std::array<unsigned char, most> flags{}, step{}, at{}, loaded{};
    unsigned char given_back = 0;
    auto operator<=>(state const&) const = default;
  };

  void explore(state const& s) {
    if (!problem_.empty() || !seen_.insert(s).second) return;
    bool any = false;
    for (unsigned t = 0; t < n_; ++t) {
      if (s.step[t] == done) continue;
      any = true;
      state next = s;
      advance(next, t);
      explore(next);
    }
    if (!any && s.given_back != 1) problem_ = "the superblock was given back " + std::to_string(s.given_back) + " times";
  }
  void advance(state& s, unsigned t) {
    if (s.given_back != 0) problem_ = "a header is touched that is gone";
    unsigned char& header = s.flags[s.at[t]];
    switch (s.step[t]) {
      case frees:
        if (plain_) {
          s.loaded[t] = header;
          s.step[t] = stores;
        } else {
          s.loaded[t] = header;
          header |= free;
          walk(s, t, (s.loaded[t] & last) != 0);
        }
        break;
      case stores:
        header = static_cast<unsigned char>(s.loaded[t] | free);
        walk(s, t, (s.loaded[t] & last) != 0);
        break;
      case hands_on: {
        bool const was_free = (header & free) != 0;
        header |= last;
        walk(s, t, was_free);
        break;
      }
      default:
        break;
    }
  }
  // `duty`: the segment that the thread is at is free, and the thread goes on from there.
  static void walk(state& s, unsigned t, bool duty) {
    if (!duty) {
      s.step[t] = done;
    } else if (s.at[t] == 0) {
      ++s.given_back;
      s.step[t] = done;
    } else {
      --s.at[t];
      s.step[t] = hands_on;
    }
  }

  unsigned n_;
  bool plain_;
  std::string problem_;
  std::set<state> seen_;
};

TEST(CoalesceDynamic, EveryOrderOfStepsGivesBackOnce) {
  for (unsigned n = 1; n <= 6; ++n) {
    model m{n, false};
    EXPECT_EQ(m.problem(), "") << n << " segments";
    EXPECT_GE(m.states(), std::size_t{1} << n);
    model plain{n, true};
    EXPECT_EQ(plain.problem().empty(), n == 1) << n << " segments, and a store that can undo another thread's";
  }
}

// ---- flags

// A free sets its flag by a load and a store: a flag that another thread hands over in between is lost, and no thread has the duty.
struct chain_with_plain_store : chain {
  static free_status release(char* p, segment_shape form, char*& base) {
    return walk(p, form, base, [](char* at, segment_shape f, simt::uint64_t flag) {
      if (flag != is_free) return set(at, f, flag);
      simt::uint64_t const before = word64(at).load(simt::acquire);
      word64(at).store(before | flag, simt::release);
      return before;
    });
  }
};
TEST(CoalesceDynamicHazard, AStoreUndoesAHandOver) {
  expect_found(300, [] { return segments_live_together<dynamic<chain_with_plain_store>>(40, 4, 100, 8_KiB); });
}

// A lane frees its segment before others have a header.
struct chain_that_does_not_wait : chain {
  static void headers_are_written(simt::lane_mask) {}
};
// Kernel: frees at once what it gets.
template <class Ref>
struct free_at_once {
  Ref heap;
  unsigned rounds;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned n = 0; n < rounds; ++n) heap.free(heap.malloc(16 + (i + n) % 50));
  }
};
template <class A>
[[nodiscard]] bool what_is_freed_at_once_goes_back() {
  auto heap = heap_with<A>(8_KiB);
  gpuheap::launch(40, free_at_once<typename gpuheap::heap<A>::ref_type>{heap.ref(), 4}, {.block_threads = 64});
  return is_sound_and_empty(heap);
}
TEST(CoalesceDynamicHazard, AHeaderIsLookedAtBeforeItIsWritten) {
  expect_right(num_seeds(1000), what_is_freed_at_once_goes_back<dynamic<>>);
  expect_found(1000, what_is_freed_at_once_goes_back<dynamic<chain_that_does_not_wait>>);
}

// Accesses to a segment are not ordered before those of its memory's next owner.
struct chain_without_order : chain {
  static free_status release(char* p, segment_shape form, char*& base) {
    return walk(p, form, base, [](char* at, segment_shape, simt::uint64_t flag) { return word64(at).fetch_or(flag, simt::relaxed); });
  }
};
TEST(CoalesceDynamicHazard, AccessesAreNotOrderedBeforeTheNextOwners) {
  expect_found(100, [] { return segments_live_together<dynamic<chain_without_order>>(40, 4, 100, 4_KiB); });
}

// A flag in two bytes is set by changing four: two of them are a neighbour's payload.
struct chain_of_whole_words : chain {
  static free_status release(char* p, segment_shape form, char*& base) {
    return walk(p, form, base, [](char* at, segment_shape f, simt::uint64_t flag) {
      if (f.width != 2) return set(at, f, flag);
      auto const address = reinterpret_cast<simt::uintptr_t>(at) - 2;
      unsigned const shift = address % 4 * 8;
      simt::atomic_ref<simt::uint32_t> const word{*reinterpret_cast<simt::uint32_t*>(address & ~simt::uintptr_t{3})};
      return simt::uint64_t{word.fetch_or(static_cast<simt::uint32_t>(flag << shift), simt::acq_rel) >> shift & 0xffff};
    });
  }
};
TEST(CoalesceDynamicHazard, ANarrowFlagIsSetInAWiderWord) {
  expect_found(100, [] { return segments_live_together<dynamic<chain_of_whole_words, coalesce_alignment::natural>>(40, 4, 3, 4_KiB); });
}

// Looks at its header once more when it has handed the duty on, say for a count of frees.
struct chain_that_looks_back : chain {
  static free_status release(char* p, segment_shape form, char*& base) {
    free_status const status = chain::release(p, form, base);
    if (base == nullptr) (void)word64(p).load(simt::relaxed);
    return status;
  }
};
TEST(CoalesceDynamicHazard, ASuperblockIsLookedAtWhenItMayBeGone) {
  expect_found(500, [] { return segments_live_together<dynamic<chain_that_looks_back>>(40, 4, 100, 4_KiB); });
}

// ---- what is refused

template <class A>
[[nodiscard]] std::size_t num_failed(std::size_t heap_bytes, unsigned count, std::size_t bytes) {
  auto heap = heap_with<A>(heap_bytes);
  blocks_in<A> b(heap.ref(), count, bytes);
  b.malloc_all(32);
  EXPECT_TRUE(are_apart(b));
  std::size_t const n = b.failed_requests();
  b.free_all(3);
  EXPECT_TRUE(is_sound_and_empty(heap));
  return n;
}
TEST(CoalesceDynamicHazard, ARefusedSuperblockRefusesThoseThatWouldFitAlone) {
  EXPECT_LE(num_failed<dynamic<>>(24_KiB, 32, 1000), 32u - 20u);
  EXPECT_EQ(num_failed<dynamic<>>(64_KiB, 32, 1000), 0u);
  EXPECT_EQ((num_failed<dynamic<chain, coalesce_alignment::natural>>(24_KiB, 32, simt::size_t{1} << 45)), 32u);
}
TEST(CoalesceDynamicHazard, NobodyHangsWhereNothingIsServed) {
  using A = gpuheap::coalesce_dynamic_over<gpuheap::refusing_backing>;
  gpuheap::heap<A> heap{64_KiB};
  blocks_in<A> b(heap.ref(), 150, 100);
  b.malloc_all(64);
  EXPECT_EQ(b.failed_requests(), 150u);
}
TEST(CoalesceDynamicHazard, OneLiveSegmentKeepsLargeOnesOfOthers) {
  auto heap = heap_with<dynamic<>>(1_MiB);
  blocks_in<dynamic<>> b(heap.ref(), 64, 5000);
  b.malloc_all(64);
  auto const p = b.pointers().read();
  heap.free(std::vector<void*>(p.begin() + 1, p.end()));
  EXPECT_LT(heap.stats().held_bytes, 5200u);
}
TEST(CoalesceDynamicHazard, PointersThatNoHeaderCanPrecedeAreForeign) {
  using natural = dynamic<chain, coalesce_alignment::natural>;
  auto heap = heap_with<natural>(64_KiB);
  blocks_in<natural> b(heap.ref(), 4, 64);
  b.malloc_all();
  heap.free(std::vector<void*>{static_cast<char*>(b.pointers().first()) + 1, static_cast<char*>(b.pointers().first()) + 3});
  EXPECT_EQ(heap.stats().foreign_frees, 2u);
  auto strict = heap_with<dynamic<>>(64_KiB);
  blocks_in<dynamic<>> s(strict.ref(), 40, 64);
  s.malloc_all();
  auto const p = s.pointers().first();
  strict.free(std::vector<void*>{static_cast<char*>(p) + 8, p, p});
  EXPECT_EQ(strict.stats().foreign_frees, 1u);
  EXPECT_EQ(strict.stats().double_frees, 1u);
}

// ---- where segments lie

template <class A>
[[nodiscard]] std::size_t distance_of_lanes(std::size_t bytes) {
  auto heap = heap_with<A>(1_MiB);
  blocks_in<A> b(heap.ref(), 96, bytes);
  b.malloc_all(96);
  auto const p = b.pointers().read();
  auto const first = static_cast<std::size_t>(static_cast<char*>(p[1]) - static_cast<char*>(p[0]));
  for (unsigned i = 1; i < 96; ++i) {
    if (i % 32 != 0 && static_cast<std::size_t>(static_cast<char*>(p[i]) - static_cast<char*>(p[i - 1])) != first) return 0;
    if (reinterpret_cast<std::uintptr_t>(p[i]) % gpuheap::coalesce_parts::alignment_of(coalesce_alignment::paper, bytes) != 0) return 0;
  }
  b.free_all(5);
  return is_sound_and_empty(heap) ? first : 0;
}
TEST(CoalesceDynamic, LanesLieSideBySide) {
  using strict = dynamic<>;
  using natural = dynamic<chain, coalesce_alignment::natural>;
  using paper = dynamic<chain, coalesce_alignment::paper>;
  EXPECT_EQ(distance_of_lanes<strict>(4), 16u);
  EXPECT_EQ(distance_of_lanes<strict>(8), 16u);
  EXPECT_EQ(distance_of_lanes<strict>(400), 416u);
  EXPECT_EQ(distance_of_lanes<natural>(2), 4u);
  EXPECT_EQ(distance_of_lanes<natural>(4), 8u);
  EXPECT_EQ(distance_of_lanes<natural>(8), 16u);
  EXPECT_EQ(distance_of_lanes<natural>(12), 24u) << "an int3, 8 bytes apart: or a double and an int";
  EXPECT_EQ(distance_of_lanes<natural>(16), 32u) << "a float4";
  EXPECT_EQ(distance_of_lanes<paper>(2), 4u);
  EXPECT_EQ(distance_of_lanes<paper>(12), 16u);
  EXPECT_EQ(distance_of_lanes<paper>(400), 408u);
}

// Kernel: lanes of one warp ask for different sizes.
TEST(CoalesceDynamic, MixedSizesShareTheStrictestForm) {
  using natural = dynamic<chain, coalesce_alignment::natural>;
  auto heap = heap_with<natural>(64_KiB);
  std::vector<std::size_t> sizes(64);
  for (std::size_t i = 0; i < 64; ++i) sizes[i] = 1 + i * 7 % 40;
  blocks_in<natural> b(heap.ref(), sizes);
  b.malloc_all(32);
  EXPECT_EQ(b.failed_requests(), 0u);
  EXPECT_TRUE(are_apart(b));
  b.expect_sound(16, {});
  b.fill();
  b.expect_intact("of mixed sizes");
  b.free_all(9);
  EXPECT_TRUE(is_sound_and_empty(heap));
}

}  // namespace
