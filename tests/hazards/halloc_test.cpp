// The hazards of the published Halloc. Where a hazard is a decision about slabs, the mutant is the allocator with that decision put back
// (halloc_parts::rules); where it is a mechanism, a small class with the mechanism as published.
#include "halloc_checks.hpp"

namespace {

using namespace hazards;

TEST(Halloc, StaysSoundUnderContention) {
  expect_right(num_seeds(2000), [] { return stays_sound<small_halloc<>>(6, 48, 4); });
  expect_right(num_seeds(1000), [] { return stays_sound<small_halloc<rules, small>>(9, 80, 4); });
  expect_right(num_seeds(1000), [] { return stays_sound<small_halloc<>>(1, 40, 5); });
}

TEST(Halloc, VerifyTellsOfTheFirstProblem) {
  auto const at = parts::layout<small>::of(4, 12);
  test::device_array<char> memory(at.end);
  parts::slabs<small, rules> const heap{memory.data(), at};
  auto const write = [&](std::size_t offset, simt::uint32_t word) { simt::copy(memory.data() + offset, &word, sizeof word); };
  write(parts::layout<small>::of_class(1) + 132, 1);
  EXPECT_EQ(parts::verify(heap, {}).problem, "the lock of class 1 is not open");
  write(parts::layout<small>::of_class(0), 999);
  EXPECT_EQ(parts::verify(heap, {}).problem, "slab 998 does not exist and is a head");
}

// ---- 1

// Kernel: the lanes of a warp want blocks of 15 sizes, in loops of different lengths, some after others have left.
template <class Ref>
struct diverge {
  Ref heap;
  unsigned* failed_requests;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i % 7 == 3) return;
    for (unsigned pass = 0; pass <= i % 5; ++pass) {
      void* const p = heap.malloc(parts::classes<small>::bytes_of((i + pass) % 8 * 2));
      if (p == nullptr) simt::atomic_ref<unsigned>{*failed_requests}.fetch_add(1, simt::relaxed);  // relaxed: a count
      heap.free(p);
    }
  }
};
// As published: tickets are drawn in a loop that votes over the whole warp, although only some of its lanes may be there.
struct published_tickets {
  unsigned* tickets;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i % 7 == 3) return;
    unsigned const c = i % 5;
    bool wants = true;
    while (simt::any_of(simt::all_lanes, wants)) {
      unsigned const leader = simt::lowest_bit(simt::ballot(simt::all_lanes, wants));
      bool const mine = wants && simt::shuffle(simt::all_lanes, c, leader) == c;
      simt::lane_mask const group = simt::ballot(simt::all_lanes, mine);
      if (simt::lane_id() == leader) simt::atomic_ref<unsigned>{tickets[c]}.fetch_add(simt::popcount(group), simt::relaxed);
      if (mine) wants = false;
    }
  }
};
TEST(Hazard1, VotesOverTheWholeWarpHangWhereLanesHaveParted) {
  expect_right(300, [] {
    gpuheap::heap<small_halloc<>> heap{bytes_for<small_halloc<>>(64)};
    test::device_array<unsigned> failed_requests(1);
    gpuheap::launch(96, diverge<gpuheap::heap<small_halloc<>>::ref_type>{heap.ref(), failed_requests.data()}, {.block_threads = 64});
    return failed_requests.first() == 0 && heap.verify().problem.empty();
  });
  expect_found(10, [] {
    test::device_array<unsigned> tickets(5);
    gpuheap::launch(96, published_tickets{tickets.data()}, {.block_threads = 64});
    return true;
  });
}

// ---- 2

TEST(Hazard2, AnAddressTableEndsAt64GiB) {
  constexpr auto large = parts::layout<halloc_config{}>::in(std::size_t{180} << 30);
  static_assert(large.lg_slab == 22 && large.end <= std::size_t{180} << 30);
  static_assert(std::size_t{large.num_slabs} << 22 > std::size_t{172} << 30, "nearly all of a large heap is slabs");
}
TEST(Hazard2, AddressesThatAreNotTheHeapsAreLookedUpOutsideTheTable) {
  using A = small_halloc<>;
  gpuheap::memory::allocation const memory{gpuheap::memory::device, bytes_for<A>(4)};
  gpuheap::heap<A> heap{memory.where()};
  auto* const base = static_cast<char*>(memory.base());
  std::vector<void*> foreign{base - 16,
                             base,
                             base + 256,
                             base + memory.bytes(),
                             reinterpret_cast<void*>(std::uintptr_t{16}),
                             reinterpret_cast<void*>(~std::uintptr_t{15})};
  for (int exponent = 20; exponent < 47; ++exponent) {
    foreign.push_back(base - (std::ptrdiff_t{1} << exponent));
    foreign.push_back(base + (std::ptrdiff_t{1} << exponent));
  }
  heap.free(foreign);
  EXPECT_EQ(heap.stats().foreign_frees, foreign.size());
  EXPECT_EQ(heap.verify().problem, "");
}

// ---- 3

// Without the look at every slab: what the sets do not show is not there.
struct sets_only : rules {
  static constexpr bool looks_everywhere = false;
};
TEST(Hazard3, TheLastSlabsAndSmallHeapsAreNeverSearched) {
  using A = small_halloc<sets_only>;
  for (unsigned n : {1u, 2u, 31u, 32u, 33u, 63u, 64u, 65u, 100u, 128u, 129u}) {
    gpuheap::heap<A> heap{bytes_for<A>(n)};
    ASSERT_EQ(heap.verify().num_slabs, n);
    EXPECT_EQ(served(heap, n + 5, 3072), n);
    EXPECT_EQ(heap.verify().problem, "");
  }
}
// A search of a set of `num` slabs, one thread, until nothing is found.
struct published_search {
  unsigned* words;
  unsigned num;
  unsigned* found;
  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned w = 0; w < num / 32; ++w) {
      for (; words[w] != 0; words[w] &= words[w] - 1) ++*found;
    }
  }
};
TEST(Hazard3, TheTestSeesTheSearchAsPublished) {
  for (unsigned n : {1u, 31u, 33u, 65u}) {
    std::vector<unsigned> members(n / 32 + 1, ~0u);
    members.back() = (1u << n % 32) - 1;
    test::device_array<unsigned> words(members), found(1);
    gpuheap::launch(1, published_search{words.data(), n, found.data()});
    EXPECT_LT(found.first(), n);
  }
}

// ---- 4

// As published: the free set's last word receives the number of slabs.
struct with_count_in_free_set : small_halloc<> {
  static with_count_in_free_set create(gpuheap::memory::region region, gpuheap::stream_ref stream) {
    with_count_in_free_set m;
    static_cast<small_halloc<>&>(m) = small_halloc<>::create(region, stream);
    auto const at = parts::layout<small>::in(region.bytes);
    auto* const free_set = reinterpret_cast<std::uint64_t*>(static_cast<char*>(region.base) + at.sets);
    free_set[(at.num_slabs - 1) / 64] = at.num_slabs;
    return m;
  }
};
template <class A>
bool stays_inside(unsigned num_slabs) {
  gpuheap::memory::allocation const memory{gpuheap::memory::device, bytes_for<A>(num_slabs)};
  gpuheap::heap<A> heap{memory.where()};
  blocks_of<A> b(heap.ref(), num_slabs + 20, 3072);
  b.malloc_all();
  auto* const base = static_cast<char*>(memory.base());
  for (void* p : b.pointers().read()) {
    if (p != nullptr && (static_cast<char*>(p) < base || static_cast<char*>(p) + 3072 > base + memory.bytes())) return false;
  }
  return b.failed_requests() == 20 && heap.verify().problem.empty();
}
TEST(Hazard4, ACountInTheFreeSetIsSlabsThatDoNotExist) {
  for (unsigned n : {65u, 66u, 67u, 100u, 130u}) EXPECT_TRUE(stays_inside<small_halloc<>>(n)) << n;
  EXPECT_FALSE(stays_inside<with_count_in_free_set>(66)) << "the test does not see the published mistake";
}

// ---- 5

// As published: what is retired above the roomy level is in no set.
template <class Base>
struct files_no_busy : Base {
  template <halloc_config Config>
  static constexpr slab_role level(parts::fill_levels<Config> slab, unsigned used, unsigned chunks) {
    slab_role const level = rules::level(slab, used, chunks);
    return level == slab_role::busy ? slab_role::full : level;
  }
};
template <class Rules>
double filled() {
  constexpr unsigned slabs = 20, capacity = slabs * 256;
  using A = small_halloc<Rules>;
  gpuheap::heap<A> heap{bytes_for<A>(slabs)};
  return static_cast<double>(served(heap, capacity + 200, 16)) / capacity;
}
TEST(Hazard5, HeadsRetiredAboveTheRoomyLevelAreLost) {
  EXPECT_GE(filled<sets_only>(), 0.99);
  EXPECT_LE(filled<files_no_busy<sets_only>>(), 0.9) << "the test does not see the published mistake";
}

// ---- 6

// As published: a busy slab whose fill is beyond the middle between busy and full is taken out of its set, and left.
struct drops_too_full : sets_only {
  template <halloc_config Config>
  static constexpr bool may_adopt(slab_use w, unsigned c) {
    return rules::may_adopt<Config>(w, c) && !(w.is(slab_role::busy) && w.used() > 235);
  }
};
// Fills the heap, frees a few blocks of each slab, and asks for as many again.
template <class Rules>
bool serves_what_was_freed() {
  constexpr unsigned slabs = 8;
  using A = small_halloc<Rules>;
  gpuheap::heap<A> heap{bytes_for<A>(slabs)};
  blocks_of<A> b(heap.ref(), slabs * 256 + 50, 16);
  b.malloc_all();
  auto const all = b.pointers().read();
  std::vector<void*> go;
  for (std::size_t i = 0; i < all.size(); i += 30) {
    if (all[i] != nullptr) go.push_back(all[i]);
  }
  heap.free(go);
  return served(heap, go.size(), 16) == go.size();
}
TEST(Hazard6, BusySlabsThatAreTooFullAreDroppedFromTheirSet) {
  EXPECT_TRUE(serves_what_was_freed<sets_only>());
  EXPECT_TRUE(serves_what_was_freed<rules>());
  EXPECT_FALSE(serves_what_was_freed<drops_too_full>()) << "the test does not see the published mistake";
}

// ---- 7

struct trusts_the_sets : rules {
  template <halloc_config Config>
  static constexpr bool may_adopt(slab_use, unsigned) {
    return true;
  }
};
TEST(Hazard7, ASlabThatTwoSetsShowIsTakenTwice) {
  expect_found(300, [] { return stays_sound<small_halloc<trusts_the_sets>>(4, 48, 6); });
}

// ---- 8

struct trusts_the_head : rules {
  template <halloc_config Config>
  static constexpr bool serves(slab_use, unsigned) {
    return true;
  }
};
TEST(Hazard8, ASlabIsRecycledBetweenTheLookAtTheHeadAndTheClaim) {
  expect_found(300, [] { return stays_sound<small_halloc<trusts_the_head>>(4, 48, 6); });
}

// A slab of 8 bytes' units, of one or of two units a chunk, whose blocks are taken by several threads at once.
//   word: used | kind << 16, kind 0 none; bits: a bit per chunk
struct one_slab {
  unsigned* word;
  unsigned* bits;
  unsigned* owners;  // by unit
  unsigned* wrong;
  static constexpr unsigned one_kind = 1 << 16;

  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<unsigned> state() const { return simt::atomic_ref<unsigned>{*word}; }
  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<unsigned> taken() const { return simt::atomic_ref<unsigned>{*bits}; }
  // Makes the slab one of `kind` if it has none; false: it has another.
  GPUHEAP_FN bool assign(unsigned kind) const {
    unsigned seen = state().load(simt::acquire);
    while (seen < one_kind) {
      if (state().compare_exchange(seen, seen + kind * one_kind, simt::acq_rel, simt::acquire)) return true;
    }
    return seen / one_kind == kind;
  }
  GPUHEAP_FN void count_down() const {
    unsigned seen = state().fetch_sub(1, simt::acq_rel) - 1;
    if (seen % one_kind != 0 || seen == 0) return;
    state().compare_exchange(seen, 0, simt::acq_rel, simt::relaxed);
  }
  GPUHEAP_FN void use(unsigned kind, unsigned chunk, unsigned i) const {
    for (unsigned unit = chunk * kind; unit < (chunk + 1) * kind; ++unit) {
      if (simt::atomic_ref<unsigned>{owners[unit]}.exchange(i + 1, simt::acq_rel) != 0) wrong[0] = 1;
    }
    for (unsigned unit = chunk * kind; unit < (chunk + 1) * kind; ++unit) {
      simt::atomic_ref<unsigned>{owners[unit]}.exchange(0, simt::acq_rel);
    }
  }
};
// As published, without the check of the kind that the count brought: claim, then count.
struct claims_first : one_slab {
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const kind = 1 + i % 2, chunk = i / 2 % 4;
    for (unsigned round = 0; round < 4; ++round) {
      if (!assign(kind) || (taken().fetch_or(1u << chunk, simt::acq_rel) >> chunk & 1) != 0) continue;
      state().fetch_add(1, simt::acq_rel);
      use(kind, chunk, i);
      taken().fetch_and(~(1u << chunk), simt::acq_rel);
      count_down();
    }
  }
};
// As here: count, look at the kind that the count brought, claim.
struct counts_first : one_slab {
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const kind = 1 + i % 2, chunk = i / 2 % 4;
    for (unsigned round = 0; round < 4; ++round) {
      if (!assign(kind)) continue;
      bool const fits = state().fetch_add(1, simt::acq_rel) / one_kind == kind;
      if (fits && (taken().fetch_or(1u << chunk, simt::acq_rel) >> chunk & 1) == 0) {
        use(kind, chunk, i);
        taken().fetch_and(~(1u << chunk), simt::acq_rel);
      }
      count_down();
    }
  }
};
template <class Kernel>
bool gives_each_unit_once() {
  test::device_array<unsigned> word(1), bits(1), owners(8), wrong(1);
  gpuheap::launch(8, Kernel{{word.data(), bits.data(), owners.data(), wrong.data()}}, {.block_threads = 64});
  return wrong.first() == 0 && word.first() % one_slab::one_kind == 0;
}
TEST(Hazard8, WhatIsClaimedBeforeItIsCountedMayLieInASlabOfAnotherKind) {
  expect_right(num_seeds(2000), gives_each_unit_once<counts_first>);
  expect_found(1000, gives_each_unit_once<claims_first>);
}

// ---- 9

// Reads a block's length and clears it afterwards.
struct map_that_looks_first : gpuheap::structures::chunk_map {
  GPUHEAP_FN start unmark(unsigned first) const {
    unsigned const count = count_at(first);
    (void)chunk_map::unmark(first);
    return {count, true};
  }
};
template <class Map>
struct free_twice {
  Map map;
  unsigned* freed;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (map.unmark(i / 2 * 4).count != 0) simt::atomic_ref<unsigned>{*freed}.fetch_add(1, simt::relaxed);  // relaxed: a count
  }
};
template <class Map>
bool one_free_of_two_is_the_first() {
  test::device_array<std::uint64_t> taken(1);
  // Live blocks of four chunks at 0, 4, ...
  test::device_array<std::uint32_t> starts(std::vector<std::uint32_t>(8, 0x000b000b));
  test::device_array<unsigned> freed(1);
  Map map;
  map.taken = taken.data();
  map.starts = starts.data();
  gpuheap::launch(32, free_twice<Map>{map, freed.data()});
  return freed.first() == 16;
}
TEST(Hazard9, TwoFreesOfABlockBothTakeItsLength) {
  expect_right(500, one_free_of_two_is_the_first<gpuheap::structures::chunk_map>);
  expect_found(100, one_free_of_two_is_the_first<map_that_looks_first>);
}
TEST(Hazard9, ASecondFreeIsToldSo) {
  using A = small_halloc<>;
  gpuheap::heap<A> heap{bytes_for<A>(16)};
  blocks_of<A> b(heap.ref(), std::vector<std::size_t>{16, 32, 48, 100, 192, 256, 700, 1500, 3072});
  b.malloc_all();
  auto const p = b.pointers().read();
  ASSERT_EQ(b.failed_requests(), 0u);
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (b.sizes()[i] > 16) heap.free(std::vector<void*>{static_cast<char*>(p[i]) + 16});
    heap.free(std::vector<void*>{static_cast<char*>(p[i]) + 1});
  }
  EXPECT_EQ(heap.stats().foreign_frees, 2 * p.size() - 1) << "the middle of live blocks";
  heap.free(p);
  EXPECT_EQ(heap.stats().double_frees, 0u);
  heap.free(p);
  EXPECT_EQ(heap.stats().double_frees, p.size());
  EXPECT_EQ(heap.stats().live_allocations, 0u);
  EXPECT_EQ(heap.verify().problem, "");
}

// ---- 10

// One class holds every slab: the last free one as its next head, others with room. Another class of the same chunk size asks, and one of
// another after all was freed.
template <class Rules>
bool serves_from_heads_of_others() {
  using A = small_halloc<Rules, small>;
  gpuheap::heap<A> heap{bytes_for<A>(2)};
  blocks_of<A> first(heap.ref(), 3, 16), second(heap.ref(), 3, 128), third(heap.ref(), 2, 3072);
  first.malloc_all();
  second.malloc_all();
  if (first.failed_requests() + second.failed_requests() != 0) return false;
  first.free_all();
  second.free_all();
  third.malloc_all();
  return third.failed_requests() == 0 && heap.verify().problem.empty();
}
TEST(Hazard10, NullThoughTheHeadsHaveRoom) {
  EXPECT_TRUE(serves_from_heads_of_others<rules>());
  EXPECT_FALSE(serves_from_heads_of_others<sets_only>()) << "the test does not see the published mistake";
}
TEST(Hazard10, AHeapIsFilledUpByEveryClass) {
  using A = small_halloc<>;
  for (unsigned c = 0; c < 16; ++c) {
    if (c == 1) continue;
    for (unsigned slabs : {1u, 3u, 40u}) {
      gpuheap::heap<A> heap{bytes_for<A>(slabs)};
      auto const bytes = parts::classes<small>::bytes_of(c);
      unsigned const capacity =
          slabs * parts::fill_levels<small>::of(12, parts::classes<small>::kind_of(c)).capacity / parts::classes<small>::chunks_of(c);
      EXPECT_EQ(served(heap, capacity + 40, bytes), capacity) << bytes << " bytes in " << slabs << " slabs";
      EXPECT_EQ(heap.verify().problem, "");
    }
  }
}
// One slab, several classes of its chunk size at once, to the last chunk.
TEST(Hazard10, OneSlabServesAllClassesOfItsChunks) {
  using A = small_halloc<>;
  expect_right(num_seeds(300), [] {
    gpuheap::heap<A> heap{bytes_for<A>(1)};
    std::vector<std::size_t> sizes;
    // 8 + 4 + 2 + 1 + 1 chunks, 16 times: 256.
    for (unsigned i = 0; i < 16; ++i) sizes.insert(sizes.end(), {128, 64, 32, 16, 16});
    blocks_of<A> b(heap.ref(), sizes);
    b.malloc_all(64);
    // Longer blocks may not have found chunks in a row. Single ones fit until nothing is left.
    std::size_t const left = 256 - heap.verify().live_bytes / 16;
    return are_apart(b) && served(heap, left + 3, 16) == left && heap.verify().problem.empty();
  });
}

// ---- 11

TEST(Hazard11, CountsAndNumbersOfSlabsOverflow) {
  // The largest slabs: as many chunks as the count holds sixteen times.
  constexpr halloc_config large{.slab_bytes = 16u << 20, .min_slabs = 1};
  static_assert(parts::fill_levels<large>::of(24, 0).capacity == 1u << 20 && slab_use::used_mask + 1 >= 16u << 20);
  using A = gpuheap::basic_halloc<large, refusing_backing>;
  gpuheap::heap<A> heap{40_MiB};
  ASSERT_EQ(heap.verify().num_slabs, 2u);
  test::blocks<gpuheap::heap<A>::ref_type> b(heap.ref(), 3000, 16);
  b.malloc_all();
  EXPECT_EQ(b.failed_requests(), 0u);
  EXPECT_TRUE(are_apart(b));
  EXPECT_EQ(heap.verify().problem, "");
  EXPECT_EQ(heap.verify().live_blocks, 3000u);
  // Slab 0 is a slab, and no number stands for none: Hazard3 and Hazard10 have heaps of one slab.
}

// ---- 12

// Draws without acquiring: memory is handed out in pieces of another size before its last owners' writes are done.
struct draws_relaxed : rules {
  static constexpr simt::memory_order draws = simt::relaxed;
};
TEST(Hazard12, AReaderOfANewHeadDoesNotAcquire) {
  expect_found(3000, [] { return stays_sound<small_halloc<draws_relaxed>>(4, 48, 6); });
}

// ---- 13

TEST(Hazard13, WhatIsNotInitialisedIsFoundInUse) {
  using A = small_halloc<>;
  std::size_t const guard = 4096, bytes = bytes_for<A>(70);
  gpuheap::memory::allocation const memory{gpuheap::memory::device, bytes + 2 * guard};
  simt::fill(memory.base(), 0xff, memory.bytes());
  auto* const base = static_cast<unsigned char*>(memory.base());
  gpuheap::heap<A> heap{gpuheap::memory::region{base + guard, bytes}};
  for (unsigned round = 0; round < 3; ++round) {
    EXPECT_EQ(heap.verify().problem, "");
    EXPECT_EQ(heap.verify().live_blocks + heap.verify().held_slabs, 0u);
    EXPECT_EQ(served(heap, 75, 3072), 70u);
    heap.reset();
  }
  for (std::size_t i = 0; i < guard; ++i) {
    ASSERT_EQ(base[i], 0xff);
    ASSERT_EQ(base[guard + bytes + i], 0xff);
  }
}

// ---- what the design promises besides

TEST(Halloc, ClassesAreAlignedAndCoverAllSizes) {
  using sizes = parts::classes<halloc_config{}>;
  for (unsigned bytes = 1; bytes <= sizes::largest_bytes; ++bytes) {
    unsigned const c = sizes::of_bytes(bytes);
    ASSERT_GE(sizes::bytes_of(c), bytes);
    ASSERT_EQ(sizes::bytes_of(c) % 16, 0u);
    ASSERT_EQ(sizes::chunks_of(c) * sizes::chunk_bytes(sizes::kind_of(c)), sizes::bytes_of(c));
    ASSERT_TRUE(bytes <= 16 || bytes > sizes::bytes_of(c == 2 ? 0 : c - 1)) << "a smaller class would do for " << bytes;
  }
}
// Requests of the first launch fail while slabs are on their way to other classes; a second launch gets the memory that is left.
template <class A>
void freed_slabs_serve_any_class() {
  gpuheap::heap<A> heap{bytes_for<A>(30)};
  for (unsigned c = 0; c < 16; ++c) {
    if (c == 1) continue;
    auto const bytes = parts::classes<small>::bytes_of(c);
    unsigned const capacity =
        30 * parts::fill_levels<small>::of(12, parts::classes<small>::kind_of(c)).capacity / parts::classes<small>::chunks_of(c);
    blocks_of<A> b(heap.ref(), capacity + 10, bytes), rest(heap.ref(), 100, bytes);
    b.malloc_all();
    rest.malloc_all(32);
    EXPECT_EQ(b.failed_requests() + rest.failed_requests(), 110u) << bytes << " bytes";
    EXPECT_LE(b.failed_requests(), 10 + capacity / 20) << bytes << " bytes";
    EXPECT_TRUE(are_apart(b));
    b.free_all(7);
    rest.free_all();
    parts::audit const now = heap.verify();
    EXPECT_EQ(now.problem, "");
    EXPECT_EQ(now.held_slabs, now.heads) << "slabs that are nobody's head are free";
  }
}
TEST(Halloc, FreedSlabsServeAnyClass) {
  freed_slabs_serve_any_class<small_halloc<rules, small>>();
  freed_slabs_serve_any_class<small_halloc<>>();
}
TEST(Halloc, LargeRequestsAreTheBackings) {
  gpuheap::heap<gpuheap::halloc> heap{8_MiB};
  blocks_of<gpuheap::halloc> b(heap.ref(), std::vector<std::size_t>{3072, 3073, 100'000, 1'000'000});
  b.malloc_all();
  EXPECT_EQ(b.failed_requests(), 0u);
  EXPECT_EQ(heap.verify().live_blocks, 1u);
  EXPECT_GE(heap.stats().held_bytes, 1'103'073u);
  for (auto const answer : b.free_all()) EXPECT_EQ(answer, gpuheap::free_status::done);
  gpuheap::heap<small_halloc<>> without{bytes_for<small_halloc<>>(40)};
  EXPECT_EQ(served(without, 10, 3073), 0u);
}
TEST(Halloc, SlabsShrinkWithTheHeap) {
  for (std::size_t bytes : {64_KiB, 1_MiB, 16_MiB, 100_MiB}) {
    gpuheap::heap<gpuheap::halloc> heap{bytes};
    gpuheap::statistics const s = heap.stats();
    EXPECT_GE(s.usable_bytes, bytes - bytes / 8 - 24_KiB) << bytes;
    EXPECT_GE(heap.verify().num_slabs, bytes >= 1_MiB ? 64u : 6u) << bytes;
  }
}

}  // namespace
