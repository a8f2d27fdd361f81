// Tests of a checked heap's findings and their texts. Each test is a program's mistake, or the absence of one.
#include "fixtures.hpp"

#include <gpuheap/allocators/scatteralloc.hpp>
#include <gpuheap/checked.hpp>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

namespace {

using namespace test;
using gpuheap::misuse;
using gpuheap::misuse_finding;

// Kernel: f(heap, thread).
template <class Ref, class F>
struct on_heap {
  Ref heap;
  F f;
  GPUHEAP_FN void operator()(unsigned i) const { f(heap, i); }
};

template <class Allocator>
class Checked : public ::testing::Test {
 protected:
  using checked_type = gpuheap::checked<Allocator>;
  gpuheap::heap<checked_type> heap{2_MiB};

  using ref = typename gpuheap::heap<checked_type>::ref_type;

  // Runs f(heap, thread) in `threads` threads.
  template <class F>
  void run(F f, unsigned threads = 1) {
    gpuheap::launch(threads, on_heap<ref, F>{heap.ref(), f});
  }
  // The findings of check().
  std::vector<misuse_finding> found() {
    std::vector<misuse_finding> all;
    heap.on_misuse([&](misuse_finding const& f, std::string const& text) {
      all.push_back(f);
      texts += text + "\n";
    });
    heap.check();
    return all;
  }
  void expect_sound() { EXPECT_TRUE(found().empty()) << texts; }
  std::string texts;
};

using allocators = ::testing::Types<gpuheap::sharded_spans, gpuheap::scatteralloc>;
TYPED_TEST_SUITE(Checked, allocators);

// Kernels are functors, so that nvcc compiles them as g++ does.
struct use_well {
  template <class Ref>
  GPUHEAP_FN void operator()(Ref const& heap, unsigned i) const {
    GPUHEAP_NO_UNROLL
    for (unsigned round = 0; round < 4; ++round) {
      unsigned const bytes = 1 + (i * 37 + round * 11) % 200;
      auto* const p = static_cast<unsigned char*>(heap.malloc(bytes));
      if (p == nullptr) continue;
      for (unsigned b = 0; b < bytes; ++b) p[b] = static_cast<unsigned char>(i);
      heap.free(p);
    }
  }
};
TYPED_TEST(Checked, FindsNothingInASoundProgram) {
  this->run(use_well{}, 500);
  this->expect_sound();
  EXPECT_EQ(this->heap.stats().live_allocations, 0u);
  EXPECT_TRUE(this->heap.blocks().empty());
}

struct ask_and_keep {
  unsigned bytes;
  void** out;
  template <class Ref>
  GPUHEAP_FN void operator()(Ref const& heap, unsigned i) const {
    out[i] = heap.malloc(bytes, gpuheap::tag_number(i % 2 + 5));
  }
};
struct write_at {
  unsigned at;
  char** p;
  template <class Ref>
  GPUHEAP_FN void operator()(Ref const&, unsigned) const {
    (*p)[at] = 'x';
  }
};
struct free_at {
  unsigned at;
  char** p;
  gpuheap::free_status* answer;
  template <class Ref>
  GPUHEAP_FN void operator()(Ref const& heap, unsigned) const {
    *answer = heap.free(*p + at);
  }
};

TYPED_TEST(Checked, FindsAWriteOfEachByteBehindABlock) {
  for (unsigned const bytes : {1u, 7u, 8u, 13u, 16u, 64u, 100u, 4096u}) {
    for (unsigned const beyond : {0u, 1u, 7u}) {
      this->heap.reset();
      device_array<void*> p(1);
      device_array<gpuheap::free_status> answer(1);
      this->run(ask_and_keep{bytes, p.data()});
      this->run(write_at{bytes + beyond, reinterpret_cast<char**>(p.data())});
      auto const all = this->found();
      ASSERT_EQ(all.size(), 1u) << bytes << " + " << beyond;
      EXPECT_EQ(all[0].what, misuse::write_past_end);
      EXPECT_EQ(all[0].bytes, bytes);
      EXPECT_EQ(all[0].pointer, all[0].address + bytes + beyond) << "the byte";
      EXPECT_EQ(all[0].asked_thread, 0u);
      EXPECT_EQ(all[0].tag.word, gpuheap::tag_number(5).word);
      EXPECT_TRUE(this->found().empty()) << "each is told once";
      this->run(write_at{bytes + beyond, reinterpret_cast<char**>(p.data())});
      this->run(free_at{0, reinterpret_cast<char**>(p.data()), answer.data()});
      EXPECT_EQ(answer.first(), gpuheap::free_status::done);
      ASSERT_EQ(this->heap.misuses(misuse::write_past_end), 2u) << "found by the free";
    }
  }
}
TYPED_TEST(Checked, FindsAWriteIntoAFreedBlock) {
  for (unsigned const bytes : {1u, 16u, 60u, 64u, 4096u}) {
    for (unsigned const at : {0u, 15u, 63u}) {
      if (at >= (bytes + 7) / 8 * 8) continue;
      this->heap.reset();
      device_array<void*> p(1);
      device_array<gpuheap::free_status> answer(1);
      this->run(ask_and_keep{bytes, p.data()});
      this->run(free_at{0, reinterpret_cast<char**>(p.data()), answer.data()});
      ASSERT_TRUE(this->found().empty());
      this->run(write_at{at, reinterpret_cast<char**>(p.data())});
      auto const all = this->found();
      bool const kept = bytes <= this->heap.ref().allocator().quarantine().block_bytes;
      ASSERT_EQ(all.size(), kept ? 1u : 0u) << bytes << " + " << at;
      if (!kept) continue;
      EXPECT_EQ(all[0].what, misuse::write_after_free);
      EXPECT_EQ(all[0].pointer, all[0].address + at);
      EXPECT_EQ(all[0].freed_thread, 0u);
      EXPECT_TRUE(this->found().empty());
    }
  }
}
TYPED_TEST(Checked, RefusesASecondFree) {
  device_array<void*> p(1);
  device_array<gpuheap::free_status> answer(1);
  this->run(ask_and_keep{40, p.data()});
  this->run(free_at{0, reinterpret_cast<char**>(p.data()), answer.data()});
  EXPECT_EQ(answer.first(), gpuheap::free_status::done);
  this->run(free_at{0, reinterpret_cast<char**>(p.data()), answer.data()});
  EXPECT_EQ(answer.first(), gpuheap::free_status::double_free);
  auto const all = this->found();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].what, misuse::double_free);
  EXPECT_EQ(all[0].bytes, 40u);
  EXPECT_EQ(all[0].freed_block, 0u);
  EXPECT_TRUE(says(this->texts, "double free: block 0, thread 0 freed the block of 40 bytes at 0x"));
  EXPECT_TRUE(says(this->texts, "(asked for by block 0, thread 0 with the tag 5), freed by block 0, thread 0 before"));
}
TYPED_TEST(Checked, RefusesAFreeOfTheMiddleOfABlock) {
  device_array<void*> p(1);
  device_array<gpuheap::free_status> answer(1);
  this->run(ask_and_keep{400, p.data()});
  for (unsigned const at : {1u, 16u, 399u}) {
    this->run(free_at{at, reinterpret_cast<char**>(p.data()), answer.data()});
    EXPECT_EQ(answer.first(), gpuheap::free_status::foreign);
    auto const all = this->found();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].what, misuse::interior_free);
    EXPECT_EQ(all[0].address, reinterpret_cast<std::uintptr_t>(p.first()));
    EXPECT_EQ(all[0].bytes, 400u);
  }
  this->run(free_at{0, reinterpret_cast<char**>(p.data()), answer.data()});
  EXPECT_EQ(answer.first(), gpuheap::free_status::done) << "the block still lives";
}
TYPED_TEST(Checked, RefusesAPointerOfNobody) {
  device_array<char*> p(1);
  device_array<gpuheap::free_status> answer(1);
  device_array<unsigned> other(64);
  p.write({reinterpret_cast<char*>(other.data())});
  this->run(free_at{0, p.data(), answer.data()});
  EXPECT_EQ(answer.first(), gpuheap::free_status::foreign);
  auto all = this->found();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].what, misuse::foreign_free);
  // In the heap, where nothing was ever handed out.
  p.write({reinterpret_cast<char*>(this->heap.ref().allocator().end_address() - 4096)});
  this->run(free_at{0, p.data(), answer.data()});
  EXPECT_EQ(answer.first(), gpuheap::free_status::foreign);
  all = this->found();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].what, misuse::unknown_free);
}
struct small {
  char bytes[24];
};
struct large {
  char bytes[48];
};
struct destroy_as_another {
  template <class Ref>
  GPUHEAP_FN void operator()(Ref const& heap, unsigned) const {
    heap.destroy(reinterpret_cast<large*>(heap.template create<small>()));
    heap.destroy(heap.template create<small>());
  }
};
TYPED_TEST(Checked, TellsOfAnObjectThatIsDestroyedAsAnother) {
  this->run(destroy_as_another{});
  auto const all = this->found();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].what, misuse::mismatched_free);
  EXPECT_EQ(all[0].bytes, 24u);
  EXPECT_EQ(all[0].believed, 48u);
}

TYPED_TEST(Checked, GivesEachBlockInOneListWithSizeTagAndThread) {
  device_array<void*> p(300);
  this->run(ask_and_keep{72, p.data()}, 300);
  std::set<std::uint64_t> live;
  for (void* each : p.read()) live.insert(reinterpret_cast<std::uintptr_t>(each));
  ASSERT_EQ(live.size(), 300u);
  auto const blocks = this->heap.blocks();
  ASSERT_EQ(blocks.size(), 300u);
  for (auto const& block : blocks) {
    EXPECT_EQ(live.erase(block.address), 1u);
    EXPECT_EQ(block.bytes, 72u);
    EXPECT_EQ(block.tag, gpuheap::tag_number((block.block * 256 + block.thread) % 2 + 5).word);
  }
  auto const s = this->heap.stats();
  EXPECT_EQ(s.live_allocations, 300u);
  EXPECT_EQ(s.live_bytes, 300u * 72);
  auto const leaks = this->heap.report_leaks();
  ASSERT_EQ(leaks.groups.size(), 2u);
  EXPECT_EQ(leaks.groups[0].blocks, 150u);
  EXPECT_TRUE(says(leaks.text(), "300 live blocks, "));
  EXPECT_TRUE(says(leaks.text(), "in 150 blocks, tag 5; the first at 0x"));
  EXPECT_TRUE(
      says(leaks.json(), "{\"blocks\": 300, \"bytes\": 21600, \"groups\": [{\"name\": \"tag 5\", \"blocks\": 150, \"bytes\": 10800}, "));
}

struct fill_the_heap {
  unsigned bytes;
  template <class Ref>
  GPUHEAP_FN void operator()(Ref const& heap, unsigned) const {
    // Twice: what is freed lies in quarantine, and is there for the second time.
    GPUHEAP_NO_UNROLL
    for (unsigned round = 0; round < 2; ++round) {
      char* last = nullptr;
      unsigned count = 0;
      while (auto* const p = static_cast<char*>(heap.malloc(bytes))) {
        *reinterpret_cast<char**>(p) = last;
        last = p;
        ++count;
      }
      while (last != nullptr) {
        char* const next = *reinterpret_cast<char**>(last);
        heap.free(last);
        last = next;
      }
      if (count == 0) simt::trap();
    }
  }
};
TYPED_TEST(Checked, QuarantineCausesNoExhaustion) {
  this->run(fill_the_heap{4000});
  this->heap.on_exhausted([](auto const&) {});
  this->expect_sound();
  EXPECT_EQ(this->heap.stats().live_allocations, 0u);
}

struct race_to_free {
  void** p;
  unsigned* done;
  template <class Ref>
  GPUHEAP_FN void operator()(Ref const& heap, unsigned) const {
    if (heap.free(*p) == gpuheap::free_status::done) simt::atomic_ref<unsigned>{*done}.fetch_add(1, simt::relaxed);  // relaxed: a count
  }
};
TYPED_TEST(Checked, OfManyThatFreeABlockOneDoes) {
  device_array<void*> p(1);
  device_array<unsigned> done(1);
  this->run(ask_and_keep{40, p.data()});
  this->run(race_to_free{p.data(), done.data()}, 200);
  EXPECT_EQ(done.first(), 1u);
  EXPECT_EQ(this->heap.misuses(misuse::double_free), 199u);
}

struct make_shorter_and_longer {
  void** out;
  template <class Ref>
  GPUHEAP_FN void operator()(Ref const& heap, unsigned) const {
    auto* p = static_cast<char*>(heap.malloc(100));
    for (unsigned i = 0; i < 100; ++i) p[i] = static_cast<char>(i);
    p = static_cast<char*>(heap.realloc(p, 90));
    p = static_cast<char*>(heap.realloc(p, 500));
    for (unsigned i = 0; i < 90; ++i) {
      if (p[i] != static_cast<char>(i)) simt::trap();
    }
    out[0] = p;
  }
};
TYPED_TEST(Checked, ReallocKeepsTheBytesAndTheGuard) {
  device_array<void*> p(1);
  this->run(make_shorter_and_longer{p.data()});
  this->expect_sound();
  ASSERT_EQ(this->heap.blocks().size(), 1u);
  EXPECT_EQ(this->heap.blocks()[0].bytes, 500u);
  this->run(write_at{500, reinterpret_cast<char**>(p.data())});
  EXPECT_EQ(this->found().size(), 1u);
}

struct free_with_tags {
  gpuheap::free_status* answer;
  template <class Ref>
  GPUHEAP_FN void operator()(Ref const& heap, unsigned i) const {
    void* const p = i % 2 == 0 ? heap.malloc(40, gpuheap::tag_number(5)) : ask_aligned(heap);
    answer[2 * i] = heap.free(p, gpuheap::tag_number(8));
    answer[2 * i + 1] = heap.free(p, gpuheap::tag_number(9));
  }
  template <class Ref>
  GPUHEAP_FN static void* ask_aligned(Ref const& heap) {
    if constexpr (gpuheap::has_aligned_malloc<typename Ref::allocator_type>) return heap.aligned_malloc(40, 128, gpuheap::tag_number(5));
    return heap.malloc(40, gpuheap::tag_number(5));
  }
};
TYPED_TEST(Checked, NamesFreesByTheirTags) {
  device_array<gpuheap::free_status> answer(4);
  this->run(free_with_tags{answer.data()}, 2);
  auto const answers = answer.read();
  auto const all = this->found();
  ASSERT_EQ(all.size(), 2u);
  for (unsigned i = 0; i < 2; ++i) {
    EXPECT_EQ(answers[2 * i], gpuheap::free_status::done);
    EXPECT_EQ(answers[2 * i + 1], gpuheap::free_status::double_free);
    EXPECT_EQ(all[i].what, misuse::double_free);
    EXPECT_EQ(all[i].tag.word, gpuheap::tag_number(5).word);
    EXPECT_EQ(all[i].freed_tag.word, gpuheap::tag_number(8).word);
    EXPECT_EQ(all[i].found_tag.word, gpuheap::tag_number(9).word);
  }
  EXPECT_TRUE(says(this->texts, "double free: block 0, thread 0 with the tag 9 freed the block of 40 bytes at 0x")) << this->texts;
  EXPECT_TRUE(says(this->texts, "(asked for by block 0, thread 0 with the tag 5), freed by block 0, thread 0 with the tag 8 before"));
}
// A write past the end is found by the free, and the text has the place of the free.
struct write_and_free_here {
  template <class Ref>
  GPUHEAP_FN void operator()(Ref const& heap, unsigned) const {
    auto* const p = static_cast<char*>(heap.malloc(24));
    p[24] = 'x';
    heap.free(p, gpuheap::here());
  }
};
TYPED_TEST(Checked, NamesThePlaceOfAFree) {
  this->run(write_and_free_here{});
  ASSERT_EQ(this->found().size(), 1u);
  EXPECT_TRUE(says(this->texts, "found when the block was freed or resized by block 0, thread 0 at ")) << this->texts;
  EXPECT_TRUE(says(this->texts, "checked_test.cpp:"));
}
TYPED_TEST(Checked, OtherHeapsIgnoreTags) {
  gpuheap::heap<TypeParam> plain{2_MiB};
  device_array<gpuheap::free_status> answer(4);
  gpuheap::launch(2, on_heap<typename gpuheap::heap<TypeParam>::ref_type, free_with_tags>{plain.ref(), {answer.data()}});
  for (unsigned i = 0; i < 2; ++i) EXPECT_EQ(answer.read()[2 * i], gpuheap::free_status::done);
}

struct ask_here {
  template <class Ref>
  GPUHEAP_FN void operator()(Ref const& heap, unsigned) const {
    (void)heap.malloc(33, gpuheap::here());
  }
};
TYPED_TEST(Checked, NamesThePlaceOfARequest) {
  this->run(ask_here{}, 3);
  auto const leaks = this->heap.report_leaks();
  ASSERT_EQ(leaks.groups.size(), 1u);
  EXPECT_TRUE(says(leaks.groups[0].name, "checked_test.cpp:"));
  EXPECT_EQ(leaks.bytes, 99u);
}

TYPED_TEST(Checked, LeaksAreReportedAtTheEnd) {
  using heap_type = gpuheap::heap<typename TestFixture::checked_type>;
  device_array<void*> p(3);
  std::vector<gpuheap::leak_report> reports;
  auto const keep = [&](gpuheap::leak_report const& report) { reports.push_back(report); };
  {
    heap_type sound{2_MiB};
    gpuheap::leaks_at_end const leaks{sound, keep};
    gpuheap::launch(40, on_heap<typename TestFixture::ref, use_well>{sound.ref(), {}});
  }
  EXPECT_TRUE(reports.empty());
  {
    heap_type leaky{2_MiB};
    gpuheap::leaks_at_end const leaks{leaky, keep};
    gpuheap::launch(3, on_heap<typename TestFixture::ref, ask_and_keep>{leaky.ref(), {100, p.data()}});
    EXPECT_TRUE(reports.empty()) << "not before the end";
  }
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].bytes, 300u);
  EXPECT_EQ(reports[0].groups[0].name, "tag 5");
}
TEST(LeaksAtEnd, ArePrintedWithoutACallbackAndThrowNothing) {
  std::string printed;
  for (bool const throws : {false, true}) {
    ::testing::internal::CaptureStderr();
    {
      gpuheap::heap<> heap{2_MiB};
      gpuheap::leaks_at_end<gpuheap::heap<>>::callback to;
      if (throws) to = [](gpuheap::leak_report const& report) { throw std::runtime_error{report.json()}; };
      gpuheap::leaks_at_end const leaks{heap, to};
      EXPECT_NE(blocks_of(heap, 2, 64)[1], nullptr);
    }
    printed += ::testing::internal::GetCapturedStderr();
  }
  EXPECT_EQ(
      printed,
      "gpuheap: a heap of 'sharded_spans' ends: not freed: 2 live blocks, 128 B:\n  128 B in 2 blocks, 64 bytes\n"
      "gpuheap: a heap of 'sharded_spans' ends: its blocks cannot be reported: {\"blocks\": 2, \"bytes\": 128, \"groups\": [{\"name\": "
      "\"64 bytes\", \"blocks\": 2, \"bytes\": 128}]}\n");
}

// With `fill`, all bytes of a freed block are looked at, and not the first 64 alone.
template <bool Fill>
unsigned found_at(unsigned at) {
  using heap_type = gpuheap::heap<gpuheap::checked<gpuheap::sharded_spans, gpuheap::checked_options{.fill = Fill}>>;
  using ref = typename heap_type::ref_type;
  heap_type heap{2_MiB};
  device_array<void*> p(1);
  device_array<gpuheap::free_status> answer(1);
  auto** const pointer = reinterpret_cast<char**>(p.data());
  gpuheap::launch(1, on_heap<ref, ask_and_keep>{heap.ref(), {1000, p.data()}});
  gpuheap::launch(1, on_heap<ref, free_at>{heap.ref(), {0, pointer, answer.data()}});
  gpuheap::launch(1, on_heap<ref, write_at>{heap.ref(), {at, pointer}});
  (void)text_of_error([&] { heap.check(); });
  return static_cast<unsigned>(heap.misuses(misuse::write_after_free));
}
TEST(CheckedFill, FindsAWriteAnywhereInAFreedBlock) {
  for (unsigned const at : {0u, 63u, 64u, 700u, 999u}) {
    EXPECT_EQ(found_at<true>(at), 1u) << at;
    EXPECT_EQ(found_at<false>(at), at < 64 ? 1u : 0u) << at;
  }
}

// A block takes at most 31 bytes more than it was asked for, and with an alignment of more than 16 bytes as much more as that.
TEST(CheckedMemory, HeaderAndGuardTakeAtMost31Bytes) {
  for (unsigned lg = 4; lg <= 21; ++lg) {
    for (simt::size_t bytes = 1; bytes <= 4096; ++bytes) {
      gpuheap::checking::block_facts facts;
      facts.bytes = bytes;
      facts.lg_alignment = lg;
      EXPECT_GE(facts.whole_bytes(), bytes + 24);
      EXPECT_LE(facts.whole_bytes(), bytes + 15 + (simt::size_t{1} << lg));
    }
  }
}

TYPED_TEST(Checked, ADumpHasEveryBlock) {
  device_array<void*> p(300);
  this->run(ask_and_keep{72, p.data()}, 300);
  std::string const path = ::testing::TempDir() + "gpuheap_checked_test.dump";
  this->heap.write_dump(path);
  std::ifstream file{path, std::ios::binary};
  std::vector<char> const bytes{std::istreambuf_iterator<char>{file}, {}};
  std::vector<std::uint64_t> words(bytes.size() / 8);
  ASSERT_EQ(words.size() * 8, bytes.size());
  std::memcpy(words.data(), bytes.data(), bytes.size());
  ASSERT_GT(words.size(), 600u);
  EXPECT_EQ(std::string(bytes.data(), 8), "gpuheap\1");
  EXPECT_EQ(words[4], 300u);
  EXPECT_EQ(words[5], 2u) << "names";
  std::string const names{bytes.begin() + 48, bytes.end() - 300 * 16};
  EXPECT_NE(names.find("checked "), std::string::npos);
  EXPECT_NE(names.find("tag 5"), std::string::npos);
  auto const blocks = this->heap.blocks();
  for (std::size_t i = 0; i < 300; ++i) {
    std::uint64_t const first = words[words.size() - 600 + 2 * i], second = words[words.size() - 599 + 2 * i];
    EXPECT_EQ(words[1] + (first & 0x3fffffffff) * 16, blocks[i].address);
    EXPECT_EQ(second & 0x3fffffffff, 72u);
    EXPECT_EQ(first >> 54, blocks[i].thread);
    EXPECT_EQ(second >> 38, blocks[i].block);
    EXPECT_TRUE((first >> 38 & 0xffff) == 1 || (first >> 38 & 0xffff) == 2);
  }
  std::remove(path.c_str());
  EXPECT_TRUE(
      says(text_of_error([&] { this->heap.write_dump("/nowhere/at/all"); }), "cannot be written to '/nowhere/at/all': No such file"));
}

// Kernel: a warp whose lanes free blocks of two heaps at once.
template <class Ref>
struct free_in_two_heaps {
  Ref first, second;
  GPUHEAP_FN void operator()(unsigned i) const {
    Ref const mine = i % 2 == 0 ? first : second;
    GPUHEAP_NO_UNROLL
    for (unsigned round = 0; round < 3; ++round) {
      void* const p = mine.malloc(40);
      mine.free(p);
    }
  }
};
TYPED_TEST(Checked, AWarpMayFreeInTwoHeapsAtOnce) {
  using heap_type = gpuheap::heap<typename TestFixture::checked_type>;
  heap_type other{heap_type::min_bytes() + 1_MiB};
  gpuheap::launch(64, free_in_two_heaps<typename TestFixture::ref>{this->heap.ref(), other.ref()});
  this->expect_sound();
  EXPECT_NO_THROW(other.check());
  EXPECT_EQ(other.stats().live_allocations, 0u);
}
TYPED_TEST(Checked, TheLeastHeapServes) {
  using heap_type = gpuheap::heap<typename TestFixture::checked_type>;
  heap_type least{heap_type::min_bytes()};
  device_array<void*> p(1);
  gpuheap::launch(1, on_heap<typename TestFixture::ref, ask_and_keep>{least.ref(), ask_and_keep{16, p.data()}});
  EXPECT_NO_THROW(least.check());
}

TYPED_TEST(Checked, CheckThrowsWithoutACallback) {
  device_array<void*> p(1);
  this->run(ask_and_keep{64, p.data()});
  this->run(write_at{64, reinterpret_cast<char**>(p.data())});
  std::string const text = text_of_error([&] { this->heap.check(); });
  EXPECT_TRUE(says(text, "gpuheap: a heap of 'checked "));
  EXPECT_TRUE(says(text, "was misused: write past the end: byte 64 of the block of 64 bytes at 0x"));
  EXPECT_TRUE(says(text, "has changed, found by check()"));
  EXPECT_NO_THROW(this->heap.check()) << "each is told once";
}

struct write_before {
  char** p;
  template <class Ref>
  GPUHEAP_FN void operator()(Ref const&, unsigned) const {
    (*p)[-3] = 'x';
  }
};
TYPED_TEST(Checked, RefusesABlockWhoseHeaderWasWrittenOver) {
  device_array<void*> p(1);
  device_array<gpuheap::free_status> answer(1);
  this->run(ask_and_keep{64, p.data()});
  this->run(write_before{reinterpret_cast<char**>(p.data())});
  this->run(free_at{0, reinterpret_cast<char**>(p.data()), answer.data()});
  EXPECT_EQ(answer.first(), gpuheap::free_status::foreign);
  constexpr bool knows = gpuheap::has_is_live<TypeParam>;
  EXPECT_EQ(this->heap.misuses(knows ? misuse::damaged_header : misuse::unknown_free), 1u);
}

}  // namespace
