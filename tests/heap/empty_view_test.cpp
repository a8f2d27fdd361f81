// A view that no heap made, and regions without memory.
#include "fixtures.hpp"

namespace {

using namespace test;

// The answers of every member to a thread.
struct answers {
  void* blocks[6];
  std::size_t usable;
  gpuheap::free_status of_null, of_other, of_group;
  bool owned;
};
template <class Ref>
struct ask_everything {
  Ref heap;
  void* other;
  answers* out;
  GPUHEAP_FN void operator()(unsigned i) const {
    answers a{};
    a.blocks[0] = heap.malloc(64);
    a.blocks[1] = heap.calloc(4, 16);
    a.blocks[2] = heap.aligned_malloc(64, 256);
    a.blocks[3] = heap.realloc(nullptr, 64);
    a.blocks[4] = heap.realloc(other, 64);
    a.blocks[5] = heap.template create<unsigned>(7u);
    a.usable = heap.usable_size(other);
    a.owned = heap.owns(other);
    a.of_null = heap.free(nullptr);
    a.of_other = heap.free(other);
    auto const group = gpuheap::this_warp();
    void* const together = heap.malloc(group, 64);
    void* const each = heap.malloc_each(group, 64);
    void* const coalesced = heap.malloc_coalesced(group, 64);
    if (together != nullptr || each != nullptr || coalesced != nullptr) a.owned = true;
    a.of_group = heap.free(group, other);
    out[i] = a;
  }
};
template <class Allocator, class Statistics>
void expect_empty() {
  using ref = gpuheap::heap_ref<Allocator, Statistics>;
  device_array<answers> out(40);
  device_array<unsigned> other(4);
  gpuheap::launch(40, ask_everything<ref>{ref{}, other.data(), out.data()});
  for (answers const& a : out.read()) {
    for (void* p : a.blocks) EXPECT_EQ(p, nullptr);
    EXPECT_EQ(a.usable, 0u);
    EXPECT_EQ(a.of_null, gpuheap::free_status::null);
    EXPECT_EQ(a.of_other, gpuheap::free_status::foreign);
    EXPECT_EQ(a.of_group, gpuheap::free_status::foreign);
    EXPECT_FALSE(a.owned);
  }
}
TEST(EmptyView, AnswersAsOneWithoutMemory) {
  expect_empty<gpuheap::sharded_spans, gpuheap::uncounted>();
  expect_empty<gpuheap::sharded_spans, gpuheap::counted>();
  expect_empty<gpuheap::backing_reference, gpuheap::counted>();
}

TEST(EmptyRegion, IsRefused) {
  EXPECT_TRUE(says(text_of_error([] {
                     gpuheap::heap<> heap{gpuheap::memory::region{nullptr, 8_MiB}};
                   }),
                   "cannot make a heap in a region of 8.0 MiB whose base is null"));
}

}  // namespace
