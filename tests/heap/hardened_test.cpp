// A hardened heap stays whole whatever is freed: the bits that say where blocks begin, growth, and wrong frees by many threads.
#include "fixtures.hpp"

#include <gpuheap/allocators/scatteralloc.hpp>
#include <gpuheap/hardened.hpp>

#include <algorithm>
#include <set>

namespace {

using namespace test;
using gpuheap::free_status;
using gpuheap::misuse;
using gpuheap::checking::begin_bits;

// ---- the bits alone

// Kernel: the lanes of `lanes` add the blocks at first, first + distance, ..., look at them, and take them twice.
struct add_and_take {
  begin_bits bits;
  simt::uint64_t first, distance;
  simt::lane_mask lanes;
  unsigned* taken;  // how many takes were answered true
  unsigned* seen;
  GPUHEAP_FN void operator()(unsigned i) const {
    if ((lanes >> i & 1) == 0) return;
    simt::lane_mask const here = simt::active_mask();
    simt::uint64_t const address = first + i * distance;
    bits.add(here, address);
    if (bits.has(address)) simt::atomic_ref<unsigned>{*seen}.fetch_add(1, simt::relaxed);  // relaxed, all: counts
    if (bits.take(here, address)) simt::atomic_ref<unsigned>{*taken}.fetch_add(1, simt::relaxed);
    if (bits.take(here, address)) simt::atomic_ref<unsigned>{*taken}.fetch_add(100, simt::relaxed);
  }
};
TEST(BeginBits, AreThoseOfTheirAddressWhateverTheDistance) {
  constexpr simt::size_t bytes = 1 << 20;
  device_array<simt::uint64_t> words(begin_bits::bytes_for(bytes) / 8);
  constexpr simt::uint64_t base = 0x7000'0000'0010;
  begin_bits const bits{words.data(), base};
  for (simt::uint64_t const distance : {16, 32, 48, 80, 112, 160, 256, 320, 496, 512, 528, 1024, 2048, 4096, 5120, 8192, 16384}) {
    for (simt::uint64_t const offset : {0, 16, 1008, 4000}) {
      for (simt::lane_mask const lanes : {0xffffffffu, 0xfff0u, 0x80000001u, 0x5555aaaau, 0x3u, 0x10u}) {
        device_array<unsigned> taken(1), seen(1);
        gpuheap::launch(32, add_and_take{bits, base + offset, distance, lanes, taken.data(), seen.data()}, {.block_threads = 32});
        unsigned const wanted = simt::popcount(lanes);
        ASSERT_EQ(taken.first(), wanted) << distance << " " << offset << " " << lanes;
        ASSERT_EQ(seen.first(), wanted);
      }
    }
  }
  auto const left = words.read();
  EXPECT_TRUE(std::all_of(left.begin(), left.end(), [](std::uint64_t w) { return w == 0; }));
}
TEST(BeginBits, WordsOfBlocksAtADistanceOfAPowerOfTwoLieSideBySide) {
  for (unsigned const kib : {1u, 2u, 4u, 8u}) {
    std::set<std::uint64_t> sectors;
    for (unsigned lane = 0; lane < 32; ++lane) sectors.insert(begin_bits::place_of(lane * kib) / 4);
    EXPECT_EQ(sectors.size(), 8u) << kib;
  }
  std::set<std::uint64_t> places;
  for (unsigned w = 0; w < 256; ++w) places.insert(begin_bits::place_of(w));
  EXPECT_EQ(places.size(), 256u) << "each word has a place of its own";
  EXPECT_EQ(*places.rbegin(), 255u);
}
// Kernel: one begin is found from every address behind it.
struct look_back {
  begin_bits bits;
  simt::uint64_t first;
  simt::uint64_t* answers;
  GPUHEAP_FN void operator()(unsigned) const {
    bits.add_alone(first + 4096);
    answers[0] = bits.last_until(first + 4096);
    answers[1] = bits.last_until(first + 4096 + 15);
    answers[2] = bits.last_until(first + 65536);
    answers[3] = bits.last_until(first + 4095);
    answers[4] = bits.last_until(first + 4096 + 70000);
  }
};
TEST(BeginBits, TheLastBeginUpToAnAddress) {
  device_array<simt::uint64_t> words(begin_bits::bytes_for(1 << 20) / 8), answers(5);
  constexpr simt::uint64_t base = 0x7000'0000'0000;
  gpuheap::launch(1, look_back{begin_bits{words.data(), base}, base, answers.data()});
  EXPECT_EQ(answers.read(), (std::vector<simt::uint64_t>{base + 4096, base + 4096, base + 4096, 0, 0}));
}

// ---- heaps

template <class Allocator>
class Hardened : public ::testing::Test {
 protected:
  using heap_type = gpuheap::heap<gpuheap::hardened<Allocator>>;
  using ref = typename heap_type::ref_type;
};
using allocators = ::testing::Types<gpuheap::sharded_spans, gpuheap::scatteralloc>;
TYPED_TEST_SUITE(Hardened, allocators);

// Kernel: each thread asks for sizes of its own, and frees them in another order.
template <class Ref>
struct use_well {
  Ref heap;
  unsigned* refused;
  GPUHEAP_FN void operator()(unsigned i) const {
    void* held[3] = {};
    GPUHEAP_NO_UNROLL
    for (unsigned round = 0; round < 6; ++round) {
      unsigned const bytes = round < 3 ? 16u << round * 3 : 1 + (i * 37 + round * 11) % 900;
      void*& place = held[(round + i) % 3];
      if (heap.free(place) != free_status::done && place != nullptr) ++*refused;
      place = heap.malloc(bytes);
    }
    GPUHEAP_NO_UNROLL
    for (unsigned h = 0; h < 3; ++h) {
      if (heap.free(held[h]) != free_status::done && held[h] != nullptr) ++*refused;
    }
  }
};
TYPED_TEST(Hardened, RefusesNothingOfASoundProgram) {
  typename TestFixture::heap_type heap{16_MiB};
  device_array<unsigned> refused(1);
  gpuheap::launch(700, use_well<typename TestFixture::ref>{heap.ref(), refused.data()});
  EXPECT_EQ(refused.first(), 0u);
  heap.check();
}

// Kernel: each thread frees the same blocks, and what lies behind and in them; what is given back is counted.
template <class Ref>
struct free_wildly {
  Ref heap;
  void** blocks;
  unsigned count;
  unsigned* freed;
  GPUHEAP_FN void operator()(unsigned i) const {
    GPUHEAP_NO_UNROLL
    for (unsigned b = 0; b < count; ++b) {
      auto* const p = static_cast<char*>(blocks[(b + i) % count]);
      unsigned const status = static_cast<unsigned>(heap.free(p + (i % 3 == 0 ? 0 : i % 3 == 1 ? 16 : 3)));
      if (status == static_cast<unsigned>(free_status::done) && i % 3 == 0)
        simt::atomic_ref<unsigned>{*freed}.fetch_add(1, simt::relaxed);  // relaxed: a count
    }
  }
};
TYPED_TEST(Hardened, OfManyWrongFreesEachBlockIsFreedOnce) {
  typename TestFixture::heap_type heap{16_MiB};
  // Blocks of 48 bytes: no other begins 16 bytes behind one.
  std::vector<void*> const made = blocks_of(heap, 300, 48);
  device_array<void*> blocks{made};
  device_array<unsigned> freed(1);
  gpuheap::launch(96, free_wildly<typename TestFixture::ref>{heap.ref(), blocks.data(), 300, freed.data()}, {.block_threads = 32});
  EXPECT_EQ(freed.first(), 300u);
  std::vector<void*> const again = blocks_of(heap, 300, 48);
  EXPECT_EQ(std::set<void*>(again.begin(), again.end()).size(), 300u);
  EXPECT_FALSE(again.front() == nullptr);
}

// ---- the choices of the program

template <class Ref>
struct free_twice {
  Ref heap;
  GPUHEAP_FN void operator()(unsigned) const {
    void* const p = heap.malloc(100);
    heap.free(p);
    heap.free(p);
  }
};
using heap_t = gpuheap::heap<gpuheap::hardened<>>;
TEST(HardenedHeap, TellsItsMisuseToAHandlerOrThrows) {
  heap_t heap{4_MiB};
  gpuheap::launch(2, free_twice<heap_t::ref_type>{heap.ref()});
  unsigned told = 0;
  heap.on_misuse([&](gpuheap::misuse_finding const& found, std::string const& text) {
    ++told;
    EXPECT_EQ(found.what, misuse::double_free);
    EXPECT_EQ(found.bytes, 112u);
    EXPECT_TRUE(says(text, "freed the block of 112 bytes at 0x"));
  });
  heap.check();
  EXPECT_EQ(told, 2u);
  EXPECT_EQ(heap.misuses(misuse::double_free), 2u);
  heap.on_misuse({});
  gpuheap::launch(1, free_twice<heap_t::ref_type>{heap.ref()});
  EXPECT_THROW(heap.check(), gpuheap::misuse_error);
}
TEST(HardenedHeap, TakesA128thOfItsMemory) {
  gpuheap::heap<> const plain{64_MiB};
  heap_t const heap{64_MiB};
  EXPECT_LT(heap.stats().metadata_bytes, plain.stats().metadata_bytes + 64_MiB / 100);
  EXPECT_GE(heap.stats().metadata_bytes, plain.stats().metadata_bytes + 64_MiB / 132);
}

// ---- growth

TEST(HardenedHeap, GrowsAndShrinks) {
  heap_t heap{gpuheap::growth{.initial = 8_MiB, .at_most = 64_MiB}};
  std::vector<void*> const first = blocks_of(heap, 100, 50000);
  heap.on_exhausted([](gpuheap::exhaustion const&) {});
  heap.check();
  heap.grow(40_MiB);
  std::vector<void*> const more = blocks_of(heap, 500, 50000);
  std::set<void*> all;
  for (auto const& some : {first, more}) {
    for (void* const p : some) {
      if (p == nullptr) continue;
      EXPECT_TRUE(all.insert(p).second);
    }
  }
  EXPECT_GT(all.size(), 600u * 3 / 4);
  heap.free(first);
  heap.free(more);
  EXPECT_EQ(heap.stats().live_allocations, 0u);
  heap.check();
  EXPECT_TRUE(heap.verify().problem.empty());
  EXPECT_GT(heap.trim(), 0u);
  // Pointers into memory that is gone, or that never was there, or into the allocator's own.
  auto const end = reinterpret_cast<std::uintptr_t>(*all.rbegin());
  std::vector<void*> wrong{*all.rbegin(), reinterpret_cast<void*>(end + (1u << 20)),
                           reinterpret_cast<void*>(end & ~std::uintptr_t{0x1ffffff})};
  heap.free(wrong);
  EXPECT_EQ(heap.stats().double_frees + heap.stats().foreign_frees, 3u);
  EXPECT_THROW(heap.check(), gpuheap::misuse_error);
  heap.grow(30_MiB);
  std::vector<void*> const again = blocks_of(heap, 500, 50000);
  heap.free(again);
  EXPECT_EQ(heap.stats().live_allocations, 0u);
  EXPECT_TRUE(heap.verify().problem.empty());
  heap.reset();
  heap.free(blocks_of(heap, 50, 50000));
  EXPECT_EQ(heap.stats().double_frees + heap.stats().foreign_frees, 0u) << "forgotten by the reset";
}
TEST(HardenedHeap, TheLeastItBeginsWithIsEnough) {
  for (simt::size_t const most : {64_MiB, 1_GiB, 100_GiB}) {
    gpuheap::growth size{.initial = 0_MiB, .at_most = most};
    size.initial = gpuheap::heap_size{heap_t::min_bytes(size)};
    heap_t heap{size};
    EXPECT_NE(blocks_of(heap, 1, 64)[0], nullptr) << most;
  }
}

}  // namespace
