#include "tools/malloc/run/code_cache.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;
using namespace gpuheap::unchanged;

class CodeCache : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "gpuheap_cache_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    top_ = name;
    folder_ = top_ / "deep" / "cache";
  }
  void TearDown() override { fs::remove_all(top_); }

  static std::vector<std::byte> code(std::size_t bytes, int what) { return std::vector<std::byte>(bytes, static_cast<std::byte>(what)); }
  static std::string name(int number) { return std::string(63, 'a') + static_cast<char>('a' + number); }
  fs::path file(int number) const { return folder_ / (name(number) + ".cubin"); }

  fs::path top_;
  fs::path folder_;
};

TEST_F(CodeCache, KeepsAndFinds) {
  code_cache const cache{folder_, 1 << 20};
  EXPECT_FALSE(cache.find(name(0)).has_value());
  cache.keep(name(0), code(1000, 7));
  EXPECT_EQ(cache.find(name(0)), code(1000, 7));
  cache.keep(name(0), code(500, 8));
  EXPECT_EQ(cache.find(name(0)), code(500, 8));
  EXPECT_EQ(std::distance(fs::directory_iterator{folder_}, fs::directory_iterator{}), 1);
}

TEST_F(CodeCache, WhatIsDamagedIsNoEntry) {
  code_cache const cache{folder_, 1 << 20};
  cache.keep(name(0), code(1000, 7));
  auto const whole = fs::file_size(file(0));
  for (std::uintmax_t const cut : {std::uintmax_t{0}, std::uintmax_t{1}, std::uintmax_t{56}, whole - 1}) {
    cache.keep(name(0), code(1000, 7));
    fs::resize_file(file(0), cut);
    EXPECT_FALSE(cache.find(name(0)).has_value()) << cut;
  }
  for (std::uintmax_t at = 0; at < whole; at += 13) {
    cache.keep(name(0), code(1000, 7));
    std::fstream open{file(0), std::ios::in | std::ios::out | std::ios::binary};
    open.seekp(static_cast<std::streamoff>(at));
    open.put('\x55');
    open.close();
    EXPECT_FALSE(cache.find(name(0)).has_value()) << at;
  }
}

TEST_F(CodeCache, StaysWithinItsBound) {
  code_cache const cache{folder_, 3500};
  for (int i = 0; i < 3; ++i) {
    cache.keep(name(i), code(1000, i));
    fs::last_write_time(file(i), fs::file_time_type::clock::now() - std::chrono::seconds{100 - i});
  }
  EXPECT_TRUE(cache.find(name(0)).has_value());  // read: young again
  cache.keep(name(3), code(1000, 3));
  EXPECT_TRUE(fs::exists(file(0)));
  EXPECT_FALSE(fs::exists(file(1)));
  EXPECT_TRUE(fs::exists(file(2)));
  EXPECT_TRUE(fs::exists(file(3)));
  cache.keep(name(4), code(4000, 4));  // larger than all
  EXPECT_FALSE(fs::exists(file(4)));
}

TEST_F(CodeCache, LeavesFilesOfOthersAndTakesHalfWrittenOnes) {
  code_cache const cache{folder_, 1 << 20};
  fs::create_directories(folder_);
  fs::path const others = folder_ / "notes.txt", half = folder_ / (name(0) + ".a1B2c3"), fresh = folder_ / (name(1) + ".a1B2c3");
  for (auto const& each : {others, half, fresh}) std::ofstream{each} << "x";
  for (auto const& each : {others, half}) fs::last_write_time(each, fs::file_time_type::clock::now() - std::chrono::hours{2});
  cache.keep(name(2), code(10, 1));
  EXPECT_TRUE(fs::exists(others));
  EXPECT_FALSE(fs::exists(half));
  EXPECT_TRUE(fs::exists(fresh));
}

TEST_F(CodeCache, AFolderThatCannotBeIsNoError) {
  std::ofstream{top_ / "deep"} << "a file";
  code_cache const cache{folder_, 1 << 20};
  cache.keep(name(0), code(10, 1));
  EXPECT_FALSE(cache.find(name(0)).has_value());
  code_cache const none{"", 1 << 20};
  none.keep(name(0), code(10, 1));
  EXPECT_FALSE(none.find(name(0)).has_value());
}

// Several processes write, read and push each other's entries out: whoever finds something finds it whole.
TEST_F(CodeCache, ProcessesShareIt) {
  constexpr int processes = 6;
  for (int p = 0; p < processes; ++p) {
    if (fork() != 0) continue;
    code_cache const cache{folder_, 6000};
    bool good = true;
    for (int round = 0; round < 300; ++round) {
      int const which = (round * 7 + p) % 10;
      if (auto const found = cache.find(name(which)); found) good = good && *found == code(1000, which);
      cache.keep(name(which), code(1000, which));
    }
    _exit(good ? 0 : 1);
  }
  for (int p = 0; p < processes; ++p) {
    int status = 0;
    ASSERT_GT(wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
  std::uintmax_t total = 0;
  for (auto const& each : fs::directory_iterator{folder_}) {
    EXPECT_EQ(each.path().extension(), ".cubin");
    total += each.file_size();
  }
  EXPECT_LE(total, 6000U + processes * 1056U);
}

}  // namespace
