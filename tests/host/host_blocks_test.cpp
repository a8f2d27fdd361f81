// Host blocks alone: their contents while they are merged with a file, and once they are separated; the file never changes.

#include "tools/host/host_blocks.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

using namespace gpuheap::interpose;

namespace {

constexpr std::size_t block_bytes = 100'001;  // 24 pages and a part
constexpr std::size_t page = host_blocks::page_bytes;

// A file as a pool has one.
struct file_of_bytes {
  file_of_bytes() : descriptor{memfd_create("test", 0)} {
    EXPECT_EQ(ftruncate(descriptor, num), 0);
    bytes = static_cast<unsigned char*>(mmap(nullptr, num, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
    for (std::size_t i = 0; i < num; ++i) bytes[i] = static_cast<unsigned char>(i * 13 + i / 251);
  }
  ~file_of_bytes() {
    munmap(bytes, num);
    close(descriptor);
  }
  static constexpr std::size_t num = 64 * page;
  int descriptor;
  unsigned char* bytes;
};

struct HostBlocks : testing::Test {
  unsigned char* block() { return static_cast<unsigned char*>(blocks.allocate(block_bytes, 16, 7)); }
  bool merge(void* with, std::size_t offset) { return blocks.merge(with, file.descriptor, offset, file.bytes + offset, 8); }
  bool shows(unsigned char const* of, std::size_t offset) { return std::memcmp(of, file.bytes + offset, block_bytes) == 0; }

  host_blocks blocks;
  file_of_bytes file;
};

}  // namespace

TEST_F(HostBlocks, BeginAtPagesAndAreZeros) {
  auto* const one = block();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one) % page, 0U);
  EXPECT_TRUE(std::all_of(one, one + block_bytes, [](unsigned char byte) { return byte == 0; }));
  auto* const aligned = blocks.allocate(block_bytes, 1 << 20, 7);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % (1 << 20), 0U);
  EXPECT_EQ(blocks.begins_at(one).bytes, block_bytes);
  EXPECT_EQ(blocks.begins_at(one + page).bytes, 0U);
  EXPECT_TRUE(blocks.release(one) && blocks.release(aligned));
  EXPECT_FALSE(blocks.release(one));
  EXPECT_FALSE(blocks.any());
}

TEST_F(HostBlocks, ThatCannotBeHadAreNone) {
  EXPECT_EQ(blocks.allocate(~std::size_t{0}, 16, 7), nullptr);
  EXPECT_EQ(blocks.allocate(std::size_t{1} << 60, 16, 7), nullptr);
}

TEST_F(HostBlocks, MergedShowTheFileAndNeverChangeIt) {
  auto* const one = block();
  std::memset(one, 1, block_bytes);
  ASSERT_TRUE(merge(one, 2 * page));
  EXPECT_TRUE(shows(one, 2 * page));
  std::vector<unsigned char> const before(file.bytes, file.bytes + file.num);
  one[5000] ^= 1;
  one[block_bytes - 1] ^= 1;  // past the last whole page
  EXPECT_TRUE(std::equal(before.begin(), before.end(), file.bytes));
  EXPECT_FALSE(shows(one, 2 * page));
  // Another download drops what was written.
  ASSERT_TRUE(merge(one, 2 * page));
  EXPECT_TRUE(shows(one, 2 * page));
}

TEST_F(HostBlocks, SeparatedKeepTheirBytesWhateverTheFileBecomes) {
  auto* const one = block();
  auto* const other = block();
  ASSERT_TRUE(merge(one, 0));
  ASSERT_TRUE(merge(other, page));
  one[9000] = 200;
  std::vector<unsigned char> const first(one, one + block_bytes);
  std::vector<unsigned char> const second(other, other + block_bytes);
  auto const separated = blocks.separate_all();
  ASSERT_EQ(separated.size(), 2U);
  EXPECT_EQ(separated[0].bytes, block_bytes);
  EXPECT_EQ(separated[0].site, 7U);
  EXPECT_EQ(separated[0].twin, 8U);
  std::memset(file.bytes, 3, file.num);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), one));
  EXPECT_TRUE(std::equal(second.begin(), second.end(), other));
  EXPECT_TRUE(blocks.separate_all().empty());
}

TEST_F(HostBlocks, LoseNoWriteOfAnotherThreadWhileTheyAreSeparated) {
  auto* const one = block();
  for (int round = 0; round < 50; ++round) {
    ASSERT_TRUE(merge(one, 0));
    std::atomic<bool> ready{false};
    std::thread writer{[&] {
      ready.store(true);
      for (std::size_t i = 0; i < block_bytes; i += 512) ++one[i];
    }};
    while (!ready.load()) {
    }
    blocks.separate_all();
    writer.join();
    for (std::size_t i = 0; i < block_bytes; ++i) {
      ASSERT_EQ(one[i], static_cast<unsigned char>(file.bytes[i] + (i % 512 == 0 ? 1 : 0))) << i;
    }
  }
}

TEST_F(HostBlocks, ThatWereFixedKeepTheirPages) {
  auto* const one = block();
  ASSERT_TRUE(merge(one, 0));
  blocks.fix(one + block_bytes - 1, 1);
  EXPECT_TRUE(shows(one, 0));
  EXPECT_FALSE(blocks.any_merged());
  EXPECT_FALSE(merge(one, page));
  EXPECT_TRUE(shows(one, 0));
  // Of no file: what is given back comes again as zeros.
  ASSERT_EQ(madvise(one, 2 * page, MADV_DONTNEED), 0);
  EXPECT_TRUE(std::all_of(one, one + 2 * page, [](unsigned char byte) { return byte == 0; }));
}

TEST_F(HostBlocks, AreNotMergedAtWhatIsNoPageOrNoFile) {
  auto* const one = block();
  std::memset(one, 1, block_bytes);
  EXPECT_FALSE(merge(one, 512));
  EXPECT_FALSE(merge(one + page, 0));
  EXPECT_TRUE(std::all_of(one, one + block_bytes, [](unsigned char byte) { return byte == 1; }));
  EXPECT_FALSE(blocks.merge(one, -1, 0, file.bytes, 8));
  one[block_bytes - 1] = 2;  // still there to be written
}

TEST_F(HostBlocks, OfAChildAreItsOwn) {
  auto* const one = block();
  ASSERT_TRUE(merge(one, 0));
  unsigned char const before = one[5000];
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  blocks.before_fork();
  pid_t const child = fork();
  if (child == 0) {
    blocks.after_fork_in_child();
    char word = 0;
    bool const right = read(go[0], &word, 1) == 1 && one[5000] == before && blocks.release(one);
    _exit(right ? 0 : 1);
  }
  blocks.after_fork_in_parent();
  file.bytes[5000] = static_cast<unsigned char>(before + 1);
  ASSERT_EQ(write(go[1], "g", 1), 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}
