// Tests of the ownership and the sources of a heap's memory, and of heaps that cannot get it.
#include "fixtures.hpp"

#include <optional>
#include <span>
#include <type_traits>

namespace {

using namespace test;
using heap_t = gpuheap::heap<gpuheap::backing_reference>;

static_assert(!std::is_copy_constructible_v<heap_t> && !std::is_copy_assignable_v<heap_t>);
static_assert(std::is_nothrow_move_constructible_v<heap_t> && std::is_nothrow_move_assignable_v<heap_t>);
static_assert(std::is_trivially_copyable_v<heap_t::ref_type>);
static_assert(std::is_same_v<gpuheap::heap<>::allocator_type, gpuheap::sharded_spans>, "the default allocator is ours");

// A source that counts what it gives, in memory of the machine's device.
struct counting_source {
  int* given;
  int* returned;
  void* allocate(std::size_t bytes) const {
    ++*given;
    return gpuheap::memory::device.allocate(bytes);
  }
  void deallocate(void* p, std::size_t bytes) const noexcept {
    ++*returned;
    gpuheap::memory::device.deallocate(p, bytes);
  }
  std::optional<gpuheap::memory::capacity> query() const { return std::nullopt; }
  std::string name() const { return "the test's memory"; }
};
static_assert(gpuheap::memory::source<counting_source>);

struct empty_source {
  void* allocate(std::size_t) const { throw gpuheap::out_of_memory("it is empty"); }
  void deallocate(void*, std::size_t) const noexcept {}
  std::optional<gpuheap::memory::capacity> query() const { return gpuheap::memory::capacity{150'000'000'000, 148'176'371'712}; }
  std::string name() const { return "device memory"; }
};

TEST(Ownership, TheDefaultHeapServesKernels) {
  gpuheap::heap<> heap{16_MiB};
  EXPECT_EQ(heap.bytes(), 16_MiB);
  for (void* p : blocks_of(heap, 1000, 64)) ASSERT_NE(p, nullptr);
  EXPECT_EQ(heap.stats().live_allocations, 1000u);
}

TEST(Ownership, MemoryIsGivenBackOnce) {
  int given = 0, returned = 0;
  {
    heap_t a{1_MiB, counting_source{&given, &returned}};
    EXPECT_EQ(given, 1);
    heap_t b{std::move(a)};
    heap_t c{1_MiB, counting_source{&given, &returned}};
    EXPECT_EQ(returned, 0);
    c = std::move(b);
    EXPECT_EQ(returned, 1) << "what the target owned goes back at once";
    for (void* p : blocks_of(c, 10, 100)) EXPECT_NE(p, nullptr);
    heap_t& self = c;
    c = std::move(self);
    EXPECT_EQ(c.stats().live_allocations, 10u);
  }
  EXPECT_EQ(given, 2);
  EXPECT_EQ(returned, 2);
}

TEST(Ownership, ARefStaysValidWhenTheHeapMoves) {
  heap_t a{1_MiB};
  auto const ref = a.ref();
  auto const pointers = blocks_of(a, 100, 50);
  heap_t b{std::move(a)};
  device_array<void*> device(pointers);
  gpuheap::launch(100, give<heap_t::ref_type>{ref, device.data()});
  EXPECT_EQ(b.stats().live_allocations, 0u);
}

TEST(Ownership, LivesInTheCallersMemory) {
  gpuheap::memory::allocation const mine{gpuheap::memory::device, 2_MiB};
  {
    heap_t heap{mine.where()};
    EXPECT_EQ(heap.bytes(), 2_MiB);
    for (void* p : blocks_of(heap, 100, 1000)) {
      EXPECT_GE(p, mine.base());
      EXPECT_LE(static_cast<char*>(p) + 1000, static_cast<char*>(mine.base()) + 2_MiB);
    }
  }
  heap_t again{mine.where()};  // the memory is still the caller's
  EXPECT_EQ(again.stats().live_allocations, 0u);
}

TEST(Ownership, ServesFromEveryKindOfMemory) {
  for (auto const kind : {gpuheap::memory::device, gpuheap::memory::managed, gpuheap::memory::pinned}) {
    gpuheap::heap<> heap{4_MiB, kind};
    for (void* p : blocks_of(heap, 500, 100)) EXPECT_NE(p, nullptr) << kind.name();
    EXPECT_EQ(heap.stats().live_allocations, 500u) << kind.name();
  }
  // Pageable memory is not within every GPU's reach.
  if (simt::kernels_reach_host_memory()) {
    heap_t heap{4_MiB, gpuheap::memory::host};
    for (void* p : blocks_of(heap, 500, 100)) EXPECT_NE(p, nullptr);
  } else {
    std::string const text = text_of_error([] { heap_t heap{4_MiB, gpuheap::memory::host}; });
    EXPECT_TRUE(says(text, "memory::pinned"));
  }
}

TEST(Ownership, TooSmallSaysHowMuchIsNeeded) {
  std::string const text = text_of_error([] { heap_t heap{1000}; });
  EXPECT_TRUE(says(text, "'backing_reference'"));
  EXPECT_TRUE(says(text, std::to_string(heap_t::min_bytes()) + " bytes"));
  EXPECT_NO_THROW(heap_t{heap_t::min_bytes()});
  EXPECT_NO_THROW(gpuheap::heap<>{gpuheap::heap<>::min_bytes()});
  EXPECT_NO_THROW(gpuheap::heap<gpuheap::atomic_malloc>{gpuheap::heap<gpuheap::atomic_malloc>::min_bytes()});

  gpuheap::memory::allocation const mine{gpuheap::memory::device, 512};
  EXPECT_TRUE(says(text_of_error([&] { heap_t heap{mine.where()}; }), "a region of 512 B is too small"));
}

TEST(Ownership, AMisalignedRegionIsRefused) {
  gpuheap::memory::allocation const mine{gpuheap::memory::device, 1_MiB};
  EXPECT_TRUE(says(text_of_error([&] {
                     heap_t heap{gpuheap::memory::region{static_cast<char*>(mine.base()) + 16, 1_MiB - 16}};
                   }),
                   "aligned to 256"));
}

TEST(Ownership, ARefusalSaysWhatWasAskedAndWhatThereIs) {
  EXPECT_THROW((heap_t{200_GiB, empty_source{}}), gpuheap::out_of_memory);
  std::string const text = text_of_error([] { heap_t heap{200_GiB, empty_source{}}; });
  EXPECT_TRUE(says(text, "cannot make a heap of 200.0 GiB: there are 139.7 GiB of device memory, 138.0 GiB free. Make a smaller heap"));
  EXPECT_TRUE(says(text, "it is empty"));
}

TEST(Ownership, AFractionOfASourceThatDoesNotSayIsRefused) {
  int given = 0, returned = 0;
  std::string const text = text_of_error([&] { heap_t heap{gpuheap::fraction_of_free(0.5), counting_source{&given, &returned}}; });
  EXPECT_TRUE(says(text, "the test's memory does not say how much of it is free"));
}

TEST(Ownership, MoreThanTheMachineHasIsRefused) {
  EXPECT_THROW((gpuheap::heap<gpuheap::atomic_malloc>{std::size_t{1} << 50}), gpuheap::out_of_memory);
}

// ---- from the host

struct write_index {
  unsigned* const* blocks;
  GPUHEAP_FN void operator()(unsigned i) const { simt::plain_write(*blocks[i], i); }
};
struct read_back {
  unsigned* const* blocks;
  unsigned* out;
  GPUHEAP_FN void operator()(unsigned i) const { out[i] = simt::plain_read(*blocks[i]); }
};

TEST(FromTheHost, CopiesHeapMemory) {
  heap_t heap{1_MiB};
  auto const pointers = blocks_of(heap, 100, sizeof(unsigned));
  device_array<void*> device(pointers);
  auto* const typed = reinterpret_cast<unsigned* const*>(device.data());
  gpuheap::launch(100, write_index{typed});
  for (unsigned i = 0; i < 100; ++i) {
    unsigned value = 0;
    heap.copy_to_host(&value, pointers[i], sizeof value);
    EXPECT_EQ(value, i);
    value += 1000;
    heap.copy_from_host(pointers[i], &value, sizeof value);
  }
  device_array<unsigned> out(100);
  gpuheap::launch(100, read_back{typed, out.data()});
  for (unsigned i = 0; i < 100; ++i) EXPECT_EQ(out.read()[i], 1000 + i);
}

TEST(FromTheHost, RefusesToCopyWhatIsNotTheHeaps) {
  heap_t heap{1_MiB};
  std::vector<char> const zeroes(4_MiB);
  std::vector<char> to(4_MiB);
  device_array<char> other(64);
  EXPECT_TRUE(says(text_of_error([&] { heap.copy_to_host(to.data(), other.data(), 64); }), "do not lie in this heap"));
  auto const p = blocks_of(heap, 1, 64)[0];
  EXPECT_NO_THROW(heap.copy_to_host(to.data(), p, 64));
  EXPECT_THROW(heap.copy_to_host(to.data(), p, 2_MiB), gpuheap::error);
  EXPECT_THROW(heap.copy_from_host(static_cast<char*>(p) + 2_MiB, zeroes.data(), 8), gpuheap::error);
  EXPECT_NO_THROW(heap.copy_to_host(to.data(), nullptr, 0));
}

TEST(FromTheHost, FreesBlocksListedOnEitherSide) {
  heap_t heap{4_MiB};
  heap.free(blocks_of(heap, 1000, 100));
  EXPECT_EQ(heap.stats().live_allocations, 0u);

  auto const more = blocks_of(heap, 1000, 100);
  heap.free(std::span{more}.first(300));
  EXPECT_EQ(heap.stats().live_allocations, 700u);
  std::vector<int*> typed;
  for (unsigned i = 300; i < 500; ++i) typed.push_back(static_cast<int*>(more[i]));
  typed.push_back(nullptr);
  heap.free(typed);
  EXPECT_EQ(heap.stats().live_allocations, 500u);

  device_array<void*> rest(std::vector<void*>(more.begin() + 500, more.end()));
  heap.free(rest.span());
  EXPECT_EQ(heap.stats().live_allocations, 0u);
  heap.free(std::vector<void*>{});
  heap.free(gpuheap::device_span<void*>{});
  EXPECT_EQ(heap.stats().double_frees + heap.stats().foreign_frees, 0u);
}

TEST(FromTheHost, TakesAStream) {
  simt::stream_ref const stream = simt::make_stream();
  {
    heap_t heap{1_MiB, stream};
    device_array<void*> pointers(200);
    gpuheap::launch(200, take<heap_t::ref_type>{heap.ref(), 100, pointers.data()}, {.stream = stream});
    heap.free(pointers.span(), stream);
    EXPECT_EQ(heap.stats(stream).live_allocations, 0u);
    gpuheap::launch(200, take<heap_t::ref_type>{heap.ref(), 100, pointers.data()}, {.stream = stream});
    EXPECT_EQ(heap.stats(stream).live_allocations, 200u);
    heap.reset(stream);
    EXPECT_EQ(heap.stats(stream).live_allocations, 0u);
    EXPECT_NO_THROW(heap.check(stream));
  }
  simt::destroy_stream(stream);
}

}  // namespace
