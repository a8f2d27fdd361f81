// The answer of each kind of heap at the borders of what it serves: further rows of the table of docs/misuse.md, whose last column names
// the test here.
#include "fixtures.hpp"

#include <gpuheap/checked.hpp>
#include <gpuheap/hardened.hpp>

#include <optional>
#include <stdexcept>

namespace {

using namespace test;
using gpuheap::free_status;

template <class Allocator>
class Misuse : public ::testing::Test {
 protected:
  using heap_type = gpuheap::heap<Allocator>;
  using ref = typename heap_type::ref_type;
};
using kinds = ::testing::Types<gpuheap::sharded_spans, gpuheap::hardened<>, gpuheap::checked<>>;
TYPED_TEST_SUITE(Misuse, kinds);

// Kernel of one thread: asks for sizes around each power of two, with each alignment that is one, and counts the answers that are wrong.
template <class Ref>
struct ask_at_borders {
  Ref heap;
  unsigned* served;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned) const {
    GPUHEAP_NO_UNROLL
    for (unsigned lg = 0; lg <= 21; ++lg) {
      GPUHEAP_NO_UNROLL
      for (unsigned n = 0; n < 3; ++n) {
        simt::size_t const bytes = (simt::size_t{1} << lg) - 1 + n;
        if (bytes == 0) continue;
        use(ask(bytes), bytes, 16);
        use(ask_aligned(bytes, simt::size_t{1} << lg), bytes, simt::size_t{1} << lg);
        use(ask_aligned(1, simt::size_t{1} << lg), 1, simt::size_t{1} << lg);
      }
    }
  }

 private:
  GPUHEAP_COLD void* ask(simt::size_t bytes) const { return heap.malloc(bytes); }
  GPUHEAP_COLD void* ask_aligned(simt::size_t bytes, simt::size_t alignment) const { return heap.aligned_malloc(bytes, alignment); }
  GPUHEAP_COLD void use(void* p, simt::size_t bytes, simt::size_t alignment) const {
    if (p == nullptr || reinterpret_cast<simt::uintptr_t>(p) % alignment != 0 || heap.usable_size(p) < bytes || !heap.owns(p)) {
      ++*wrong;
    } else {
      static_cast<char*>(p)[0] = 'a';
      static_cast<char*>(p)[bytes - 1] = 'z';
      ++*served;
    }
    *wrong += heap.free(p) != free_status::done;
  }
};
TYPED_TEST(Misuse, SizesAndAlignmentsAtTheirBorders) {
  typename TestFixture::heap_type heap{32_MiB};
  device_array<unsigned> served(1), wrong(1);
  gpuheap::launch(1, ask_at_borders<typename TestFixture::ref>{heap.ref(), served.data(), wrong.data()});
  EXPECT_EQ(wrong.first(), 0u);
  EXPECT_EQ(served.first(), 3u * 65);
  EXPECT_EQ(text_of_error([&] { heap.check(); }), "");
  EXPECT_EQ(heap.stats().live_allocations, 0u);
}

// An object whose constructor asks for memory too.
template <class Ref>
struct owner {
  Ref heap;
  void* more;
  explicit GPUHEAP_FN owner(Ref from) : heap{from}, more{from.malloc(1 << 20)} {}
  owner(owner const&) = delete;
  owner& operator=(owner const&) = delete;
  GPUHEAP_FN ~owner() { heap.free(more); }
};
template <class Ref>
struct create_owners {
  Ref heap;
  unsigned* made;
  unsigned* without;  // objects whose own request found no memory
  GPUHEAP_FN void operator()(unsigned) const {
    owner<Ref>* all[12];
    GPUHEAP_NO_UNROLL
    for (owner<Ref>*& each : all) {
      each = heap.template create<owner<Ref>>(heap);
      if (each == nullptr) continue;
      ++*made;
      *without += each->more == nullptr;
    }
    GPUHEAP_NO_UNROLL
    for (owner<Ref>* each : all) heap.destroy(each);
  }
};
TYPED_TEST(Misuse, ConstructorThatFindsNoMemory) {
  typename TestFixture::heap_type heap{8_MiB};
  device_array<unsigned> made(1), without(1);
  gpuheap::launch(1, create_owners<typename TestFixture::ref>{heap.ref(), made.data(), without.data()});
  EXPECT_EQ(made.first(), 12u);
  EXPECT_GT(without.first(), 0u);
  EXPECT_LT(without.first(), 12u);
  EXPECT_TRUE(says(text_of_error([&] { heap.check(); }), "found no memory in a heap of 8.0 MiB; the first asked for 1048576 bytes"));
  EXPECT_EQ(heap.stats().live_allocations, 0u) << "nothing is lost";
}

// The answer of a call on the host; the simulator refuses calls of device code there.
template <class Answer, class Call>
Answer on_the_host(Answer neutral, Call call) {
  try {
    return call();
  } catch (std::logic_error const& e) {
    EXPECT_TRUE(says(e.what(), "is device code and was called from the host"));
    return neutral;
  }
}
TYPED_TEST(Misuse, CallsOfAViewOnTheHost) {
  typename TestFixture::heap_type heap{8_MiB};
  void* const block = blocks_of(heap, 1, 64)[0];
  auto const view = heap.ref();
  void* const none = nullptr;
  EXPECT_EQ(on_the_host(none, [&] { return view.malloc(64); }), nullptr);
  EXPECT_EQ(on_the_host(none, [&] { return view.calloc(4, 16); }), nullptr);
  EXPECT_EQ(on_the_host(none, [&] { return view.aligned_malloc(64, 256); }), nullptr);
  EXPECT_EQ(on_the_host(none, [&] { return view.realloc(block, 1000); }), nullptr);
  EXPECT_EQ(on_the_host(none, [&]() -> void* { return view.template create<unsigned>(7u); }), nullptr);
  EXPECT_EQ(on_the_host(free_status::null, [&] { return view.free(block); }), free_status::null);
  EXPECT_EQ(on_the_host(free_status::null, [&] { return view.destroy(static_cast<unsigned*>(block)); }), free_status::null);
  EXPECT_EQ(heap.stats().live_allocations, 1u) << "the block lives";
  EXPECT_EQ(text_of_error([&] { heap.check(); }), "");
  heap.free(std::vector<void*>{block});
  EXPECT_EQ(heap.stats().live_allocations, 0u);
}

template <class Ref>
struct free_and_ask {
  Ref heap;
  void* block;
  free_status* freed;
  void** got;
  GPUHEAP_FN void operator()(unsigned) const {
    *freed = heap.free(block);
    *got = heap.malloc(64);
  }
};
TYPED_TEST(Misuse, ViewOfAnEndedHeap) {
  using ref = typename TestFixture::ref;
  gpuheap::memory::allocation const memory{gpuheap::memory::device, 8_MiB};
  std::optional<typename TestFixture::heap_type> first{memory.where()};
  std::vector<void*> const blocks = blocks_of(*first, 2, 64);
  ref const view = first->ref();
  first.reset();
  device_array<free_status> freed(1);
  device_array<void*> got(1);
  // The memory is the program's, and is as it was.
  gpuheap::launch(1, free_and_ask<ref>{view, blocks[0], freed.data(), got.data()});
  EXPECT_EQ(freed.first(), free_status::done);
  EXPECT_NE(got.first(), nullptr);
  // Another heap in this memory knows no block of the first.
  typename TestFixture::heap_type second{memory.where()};
  gpuheap::launch(1, free_and_ask<ref>{second.ref(), blocks[1], freed.data(), got.data()});
  EXPECT_EQ(freed.first(), free_status::foreign);
  EXPECT_NE(got.first(), nullptr);
  EXPECT_NE(text_of_error([&] { second.check(); }), "");
  EXPECT_EQ(second.stats().live_allocations, 1u);
}

}  // namespace
