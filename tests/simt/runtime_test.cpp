// The host side: memory, copies, streams, clocks, facts, errors; and the bit helpers.
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels.hpp"

namespace simt_test {

TEST(Runtime, AllocatesEveryKindOfMemory) {
  for (simt::memory_kind const kind :
       {simt::memory_kind::device, simt::memory_kind::managed, simt::memory_kind::pinned, simt::memory_kind::host}) {
    void* const p = simt::allocate(kind, 100'000);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 256, 0u);
    std::vector<unsigned char> bytes(100'000, 7);
    simt::copy(p, bytes.data(), bytes.size());
    simt::fill(static_cast<char*>(p) + 10, 9, 20);
    bytes.assign(bytes.size(), 0);
    simt::copy(bytes.data(), p, bytes.size());
    simt::synchronize({});
    EXPECT_EQ(bytes[9], 7);
    EXPECT_EQ(bytes[10], 9);
    EXPECT_EQ(bytes[29], 9);
    EXPECT_EQ(bytes[30], 7);
    EXPECT_EQ(bytes.back(), 7);
    simt::deallocate(kind, p);
  }
}

TEST(Runtime, ThrowsOutOfMemory) {
  EXPECT_THROW((void)simt::allocate(simt::memory_kind::device, std::size_t{1} << 50), simt::out_of_memory);
  // And goes on working.
  simt::deallocate(simt::memory_kind::device, simt::allocate(simt::memory_kind::device, 16));
}

struct write_index {
  unsigned* data;
  GPUHEAP_FN void operator()(unsigned i) const { data[i] = i; }
};

TEST(Runtime, StreamsAndStopwatch) {
  simt::stream_ref const stream = simt::make_stream();
  cells<unsigned> data(1000);
  simt::stopwatch watch;
  watch.start(stream);
  gpuheap::launch(1000, write_index{data.data()}, {.block_threads = 128, .stream = stream});
  watch.stop(stream);
  EXPECT_GT(watch.elapsed_us(), 0.0);
  simt::synchronize(stream);
  simt::synchronize_device();
  for (unsigned i = 0; i < 1000; ++i) EXPECT_EQ(data[i], i);
  simt::destroy_stream(stream);
}

// Streams of other libraries: one with get(), as cuda::stream_ref, and one that converts, as rmm::cuda_stream_view.
struct stream_with_get {
  CUstream_st* native;
  [[nodiscard]] CUstream_st* get() const { return native; }
};
struct stream_that_converts {
  CUstream_st* native;
  operator CUstream_st*() const { return native; }  // NOLINT(google-explicit-constructor)
};

TEST(Runtime, StreamsOfOtherLibrariesConvert) {
  int some = 0;
  void* const where = &some;  // never used as a stream
  auto* const native = static_cast<CUstream_st*>(where);
  auto const taken = [](simt::stream_ref stream) { return stream.native; };
  EXPECT_EQ(taken(native), where);
  EXPECT_EQ(taken(where), where);
  EXPECT_EQ(taken({native}), where);
  EXPECT_EQ(taken(stream_with_get{native}), where);
  EXPECT_EQ(taken(stream_that_converts{native}), where);
  EXPECT_EQ(taken({}), nullptr);
  EXPECT_EQ(taken(nullptr), nullptr);
  EXPECT_EQ(simt::launch_config{.stream = native}.stream.native, where);
  static_assert(!std::is_convertible_v<int*, simt::stream_ref> && !std::is_convertible_v<std::size_t, simt::stream_ref>);
  static_assert(std::is_trivially_copyable_v<simt::stream_ref>);
}

TEST(Runtime, DescribesTheDevice) {
  simt::device_info const info = simt::query_device();
  EXPECT_TRUE(info.backend == "cuda" || info.backend == "simulator");
  EXPECT_FALSE(info.name.empty());
  EXPECT_GT(info.num_sms, 0u);
  EXPECT_GE(info.total_bytes, info.free_bytes);
  EXPECT_GT(info.free_bytes, 0u);
}

TEST(Runtime, RefusesABlockThatIsTooLarge) {
  cells<unsigned> data(4096);
  EXPECT_THROW(gpuheap::launch(4096, write_index{data.data()}, {.block_threads = 2048}), simt::error);
}

TEST(Bits, CountAndRound) {
  EXPECT_EQ(simt::popcount(std::uint32_t{0xf0f0}), 8u);
  EXPECT_EQ(simt::popcount(~std::uint64_t{0}), 64u);
  EXPECT_EQ(simt::lowest_bit(std::uint32_t{0x80000000}), 31u);
  EXPECT_EQ(simt::lowest_bit(std::uint64_t{1} << 40), 40u);
  EXPECT_EQ(simt::highest_bit(std::uint32_t{1}), 0u);
  EXPECT_EQ(simt::highest_bit(std::uint64_t{3} << 40), 41u);
  EXPECT_EQ(simt::low_bits(64), ~std::uint64_t{0});
  EXPECT_EQ(simt::round_up_pow2(4097, 4096), 8192u);
  EXPECT_EQ(simt::ceil_div(0, 7), 0u);
}

}  // namespace simt_test
