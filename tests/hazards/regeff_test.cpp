// The hazards of the published Reg-Eff circular lists.
#include "mutant.hpp"

#include <gpuheap/allocators/regeff.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>

namespace {

using namespace hazards;
using simt::uint32_t;

// Small units, so that small heaps have many chunks.
template <bool Fused, bool Multi, class Headers = gpuheap::regeff::headers<Fused>>
using small_regeff =
    gpuheap::basic_regeff<gpuheap::regeff_config{.fused = Fused, .multi = Multi, .unit_bytes = 16, .leaf_units = 1}, Headers>;
using small_c = small_regeff<false, false>;
using small_cf = small_regeff<true, false>;
using small_cm = small_regeff<false, true>;
using small_cfm = small_regeff<true, true>;

// A list as published: headers of two words in front of the chunks, one hint, offsets in bytes. `P` says which mistakes it has.
struct no_mistake {
  static constexpr bool merges = false;  // without it, headers in front of chunks are never destroyed
  static constexpr bool unlocks_plainly = false;
  static constexpr bool end_is_free = false;
  static constexpr bool answers_null = true;
  static constexpr bool reduces_sm_id = true;
  static constexpr unsigned laps = 3;  // 0: without end
  static constexpr uint32_t offset_mask = ~uint32_t{0};
};

template <class P>
class published_list {
 public:
  static constexpr gpuheap::allocator_traits traits{.name = "mutant"};

  GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    if (bytes > pool_bytes_) return nullptr;
    auto const need = static_cast<uint32_t>(simt::round_up_pow2(bytes + header_bytes, 16));
    unsigned const sm = P::reduces_sm_id ? simt::sm_id() % num_hints_ : simt::sm_id();
    simt::atomic_ref<uint32_t> const hint{hints_[sm]};
    uint32_t at = hint.load(simt::acquire), next = 0;
    unsigned ends = 0;
    // Ends: after P::laps laps.
    while (true) {
      uint32_t is_free = 0;
      bool const locked = flag(at).compare_exchange(is_free, 1, simt::acquire, simt::acquire);
      next = end_of(at).load(simt::acquire) & P::offset_mask;
      if (locked && next - at >= need) break;
      if (locked) unlock(at);
      if (next == 0 && ++ends == P::laps) return P::answers_null ? nullptr : pool_ + header_bytes;
      at = next;
    }
    if (next - at >= 2 * need) {
      end_of(at + need).store(next, simt::relaxed);
      flag(at + need).store(0, simt::release);
      end_of(at).store(at + need, simt::release);
      next = at + need;
    }
    hint.store(next, simt::release);
    return pool_ + at + header_bytes;
  }
  GPUHEAP_FN void free(void* p) const {
    if (p == nullptr) return;
    auto const at = static_cast<uint32_t>(static_cast<char*>(p) - pool_ - header_bytes);
    uint32_t const next = end_of(at).load(simt::relaxed);
    uint32_t is_free = 0;
    if (P::merges && flag(next).compare_exchange(is_free, 1, simt::acquire, simt::relaxed)) {
      uint32_t const behind = end_of(next).load(simt::relaxed);
      // Also published: no thread that starts later begins at the absorbed chunk.
      simt::atomic_ref<uint32_t>{hints_[0]}.store(behind, simt::relaxed);
      end_of(at).store(behind, simt::release);
    }
    flag(at).store(0, simt::release);
  }

  static simt::size_t min_region_bytes() { return 512; }
  // A chunk of 64 bytes for each 64 bytes of the pool.
  static published_list create(gpuheap::memory::region region, gpuheap::stream_ref) {
    published_list m;
    m.num_hints_ = 4;
    m.hints_ = static_cast<uint32_t*>(region.base);
    m.pool_ = static_cast<char*>(region.base) + 24;  // the hints, and results at multiples of 16
    m.pool_bytes_ = (region.bytes - 64) & ~simt::size_t{63};
    std::fill_n(m.hints_, m.num_hints_, 0u);
    auto const end = static_cast<uint32_t>(m.pool_bytes_);
    for (uint32_t at = 0; at < end; at += 64) m.write(at, 0, at + 64);
    m.write(end, P::end_is_free ? 0 : 1, 0);
    return m;
  }

 private:
  static constexpr uint32_t header_bytes = 8;
  // If a mistake leads out of the pool, the test ends before it reads anything there.
  [[nodiscard]] GPUHEAP_FN uint32_t* header(uint32_t at) const {
    if (at > pool_bytes_ || at % 16 != 0) throw std::out_of_range("a walk left the list");
    return reinterpret_cast<uint32_t*>(pool_ + at);
  }
  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<uint32_t> flag(uint32_t at) const { return simt::atomic_ref<uint32_t>{header(at)[0]}; }
  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<uint32_t> end_of(uint32_t at) const { return simt::atomic_ref<uint32_t>{header(at)[1]}; }
  GPUHEAP_FN void unlock(uint32_t at) const {
    if (P::unlocks_plainly) {
      simt::plain_write(header(at)[0], 0u);
    } else {
      flag(at).store(0, simt::release);
    }
  }
  void write(uint32_t at, uint32_t state, uint32_t next) const { header(at)[0] = state, header(at)[1] = next; }

  uint32_t* hints_ = nullptr;
  uint32_t num_hints_ = 0;
  char* pool_ = nullptr;
  simt::size_t pool_bytes_ = 0;
};

template <class A>
[[nodiscard]] gpuheap::heap<A> heap_with(simt::size_t bytes) {
  return gpuheap::heap<A>{gpuheap::heap<A>::min_bytes() + bytes};
}

// Kernel: blocks of many sizes come and go. Their words are such that, where a header of 8 bytes lies at a multiple of 16 minus 8, they
// look like that of a free chunk.
template <class Ref>
struct come_and_go {
  Ref heap;
  unsigned rounds;
  unsigned most_bytes;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{simt::uint64_t{i} + 5};
    void* held = nullptr;
    unsigned held_words = 0;
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const words = 1 + random.below(most_bytes / 4);
      void* const p = heap.malloc(words * 4);
      if (p == nullptr) continue;
      for (unsigned w = 0; w < words; ++w) simt::plain_write(static_cast<uint32_t*>(p)[w], word_of(w, i));
      look_and_free(held, held_words, i);
      held = p;
      held_words = words;
    }
    look_and_free(held, held_words, i);
  }
  GPUHEAP_FN void look_and_free(void* p, unsigned words, unsigned i) const {
    unsigned bad = 0;
    for (unsigned w = 0; p != nullptr && w < words; ++w) bad += simt::plain_read(static_cast<uint32_t*>(p)[w]) != word_of(w, i);
    if (bad != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(bad, simt::relaxed);  // relaxed: a count
    heap.free(p);
  }
  GPUHEAP_FN static uint32_t word_of(unsigned w, unsigned i) { return w % 4 == 2 ? 0 : w % 4 == 3 ? i % 32 * 16 : i << 16 | w; }
};
template <class A>
bool keeps_contents() {
  auto heap = heap_with<A>(2_KiB);
  test::device_array<unsigned> wrong(1);
  gpuheap::launch(48, come_and_go<typename gpuheap::heap<A>::ref_type>{heap.ref(), 4, 160, wrong.data()}, {.block_threads = 48});
  return wrong.first() == 0;
}
struct merging_in_front : no_mistake {
  static constexpr bool merges = true;
};
TEST(Hazard1, StaleHeadersAfterAMergeAreLockedAndFollowed) {
  expect_right(num_seeds(400), keeps_contents<small_c>);
  expect_right(num_seeds(400), keeps_contents<small_cf>);
  expect_right(num_seeds(400), keeps_contents<published_list<no_mistake>>);
  expect_found(1000, keeps_contents<published_list<merging_in_front>>);
}

// With the table, the same mistake is to leave an absorbed header as it was.
struct forgets_to_absorb : gpuheap::regeff::headers<true> {
  GPUHEAP_FN void absorb(uint32_t x, uint32_t next) const { set_free(x, next); }
};
TEST(Hazard1, AnAbsorbedHeaderThatStaysFreeGivesMemoryTwice) {
  expect_found(1000, keeps_contents<small_regeff<true, false, forgets_to_absorb>>);
}

// Kernel: thread i frees block order[i], alone.
template <class Ref>
struct free_in_turn {
  Ref heap;
  void* const* blocks;
  unsigned const* order;
  unsigned count;
  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned k = 0; k < count; ++k) heap.free(blocks[order[k]]);
  }
};
// All of the heap in small blocks, freed one after the other: then the heap serves what a new one does.
template <class A>
bool serves_the_root_after_all_was_freed(int order_of_frees) {
  using ref = typename gpuheap::heap<A>::ref_type;
  auto heap = heap_with<A>(16_KiB);
  test::blocks<ref> small(heap.ref(), 500, 48);
  small.malloc_all(1);
  std::vector<unsigned> order;
  for (unsigned i = 0; i < 500; ++i) order.push_back(order_of_frees == 0 ? i : order_of_frees == 1 ? 499 - i : i * 177 % 500);
  test::device_array<unsigned> turns(order);
  gpuheap::launch(1, free_in_turn<ref>{heap.ref(), small.pointers().data(), turns.data(), 500});
  test::blocks<ref> large(heap.ref(), 1, 2_KiB);
  large.malloc_all();
  return small.failed_requests() > 0 && large.failed_requests() == 0;
}
TEST(Hazard2, TheBuildOfTheSurveyDoesNotMerge) {
  for (int order : {0, 1, 2}) {
    EXPECT_TRUE(serves_the_root_after_all_was_freed<small_c>(order));
    EXPECT_TRUE(serves_the_root_after_all_was_freed<small_cf>(order));
    EXPECT_TRUE(serves_the_root_after_all_was_freed<small_cm>(order));
    EXPECT_TRUE(serves_the_root_after_all_was_freed<small_cfm>(order));
    EXPECT_FALSE(serves_the_root_after_all_was_freed<published_list<no_mistake>>(order));
  }
}

// Blocks that one thread cuts off one chunk, freed from the last to the first: each free absorbs what lies behind, and one chunk is left.
template <class A>
void expect_free_merges_forward() {
  auto heap = heap_with<A>(16_KiB);
  using ref = typename gpuheap::heap<A>::ref_type;
  std::size_t const chunks = heap.verify().chunks;
  test::blocks<ref> b(heap.ref(), 8, 64);
  b.malloc_all(1);
  EXPECT_EQ(heap.verify().problem, "");
  auto pointers = b.pointers().read();
  std::sort(pointers.begin(), pointers.end(), std::greater<>());
  for (void* p : pointers) heap.free(std::vector<void*>{p});
  EXPECT_EQ(heap.verify().problem, "");
  EXPECT_LE(heap.verify().chunks, chunks);
}
TEST(Hazard2, FreeItselfMergesForward) {
  expect_free_merges_forward<small_c>();
  expect_free_merges_forward<small_cf>();
}

// CMalloc as published relies on a size read before the lock: meanwhile another thread may have had the chunk, cut it and freed it.
struct measures_before_the_lock : gpuheap::regeff::headers<false> {
  [[nodiscard]] GPUHEAP_FN uint32_t lock(uint32_t x) const {
    uint32_t const seen = look(x) & gpuheap::regeff::next_mask;
    return headers::lock(x) != 0 ? seen : 0;
  }
};
TEST(Hazard3, ASizeReadBeforeTheLockGivesTwoOwnersOneRange) {
  expect_right(num_seeds(400), keeps_contents<small_c>);
  expect_found(2000, keeps_contents<small_regeff<false, false, measures_before_the_lock>>);
}

template <class A>
bool answers_null_when_full() {
  auto heap = heap_with<A>(2_KiB);
  test::blocks<typename gpuheap::heap<A>::ref_type> b(heap.ref(), 200, 32);
  b.malloc_all();
  return b.failed_requests() > 0 && are_apart(b);
}
struct failing_with_the_first_byte : no_mistake {
  static constexpr bool answers_null = false;
};
TEST(Hazard4, FailureIsThePoolsFirstByte) {
  EXPECT_TRUE(answers_null_when_full<small_c>());
  EXPECT_TRUE(answers_null_when_full<small_cfm>());
  EXPECT_TRUE(answers_null_when_full<published_list<no_mistake>>());
  EXPECT_FALSE(answers_null_when_full<published_list<failing_with_the_first_byte>>());
}

// As published, in 15 bits: the upper part of the pool cannot be reached.
struct short_offsets : no_mistake {
  static constexpr uint32_t offset_mask = 0x7fff;
};
template <class A>
bool reaches_all_of_the_pool(simt::size_t bytes) {
  auto heap = heap_with<A>(bytes);
  test::blocks<typename gpuheap::heap<A>::ref_type> b(heap.ref(), 900, 48);
  b.malloc_all();
  return b.failed_requests() == 0;
}
TEST(Hazard7, OffsetsTooShortForThePoolLoseItsUpperPart) {
  EXPECT_TRUE(reaches_all_of_the_pool<small_c>(80_KiB));
  EXPECT_TRUE(reaches_all_of_the_pool<small_cf>(80_KiB));
  EXPECT_TRUE(reaches_all_of_the_pool<published_list<no_mistake>>(60_KiB));
  EXPECT_FALSE(reaches_all_of_the_pool<published_list<short_offsets>>(60_KiB));
}

// Kernel: one block each, straight from the allocator.
template <class A>
struct malloc_from {
  A allocator;
  simt::size_t bytes;
  void** out;
  GPUHEAP_FN void operator()(unsigned i) const { out[i] = allocator.malloc(bytes); }
};
template <class A>
struct free_to {
  A allocator;
  void* const* blocks;
  GPUHEAP_FN void operator()(unsigned i) const { allocator.free(blocks[i]); }
};
// A pool of 40 GiB of which only the table is memory.
template <bool Fused>
void expect_forty_gib() {
  using A = gpuheap::basic_regeff<gpuheap::regeff_config{.fused = Fused, .unit_bytes = 1u << 20}>;
  auto const space = simt::reserve_addresses(40_GiB);
  simt::map_memory(space, space.base, 1_MiB);
  A const heap = A::create({space.base, 40_GiB}, {});
  test::device_array<void*> blocks(38);
  for (unsigned round = 0; round < 2; ++round) {
    gpuheap::launch(38, malloc_from<A>{heap, 1_GiB, blocks.data()});
    auto p = blocks.read();
    std::sort(p.begin(), p.end());
    for (unsigned i = 0; i < 38; ++i) {
      ASSERT_NE(p[i], nullptr);
      char* const end = i == 37 ? static_cast<char*>(space.base) + 40_GiB : static_cast<char*>(p[i + 1]);
      EXPECT_GE(end - static_cast<char*>(p[i]), std::ptrdiff_t{1} << 30);
    }
    gpuheap::launch(38, free_to<A>{heap, blocks.data()});
    EXPECT_EQ(heap.verify({}).problem, "");
    EXPECT_EQ(heap.verify({}).live_chunks, 0u);
  }
  simt::unmap_memory(space, space.base, 1_MiB);
  simt::release_addresses(space);
}
TEST(Hazard7, PoolsAboveFourGiB) {
  expect_forty_gib<false>();
  expect_forty_gib<true>();
}

// The kernel runs on 16 multiprocessors, the heap was made for four.
template <class A>
bool keeps_contents_on_more_multiprocessors() {
  auto few = gpuheap::simulator::current_settings(), many = few;
  few.num_sms = 4;
  many.num_sms = 16;
  std::optional<gpuheap::heap<A>> heap;
  {
    gpuheap::simulator::scoped_settings const scope{few};
    heap.emplace(gpuheap::heap<A>::min_bytes() + 4_KiB);
  }
  gpuheap::simulator::scoped_settings const scope{many};
  test::device_array<unsigned> wrong(1);
  gpuheap::launch(128, come_and_go<typename gpuheap::heap<A>::ref_type>{heap->ref(), 3, 80, wrong.data()}, {.block_threads = 8});
  return wrong.first() == 0;
}
struct trusting_the_sm_id : no_mistake {
  static constexpr bool reduces_sm_id = false;
};
TEST(Hazard8, AnSmIdBeyondTheHintsReadsAndWritesChunks) {
  expect_right(num_seeds(100), keeps_contents_on_more_multiprocessors<small_cm>);
  expect_right(num_seeds(100), keeps_contents_on_more_multiprocessors<small_cfm>);
  expect_right(num_seeds(100), keeps_contents_on_more_multiprocessors<published_list<no_mistake>>);
  expect_found(100, keeps_contents_on_more_multiprocessors<published_list<trusting_the_sm_id>>);
}

TEST(Hazard9, FreeingNullReadsBelowIt) {
  gpuheap::memory::allocation const memory{gpuheap::memory::device, 64_KiB};
  gpuheap::regeff_c const heap = gpuheap::regeff_c::create(memory.where(), {});
  test::device_array<void*> null(1);
  gpuheap::launch(1, free_to<gpuheap::regeff_c>{heap, null.data()});
  EXPECT_EQ(heap.verify({}).problem, "");
}

// Plain stores race with the atomics of others: of the unlocking as published, and of a free that does not release what its owner did.
struct unlocking_plainly : no_mistake {
  static constexpr bool unlocks_plainly = true;
};
struct frees_without_release : gpuheap::regeff::headers<true> {
  GPUHEAP_FN void set_free(uint32_t x, uint32_t next) const { at(x).store(gpuheap::regeff::free_state | next, simt::relaxed); }
};
struct cuts_without_fence : gpuheap::regeff::headers<true> {
  GPUHEAP_FN void cut(uint32_t x, uint32_t next) const { at(x).store(gpuheap::regeff::free_state | next, simt::relaxed); }
};
struct locks_in_two_steps : gpuheap::regeff::headers<true> {
  [[nodiscard]] GPUHEAP_FN uint32_t lock(uint32_t x) const {
    uint32_t const header = look(x);
    if ((header & gpuheap::regeff::free_bit) == 0) return 0;
    at(x).store(header & ~gpuheap::regeff::free_bit, simt::relaxed);
    return header & gpuheap::regeff::next_mask;
  }
};
TEST(Hazard10, PlainStoresRaceWithTheAtomicsOfOthers) {
  expect_right(num_seeds(400), keeps_contents<published_list<no_mistake>>);
  expect_found(1000, keeps_contents<published_list<unlocking_plainly>>);
  expect_found(1000, keeps_contents<small_regeff<true, false, frees_without_release>>);
  expect_found(1000, keeps_contents<small_regeff<true, false, cuts_without_fence>>);
  expect_found(1000, keeps_contents<small_regeff<true, false, locks_in_two_steps>>);
}

// Kernel: thread 0 asks for what one free chunk is enough for, the others for more than there is.
template <class Ref>
struct ask_small_among_large {
  Ref heap;
  unsigned* served;
  GPUHEAP_FN void operator()(unsigned i) const {
    void* const p = heap.malloc(i == 0 ? 40 : 200);
    if (i == 0) *served = p != nullptr;
  }
};
template <class A>
bool serves_small_among_large() {
  auto heap = heap_with<A>(2_KiB);
  using ref = typename gpuheap::heap<A>::ref_type;
  test::blocks<ref> all(heap.ref(), 100, 40);
  all.malloc_all();
  auto const pointers = all.pointers().read();
  heap.free(std::vector<void*>{*std::find_if(pointers.begin(), pointers.end(), [](void* p) { return p != nullptr; })});
  test::device_array<unsigned> served(1);
  gpuheap::launch(40, ask_small_among_large<ref>{heap.ref(), served.data()}, {.block_threads = 40});
  return all.failed_requests() > 0 && served.first() == 1;
}
TEST(Hazard11, WalkersHideSmallChunksFromEachOther) {
  expect_right(num_seeds(400), serves_small_among_large<small_c>);
  expect_right(num_seeds(400), serves_small_among_large<small_cf>);
  expect_right(num_seeds(400), serves_small_among_large<small_cm>);
  expect_right(num_seeds(400), serves_small_among_large<small_cfm>);
  expect_found(1000, serves_small_among_large<published_list<no_mistake>>);
}

struct free_end : no_mistake {
  static constexpr bool end_is_free = true;
};
TEST(Hazard12, AFreeEndHeaderIsTakenForAChunkOfNearly4GiB) {
  expect_right(1, answers_null_when_full<published_list<no_mistake>>);
  expect_found(1, answers_null_when_full<published_list<free_end>>);
}
template <class A>
void expect_the_end_stays() {
  auto heap = heap_with<A>(2_KiB);
  for (std::size_t bytes : {30, 100, 500}) {
    test::blocks<typename gpuheap::heap<A>::ref_type> b(heap.ref(), 100, bytes);
    b.malloc_all();
    EXPECT_GT(b.failed_requests(), 0u);
    b.free_all(7);
    EXPECT_EQ(heap.verify().problem, "");
  }
}
TEST(Hazard12, TheEndIsNeverMerged) {
  expect_the_end_stays<small_c>();
  expect_the_end_stays<small_cf>();
  expect_the_end_stays<small_cm>();
  expect_the_end_stays<small_cfm>();
}

// All of the pool is one chunk, and many threads ask for parts of it at once: while one thread has it locked, the others must not fail.
template <class A>
bool serves_all_from_one_chunk() {
  auto heap = heap_with<A>(4_KiB);
  using ref = typename gpuheap::heap<A>::ref_type;
  test::blocks<ref> whole(heap.ref(), 1, heap.verify().free_units * 16), parts(heap.ref(), 50, 33);
  whole.malloc_all();
  whole.free_all();
  if (whole.failed_requests() != 0 || heap.verify().chunks != 1) return false;
  parts.malloc_all(32);
  return parts.failed_requests() == 0 && are_apart(parts) && heap.verify().live_chunks == 50;
}
TEST(Hazard11, OneChunkInTransitIsNoReasonToFail) {
  expect_right(num_seeds(300), serves_all_from_one_chunk<small_c>);
  expect_right(num_seeds(300), serves_all_from_one_chunk<small_cf>);
  expect_right(num_seeds(300), serves_all_from_one_chunk<small_cm>);
  expect_right(num_seeds(300), serves_all_from_one_chunk<small_cfm>);
}

// The published walk ends only when it finds something.
struct walking_on : no_mistake {
  static constexpr unsigned laps = 0;
};
TEST(FullPool, TheWalkHasNoEnd) {
  EXPECT_TRUE(answers_null_when_full<small_cf>());
  expect_found(1, answers_null_when_full<published_list<walking_on>>);
}

// All operations at once, on every variant. Afterwards nothing is lost: a request gets the whole pool as one block.
template <class A>
bool survives_a_mix() {
  auto heap = heap_with<A>(3_KiB);
  using ref = typename gpuheap::heap<A>::ref_type;
  test::device_array<unsigned> wrong(1);
  gpuheap::launch(44, come_and_go<ref>{heap.ref(), 4, 240, wrong.data()}, {.block_threads = 30});
  auto const found = heap.verify();
  if (wrong.first() != 0 || found.problem != "" || found.live_chunks != 0) return false;
  test::blocks<ref> all(heap.ref(), 1, found.free_units * 16);
  all.malloc_all();
  return all.failed_requests() == 0 && heap.verify().problem == "" && heap.verify().chunks == 1;
}
TEST(Mix, CSurvives) { expect_right(num_seeds(2000), survives_a_mix<small_c>); }
TEST(Mix, CfSurvives) { expect_right(num_seeds(2000), survives_a_mix<small_cf>); }
TEST(Mix, CmSurvives) { expect_right(num_seeds(2000), survives_a_mix<small_cm>); }
TEST(Mix, CfmSurvives) { expect_right(num_seeds(2000), survives_a_mix<small_cfm>); }

// ---- pools that are split in other ways at the start

template <bool Fused, bool Multi, gpuheap::regeff_split Split>
using split_regeff = gpuheap::basic_regeff<gpuheap::regeff_config{
    .fused = Fused, .multi = Multi, .unit_bytes = 16, .leaf_units = 1, .split = Split, .equal_units = 4}>;
TEST(Split, NoneIsOneChunk) {
  auto const found = heap_with<split_regeff<true, true, gpuheap::regeff_split::none>>(3_KiB).verify();
  EXPECT_EQ(found.problem, "");
  EXPECT_EQ(found.chunks, 1u);
}
TEST(Split, EqualChunksFillThePool) {
  auto const found = heap_with<split_regeff<false, true, gpuheap::regeff_split::equal>>(3_KiB).verify();
  EXPECT_EQ(found.problem, "");
  EXPECT_EQ(found.chunks, (found.free_units + 3) / 4);
  EXPECT_EQ(found.largest_free_units, 4u);
}
TEST(Split, EveryStrategySurvivesAMix) {
  using gpuheap::regeff_split;
  expect_right(num_seeds(200), survives_a_mix<split_regeff<false, false, regeff_split::none>>);
  expect_right(num_seeds(200), survives_a_mix<split_regeff<true, true, regeff_split::none>>);
  expect_right(num_seeds(200), survives_a_mix<split_regeff<false, false, regeff_split::equal>>);
  expect_right(num_seeds(200), survives_a_mix<split_regeff<true, true, regeff_split::equal>>);
}

}  // namespace
