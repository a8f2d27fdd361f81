// Atomic operations on every width and scope.
#include <cstdint>
#include <limits>

#include "kernels.hpp"

namespace simt_test {

template <class T, simt::scope S>
struct kind {
  using type = T;
  static constexpr simt::scope scope = S;
};

template <class Kind>
class Atomic : public testing::Test {};
using kinds = testing::Types<
    kind<std::uint8_t, simt::scope::device>, kind<std::int16_t, simt::scope::device>, kind<std::uint16_t, simt::scope::block>,
    kind<std::int32_t, simt::scope::device>, kind<std::uint32_t, simt::scope::block>, kind<std::uint32_t, simt::scope::system>,
    kind<std::int64_t, simt::scope::device>, kind<std::uint64_t, simt::scope::block>, kind<std::uint64_t, simt::scope::system>>;
TYPED_TEST_SUITE(Atomic, kinds);

// One thread alone: what each operation returns and leaves behind, in every order that it takes.
template <class T, simt::scope S>
struct sequential {
  T* cell;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned) const {
    simt::atomic_ref<T, S> const a(*cell);
    simt::memory_order const orders[] = {simt::relaxed, simt::acquire, simt::release, simt::acq_rel, simt::seq_cst};
    for (simt::memory_order const order : orders) {
      a.store(T{5}, order == simt::acquire || order == simt::acq_rel ? simt::relaxed : order);
      require(wrong, a.load(order == simt::release || order == simt::acq_rel ? simt::relaxed : order) == T{5});
      require(wrong, a.exchange(T{9}, order) == T{5});
      require(wrong, a.fetch_add(T{4}, order) == T{9});
      require(wrong, a.fetch_sub(T{1}, order) == T{13});
      require(wrong, a.fetch_and(T{6}, order) == T{12});
      require(wrong, a.fetch_or(T{3}, order) == T{4});
      require(wrong, a.fetch_xor(T{1}, order) == T{7});
      require(wrong, a.fetch_min(T{2}, order) == T{6});
      require(wrong, a.fetch_min(T{3}, order) == T{2});
      require(wrong, a.fetch_max(T{1}, order) == T{2});
      require(wrong, a.fetch_max(T{8}, order) == T{2});
      T expected{7};
      require(wrong, !a.compare_exchange(expected, T{1}, order, simt::relaxed) && expected == T{8});
      require(wrong, a.compare_exchange(expected, T{11}, order, simt::relaxed) && expected == T{8});
      require(wrong, a.load(simt::relaxed) == T{11});
    }
  }
};

TYPED_TEST(Atomic, OperationsReturnTheOldValue) {
  using T = typename TypeParam::type;
  cells<T> cell(1);
  cells<unsigned> wrong(1);
  run(1, sequential<T, TypeParam::scope>{cell.data(), wrong.data()});
  EXPECT_EQ(wrong[0], 0u);
}

// Each thread sets a bit of one of two bytes pairs, next to bytes that others write plainly.
struct set_bits_of_16 {
  std::uint16_t* pairs;  // of each thread's group of 16: {bits, plain, bits, plain}
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    std::uint16_t* const mine = pairs + i / 16 * 4;
    auto const bit = static_cast<std::uint16_t>(1u << i % 16);
    if (i % 16 == 3) simt::plain_write(mine[1], static_cast<std::uint16_t>(7));
    require(wrong, (simt::fetch_or_16(mine[0], bit, simt::acq_rel) & bit) == 0);
    require(wrong, (simt::fetch_or_16(mine[2], bit, simt::relaxed) & bit) == 0);
    require(wrong, (simt::fetch_or_16(mine[2], bit, simt::relaxed) & bit) != 0);
    if (i % 16 == 5) simt::plain_write(mine[3], static_cast<std::uint16_t>(9));
  }
};
TEST(Atomic16, OrTouchesNoByteBesideIt) {
  constexpr unsigned threads = 4096;
  cells<std::uint16_t> pairs(threads / 4);
  cells<unsigned> wrong(1);
  run(threads, set_bits_of_16{pairs.data(), wrong.data()});
  EXPECT_EQ(wrong[0], 0u);
  for (unsigned g = 0; g < threads / 16; ++g) {
    EXPECT_EQ(pairs[g * 4], 0xffffu);
    EXPECT_EQ(pairs[g * 4 + 1], 7u);
    EXPECT_EQ(pairs[g * 4 + 2], 0xffffu);
    EXPECT_EQ(pairs[g * 4 + 3], 9u);
  }
}

// Block scope is among the threads of a block: each block has cells of its own, far enough apart that no word holds those of two.
template <class T, simt::scope S>
struct contended {
  static constexpr unsigned num_cells = 7, stride = 16;
  T* cells;
  GPUHEAP_FN void operator()(unsigned i) const {
    T* const c = cells + simt::block_id() * num_cells * stride;
    simt::atomic_ref<T, S>(c[0]).fetch_add(T{3}, simt::relaxed);
    simt::atomic_ref<T, S>(c[stride]).fetch_sub(T{1}, simt::acquire);
    simt::atomic_ref<T, S>(c[2 * stride]).fetch_or(static_cast<T>(T{1} << i % 7), simt::release);
    simt::atomic_ref<T, S>(c[3 * stride]).fetch_xor(T{1}, simt::acq_rel);
    simt::atomic_ref<T, S>(c[4 * stride]).fetch_max(static_cast<T>(i % 101), simt::relaxed);
    simt::atomic_ref<T, S> const counter(c[5 * stride]);
    T seen = counter.load(simt::relaxed);
    // Ends: lock-free; a pass fails only if another thread's has succeeded.
    while (!counter.compare_exchange(seen, static_cast<T>(seen + 1), simt::acq_rel, simt::relaxed)) {
    }
    // A sum of what exchanges hand on, kept by the last: each thread puts in its number and takes out another's.
    T const out = simt::atomic_ref<T, S>(c[6 * stride]).exchange(T{1}, simt::relaxed);
    if (out == T{0}) simt::atomic_ref<T, S>(c[6 * stride + 1]).fetch_add(T{1}, simt::relaxed);
  }
};

TYPED_TEST(Atomic, OperationsOfManyThreadsAddUp) {
  using T = typename TypeParam::type;
  using functor = contended<T, TypeParam::scope>;
  constexpr unsigned num_blocks = 12, block_threads = 202, stride = functor::stride;
  cells<T> all(num_blocks * functor::num_cells * stride);
  run(num_blocks * block_threads, functor{all.data()}, block_threads);
  for (unsigned block = 0; block < num_blocks; ++block) {
    T const* const c = all.data() + block * functor::num_cells * stride;
    EXPECT_EQ(c[0], static_cast<T>(3 * block_threads));
    EXPECT_EQ(c[stride], static_cast<T>(T{0} - static_cast<T>(block_threads)));
    EXPECT_EQ(c[2 * stride], T{127});
    EXPECT_EQ(c[3 * stride], T{0});
    EXPECT_EQ(c[4 * stride], T{100});
    EXPECT_EQ(c[5 * stride], static_cast<T>(block_threads));
    EXPECT_EQ(c[6 * stride + 1], T{1}) << "exactly one exchange takes out what was there at first";
  }
}

struct swap_pointers {
  int** cell;
  int* values;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    simt::atomic_ref<int*> const a(*cell);
    int* seen = a.load(simt::acquire);
    // Ends: lock-free; a pass fails only if another thread's has succeeded.
    while (!a.compare_exchange(seen, values + i, simt::acq_rel, simt::acquire)) {
    }
    require(wrong, seen == nullptr || (seen >= values && seen < values + 64));
  }
};

TEST(AtomicPointer, IsExchanged) {
  cells<int*> cell(1);
  cells<int> values(64);
  cells<unsigned> wrong(1);
  run(64, swap_pointers{cell.data(), values.data(), wrong.data()});
  EXPECT_EQ(wrong[0], 0u);
  EXPECT_GE(cell[0], values.begin());
  EXPECT_LT(cell[0], values.end());
}

struct add_pairs {
  simt::pair64* pair;
  unsigned* done;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (!simt::has_atomic_16()) return;
    simt::pair64 seen{0, 0};
    // Ends: lock-free; a pass fails only if another thread's has succeeded.
    while (!simt::compare_exchange_16(*pair, seen, simt::pair64{seen.low + 1, seen.high + i})) {
    }
    simt::atomic_ref<unsigned>(*done).fetch_add(1u, simt::relaxed);
  }
};

TEST(Atomic16, ChangesBothHalvesTogether) {
  cells<simt::pair64> pair(1);
  cells<unsigned> done(1);
  run(300, add_pairs{pair.data(), done.data()});
  if (done[0] == 0) GTEST_SKIP() << "exchanges of 16 bytes: this hardware has none: use a GPU of compute capability 9.0";
  EXPECT_EQ(pair[0].low, 300u);
  EXPECT_EQ(pair[0].high, 300u * 299 / 2);
}

struct read_and_write {
  unsigned* words;
  simt::uint64_t* doubles;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    require(wrong, simt::load_cached(words[i]) == i && simt::load_cached(doubles[i]) == static_cast<simt::uint64_t>(i) << 33);
    simt::plain_write(words[i], simt::plain_read(words[i]) + 1);
  }
};

TEST(PlainAndCached, ReadWhatTheHostWrote) {
  cells<unsigned> words(400), wrong(1);
  cells<simt::uint64_t> doubles(400);
  for (unsigned i = 0; i < 400; ++i) {
    words[i] = i;
    doubles[i] = std::uint64_t{i} << 33;
  }
  run(400, read_and_write{words.data(), doubles.data(), wrong.data()});
  EXPECT_EQ(wrong[0], 0u);
  for (unsigned i = 0; i < 400; ++i) EXPECT_EQ(words[i], i + 1);
}

TEST(AtomicOnTheHost, WorksOnMemoryOfBoth) {
  cells<unsigned> cell(1);
  simt::atomic_ref<unsigned, simt::scope::system> const a(cell[0]);
  a.store(3u, simt::release);
  EXPECT_EQ(a.fetch_add(4u, simt::acq_rel), 3u);
  unsigned expected = 7;
  EXPECT_TRUE(a.compare_exchange(expected, 1u, simt::acq_rel, simt::relaxed));
  EXPECT_EQ(a.load(simt::acquire), 1u);
}

}  // namespace simt_test
