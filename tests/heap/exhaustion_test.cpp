// Tests of the host's report after a kernel's request found no memory, or a free was refused.
#include "fixtures.hpp"

#include <new>
#include <optional>
#include <stdexcept>

namespace {

using namespace test;
using heap_t = gpuheap::heap<gpuheap::backing_reference>;

// A heap of 8 MiB of which 7 are in use: requests of 2 MiB and more find no memory, and would in an empty one.
class full_heap : public heap_t {
 public:
  full_heap() : heap_t{8_MiB} { fill(); }
  void fill() { (void)blocks_of(static_cast<heap_t&>(*this), 1, 7_MiB); }
};

TEST(Exhaustion, NothingWrongPassesTheCheck) {
  heap_t heap{1_MiB};
  heap.free(blocks_of(heap, 100, 100));
  EXPECT_NO_THROW(heap.check());
}

TEST(Exhaustion, TheCheckThrowsWhatFailedAndWhere) {
  full_heap heap;
  blocks_of(heap, 3, 5_MiB, {.block_threads = 64});
  EXPECT_THROW(heap.check(), gpuheap::out_of_memory);
  blocks_of(heap, 1, 5_MiB);
  std::string const text = text_of_error([&] { heap.check(); });
  EXPECT_TRUE(says(text, "1 request in kernels found no memory in a heap of 8.0 MiB"));
  EXPECT_TRUE(says(text, "the first asked for 5242880 bytes (block 0, thread 0)"));
}

TEST(Exhaustion, IsReportedOnce) {
  full_heap heap;
  blocks_of(heap, 10, 5_MiB);
  EXPECT_THROW(heap.check(), gpuheap::out_of_memory);
  EXPECT_NO_THROW(heap.check());
  EXPECT_EQ(heap.stats().failed_requests, 10u) << "the statistics keep the total";
}

TEST(Exhaustion, ACallbackReplacesTheException) {
  full_heap heap;
  unsigned calls = 0;
  gpuheap::exhaustion last;
  heap.on_exhausted([&](gpuheap::exhaustion const& what) {
    ++calls;
    last = what;
  });
  EXPECT_NO_THROW(heap.check());
  EXPECT_EQ(calls, 0u);
  blocks_of(heap, 10, 3_MiB);
  EXPECT_NO_THROW(heap.check());
  EXPECT_EQ(calls, 1u);
  EXPECT_EQ(last.failed_requests, 10u);
  EXPECT_EQ(last.first.bytes, 3_MiB);
  EXPECT_EQ(last.stats.heap_bytes, 8_MiB);
  blocks_of(heap, 4, 3_MiB);
  heap.check();
  EXPECT_EQ(calls, 2u);
  EXPECT_EQ(last.failed_requests, 4u) << "since the last check";
  EXPECT_EQ(last.stats.failed_requests, 14u);
  heap.on_exhausted({});
  blocks_of(heap, 1, 3_MiB);
  EXPECT_THROW(heap.check(), gpuheap::out_of_memory);
}

TEST(Exhaustion, ACallbackMayThrow) {
  full_heap heap;
  heap.on_exhausted([](gpuheap::exhaustion const&) { throw std::runtime_error("mine"); });
  blocks_of(heap, 1, 3_MiB);
  EXPECT_THROW(heap.check(), std::runtime_error);
  EXPECT_NO_THROW(heap.check());
}

// One thread: a request that fails, and a block freed twice.
struct fail_and_free_twice {
  heap_t::ref_type heap;
  GPUHEAP_FN void operator()(unsigned) const {
    void* const p = heap.malloc(64);
    heap.free(p);
    heap.free(p);
    (void)heap.malloc(3 << 20);
  }
};
TEST(Exhaustion, EachKindIsReportedOnce) {
  full_heap heap;
  gpuheap::launch(1, fail_and_free_twice{heap.ref()});
  std::string const first = text_of_error([&] { heap.check(); });
  EXPECT_TRUE(says(first, "found no memory"));
  EXPECT_TRUE(says(first, "Frees were refused as well: the next check() says which"));
  EXPECT_TRUE(says(text_of_error([&] { heap.check(); }), "1 of blocks that were free already"));
  EXPECT_NO_THROW(heap.check());
  EXPECT_EQ(heap.stats().double_frees, 1u) << "the statistics keep the total";
}
TEST(Exhaustion, ACallbackHidesNoRefusedFree) {
  full_heap heap;
  unsigned calls = 0;
  heap.on_exhausted([&](gpuheap::exhaustion const&) { ++calls; });
  gpuheap::launch(1, fail_and_free_twice{heap.ref()});
  EXPECT_TRUE(says(text_of_error([&] { heap.check(); }), "1 of blocks that were free already"));
  EXPECT_EQ(calls, 1u);
  EXPECT_NO_THROW(heap.check());
  EXPECT_EQ(calls, 1u);
}
TEST(Exhaustion, ACallbackThatThrowsHidesNoRefusedFree) {
  full_heap heap;
  unsigned calls = 0;
  heap.on_exhausted([&](gpuheap::exhaustion const&) {
    ++calls;
    throw std::runtime_error("mine");
  });
  gpuheap::launch(1, fail_and_free_twice{heap.ref()});
  EXPECT_THROW(heap.check(), std::runtime_error);
  EXPECT_TRUE(says(text_of_error([&] { heap.check(); }), "1 of blocks that were free already"));
  EXPECT_NO_THROW(heap.check());
  EXPECT_EQ(calls, 1u);
}

TEST(Exhaustion, ResetForgetsIt) {
  full_heap heap;
  blocks_of(heap, 10, 3_MiB);
  heap.reset();
  EXPECT_NO_THROW(heap.check());
  EXPECT_EQ(heap.stats().failed_requests, 0u);
  heap.fill();
  blocks_of(heap, 1, 2_MiB);
  EXPECT_EQ(heap.stats().first_failure.bytes, 2_MiB);
  EXPECT_THROW(heap.check(), gpuheap::out_of_memory);
}

TEST(Exhaustion, TheCheckThrowsForRefusedFrees) {
  full_heap heap;
  auto const blocks = blocks_of(heap, 2, 100);
  heap.free(blocks);
  heap.free(blocks);
  int host_variable = 0;
  heap.free(std::vector<void*>{&host_variable});
  std::string const text = text_of_error([&] { heap.check(); });
  EXPECT_TRUE(says(text, "frees refused by a heap of 'backing_reference'"));
  EXPECT_TRUE(says(text, "2 of blocks that were free already"));
  EXPECT_TRUE(says(text, "1 of pointers that it never handed out"));
  EXPECT_NO_THROW(heap.check());
}

// ---- requests that no heap like this one could ever serve

// Thread 0 asks for what is wrong in every way; the others for nothing.
template <class Ref>
struct ask_wrongly {
  Ref heap;
  void** out;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i != 0) return;
    out[0] = heap.aligned_malloc(64, 48);
    out[1] = heap.calloc(simt::size_t{1} << 40, simt::size_t{1} << 30);
    out[2] = heap.malloc(~simt::size_t{0});
    out[3] = heap.malloc(simt::size_t{1} << 40);
    out[4] = heap.aligned_malloc(simt::size_t{1} << 40, 64);
    out[5] = heap.aligned_malloc(64, simt::size_t{1} << 30);
  }
};
template <class Heap>
void expect_wrong_requests_are_told(Heap& heap) {
  device_array<void*> out(6);
  gpuheap::launch(40, ask_wrongly<typename Heap::ref_type>{heap.ref(), out.data()});
  for (void* p : out.read()) EXPECT_EQ(p, nullptr);
  gpuheap::statistics const s = heap.stats();
  EXPECT_EQ(s.failed_requests, 6u);
  EXPECT_EQ(s.invalid_requests, 6u);
  EXPECT_EQ(s.first_invalid.fault, gpuheap::request_fault::alignment);
  EXPECT_EQ(s.first_invalid.alignment, 48u);
  EXPECT_EQ(s.first_invalid.bytes, 64u);
}

TEST(InvalidRequests, AreNoExhaustion) {
  heap_t heap{1_MiB};
  expect_wrong_requests_are_told(heap);
  std::string const text = text_of_error([&] { heap.check(); });
  EXPECT_TRUE(
      says(text, "6 requests in kernels can never be served, however much memory is free; the first asked for an alignment of 48 bytes"));
  EXPECT_EQ(text.find("found no memory"), std::string::npos);
  EXPECT_NO_THROW(heap.check());
  blocks_of(heap, 3, 5_MiB);
  EXPECT_TRUE(says(text_of_error([&] { heap.check(); }), "3 requests in kernels can never be served"));
  heap.reset();
  blocks_of(heap, 1, 5_MiB);
  EXPECT_TRUE(says(text_of_error([&] { heap.check(); }), "the first asked for 5242880 bytes, and a block of this heap has at most 10"));
}
TEST(InvalidRequests, AreToldBesideThoseThatFoundNoMemory) {
  full_heap heap;
  std::vector<gpuheap::exhaustion> told;
  heap.on_exhausted([&](gpuheap::exhaustion const& what) { told.push_back(what); });
  blocks_of(heap, 2, 5_MiB);
  blocks_of(heap, 3, 50_MiB);
  EXPECT_NO_THROW(heap.check());
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].failed_requests, 5u);
  EXPECT_EQ(told[0].invalid_requests, 3u);
  EXPECT_EQ(told[0].first.bytes, 5_MiB);
  EXPECT_TRUE(says(told[0].text(), "2 requests in kernels found no memory"));
  EXPECT_TRUE(says(told[0].text(), "3 requests in kernels can never be served"));
}
TEST(InvalidRequests, OfTheDefaultAllocator) {
  gpuheap::heap<> heap{8_MiB};
  expect_wrong_requests_are_told(heap);
  blocks_of(heap, 1, heap.at_most());
  EXPECT_EQ(heap.stats().invalid_requests, 7u) << "metadata is no block's";
}
TEST(InvalidRequests, AHeapWithoutMemoryLeftIsNotInvalid) {
  full_heap heap;
  blocks_of(heap, 2, 5_MiB);
  EXPECT_EQ(heap.stats().failed_requests, 2u);
  EXPECT_EQ(heap.stats().invalid_requests, 0u);
  EXPECT_EQ(heap.stats().first_failure.fault, gpuheap::request_fault::none);
}

// ---- what programs catch

template <class Caught>
std::string caught_as(void (*body)()) {
  try {
    body();
  } catch (Caught const& e) {
    return e.what();
  }
  return "nothing";
}
void runs_out() {
  full_heap heap;
  blocks_of(heap, 1, 5_MiB);
  heap.check();
}
void is_too_small() { heap_t{100}; }

TEST(Errors, WantOfMemoryIsABadAllocToo) {
  for (std::string const& text : {caught_as<gpuheap::out_of_memory>(runs_out), caught_as<std::bad_alloc>(runs_out),
                                  caught_as<gpuheap::error>(runs_out), caught_as<std::exception>(runs_out)})
    EXPECT_TRUE(says(text, "1 request in kernels found no memory"));
  EXPECT_THROW(heap_t{simt::query_device().total_bytes * 100}, std::bad_alloc);
}
TEST(Errors, OthersAreRuntimeErrors) {
  for (std::string const& text :
       {caught_as<gpuheap::error>(is_too_small), caught_as<std::runtime_error>(is_too_small), caught_as<std::exception>(is_too_small)})
    EXPECT_TRUE(says(text, "is too small for the allocator 'backing_reference'"));
  EXPECT_THROW(
      try { is_too_small(); } catch (std::bad_alloc const&){}, gpuheap::plain_error);
}
TEST(Errors, KeepTheirTextWhenCopied) {
  std::optional<gpuheap::out_of_memory> first{std::string(3000, 'x')};
  gpuheap::out_of_memory const copy = *first;
  first.reset();
  EXPECT_EQ(std::string{copy.what()}, std::string(3000, 'x'));
}

}  // namespace
