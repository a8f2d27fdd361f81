// The promises of the blocks of an allocator's heap, under an allocator that the test tells what to return: no block is handed out twice,
// no block goes back that is not live, and no block that a capture saw is handed out again.

#include "tools/host/heap_blocks.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace gpuheap::interpose;
using outcome = block_source::outcome;

namespace {

constexpr std::uint64_t base = 1 << 20;
constexpr std::uint64_t bytes = 1 << 16;

// Answers with what `next` says; remembers what came back.
struct told_heap {
  heap_block next{};
  heap_answer answer = heap_answer::done;
  std::vector<std::uint64_t> released;
  bool forgotten = false;
};

told_heap& of(void* heap) { return *static_cast<told_heap*>(heap); }

heap_functions functions() {
  heap_functions all{};
  all.version = heap_interface_version;
  all.allocator = "told";
  all.allocate = [](void* heap, std::size_t, std::size_t, heap_block* out, heap_text* why) {
    std::strcpy(why->words, "as told");
    *out = of(heap).next;
    return of(heap).answer;
  };
  all.release = [](void* heap, std::uint64_t given, heap_text* why) {
    std::strcpy(why->words, "as told");
    of(heap).released.push_back(given);
    return of(heap).answer;
  };
  all.forget = [](void* heap) { of(heap).forgotten = true; };
  return all;
}

std::vector<std::string> reports;
void report(std::string_view code, std::string const& words) { reports.push_back(std::string{code} + ": " + words); }

struct HeapBlocks : testing::Test {
  HeapBlocks() { reports.clear(); }
  outcome ask(std::uint64_t offset, std::uint64_t asked, std::uint64_t given = 0) {
    heap.next = {base + offset, given == 0 ? base + offset : given};
    return blocks.allocate(7, asked).how;
  }
  heap_functions const all = functions();
  told_heap heap;
  heap_blocks blocks{all, &heap, base, bytes, &report};
};

}  // namespace

TEST_F(HeapBlocks, ABlockLivesFromItsRequestToItsRelease) {
  EXPECT_EQ(ask(1024, 100, base + 1000), outcome::served);
  EXPECT_TRUE(blocks.begins_live(1024));
  EXPECT_FALSE(blocks.begins_live(1000));
  EXPECT_EQ(blocks.live_bytes(), 100U);
  EXPECT_EQ(blocks.num_live(), 1U);
  EXPECT_FALSE(blocks.release(1000));
  EXPECT_TRUE(blocks.release(1024));
  EXPECT_EQ(heap.released, std::vector<std::uint64_t>{base + 1000}) << "the allocator's own pointer goes back";
  EXPECT_FALSE(blocks.release(1024)) << "once";
  EXPECT_EQ(blocks.live_bytes(), 0U);
  EXPECT_TRUE(reports.empty());
}

TEST_F(HeapBlocks, TheBlockThatHoldsAnAddressIsFound) {
  ASSERT_EQ(ask(512, 10), outcome::served);
  ASSERT_EQ(ask(4096, 1000), outcome::served);
  EXPECT_EQ(blocks.live_at(0).bytes, 0U);
  EXPECT_EQ(blocks.live_at(521).offset, 512U);
  EXPECT_EQ(blocks.live_at(522).bytes, 0U);
  EXPECT_EQ(blocks.live_at(5095).bytes, 1000U);
  EXPECT_EQ(blocks.live_at(5096).bytes, 0U);
}

TEST_F(HeapBlocks, WhatTheAllocatorGivesWronglyIsNotHandedOut) {
  ASSERT_EQ(ask(4096, 1024), outcome::served);
  EXPECT_EQ(ask(4096, 1), outcome::failed) << "the same block again";
  EXPECT_EQ(ask(4608, 100), outcome::failed) << "inside a live block";
  EXPECT_EQ(ask(3584, 513), outcome::failed) << "into the next block";
  EXPECT_EQ(ask(bytes, 1), outcome::failed) << "past the heap";
  EXPECT_EQ(ask(bytes - 512, 513), outcome::failed) << "out of the heap";
  EXPECT_EQ(ask(std::uint64_t{0} - 512, 1), outcome::failed) << "before the heap";
  EXPECT_EQ(ask(100, 1), outcome::failed) << "not aligned";
  EXPECT_EQ(reports.size(), 7U);
  EXPECT_EQ(ask(3584, 512), outcome::served);
  EXPECT_EQ(ask(5120, 1), outcome::served);
  EXPECT_EQ(ask(bytes - 512, 512), outcome::served);
}

TEST_F(HeapBlocks, RefusalsAreToldApart) {
  EXPECT_EQ(ask(0, bytes + 1), outcome::too_large);
  heap.answer = heap_answer::nothing_fits;
  EXPECT_EQ(ask(0, bytes), outcome::busy);
  EXPECT_TRUE(reports.empty());
  heap.answer = heap_answer::failed;
  EXPECT_EQ(ask(0, 1), outcome::failed);
  EXPECT_EQ(reports, std::vector<std::string>{"E05: the heap did not answer a request: as told"});
  heap.answer = heap_answer::ended;
  EXPECT_EQ(ask(0, 1), outcome::failed);
  EXPECT_EQ(reports.size(), 1U) << "at the end of the process there is nothing to tell";
  EXPECT_EQ(blocks.num_live(), 0U);
}

TEST_F(HeapBlocks, ABlockThatDoesNotGoBackIsTold) {
  ASSERT_EQ(ask(0, 64), outcome::served);
  heap.answer = heap_answer::failed;
  EXPECT_TRUE(blocks.release(0)) << "the program's free is done all the same";
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].substr(0, 66), "E07: a block of 64 bytes could not be freed in the heap (as told):");
}

TEST_F(HeapBlocks, WhatACaptureSawNeverGoesBack) {
  ASSERT_EQ(ask(0, 64), outcome::served);
  blocks.pin(true);
  ASSERT_EQ(ask(512, 64), outcome::served);
  blocks.pin(false);
  ASSERT_EQ(ask(1024, 64), outcome::served);
  for (std::uint64_t const offset : {0U, 512U, 1024U}) EXPECT_TRUE(blocks.release(offset));
  EXPECT_EQ(heap.released, std::vector<std::uint64_t>{base + 1024});
}

TEST_F(HeapBlocks, TheHeapIsForgottenWithTheBlocks) {
  {
    heap_blocks const short_lived{all, &heap, base, bytes, &report};
    EXPECT_FALSE(heap.forgotten);
  }
  EXPECT_TRUE(heap.forgotten);
}
