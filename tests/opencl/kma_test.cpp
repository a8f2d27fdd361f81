// KMA in OpenCL C, on an OpenCL device: the conformance suite's requirements on every allocator.
#include "machine.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace opencl_test {
namespace {

using gpuheap::opencl::kma_config;
using gpuheap::opencl::kma_heap;

constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;
constexpr std::uint64_t heap_bytes = 16 * MiB;
constexpr unsigned items = 1600;
constexpr int done = 0, null = 1, foreign = 2, double_free = 3;  // of kma_free()

// The two languages that the fences are written for.
constexpr char const* languages[] = {"-cl-std=CL1.2", "-cl-std=CL3.0"};

// A heap, and the kernels for it.
struct heap_under_test {
  explicit heap_under_test(std::uint64_t bytes = heap_bytes, char const* language = languages[0], kma_config config = {})
      : heap{machine::get().context(), machine::get().device(), machine::get().queue(), bytes, config},
        options{heap.build_options() + " " + language} {}
  template <class... Arguments>
  void run(char const* name, std::size_t n, Arguments const&... arguments) {
    opencl_test::run(options, name, n, heap, arguments...);
  }
  void expect_sound(char const* when) { EXPECT_EQ(heap.verify().problem, "") << when; }
  void expect_empty() {
    auto const report = heap.verify();
    EXPECT_EQ(report.problem, "");
    EXPECT_EQ(report.held_superblocks, 0u);
    EXPECT_EQ(report.live_blocks + report.live_runs, 0u);
  }
  kma_heap heap;
  std::string options;
};

// Blocks of given sizes.
class blocks {
 public:
  blocks(heap_under_test& heap, std::vector<cl_ulong> sizes)
      : heap_{&heap}, sizes_{sizes}, device_sizes_{sizes}, offsets_{sizes.size()}, answers_{sizes.size()} {}
  blocks(heap_under_test& heap, std::size_t count, cl_ulong bytes) : blocks(heap, std::vector<cl_ulong>(count, bytes)) {}

  [[nodiscard]] std::size_t count() const { return sizes_.size(); }
  [[nodiscard]] array<cl_ulong>& offsets() { return offsets_; }
  void malloc_all() { heap_->run("malloc_each", count(), device_sizes_, offsets_); }
  void fill() { heap_->run("fill_each", count(), device_sizes_, offsets_); }
  void expect_intact(char const* when) {
    array<cl_uint> wrong(1);
    heap_->run("verify_each", count(), device_sizes_, offsets_, wrong);
    EXPECT_EQ(wrong.read()[0], 0u) << "contents of blocks changed " << when;
  }
  std::vector<cl_int> free_all(cl_uint stride = 1) {
    while (std::gcd<std::size_t>(stride, count()) != 1) ++stride;
    heap_->run("free_each", count(), offsets_, answers_, stride);
    return answers_.read();
  }
  [[nodiscard]] std::size_t failed_requests() const {
    auto const all = offsets_.read();
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), cl_ulong{0}));
  }
  // Aligned, in the heap behind its own words, apart.
  void expect_sound() const {
    auto const all = offsets_.read();
    std::vector<std::pair<cl_ulong, cl_ulong>> live;
    auto const& where = heap_->heap.geometry();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] == 0) continue;
      ASSERT_EQ(all[i] % 16, 0u);
      ASSERT_GE(all[i], where.superblocks_at);
      ASSERT_LE(all[i] + sizes_[i], where.superblocks_at + where.num_superblocks * 4 * KiB);
      live.emplace_back(all[i], all[i] + sizes_[i]);
    }
    std::sort(live.begin(), live.end());
    for (std::size_t i = 1; i < live.size(); ++i) ASSERT_LE(live[i - 1].second, live[i].first) << "two blocks overlap";
  }

 private:
  heap_under_test* heap_;
  std::vector<cl_ulong> sizes_;
  array<cl_ulong> device_sizes_, offsets_;
  array<cl_int> answers_;
};

std::vector<cl_ulong> mixed_sizes(std::size_t count, unsigned most, unsigned seed) {
  std::mt19937 random{seed};
  std::vector<cl_ulong> sizes(count);
  for (auto& s : sizes) s = 1 + random() % most;
  return sizes;
}

class KmaOpenCL : public ::testing::TestWithParam<char const*> {};
INSTANTIATE_TEST_SUITE_P(Languages, KmaOpenCL, ::testing::ValuesIn(languages),
                         [](auto const& info) { return std::string(info.param) == languages[0] ? "CL12" : "CL30"; });

TEST_P(KmaOpenCL, BeginsAsTheHostSays) {
  heap_under_test heap{3 * MiB + 12345, GetParam(), {.superblock_log2 = 10, .heads_per_class = 3}};
  auto const& head = heap.heap.geometry();
  std::vector<std::uint32_t> words(head.superblocks_at / 4);
  check(clEnqueueReadBuffer(machine::get().queue(), heap.heap.buffer(), CL_TRUE, 0, words.size() * 4, words.data(), 0, nullptr, nullptr),
        "");
  EXPECT_TRUE(words == gpuheap::opencl::initial_words({.superblock_log2 = 10, .heads_per_class = 3}, head));
  heap.expect_empty();
}

TEST_P(KmaOpenCL, SeparatesBlocksOfEverySize) {
  heap_under_test heap{heap_bytes, GetParam()};
  for (cl_ulong bytes : {1, 8, 16, 24, 100, 256, 1000, 2048, 4096, 4097, 9000}) {
    blocks b(heap, bytes > 4096 ? 400 : items, bytes);
    b.malloc_all();
    EXPECT_EQ(b.failed_requests(), 0u) << bytes;
    b.expect_sound();
    b.fill();
    b.expect_intact("after they were filled");
    heap.expect_sound("with blocks of one size");
    for (int const answer : b.free_all(7)) ASSERT_EQ(answer, done);
    heap.expect_empty();
  }
}

TEST_P(KmaOpenCL, SeparatesBlocksOfMixedSizesWhileOthersComeAndGo) {
  heap_under_test heap{heap_bytes, GetParam()};
  blocks stay(heap, mixed_sizes(items, 2000, 1));
  stay.malloc_all();
  stay.fill();
  for (unsigned round = 0; round < 4; ++round) {
    blocks go(heap, mixed_sizes(items, round % 2 == 0 ? 2000 : 6000, 2 + round));
    go.malloc_all();
    EXPECT_EQ(go.failed_requests(), 0u);
    go.expect_sound();
    go.fill();
    stay.expect_intact("while others came and went");
    go.expect_intact("before they were freed");
    for (int const answer : go.free_all(11)) ASSERT_EQ(answer, done);
  }
  stay.free_all();
  heap.expect_empty();
}

TEST_P(KmaOpenCL, SaysHowMuchMayBeUsed) {
  heap_under_test heap{heap_bytes, GetParam()};
  blocks b(heap, mixed_sizes(items, 9000, 3));
  b.malloc_all();
  array<cl_ulong> usable(items);
  heap.run("usable_each", items, b.offsets(), usable);
  blocks whole(heap, usable.read());
  whole.offsets().write(b.offsets().read());
  whole.expect_sound();
  whole.fill();
  whole.expect_intact("of blocks filled up to their usable size");
  auto const sizes = mixed_sizes(items, 9000, 3);
  auto const said = usable.read();
  for (std::size_t i = 0; i < items; ++i) ASSERT_GE(said[i], sizes[i]);
}

TEST_P(KmaOpenCL, AnswersZeroWhenFullAndRecovers) {
  heap_under_test heap{heap_bytes, GetParam()};
  for (cl_ulong bytes : {cl_ulong{16 * KiB / 4}, heap_bytes / 2048, heap_bytes / 1000, heap_bytes / 100, heap_bytes / 37, cl_ulong{64}}) {
    blocks b(heap, (heap_bytes / bytes + 100) / 16 * 16, bytes);
    b.malloc_all();
    EXPECT_GT(b.failed_requests(), 0u) << bytes;
    EXPECT_LT(b.failed_requests(), b.count()) << bytes;
    b.expect_sound();
    b.fill();
    b.expect_intact("in a full heap");
    heap.expect_sound("when it is full");
    b.free_all(11);
    heap.expect_empty();
    // All of it is one again.
    blocks all(heap, 1, cl_ulong{heap.heap.geometry().num_superblocks} * 4 * KiB);
    all.malloc_all();
    EXPECT_EQ(all.failed_requests(), 0u) << "after blocks of " << bytes;
    all.free_all();
  }
}

TEST_P(KmaOpenCL, ServesFromAFullHeapWhatIsFreed) {
  heap_under_test heap{heap_bytes, GetParam()};
  for (cl_ulong bytes : {16, 64, 1024, 4096}) {
    blocks b(heap, (heap_bytes / bytes / 16 + 1) * 16, bytes);
    b.malloc_all();
    ASSERT_GT(b.failed_requests(), 0u);
    auto all = b.offsets().read();
    std::vector<cl_ulong> go;
    for (std::size_t i = 0; i < all.size(); i += 3) {
      if (all[i] != 0) go.push_back(std::exchange(all[i], 0));
    }
    blocks gone(heap, go.size(), bytes), again(heap, go.size(), bytes);
    gone.offsets().write(go);
    for (int const answer : gone.free_all(3)) ASSERT_EQ(answer, done);
    again.malloc_all();
    EXPECT_EQ(again.failed_requests(), 0u) << bytes;
    again.expect_sound();
    heap.expect_sound("when it is full again");
    b.offsets().write(all);
    b.free_all();
    again.free_all();
    heap.expect_empty();
  }
}

TEST_P(KmaOpenCL, RefusesAbsurdSizes) {
  heap_under_test heap{heap_bytes, GetParam()};
  std::vector<cl_ulong> sizes;
  for (unsigned i = 0; i < 64; ++i) {
    sizes.push_back(~cl_ulong{0} - ((cl_ulong{1} << i % 24) - 1));
    sizes.push_back(cl_ulong{1} << (63 - i % 30));
    sizes.push_back(heap_bytes * (1 + i % 5) + 1);
    sizes.push_back(0);
  }
  blocks b(heap, sizes), normal(heap, 100, 64);
  b.malloc_all();
  EXPECT_EQ(b.failed_requests(), b.count());
  heap.expect_empty();
  normal.malloc_all();
  EXPECT_EQ(normal.failed_requests(), 0u);
  for (int const answer : b.free_all()) EXPECT_EQ(answer, null);
}

TEST_P(KmaOpenCL, RefusesDoubleAndForeignFrees) {
  heap_under_test heap{heap_bytes, GetParam()};
  blocks b(heap, 1024, 64);
  b.malloc_all();
  b.fill();
  auto all = b.offsets().read();
  std::vector<cl_ulong> go;
  for (std::size_t i = 0; i < all.size(); i += 2) go.push_back(std::exchange(all[i], 0));
  array<cl_ulong> doomed(go);
  array<cl_int> answers(2 * go.size());
  heap.run("free_in_pairs", 2 * go.size(), doomed, answers);
  auto const said = answers.read();
  for (std::size_t k = 0; k < go.size(); ++k) {
    ASSERT_EQ(std::min(said[2 * k], said[2 * k + 1]), done);
    ASSERT_EQ(std::max(said[2 * k], said[2 * k + 1]), double_free);
  }
  cl_ulong const one = all[1];
  std::vector<cl_ulong> odd{one + 1, one + 8, one + 16, 16, 256, heap.heap.geometry().superblocks_at - 16, heap_bytes + 64, ~cl_ulong{15}};
  blocks wrong(heap, odd.size(), 1);
  wrong.offsets().write(odd);
  for (int const answer : wrong.free_all()) EXPECT_EQ(answer, foreign);
  b.offsets().write(all);
  b.expect_intact("after frees that were refused");
  heap.expect_sound("after frees that were refused");
  // A run, and its inside.
  blocks run(heap, 1, 100 * KiB), inside(heap, 1, 1);
  run.malloc_all();
  inside.offsets().write({run.offsets().read()[0] + 4 * KiB});
  EXPECT_EQ(inside.free_all()[0], foreign);
  EXPECT_EQ(run.free_all()[0], done);
  EXPECT_GE(run.free_all()[0], foreign);  // nothing begins there any more
  b.free_all();
  heap.expect_empty();
}

TEST_P(KmaOpenCL, SurvivesChurn) {
  heap_under_test heap{heap_bytes, GetParam()};
  array<cl_uint> wrong(1), refused(1);
  for (unsigned launch = 0; launch < 3; ++launch) {
    heap.run("churn", 4 * items, cl_uint{20}, cl_uint{launch == 2 ? 9000u : 1500u}, wrong, refused);
    EXPECT_EQ(wrong.read()[0], 0u);
    heap.expect_empty();
  }
}
TEST_P(KmaOpenCL, SurvivesChurnInAHeapThatIsTooSmall) {
  heap_under_test heap{56 * KiB, GetParam(), {.superblock_log2 = 12, .heads_per_class = 2}};
  array<cl_uint> wrong(1), refused(1);
  for (unsigned launch = 0; launch < 5; ++launch) {
    heap.run("churn", 4 * items, cl_uint{40}, cl_uint{20000}, wrong, refused);
    EXPECT_EQ(wrong.read()[0], 0u);
    heap.expect_empty();
  }
  EXPECT_GT(refused.read()[0], 0u);
}

TEST_P(KmaOpenCL, FreesBlocksOfOtherItemsAtOnce) {
  heap_under_test heap{heap_bytes, GetParam()};
  array<cl_uint> mailboxes(97), wrong(1), refused(1);
  heap.run("exchange_letters", 4 * items, mailboxes, cl_uint{97}, cl_uint{30}, wrong, refused);
  heap.run("empty_mailboxes", 97, mailboxes, wrong);
  EXPECT_EQ(wrong.read()[0], 0u);
  EXPECT_EQ(refused.read()[0], 0u);
  heap.expect_empty();
}

TEST_P(KmaOpenCL, ForgetsEverythingOnReset) {
  heap_under_test heap{heap_bytes, GetParam()};
  for (unsigned round = 0; round < 3; ++round) {
    blocks b(heap, mixed_sizes(items, 8000, round));
    b.malloc_all();
    EXPECT_EQ(b.failed_requests(), 0u);
    b.fill();
    heap.heap.reset();
    heap.expect_empty();
  }
}

TEST(KmaOpenCL, KeepsHeapsApart) {
  heap_under_test one, other{3 * MiB};
  blocks of_one(one, mixed_sizes(items, 1000, 1)), of_other(other, mixed_sizes(items, 1000, 2));
  of_one.malloc_all();
  of_other.malloc_all();
  of_one.fill();
  of_other.fill();
  of_one.expect_intact("beside another heap");
  of_other.free_all();
  other.expect_empty();
  of_one.expect_intact("when the other heap's had gone");
}

TEST_P(KmaOpenCL, AListKeepsItsEntries) {
  heap_under_test heap{heap_bytes, GetParam()};
  cl_uint const rounds = 9;
  array<cl_uint> list(64), refused(1);
  for (unsigned again = 0; again < 2; ++again) {
    heap.run("append_entries", items, list, rounds, refused);
    EXPECT_EQ(refused.read()[0], 0u);
    array<cl_uint> counts(items * rounds);
    heap.run("count_entries", items * rounds, list, rounds, counts);
    auto const all = counts.read();
    EXPECT_EQ(std::count(all.begin(), all.end(), 1u), items * rounds);
    heap.run("clear_list", 1, list);
    heap.expect_empty();
  }
}

TEST_P(KmaOpenCL, AQueueKeepsItsValues) {
  heap_under_test heap{heap_bytes, GetParam()};
  cl_uint const rounds = 50;
  std::size_t const frames = 256;
  array<cl_uint> queue(2 + 2 * frames), counts(items * rounds), refused(1), wrong(1);
  heap.run("init_queue", frames, queue);
  heap.run("push_and_pop", items, queue, rounds, counts, refused, wrong);
  heap.run("pop_rest", 1, queue, counts, wrong);
  auto const all = counts.read();
  EXPECT_EQ(wrong.read()[0], 0u);
  EXPECT_EQ(std::count(all.begin(), all.end(), 1u) + refused.read()[0], items * rounds);
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](cl_uint n) { return n > 1; }), 0);
  heap.run("clear_queue", frames, queue);
  heap.expect_empty();
}

TEST(KmaOpenCL, RefusesAHeapThatIsTooSmall) {
  try {
    heap_under_test heap{100};
    FAIL();
  } catch (gpuheap::opencl::error const& e) {
    EXPECT_NE(std::string(e.what()).find("at least"), std::string::npos);
  }
}

TEST(KmaOpenCL, ServesBeyond4GiB) {
  std::uint64_t const bytes = 5 * GiB;
  if (machine::get().largest_buffer() < bytes)
    GTEST_SKIP() << "KMA beyond 4 GiB: the OpenCL device has no buffers of 5 GiB: use a device or a machine with more memory";
  heap_under_test heap{bytes};
  // Nearly all of it, so that the last ones lie beyond.
  blocks large(heap, 6, 800 * MiB), small(heap, items, 500);
  large.malloc_all();
  EXPECT_EQ(large.failed_requests(), 0u);
  large.expect_sound();
  auto const all = large.offsets().read();
  EXPECT_GT(*std::max_element(all.begin(), all.end()), 4 * GiB);
  small.malloc_all();
  EXPECT_EQ(small.failed_requests(), 0u);
  small.fill();
  small.expect_intact("beside large ones");
  for (int const answer : large.free_all()) EXPECT_EQ(answer, done);
  small.free_all();
  // Memory beyond 4 GiB is written and read.
  blocks whole(heap, 1, cl_ulong{heap.heap.geometry().num_superblocks} * 4 * KiB);
  whole.malloc_all();
  ASSERT_EQ(whole.failed_requests(), 0u);
  whole.free_all();
  heap.expect_empty();
}

}  // namespace
}  // namespace opencl_test
