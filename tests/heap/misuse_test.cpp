// The answer of each kind of heap to each misuse: the table of docs/misuse.md, row by row. A row's last column names the test here.
#include "fixtures.hpp"

#include "../support/blocks.hpp"

#include <gpuheap/checked.hpp>
#include <gpuheap/hardened.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace {

using namespace test;
using gpuheap::free_status;
using gpuheap::misuse;

// One call of a script that a kernel carries out: on the pointer in slot `at` of the script's slots.
enum class call : unsigned {
  malloc,   // slot = malloc(a)
  calloc,   // slot = calloc(a, b)
  aligned,  // slot = aligned_malloc(a, b)
  realloc,  // slot = realloc(slot + b, a), if that is not null or a is 0
  free,     // free(slot + a)
  write,    // slot[a] = b
  read,     // answers the byte slot[a]
  usable,   // answers usable_size(slot)
  owns,     // answers owns(slot)
  set,      // slot = a
  copy,     // slot = slot a
  same,     // answers whether slot and slot a are the same
};
struct step {
  call what;
  unsigned at = 0;
  std::uint64_t a = 0, b = 0;
};
constexpr unsigned num_slots = 8;

// Kernel of one thread. Answers: pointers, statuses, numbers.
template <class Ref>
struct follow {
  Ref heap;
  step const* steps;
  unsigned count;
  void** slots;
  std::uint64_t* answers;

  GPUHEAP_FN void operator()(unsigned) const {
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i < count; ++i) answers[i] = take(steps[i]);
  }
  GPUHEAP_FN std::uint64_t take(step s) const {
    auto* const p = static_cast<char*>(slots[s.at]);
    void*& slot = slots[s.at];
    auto const number = [](void const* q) { return static_cast<std::uint64_t>(reinterpret_cast<simt::uintptr_t>(q)); };
    switch (s.what) {
      case call::malloc:
        return number(slot = ask(s.a));
      case call::calloc:
        return number(slot = ask_zeroed(s.a, s.b));
      case call::aligned:
        return number(slot = ask_aligned(s.a, s.b));
      case call::realloc: {
        void* const moved = move(p == nullptr ? nullptr : p + s.b, s.a);
        if (moved != nullptr || s.a == 0) slot = moved;
        return number(moved);
      }
      case call::free:
        return static_cast<std::uint64_t>(give(p == nullptr ? nullptr : p + static_cast<std::int64_t>(s.a)));
      case call::write:
        p[static_cast<std::int64_t>(s.a)] = static_cast<char>(s.b);
        return 0;
      case call::read:
        return static_cast<unsigned char>(p[s.a]);
      case call::usable:
        return heap.usable_size(p);
      case call::owns:
        return heap.owns(p);
      case call::set:
        slot = reinterpret_cast<void*>(static_cast<simt::uintptr_t>(s.a));
        return 0;
      case call::copy:
        slot = slots[s.a];
        return 0;
      case call::same:
        return p == slots[s.a];
    }
    return 0;
  }

 private:
  // Out of line each: a function of all of them together takes ptxas minutes.
  GPUHEAP_COLD void* ask(simt::size_t bytes) const { return heap.malloc(bytes); }
  GPUHEAP_COLD void* ask_zeroed(simt::size_t count, simt::size_t bytes) const { return heap.calloc(count, bytes); }
  GPUHEAP_COLD void* ask_aligned(simt::size_t bytes, simt::size_t alignment) const { return heap.aligned_malloc(bytes, alignment); }
  GPUHEAP_COLD void* move(void* p, simt::size_t bytes) const { return heap.realloc(p, bytes); }
  GPUHEAP_COLD free_status give(void* p) const { return heap.free(p); }
};

template <class Allocator>
class Misuse : public ::testing::Test {
 protected:
  static constexpr bool checked = gpuheap::simt::is_same_v<Allocator, gpuheap::checked<>>;
  static constexpr bool hardened = gpuheap::simt::is_same_v<Allocator, gpuheap::hardened<>>;
  using heap_type = gpuheap::heap<Allocator>;
  using ref = typename heap_type::ref_type;
  heap_type heap{8_MiB};
  device_array<void*> slots{num_slots};

  // After any misuse a hardened heap is whole: its words are sound, and new blocks do not overlap live ones.
  void TearDown() override {
    if (!hardened) return;
    EXPECT_EQ(heap.verify().problem, "");
    std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks;  // begin, end
    for (gpuheap::block_info const& block : heap.blocks()) blocks.emplace_back(block.address, block.address + block.bytes);
    for (void* const p : blocks_of(heap, 200, 48)) {
      if (p != nullptr) blocks.emplace_back(reinterpret_cast<std::uintptr_t>(p), reinterpret_cast<std::uintptr_t>(p) + 48);
    }
    std::sort(blocks.begin(), blocks.end());
    for (std::size_t i = 1; i < blocks.size(); ++i) EXPECT_LE(blocks[i - 1].second, blocks[i].first);
    EXPECT_EQ(heap.verify().problem, "");
  }

  std::vector<std::uint64_t> run(std::vector<step> const& script) { return run_on(heap.ref(), script); }
  std::vector<std::uint64_t> run_on(ref on, std::vector<step> const& script) {
    device_array<step> const steps{script};
    device_array<std::uint64_t> answers(script.size());
    gpuheap::launch(1, follow<ref>{on, steps.data(), static_cast<unsigned>(script.size()), slots.data(), answers.data()});
    return answers.read();
  }
  // The text of the error of check(); empty if there is none.
  std::string said() {
    return text_of_error([this] { heap.check(); });
  }
  // The text of each kind of heap.
  void expect_said(char const* by_release, char const* by_hardened, char const* by_checked) {
    std::string const text = said();
    char const* const part = checked ? by_checked : hardened ? by_hardened : by_release;
    if (part[0] == '\0') {
      EXPECT_EQ(text, "");
    } else {
      EXPECT_TRUE(says(text, part));
    }
  }
  static std::uint64_t as(free_status status) { return static_cast<std::uint64_t>(status); }
  std::uint64_t live() { return heap.stats().live_allocations; }
};

using kinds = ::testing::Types<gpuheap::sharded_spans, gpuheap::hardened<>, gpuheap::checked<>>;
TYPED_TEST_SUITE(Misuse, kinds);

constexpr auto done = static_cast<std::uint64_t>(free_status::done);
constexpr auto null = static_cast<std::uint64_t>(free_status::null);
constexpr auto foreign = static_cast<std::uint64_t>(free_status::foreign);
constexpr auto twice = static_cast<std::uint64_t>(free_status::double_free);

// ---- wrong frees

TYPED_TEST(Misuse, FreeOfNull) {
  EXPECT_EQ(this->run({{call::set, 0, 0}, {call::free, 0}})[1], null);
  EXPECT_EQ(this->said(), "");
}
TYPED_TEST(Misuse, FreeTwice) {
  auto const answers = this->run({{call::malloc, 0, 40}, {call::free, 0}, {call::free, 0}});
  EXPECT_EQ(answers[1], done);
  EXPECT_EQ(answers[2], twice);
  this->expect_said("1 of blocks that were free already", "double free: block 0, thread 0 freed the block of 48 bytes at 0x",
                    "double free: block 0, thread 0 freed the block of 40 bytes at 0x");
}
TYPED_TEST(Misuse, FreeTwiceOfALargeBlock) {
  auto const answers = this->run({{call::malloc, 0, 3 << 20}, {call::free, 0}, {call::free, 0}});
  EXPECT_EQ(answers[1], done);
  EXPECT_EQ(answers[2], foreign) << "its pages went back";
  this->expect_said("1 of pointers that it never handed out", "free of no block: block 0, thread 0 freed 0x",
                    "free of no block: block 0, thread 0 freed 0x");
}
TYPED_TEST(Misuse, FreeTwiceWithARequestBetween) {
  // The release heap gives the next request other memory here; what it cannot tell is a second free of memory that was handed out again.
  auto const answers = this->run({{call::malloc, 0, 40}, {call::free, 0}, {call::malloc, 1, 40}, {call::free, 0}, {call::same, 0, 1}});
  EXPECT_EQ(answers[4], 0u);
  EXPECT_EQ(answers[3], twice);
  EXPECT_EQ(this->live(), 1u);
  this->expect_said("1 of blocks that were free already", "which is free: it was freed before, or never handed out", "double free");
}
TYPED_TEST(Misuse, FreeOfTheMiddle) {
  auto const answers = this->run({{call::malloc, 0, 400}, {call::free, 0, 16}, {call::free, 0}});
  EXPECT_EQ(answers[1], foreign);
  EXPECT_EQ(answers[2], done) << "the block still lives";
  this->expect_said("1 of pointers that it never handed out", "which lies 16 bytes into the block of 448 bytes at 0x",
                    "interior free: block 0, thread 0 freed 0x");
}
TYPED_TEST(Misuse, FreeOfAnUnalignedPointer) {
  auto const answers = this->run({{call::malloc, 0, 400}, {call::free, 0, 1}, {call::free, 0}});
  EXPECT_EQ(answers[1], foreign);
  EXPECT_EQ(answers[2], done);
  this->expect_said("1 of pointers that it never handed out", "which lies 1 bytes into the block of 448 bytes",
                    "which lies 1 bytes into the block of 400 bytes");
}
TYPED_TEST(Misuse, FreeOfTheEndOfABlock) {
  auto const answers = this->run({{call::malloc, 0, 48}, {call::free, 0, 48}});
  // The slot that follows was never handed out. A hardened heap knows that it is free, and no more.
  EXPECT_EQ(answers[1], TestFixture::hardened ? twice : foreign);
  this->expect_said("1 of pointers that it never handed out", "double free: block 0, thread 0 freed the block of 48 bytes",
                    "which lies 48 bytes into the block of 48 bytes");
}
TYPED_TEST(Misuse, FreeOfOtherMemory) {
  device_array<char> other(256);
  auto const answers = this->run({{call::set, 0, reinterpret_cast<std::uintptr_t>(other.data())}, {call::free, 0}});
  EXPECT_EQ(answers[1], foreign);
  this->expect_said("1 of pointers that it never handed out", "foreign free: block 0, thread 0 freed 0x",
                    "foreign free: block 0, thread 0 freed 0x");
}
TYPED_TEST(Misuse, FreeOfAHostPointer) {
  int on_the_stack = 0;
  auto const answers = this->run({{call::set, 0, reinterpret_cast<std::uintptr_t>(&on_the_stack)}, {call::free, 0}});
  EXPECT_EQ(answers[1], foreign);
  this->expect_said("1 of pointers that it never handed out", "which lies outside this heap", "which lies outside this heap");
}
TYPED_TEST(Misuse, FreeOfANumber) {
  auto const answers = this->run({{call::set, 0, 0xdeadbeefdeadbeef}, {call::free, 0}, {call::set, 0, 8}, {call::free, 0}});
  EXPECT_EQ(answers[1], foreign);
  EXPECT_EQ(answers[3], foreign);
  this->expect_said("2 of pointers that it never handed out", "foreign free", "foreign free");
}
TYPED_TEST(Misuse, FreeOfAnotherHeapsBlock) {
  typename TestFixture::heap_type other{8_MiB};
  this->run_on(other.ref(), {{call::malloc, 0, 40}});
  EXPECT_EQ(this->run({{call::free, 0}})[0], foreign);
  EXPECT_EQ(other.stats().live_allocations, 1u) << "it still lives";
  EXPECT_EQ(this->run_on(other.ref(), {{call::free, 0}})[0], done);
  this->expect_said("1 of pointers that it never handed out", "foreign free", "foreign free");
}
TYPED_TEST(Misuse, FreeOfTheHeapsMetadata) {
  gpuheap::memory::allocation const memory{gpuheap::memory::device, 8_MiB};
  typename TestFixture::heap_type inside{memory.where()};
  auto const base = reinterpret_cast<std::uintptr_t>(memory.base());
  auto const answers = this->run_on(inside.ref(), {{call::set, 0, base + 4096}, {call::free, 0}, {call::malloc, 1, 100}});
  EXPECT_EQ(answers[1], foreign);
  EXPECT_NE(answers[2], 0u) << "the heap works on";
}
TYPED_TEST(Misuse, FreeOfMemoryThatWasNeverHandedOut) {
  auto const answers = this->run({{call::malloc, 0, 64}, {call::free, 0, 4096}});
  EXPECT_EQ(answers[1], foreign);
  this->expect_said("1 of pointers that it never handed out", "free of no block", "free of no block");
}
template <class Ref>
struct all_free_one {
  Ref heap;
  void** slots;
  unsigned* counts;  // by status
  GPUHEAP_FN void operator()(unsigned) const {
    simt::atomic_ref<unsigned>{counts[static_cast<unsigned>(heap.free(slots[0]))]}.fetch_add(1, simt::relaxed);  // relaxed: a count
  }
};
TYPED_TEST(Misuse, FreeByManyThreadsAtOnce) {
  this->run({{call::malloc, 0, 40}, {call::malloc, 1, 40}});
  device_array<unsigned> counts(4);
  using ref = typename TestFixture::ref;
  gpuheap::launch(500, all_free_one<ref>{this->heap.ref(), this->slots.data(), counts.data()});
  EXPECT_EQ(counts.read(), (std::vector<unsigned>{1, 0, 0, 499}));
  EXPECT_EQ(this->live(), 1u);
  this->expect_said("499 of blocks that were free already", "and 498 times more", "and 498 times more");
}
struct small {
  char bytes[24];
};
struct large {
  char bytes[48];
};
template <class Ref>
struct destroy_as_another {
  Ref heap;
  GPUHEAP_FN void operator()(unsigned) const { heap.destroy(reinterpret_cast<large*>(heap.template create<small>())); }
};
TYPED_TEST(Misuse, DestroyAsAnotherType) {
  gpuheap::launch(1, destroy_as_another<typename TestFixture::ref>{this->heap.ref()});
  EXPECT_EQ(this->live(), 0u) << "it is freed";
  this->expect_said("", "", "mismatched free: block 0, thread 0 destroyed an object of 48 bytes, which is the block of 24 bytes");
}
template <class Ref>
struct free_a_piece {
  Ref heap;
  std::uint64_t* status;
  GPUHEAP_FN void operator()(unsigned) const {
    auto const warp = gpuheap::this_warp();
    void* const piece = heap.malloc_each(warp, 64);
    if (simt::lane_id() == 3) *status = static_cast<std::uint64_t>(heap.free(piece));
  }
};
TYPED_TEST(Misuse, FreeOfAPieceOfAGroupsBlock) {
  device_array<std::uint64_t> status(1);
  gpuheap::launch(32, free_a_piece<typename TestFixture::ref>{this->heap.ref(), status.data()}, {.block_threads = 32});
  EXPECT_EQ(status.first(), foreign);
  EXPECT_EQ(this->live(), 1u);
  this->expect_said("1 of pointers that it never handed out", "which lies 192 bytes into the block of 2048 bytes",
                    "which lies 192 bytes into the block of 2048 bytes");
}
TYPED_TEST(Misuse, FreeFromTheHostOfAWrongPointer) {
  int on_the_stack = 0;
  this->heap.free(std::vector<int*>{&on_the_stack, nullptr});
  EXPECT_EQ(this->heap.stats().foreign_frees, 1u);
  this->expect_said("1 of pointers that it never handed out", "foreign free", "foreign free");
}

// ---- wrong accesses

TYPED_TEST(Misuse, WriteOneByteTooFar) {
  auto const answers = this->run({{call::malloc, 0, 41}, {call::write, 0, 41, 'x'}, {call::free, 0}});
  EXPECT_EQ(answers[2], done);
  this->expect_said("", "", "write past the end: byte 41 of the block of 41 bytes");
}
TYPED_TEST(Misuse, WriteTooFarInALiveBlock) {
  this->run({{call::malloc, 0, 64}, {call::write, 0, 64, 'x'}});
  this->expect_said("", "", "write past the end: byte 64 of the block of 64 bytes");
  EXPECT_EQ(this->said(), "") << "it is told once";
}
TYPED_TEST(Misuse, WriteBeforeABlock) {
  this->run({{call::malloc, 0, 64}, {call::write, 0, ~std::uint64_t{0}, 'x'}});
  this->expect_said("", "", "write before a block: the bytes before 0x");
}
TYPED_TEST(Misuse, FreeOfABlockWhoseHeaderIsDamaged) {
  auto const answers = this->run({{call::malloc, 0, 64}, {call::write, 0, ~std::uint64_t{15}, 'x'}, {call::free, 0}});
  EXPECT_EQ(answers[2], TestFixture::checked ? foreign : done);
  this->expect_said("", "", "write before a block");
}
TYPED_TEST(Misuse, WriteAfterFree) {
  this->run({{call::malloc, 0, 64}, {call::free, 0}, {call::write, 0, 17, 'x'}});
  this->expect_said("", "", "write after free: byte 17 of the block of 64 bytes");
}
TYPED_TEST(Misuse, WriteAfterFreeFoundWhenTheBlockLeavesQuarantine) {
  this->run({{call::malloc, 0, 64}, {call::free, 0}, {call::write, 0, 17, 'x'}});
  std::vector<step> churn;
  for (int i = 0; i < 3000; ++i) churn.insert(churn.end(), {{call::malloc, 1, 64}, {call::free, 1}});
  this->run(churn);
  this->expect_said("", "", "has changed, found when the block left quarantine");
}
TYPED_TEST(Misuse, ReadAfterFree) {
  auto const answers = this->run({{call::malloc, 0, 64}, {call::write, 0, 12, 'x'}, {call::free, 0}, {call::read, 0, 12}});
  if (TestFixture::checked) {
    EXPECT_NE(answers[3], std::uint64_t{'x'}) << "a pattern";
  } else {
    EXPECT_EQ(answers[3], std::uint64_t{'x'}) << "what was there";
  }
  EXPECT_EQ(this->said(), "");
}
TYPED_TEST(Misuse, ReadOfANewBlock) {
  // Holds what its last owner left; a checked heap that fills blocks has 0xcd there.
  using filled = gpuheap::heap<gpuheap::checked<gpuheap::sharded_spans, gpuheap::checked_options{.fill = true}>>;
  filled heap{8_MiB};
  device_array<step> const steps{{{call::malloc, 0, 64}, {call::read, 0, 40}}};
  device_array<std::uint64_t> answers(2);
  gpuheap::launch(1, follow<filled::ref_type>{heap.ref(), steps.data(), 2, this->slots.data(), answers.data()});
  EXPECT_EQ(answers.read()[1], 0xcdu);
}
TYPED_TEST(Misuse, BlocksThatAreNeverFreed) {
  this->run({{call::malloc, 0, 100}, {call::malloc, 1, 100}, {call::malloc, 2, 5000}, {call::free, 1}});
  EXPECT_EQ(this->live(), 2u);
  auto const leaks = this->heap.report_leaks();
  ASSERT_EQ(leaks.groups.size(), 2u);
  EXPECT_EQ(leaks.groups[0].name, TestFixture::checked ? "5000 bytes" : "5120 bytes");
  EXPECT_EQ(leaks.groups[1].name, TestFixture::checked ? "100 bytes" : "112 bytes");
  EXPECT_EQ(this->said(), "");
}

// ---- wrong requests

TYPED_TEST(Misuse, RequestOfNothing) {
  EXPECT_EQ(this->run({{call::malloc, 0, 0}})[0], 0u);
  EXPECT_EQ(this->said(), "") << "no failure";
}
TYPED_TEST(Misuse, RequestOfMoreThanTheHeap) {
  EXPECT_EQ(this->run({{call::malloc, 0, std::uint64_t{1} << 63}})[0], 0u);
  EXPECT_TRUE(says(this->said(), "can never be served, however much memory is free; the first asked for 9223372036854775808 bytes"));
}
TYPED_TEST(Misuse, RequestOfAllBitsSet) {
  EXPECT_EQ(this->run({{call::malloc, 0, ~std::uint64_t{0}}})[0], 0u) << "as of a size that was computed below zero";
  EXPECT_TRUE(says(this->said(), "can never be served"));
}
TYPED_TEST(Misuse, RequestOfAProductThatOverflows) {
  EXPECT_EQ(this->run({{call::calloc, 0, std::uint64_t{1} << 33, std::uint64_t{1} << 33}})[0], 0u);
  EXPECT_TRUE(says(this->said(), "the first was a calloc() of at least 2^64 bytes"));
}
TYPED_TEST(Misuse, AlignmentThatIsNoPowerOfTwo) {
  auto const answers = this->run({{call::aligned, 0, 64, 24}, {call::aligned, 0, 64, 0}});
  EXPECT_EQ(answers[0] | answers[1], 0u);
  EXPECT_TRUE(says(this->said(), "asked for an alignment of 24 bytes, which is not a power of two up to 2 MiB"));
}
TYPED_TEST(Misuse, AlignmentThatIsTooLarge) {
  EXPECT_EQ(this->run({{call::aligned, 0, 64, 4 << 20}})[0], 0u);
  EXPECT_TRUE(says(this->said(), "asked for an alignment of 4194304 bytes"));
}
TYPED_TEST(Misuse, RequestsOfAFullHeap) {
  std::vector<step> script;
  for (int i = 0; i < 12; ++i) script.push_back({call::malloc, 0, 1 << 20});
  EXPECT_EQ(this->run(script).back(), 0u);
  EXPECT_TRUE(says(this->said(), "found no memory in a heap of 8.0 MiB; the first asked for 1048576 bytes (block 0, thread 0)"));
}
struct counts_itself {
  explicit GPUHEAP_FN counts_itself(unsigned* made) { ++*made; }
  char bytes[1 << 20];
};
template <class Ref>
struct create_many {
  Ref heap;
  unsigned* made;
  unsigned* got;
  GPUHEAP_FN void operator()(unsigned) const {
    GPUHEAP_NO_UNROLL
    for (int i = 0; i < 12; ++i) *got += heap.template create<counts_itself>(made) != nullptr;
  }
};
TYPED_TEST(Misuse, CreateInAFullHeap) {
  device_array<unsigned> made(1), got(1);
  gpuheap::launch(1, create_many<typename TestFixture::ref>{this->heap.ref(), made.data(), got.data()});
  EXPECT_GT(got.first(), 0u);
  EXPECT_LT(got.first(), 12u);
  EXPECT_EQ(made.first(), got.first()) << "no constructor runs without memory";
}
TYPED_TEST(Misuse, ReallocOfAFreedBlock) {
  auto const answers = this->run({{call::malloc, 0, 64}, {call::free, 0}, {call::realloc, 0, 128}});
  EXPECT_EQ(answers[2], 0u);
  EXPECT_EQ(this->live(), 0u);
  this->expect_said("1 of blocks that were free already", "which is free: it was freed before, or never handed out", "double free");
}
TYPED_TEST(Misuse, ReallocOfTheMiddle) {
  auto const answers = this->run({{call::malloc, 0, 256}, {call::realloc, 0, 512, 32}});
  EXPECT_EQ(answers[1], 0u);
  EXPECT_EQ(this->live(), 1u);
  this->expect_said("1 of pointers that it never handed out", "which lies 32 bytes into the block of 256 bytes", "interior free");
}
TYPED_TEST(Misuse, ReallocToNothing) {
  auto const answers = this->run({{call::malloc, 0, 256}, {call::realloc, 0, 0}});
  EXPECT_EQ(answers[1], 0u);
  EXPECT_EQ(this->live(), 0u) << "it is freed";
  EXPECT_EQ(this->said(), "");
}
TYPED_TEST(Misuse, ReallocThatFindsNoMemory) {
  auto const answers = this->run({{call::malloc, 0, 256}, {call::write, 0, 9, 'x'}, {call::realloc, 0, 1 << 30}, {call::read, 0, 9}});
  EXPECT_EQ(answers[2], 0u);
  EXPECT_EQ(answers[3], std::uint64_t{'x'}) << "the block stays";
  EXPECT_EQ(this->live(), 1u);
}
TYPED_TEST(Misuse, QuestionsAboutWrongPointers) {
  auto const answers = this->run({{call::set, 0, 4096},
                                  {call::usable, 0},
                                  {call::owns, 0},
                                  {call::malloc, 1, 64},
                                  {call::free, 1},
                                  {call::owns, 1},
                                  {call::set, 2, 0},
                                  {call::usable, 2},
                                  {call::owns, 2}});
  EXPECT_EQ(answers[1] | answers[2] | answers[5] | answers[7] | answers[8], 0u);
  EXPECT_EQ(this->said(), "");
}

// ---- wrong uses of a heap

TYPED_TEST(Misuse, ViewThatNoHeapMade) {
  auto const answers = this->run_on({}, {{call::malloc, 0, 64}, {call::set, 1, 4096}, {call::free, 1}, {call::usable, 1}, {call::owns, 1}});
  EXPECT_EQ(answers[0], 0u);
  EXPECT_EQ(answers[2], foreign);
  EXPECT_EQ(answers[3] | answers[4], 0u);
}
TYPED_TEST(Misuse, BlocksOfBeforeAReset) {
  this->run({{call::malloc, 0, 64}});
  this->heap.reset();
  EXPECT_EQ(this->run({{call::free, 0}})[0], foreign);
  this->expect_said("1 of pointers that it never handed out", "free of no block", "free of no block");
}
TYPED_TEST(Misuse, RegionThatIsNull) {
  EXPECT_TRUE(says(text_of_error([] {
                     typename TestFixture::heap_type const null{gpuheap::memory::region{nullptr, 8_MiB}};
                   }),
                   "whose base is null"));
}
TYPED_TEST(Misuse, RegionThatIsNotAligned) {
  gpuheap::memory::allocation const memory{gpuheap::memory::device, 8_MiB};
  EXPECT_TRUE(says(text_of_error([&] {
                     typename TestFixture::heap_type const odd{gpuheap::memory::region{static_cast<char*>(memory.base()) + 16, 4_MiB}};
                   }),
                   "a heap's region must be aligned to 256 bytes"));
}
TYPED_TEST(Misuse, HeapThatIsTooSmall) {
  EXPECT_TRUE(
      says(text_of_error([] { typename TestFixture::heap_type const tiny{gpuheap::heap_size{1000}}; }), "is too small for the allocator"));
}
TYPED_TEST(Misuse, CopyFromOutsideTheHeap) {
  char here[16] = {};
  EXPECT_TRUE(says(text_of_error([&] { this->heap.copy_to_host(here, here, sizeof here); }), "do not lie in this heap"));
}
// Growth asks for the metadata's memory, and then for the data's, which is more than the device has.
TYPED_TEST(Misuse, GrowthThatFailsHalfway) {
  using heap_type = typename TestFixture::heap_type;
  // A checked heap has a fixed size: tests/heap/refused/checked_growth.cpp.
  if constexpr (gpuheap::has_grow<TypeParam>) {
    std::size_t const total = gpuheap::memory::device.query()->total_bytes;
    heap_type grows{gpuheap::growth{.initial = 128_MiB, .at_most = total + 2_GiB}};
    blocks<typename heap_type::ref_type> stay{grows.ref(), 1000, 1000};
    stay.malloc_all();
    stay.fill();
    std::size_t const capacity = grows.capacity();
    EXPECT_TRUE(says(text_of_error([&] { grows.grow(grows.at_most() - capacity); }), "gpuheap: cannot map "));
    EXPECT_EQ(grows.capacity(), capacity);
    grows.grow(16_MiB);
    EXPECT_EQ(grows.capacity(), capacity + 16_MiB);
    stay.expect_intact("after a growth that failed");
    blocks<typename heap_type::ref_type> more{grows.ref(), 10'000, 4096};
    more.malloc_all();
    more.fill();
    EXPECT_EQ(more.failed_requests(), 0u);
    stay.expect_intact("as the heap went on");
    more.expect_intact("after a growth that failed");
    EXPECT_EQ(grows.verify().problem, "");
    EXPECT_EQ(text_of_error([&] { grows.check(); }), "");
  } else {
    static_assert(TestFixture::checked);
  }
}
template <class Ref>
struct half_a_warp {
  Ref heap;
  unsigned* done;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i % 2 == 0) {
      void* const p = heap.malloc(64);
      heap.free(p);
      if (p != nullptr) simt::atomic_ref<unsigned>{*done}.fetch_add(1, simt::release);  // release: tells the waiting half
    } else {
      simt::back_off pause;
      // Ends: the other half waits for nobody.
      while (simt::atomic_ref<unsigned>{*done}.load(simt::acquire) < 16) pause.wait();
    }
  }
};
TYPED_TEST(Misuse, HalfAWarpWaitsForTheOther) {
  device_array<unsigned> done_count(1);
  gpuheap::launch(32, half_a_warp<typename TestFixture::ref>{this->heap.ref(), done_count.data()}, {.block_threads = 32});
  EXPECT_EQ(done_count.first(), 16u);
  EXPECT_EQ(this->said(), "");
}
template <class Ref>
struct recurse {
  Ref heap;
  unsigned* depth;
  GPUHEAP_FN void operator()(unsigned) const { go(20); }
  GPUHEAP_COLD void go(unsigned left) const {
    void* const p = heap.malloc(16 + left);
    if (p != nullptr) ++*depth;
    if (left > 1) go(left - 1);
    heap.free(p);
  }
};
TYPED_TEST(Misuse, Recursion) {
  // CUDA gives a thread 1 KiB by default, which holds one call of malloc.
  gpuheap::simt::set_stack_bytes(64 << 10);
  device_array<unsigned> depth(1);
  gpuheap::launch(1, recurse<typename TestFixture::ref>{this->heap.ref(), depth.data()});
  EXPECT_EQ(depth.first(), 20u);
  EXPECT_EQ(this->live(), 0u);
  EXPECT_EQ(this->said(), "");
}

}  // namespace
