// The hazards of the published XMalloc. Hazard 10 (printf in device code) cannot exist here.
#include "../structures/ring_queue_checks.hpp"
#include "mutant.hpp"

#include <gpuheap/allocators/xmalloc.hpp>

#include <sys/mman.h>

namespace {

using namespace hazards;
using gpuheap::free_status;
using gpuheap::xmalloc_config;

// Classes of 64 and 128 bytes, 16 to a superblock, in one list of four and one more: everything runs full at once.
inline constexpr xmalloc_config small_config{.num_classes = 2,
                                             .smallest_block_bytes = 64,
                                             .blocks_per_superblock = 16,
                                             .lists_per_class = 2,
                                             .list_capacity = 4,
                                             .merge_below = 40,
                                             .spare_percent = 0};
using small = gpuheap::basic_xmalloc<small_config, gpuheap::backing_reference>;

template <class A>
using blocks_of = test::blocks<typename gpuheap::heap<A>::ref_type>;
template <class A>
gpuheap::heap<A> heap_with(simt::size_t more_bytes) {
  return gpuheap::heap<A>{gpuheap::heap<A>::min_bytes() + more_bytes};
}

// ---- 1

// As published: a warp's lanes add their sizes to a slot of the warp, and the first lane allocates for all. Nothing says which lanes are
// there.
class shared_slots {
 public:
  static constexpr gpuheap::allocator_traits traits{.name = "mutant", .free = gpuheap::frees::never};
  struct slot {
    simt::uint32_t total;
    simt::uint64_t base;
  };

  GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    slot& mine = slots_[simt::global_warp()];
    simt::atomic_ref<simt::uint32_t> const total{mine.total};
    simt::atomic_ref<simt::uint64_t> const base{mine.base};
    auto const need = static_cast<simt::uint32_t>(simt::round_up_pow2(bytes, 16));
    simt::uint32_t const before = total.fetch_add(need, simt::acq_rel);
    simt::sync_warp(simt::active_mask());
    if (before == 0) {
      simt::uint32_t const sum = total.exchange(0, simt::acq_rel);
      base.store(simt::atomic_ref<simt::uint64_t>{*top_}.fetch_add(sum, simt::relaxed), simt::release);
    }
    simt::sync_warp(simt::active_mask());
    return pool_ + base.load(simt::acquire) + before;
  }
  GPUHEAP_FN void free(void*) const {}

  static simt::size_t min_region_bytes() { return 4096; }
  static shared_slots create(gpuheap::memory::region region, gpuheap::stream_ref stream) {
    shared_slots m;
    m.top_ = static_cast<simt::uint64_t*>(region.base);
    m.slots_ = reinterpret_cast<slot*>(static_cast<char*>(region.base) + 64);
    m.pool_ = static_cast<char*>(region.base) + 4096;
    simt::fill(region.base, 0, region.bytes, stream);
    return m;
  }

 private:
  simt::uint64_t* top_ = nullptr;
  slot* slots_ = nullptr;
  char* pool_ = nullptr;
};

// Kernel: the lanes of a warp come to malloc in two groups, from two places.
template <class Ref>
struct malloc_from_two_arms {
  Ref heap;
  std::size_t const* sizes;
  void** out;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i % 32 >= 28) return;
    if (test::mix(i) % 2 == 0) {
      out[i] = heap.malloc(sizes[i]);
    } else {
      out[i] = heap.malloc(sizes[i]);
    }
  }
};
template <class A>
bool serves_diverged_warps() {
  auto heap = heap_with<A>(64_KiB);
  std::vector<std::size_t> sizes(80);
  for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = 1 + test::mix(i) % 39;
  blocks_of<A> b(heap.ref(), sizes);
  gpuheap::launch(80, malloc_from_two_arms<typename gpuheap::heap<A>::ref_type>{heap.ref(), b.device_sizes().data(), b.pointers().data()},
                  {.block_threads = 64});
  return b.failed_requests() == 8 && are_apart(b);  // the last warp is half there
}
TEST(Hazard1, DivergedLanesOverwriteTheirWarpsSlot) {
  expect_right(num_seeds(1000), serves_diverged_warps<small>);
  expect_found(1000, serves_diverged_warps<shared_slots>);
}

// ---- 2 and 3: the queues

// XMalloc's queues hold 64 bits.
template <class Queue, class T = simt::uint64_t>
bool queue_keeps_values() {
  using namespace structures_test;
  return every_value_is_popped_once<Queue, T>(explored_threads, 4, 4).empty();
}
TEST(Hazard2, FullIsTakenForADistanceEqualToTheCapacity) {
  expect_right(num_seeds(1000), queue_keeps_values<structures_test::ring_queue<simt::uint64_t>>);
  expect_found(1000, queue_keeps_values<structures_test::queue_by_distance<true>, simt::uint32_t>);
}
TEST(Hazard3, ATailIsSeenBeforeItsCell) {
  expect_right(num_seeds(1000), queue_keeps_values<structures_test::ring_queue<simt::uint64_t>>);
  expect_found(200, queue_keeps_values<structures_test::queue_with_relaxed_turns<simt::uint64_t>>);
}

// ---- 4

// All lanes miss at once. As published each takes a superblock.
TEST(Hazard4, EveryMissTakesASuperblock) {
  expect_right(num_seeds(1000), [] {
    auto heap = heap_with<small>(64_KiB);
    blocks_of<small> b(heap.ref(), 80, 48);  // too large to be merged: 80 blocks, 5 superblocks
    b.malloc_all(64);
    auto const found = heap.verify();
    EXPECT_EQ(found.problem, "");
    return b.failed_requests() == 0 && found.superblocks <= 6 && !testing::Test::HasFailure();
  });
}
// A refiller keeps a block: others may take all that it pushes, and it is served all the same. Here they free nothing.
TEST(Hazard4, ARefillerIsRobbedOfItsBlocks) {
  expect_right(num_seeds(1000), [] {
    auto heap = heap_with<small>(2_KiB);  // a superblock and not much more
    blocks_of<small> b(heap.ref(), 40, 48);
    b.malloc_all(64);
    return b.failed_requests() < b.count() && are_apart(b);
  });
}

// ---- 5

// A superblock's word, and the number of its places in the second level. `Whole`: all bits are taken at once, and the thread that returns
// the first bit lists the superblock. Otherwise as published: bits are taken one by one; a thread that returns a bit to an empty word lists
// the superblock, and a thread that has no room for a block gives the bit back and lists the superblock as well.
template <bool Whole>
struct take_and_return {
  unsigned rounds;
  simt::uint64_t* word;  // {free blocks : 32, listed : 32}
  unsigned* listings;
  unsigned* most_listed;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    simt::uint32_t mine = i < 4 ? 1u << i : 0;  // blocks out at the start
    for (unsigned round = 0; round < rounds; ++round) {
      if (mine != 0) {
        simt::uint32_t const bit = mine & (0 - mine);
        mine &= ~bit;
        give(bit);
      } else if (unlist()) {
        mine |= take();
      }
      if (random.below(4) == 0) simt::back_off{}.wait();
    }
    for (; mine != 0; mine &= mine - 1) give(mine & (0 - mine));
  }
  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<simt::uint32_t> bits() const {
    return simt::atomic_ref<simt::uint32_t>{*reinterpret_cast<simt::uint32_t*>(word)};
  }
  GPUHEAP_FN void list() const {
    unsigned const now = simt::atomic_ref<unsigned>{*listings}.fetch_add(1, simt::acq_rel) + 1;
    simt::atomic_ref<unsigned>{*most_listed}.fetch_max(now, simt::relaxed);
  }
  GPUHEAP_FN bool unlist() const {
    simt::atomic_ref<unsigned> const n{*listings};
    unsigned seen = n.load(simt::relaxed);
    while (seen != 0) {
      if (n.compare_exchange(seen, seen - 1, simt::acq_rel, simt::relaxed)) return true;
    }
    return false;
  }
  GPUHEAP_FN void give(simt::uint32_t bit) const {
    if (bits().fetch_or(bit, simt::acq_rel) == 0) list();
  }
  GPUHEAP_FN simt::uint32_t take() const {
    if constexpr (Whole) {
      return bits().exchange(0, simt::acq_rel);
    } else {
      simt::uint32_t const now = bits().load(simt::relaxed), bit = now & (0 - now);
      if (bit == 0) return 0;
      if ((bits().fetch_and(~bit, simt::acq_rel) & bit) == 0) return 0;
      // The list is full: back with it.
      bits().fetch_or(bit, simt::acq_rel);
      list();
      return 0;
    }
  }
};
template <bool Whole>
bool lists_a_superblock_once() {
  test::device_array<simt::uint64_t> word(1);
  test::device_array<unsigned> listings(1), most(1);
  gpuheap::launch(40, take_and_return<Whole>{6, word.data(), listings.data(), most.data()}, {.block_threads = 64});
  return most.first() == 1 && (word.first() == 0) == (listings.first() == 0);
}
TEST(Hazard5, ASuperblockIsTwiceInTheSecondLevel) {
  expect_right(num_seeds(1000), lists_a_superblock_once<true>);
  expect_found(1000, lists_a_superblock_once<false>);
}

// ---- 6

// A backing that gets nothing back: as published.
class keeping_backing : public gpuheap::backing_reference {
 public:
  keeping_backing() = default;
  explicit keeping_backing(gpuheap::backing_reference const& b) : gpuheap::backing_reference(b) {}
  GPUHEAP_FN void free(void*) const {}
  static keeping_backing create(gpuheap::memory::region r, gpuheap::stream_ref s) {
    return keeping_backing{gpuheap::backing_reference::create(r, s)};
  }
};
// Half of the heap in blocks of one class, then in blocks of the other, then as one.
template <class Backing>
bool changes_phases() {
  using A = gpuheap::basic_xmalloc<small_config, Backing>;
  auto heap = heap_with<A>(16_KiB);
  for (std::size_t const bytes : {48, 112, 48, 112}) {
    blocks_of<A> b(heap.ref(), 8_KiB / (bytes + 16), bytes);
    b.malloc_all(64);
    if (b.failed_requests() != 0 || !are_apart(b)) return false;
    b.free_all(7);
  }
  blocks_of<A> one(heap.ref(), 1, 14_KiB);
  one.malloc_all();
  bool const served = one.failed_requests() == 0;
  one.free_all();
  if constexpr (std::is_same_v<Backing, gpuheap::backing_reference>) {
    auto const found = heap.verify();
    EXPECT_EQ(found.problem, "");
    return served && found.superblocks == 0 && !testing::Test::HasFailure();
  }
  return served;
}
TEST(Hazard6, MemoryStaysWithItsClass) {
  expect_right(num_seeds(500), changes_phases<gpuheap::backing_reference>);
  EXPECT_FALSE(changes_phases<keeping_backing>()) << "the test does not see the published mistake";
}
TEST(Hazard6, SparesAreKeptUntilTheBackingIsExhausted) {
  gpuheap::heap<gpuheap::basic_xmalloc<{}, gpuheap::backing_reference>> heap{32_MiB};
  using A = gpuheap::basic_xmalloc<{}, gpuheap::backing_reference>;
  blocks_of<A> b(heap.ref(), 8000, 400);
  for (unsigned round = 0; round < 3; ++round) {
    b.malloc_all();
    ASSERT_EQ(b.failed_requests(), 0u);
    auto const out = heap.verify();
    EXPECT_EQ(out.problem, "");
    EXPECT_EQ(out.superblocks * 32 - out.first_level - out.second_level, 8000u) << "blocks are live, or in a level";
    EXPECT_LE(out.superblocks, 8000u / 32 + 40);
    b.free_all(5);
    auto const in = heap.verify();
    EXPECT_EQ(in.problem, "");
    EXPECT_EQ(in.superblocks * 32, in.first_level + in.second_level);
    EXPECT_GT(in.superblocks, 0u);
  }
  blocks_of<A> one(heap.ref(), 1, 28_MiB);
  one.malloc_all();
  EXPECT_EQ(one.failed_requests(), 0u);
  EXPECT_EQ(heap.verify().superblocks, 0u);
}

// ---- 7

template <unsigned N>
void expect_as_many_blocks_as_there_are() {
  using A = gpuheap::basic_xmalloc<xmalloc_config{.num_classes = 1,
                                                  .smallest_block_bytes = 512,
                                                  .blocks_per_superblock = N,
                                                  .lists_per_class = 1,
                                                  .list_capacity = 2,
                                                  .merge_below = 1,
                                                  .spare_percent = 100},
                                   gpuheap::backing_reference>;
  gpuheap::memory::allocation const memory{gpuheap::memory::device, 1_MiB};
  gpuheap::heap<A> heap{memory.where()};
  blocks_of<A> b(heap.ref(), 5 * N, 300);
  for (unsigned round = 0; round < 3; ++round) {
    b.malloc_all(64);
    EXPECT_EQ(b.failed_requests(), 0u);
    b.expect_sound(16, memory.where());
    b.fill();
    b.expect_intact("in superblocks of few blocks");
    b.free_all(3);
    auto const found = heap.verify();
    EXPECT_EQ(found.problem, "") << N << " blocks";
    EXPECT_EQ(found.superblocks * N, found.first_level + found.second_level);
  }
}
TEST(Hazard7, ASuperblocksWordHasMoreBitsThanBlocks) {
  expect_as_many_blocks_as_there_are<2>();
  expect_as_many_blocks_as_there_are<3>();
  expect_as_many_blocks_as_there_are<16>();
  expect_as_many_blocks_as_there_are<31>();
  expect_as_many_blocks_as_there_are<32>();
}

// ---- 8

// Memory more than 32 GiB from the queues: what is packed into 32 bits of 8 bytes each does not reach it.
class far_backing : public gpuheap::backing_reference {
 public:
  far_backing() = default;
  explicit far_backing(gpuheap::backing_reference const& b) : gpuheap::backing_reference(b) {}
  static inline void* far_memory = nullptr;
  static far_backing create(gpuheap::memory::region, gpuheap::stream_ref s) {
    return far_backing{gpuheap::backing_reference::create({far_memory, 1_MiB}, s)};
  }
};
TEST(Hazard8, PackedPointersDoNotReachFarMemory) {
  using A = gpuheap::basic_xmalloc<small_config, far_backing>;
  gpuheap::memory::allocation const memory{gpuheap::memory::device, 1_MiB};
  // Addresses only; one MiB of them is touched.
  simt::size_t const reserved = 200_GiB;
  void* const addresses = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(addresses, MAP_FAILED);
  auto const here = reinterpret_cast<std::uintptr_t>(memory.base()), low = reinterpret_cast<std::uintptr_t>(addresses);
  // The memory lies at the end that is further away.
  auto const distance = [here](std::uintptr_t p) { return p > here ? p - here : here - p; };
  std::uintptr_t const at = distance(low) > distance(low + reserved) ? low : low + reserved - 1_MiB;
  ASSERT_GT(distance(at), 32_GiB);
  ASSERT_EQ(mprotect(reinterpret_cast<void*>(at), 1_MiB, PROT_READ | PROT_WRITE), 0);
  far_backing::far_memory = reinterpret_cast<void*>(at);
  {
    gpuheap::heap<A> heap{memory.where()};
    blocks_of<A> b(heap.ref(), 500, 48);
    for (unsigned round = 0; round < 3; ++round) {
      b.malloc_all(64);
      EXPECT_EQ(b.failed_requests(), 0u);
      b.expect_sound(16, {far_backing::far_memory, 1_MiB});
      b.free_all(3);
    }
    EXPECT_EQ(heap.verify().problem, "");
  }
  munmap(addresses, reserved);
}

// ---- 9

// Kernel, one lane a block: writes below the block, as an underflow does, and frees it; then puts right what was there, and frees it.
template <class Ref>
struct underflow {
  Ref heap;
  void* const* blocks;
  free_status* answers;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto* const below = static_cast<simt::uint32_t*>(blocks[i]) - 1;
    simt::uint32_t const was = *below;
    *below = static_cast<simt::uint32_t>(test::mix(i));
    answers[2 * i] = heap.free(blocks[i]);
    *below = was;
    answers[2 * i + 1] = heap.free(blocks[i]);
  }
};
TEST(Hazard9, AnUnderflowBecomesAWildFree) {
  using A = gpuheap::basic_xmalloc<{}, gpuheap::backing_reference>;
  gpuheap::heap<A> heap{4_MiB};
  std::vector<std::size_t> sizes;
  for (unsigned i = 0; i < 200; ++i) sizes.push_back(i % 3 == 0 ? 300 : i % 3 == 1 ? 20 : 9000);
  blocks_of<A> b(heap.ref(), sizes), others(heap.ref(), 200, 100);
  b.malloc_all();
  others.malloc_all();
  others.fill();
  ASSERT_EQ(b.failed_requests() + others.failed_requests(), 0u);
  test::device_array<free_status> answers(400);
  gpuheap::launch(200, underflow<gpuheap::heap<A>::ref_type>{heap.ref(), b.pointers().data(), answers.data()});
  auto const said = answers.read();
  for (unsigned i = 0; i < 200; ++i) {
    EXPECT_EQ(said[2 * i], free_status::foreign) << i;
    EXPECT_EQ(said[2 * i + 1], free_status::done) << i;
  }
  others.expect_intact("after frees of damaged blocks");
  others.free_all();
  EXPECT_EQ(heap.stats().live_allocations, 0u);
  EXPECT_EQ(heap.verify().problem, "");
}
TEST(Hazard9, ASecondFreeOfAPieceFreesTheOthers) {
  expect_right(num_seeds(500), [] {
    auto heap = heap_with<small>(8_KiB);
    blocks_of<small> b(heap.ref(), 64, 8);
    b.malloc_all(64);
    if (b.failed_requests() != 0) return false;
    auto const all = b.pointers().read();
    // Half of the pieces twice; their neighbours stay.
    std::vector<void*> go, stay = all;
    for (std::size_t i = 0; i < all.size(); i += 2) {
      go.insert(go.end(), {all[i], all[i]});
      stay[i] = nullptr;
    }
    b.pointers().write(stay);
    b.fill();
    heap.free(go);
    blocks_of<small> more(heap.ref(), 64, 8);
    more.malloc_all(64);
    more.fill();
    b.expect_intact("after second frees of other pieces");
    return heap.stats().double_frees == 32 && !testing::Test::HasFailure();
  });
}

// ---- all of it

// Kernel: mallocs of every kind, each freed by this lane or, through a mailbox, by another.
template <class Ref>
struct mix_of_sizes {
  Ref heap;
  void** mailboxes;
  unsigned num_mailboxes, rounds;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const kind = random.below(8);
      unsigned const bytes = kind < 4 ? 8 + random.below(32) : kind < 7 ? 40 + random.below(80) : 200 + random.below(800);
      auto* const p = static_cast<simt::uint64_t*>(heap.malloc(bytes));
      if (p != nullptr) simt::plain_write(*p, test::mix(reinterpret_cast<simt::uintptr_t>(p)));
      void* const other =
          random.below(2) == 0 ? p : simt::atomic_ref<void*>{mailboxes[random.below(num_mailboxes)]}.exchange(p, simt::acq_rel);
      open(other);
    }
  }
  GPUHEAP_FN void open(void* p) const {
    if (p == nullptr) return;
    bool const intact = simt::plain_read(*static_cast<simt::uint64_t*>(p)) == test::mix(reinterpret_cast<simt::uintptr_t>(p));
    if (heap.free(p) != free_status::done || !intact) simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
  }
};
template <class Ref>
struct open_all {
  mix_of_sizes<Ref> of;
  GPUHEAP_FN void operator()(unsigned i) const { of.open(of.mailboxes[i]); }
};
// In a heap so small that it is often full. At the end all of it is one block again.
bool survives_a_mix() {
  using ref = gpuheap::heap<small>::ref_type;
  auto heap = heap_with<small>(1_KiB);
  test::device_array<void*> mailboxes(6);
  test::device_array<unsigned> wrong(1);
  mix_of_sizes<ref> const kernel{heap.ref(), mailboxes.data(), 6, 5, wrong.data()};
  gpuheap::launch(80, kernel, {.block_threads = 64});
  EXPECT_EQ(heap.verify().problem, "");
  gpuheap::launch(6, open_all<ref>{kernel});
  auto const found = heap.verify();
  EXPECT_EQ(found.problem, "");
  EXPECT_EQ(found.superblocks * 16, found.first_level + found.second_level) << "a block is lost";
  EXPECT_EQ(heap.stats().live_allocations, 0u);
  blocks_of<small> one(heap.ref(), 1, 2500);
  one.malloc_all();
  EXPECT_EQ(one.failed_requests(), 0u);
  return wrong.first() == 0 && !testing::Test::HasFailure();
}
TEST(XMalloc, SurvivesAMixUnderManySchedules) { expect_right(num_seeds(2000), survives_a_mix); }

// Every block of a full heap is served again when all others ask at once, though requests that nothing fits empty the queues meanwhile:
// nobody is refused because of another's refill or flush.
TEST(XMalloc, RefusesNothingThatIsThereUnderManySchedules) {
  expect_right(num_seeds(1000), [] {
    auto heap = heap_with<small>(1_KiB);
    blocks_of<small> b(heap.ref(), 150, 48);
    b.malloc_all(64);
    auto const all = b.pointers().read();
    std::vector<void*> go;
    for (std::size_t i = 0; i < all.size(); i += 4) {
      if (all[i] != nullptr) go.push_back(all[i]);
    }
    heap.free(go);
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < go.size(); ++i) sizes.insert(sizes.end(), {48, 4_KiB});
    blocks_of<small> again(heap.ref(), sizes);
    again.malloc_all(32);
    return b.failed_requests() > 0 && again.failed_requests() == go.size() && heap.verify().problem.empty();
  });
}

// More ask than a full heap has blocks for: as many are served as there are blocks.
TEST(XMalloc, ServesAsManyAsThereAreBlocksUnderManySchedules) {
  expect_right(num_seeds(500), [] {
    auto heap = heap_with<small>(1_KiB);
    blocks_of<small> b(heap.ref(), 150, 48);
    b.malloc_all(64);
    auto const all = b.pointers().read();
    std::vector<void*> go;
    for (std::size_t i = 0; i < all.size(); i += 3) {
      if (all[i] != nullptr) go.push_back(all[i]);
    }
    heap.free(go);
    blocks_of<small> again(heap.ref(), go.size() + 20, 48);
    again.malloc_all(32);
    return b.failed_requests() > 0 && again.count() - again.failed_requests() >= go.size() && heap.verify().problem.empty();
  });
}

// Over nothing, everything fails and nothing breaks.
TEST(XMalloc, AnswersNullOverABackingWithoutMemory) {
  using A = gpuheap::basic_xmalloc<{}, gpuheap::refusing_backing>;
  gpuheap::heap<A> heap{1_MiB};
  std::vector<std::size_t> sizes;
  for (unsigned i = 0; i < 300; ++i) sizes.push_back(1 + i * i);
  blocks_of<A> b(heap.ref(), sizes);
  b.malloc_all();
  EXPECT_EQ(b.failed_requests(), b.count());
  EXPECT_EQ(heap.verify().problem, "");
  heap.free(std::vector<void*>{&sizes, nullptr});
  EXPECT_EQ(heap.stats().foreign_frees, 1u);
}

}  // namespace
