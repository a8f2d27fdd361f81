// The further members of the device's view, for allocators that have what they need.
#pragma once

#include "suite.hpp"

namespace conformance {

// Kernel: dirties a block, frees it, asks for zeroed ones, and counts bytes that are not zero.
template <class Ref>
struct calloc_and_look {
  Ref heap;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const count = 1 + i % 50, bytes = 1 + i % 7;
    void* const dirty = heap.malloc(count * bytes);
    if (dirty != nullptr) test::fill_pattern(dirty, count * bytes, i);
    heap.free(dirty);
    void* const p = heap.calloc(count, bytes);
    unsigned bad = p == nullptr;
    for (unsigned b = 0; p != nullptr && b < count * bytes; ++b) bad += simt::plain_read(static_cast<unsigned char const*>(p)[b]) != 0;
    heap.free(p);
    // Products beyond 2^64, one of which wraps to a small number.
    bad += heap.calloc(~simt::size_t{0}, 2) != nullptr;
    bad += heap.calloc((simt::size_t{1} << 60) + 1, 16) != nullptr;
    bad += heap.calloc(0, 100) != nullptr || heap.calloc(100, 0) != nullptr;
    if (bad != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(bad, simt::relaxed);  // relaxed: a count
  }
};
template <class A>
struct zeroes_what_calloc_returns {
  static constexpr char const* name = "ZeroesWhatCallocReturns";
  static constexpr bool applies = true;
  static void run() {
    heap_under_test<A> heap;
    test::device_array<unsigned> wrong(1);
    unsigned const threads = scale<A>::threads / 4;
    gpuheap::launch(threads, calloc_and_look<typename heap_under_test<A>::ref_type>{heap.ref(), wrong.data()});
    EXPECT_EQ(wrong.first(), 0u);
    release_warps(heap);
    EXPECT_EQ(heap->stats().failed_requests, 2u * threads) << "each product beyond 2^64 is a failed request, those of 0 are not";
    EXPECT_EQ(heap->stats().live_allocations, 0u);
  }
};

// Kernel: grows and shrinks one block and looks at its contents each time.
template <class Ref>
struct realloc_up_and_down {
  Ref heap;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    if constexpr (gpuheap::has_usable_size<typename Ref::allocator_type> || gpuheap::has_realloc<typename Ref::allocator_type>) {
      unsigned const sizes[] = {1 + i % 30, 64, 700, 701, 200, 3000, 8, 1};
      unsigned bad = 0;
      void* p = nullptr;
      unsigned kept = 0;
      for (unsigned bytes : sizes) {
        void* const moved = heap.realloc(p, bytes);
        if (moved == nullptr) {
          ++bad;
          break;
        }
        p = moved;
        bad += changed_bytes(p, kept < bytes ? kept : bytes, i);
        for (unsigned b = 0; b < bytes; ++b) simt::plain_write(static_cast<unsigned char*>(p)[b], byte_at(b, i));
        kept = bytes;
      }
      // Too much: the block stays as it is.
      bad += heap.realloc(p, simt::size_t{1} << 60) != nullptr;
      bad += changed_bytes(p, kept, i);
      bad += heap.realloc(p, 0) != nullptr;                                            // frees
      if (bad != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(bad, simt::relaxed);  // relaxed: a count
    }
  }
  GPUHEAP_FN static unsigned char byte_at(unsigned b, unsigned i) {
    return static_cast<unsigned char>(test::mix(simt::uint64_t{i} << 32 | b));
  }
  GPUHEAP_FN static unsigned changed_bytes(void const* p, unsigned bytes, unsigned i) {
    unsigned bad = 0;
    for (unsigned b = 0; b < bytes; ++b) bad += simt::plain_read(static_cast<unsigned char const*>(p)[b]) != byte_at(b, i);
    return bad;
  }
};
template <class A>
struct keeps_contents_through_realloc {
  static constexpr char const* name = "KeepsContentsThroughRealloc";
  static constexpr bool applies = gpuheap::has_usable_size<A> || gpuheap::has_realloc<A>;
  static void run() {
    heap_under_test<A> heap;
    test::device_array<unsigned> wrong(1);
    unsigned const threads = scale<A>::threads / 4;
    gpuheap::launch(threads, realloc_up_and_down<typename heap_under_test<A>::ref_type>{heap.ref(), wrong.data()});
    EXPECT_EQ(wrong.first(), 0u);
    EXPECT_EQ(heap->stats().failed_requests, threads);
    if constexpr (gives_back<A>) expect_all_freed(heap);
  }
};

// Kernel: thread i asks for an alignment of its own.
template <class Ref>
struct malloc_aligned {
  Ref heap;
  std::size_t const* sizes;
  std::size_t const* alignments;
  void** out;
  GPUHEAP_FN void operator()(unsigned i) const {
    if constexpr (gpuheap::has_aligned_malloc<typename Ref::allocator_type>) out[i] = heap.aligned_malloc(sizes[i], alignments[i]);
  }
};
template <class A>
struct aligns_as_asked {
  static constexpr char const* name = "AlignsAsAsked";
  static constexpr bool applies = gpuheap::has_aligned_malloc<A>;
  static void run() {
    using kernel = malloc_aligned<typename heap_under_test<A>::ref_type>;
    heap_under_test<A> heap;
    for (unsigned round = 0; round < 3; ++round) {
      std::vector<std::size_t> sizes, alignments;
      for (std::size_t alignment = 1; alignment <= 2_MiB; alignment *= 2) {
        unsigned const count = alignment <= 256 ? 50 : alignment <= 16384 ? 6 : 1;
        for (unsigned k = 0; k < count; ++k) {
          alignments.push_back(alignment);
          sizes.push_back(1 + (alignment / 2 + 37 * k) % 5000);
        }
      }
      test::device_array<std::size_t> asked(alignments);
      blocks_of<A> b(heap.ref(), sizes);
      gpuheap::launch(b.count(), kernel{heap.ref(), b.device_sizes().data(), asked.data(), b.pointers().data()});
      auto const p = b.pointers().read();
      for (std::size_t i = 0; i < p.size(); ++i) {
        ASSERT_NE(p[i], nullptr) << sizes[i] << " bytes aligned to " << alignments[i];
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p[i]) % alignments[i], 0u) << sizes[i] << " bytes aligned to " << alignments[i];
      }
      b.expect_sound(16, heap.where());
      b.fill();
      b.expect_intact("of blocks with an alignment");
      b.free_all(3);
      release_warps(heap);
      expect_all_freed(heap);
      if constexpr (!gives_back<A> && can_reset<A>) heap->reset();
    }
    // Numbers that are no alignments, and alignments above those that the heap promises.
    test::device_array<std::size_t> invalid(std::vector<std::size_t>{0, 3, 48, 4_MiB, std::size_t{1} << 63, ~std::size_t{0}});
    blocks_of<A> none(heap.ref(), 6, 100);
    gpuheap::launch(6, kernel{heap.ref(), none.device_sizes().data(), invalid.data(), none.pointers().data()});
    EXPECT_EQ(none.failed_requests(), 6u);
    EXPECT_EQ(heap->stats().failed_requests, 6u);
  }
};

// Kernel: asks how much each block may hold.
template <class Ref>
struct ask_usable {
  Ref heap;
  void* const* blocks;
  std::size_t* usable;
  GPUHEAP_FN void operator()(unsigned i) const {
    if constexpr (gpuheap::has_usable_size<typename Ref::allocator_type>) usable[i] = heap.usable_size(blocks[i]);
  }
};
template <class A>
struct lets_all_usable_bytes_be_used {
  static constexpr char const* name = "LetsAllUsableBytesBeUsed";
  static constexpr bool applies = gpuheap::has_usable_size<A>;
  static void run() {
    using kernel = ask_usable<typename heap_under_test<A>::ref_type>;
    heap_under_test<A> heap;
    auto sizes = mixed_sizes(scale<A>::threads, scale<A>::mixed_bytes / 2, 9);
    sizes.push_back(scale<A>::heap_bytes / 10);
    blocks_of<A> b(heap.ref(), sizes);
    b.malloc_all();
    ASSERT_EQ(b.failed_requests(), 0u);
    test::device_array<std::size_t> usable(sizes.size());
    gpuheap::launch(b.count(), kernel{heap.ref(), b.pointers().data(), usable.data()});
    auto const said = usable.read();
    std::size_t sum = 0;
    for (std::size_t i = 0; i < said.size(); ++i) {
      ASSERT_GE(said[i], sizes[i]);
      sum += said[i];
    }
    blocks_of<A> whole(heap.ref(), said);
    whole.pointers().write(b.pointers().read());
    whole.expect_sound(A::traits.min_alignment, heap.where());
    whole.fill();
    whole.expect_intact("of blocks filled up to their usable size");
    EXPECT_EQ(heap->stats().live_bytes, sum) << "live bytes are the sum of the usable sizes";
    whole.free_all();
    expect_all_freed(heap);
    if (heap->stats().knows_peak) {
      EXPECT_GE(heap->stats().peak_live_bytes + heap->stats().peak_error_bytes, sum);
    }
    EXPECT_LE(heap->stats().peak_live_bytes, sum);

    blocks_of<A> nothing(heap.ref(), 1, 1);
    gpuheap::launch(1, kernel{heap.ref(), nothing.pointers().data(), usable.data()});
    EXPECT_EQ(usable.first(), 0u) << "of nullptr";
  }
};

// Kernel: asks whose pointers these are.
template <class Ref>
struct ask_owner {
  Ref heap;
  void* const* pointers;
  unsigned* owned;
  GPUHEAP_FN void operator()(unsigned i) const {
    if constexpr (gpuheap::has_owns<typename Ref::allocator_type>) owned[i] = heap.owns(pointers[i]);
  }
};
template <class A>
struct knows_its_own_blocks {
  static constexpr char const* name = "KnowsItsOwnBlocks";
  static constexpr bool applies = gpuheap::has_owns<A>;
  static void run() {
    using kernel = ask_owner<typename heap_under_test<A>::ref_type>;
    heap_under_test<A> heap, other(8_MiB);
    blocks_of<A> mine(heap.ref(), mixed_sizes(300, 3000, 11)), theirs(other.ref(), 300, 64);
    mine.malloc_all();
    theirs.malloc_all();
    test::device_array<unsigned> owned(300);
    gpuheap::launch(300, kernel{heap.ref(), mine.pointers().data(), owned.data()});
    for (unsigned o : owned.read()) EXPECT_EQ(o, 1u);
    gpuheap::launch(300, kernel{heap.ref(), theirs.pointers().data(), owned.data()});
    for (unsigned o : owned.read()) EXPECT_EQ(o, 0u);
    auto* const base = static_cast<char*>(heap.where().base);
    std::vector<void*> outside{nullptr, base - 1, base - 4096, base + heap.where().bytes, reinterpret_cast<void*>(~std::uintptr_t{15})};
    test::device_array<void*> pointers(outside);
    gpuheap::launch(5, kernel{heap.ref(), pointers.data(), owned.data()});
    for (unsigned i = 0; i < 5; ++i) EXPECT_EQ(owned.read()[i], 0u) << outside[i];
  }
};

// Kernel, one thread: what requests of odd sizes take.
template <class Ref>
struct ask_rounded {
  Ref heap;
  simt::size_t const* bytes;
  simt::size_t* out;
  unsigned count;
  GPUHEAP_FN void operator()(unsigned) const {
    if constexpr (gpuheap::has_rounded_size<typename Ref::allocator_type>) {
      for (unsigned i = 0; i < count; ++i) out[i] = heap.allocator().rounded_size(bytes[i]);
    }
  }
};
template <class A>
struct rounds_sizes_up {
  static constexpr char const* name = "RoundsSizesUp";
  static constexpr bool applies = gpuheap::has_rounded_size<A>;
  static void run() {
    heap_under_test<A> heap;
    std::vector<simt::size_t> sizes{1, 15, 16, 17, 1000, 4096, 4097, 1 << 20, (1 << 20) + 1};
    for (unsigned k = 1; k < 64; ++k) {
      for (simt::size_t const near : {~simt::size_t{0}, simt::size_t{0}, simt::size_t{1}}) sizes.push_back((simt::size_t{1} << k) + near);
    }
    for (unsigned below = 0; below < 100; ++below) sizes.push_back(~simt::size_t{0} - below);
    test::device_array<simt::size_t> const asked(sizes);
    test::device_array<simt::size_t> rounded(sizes.size());
    using ref = typename heap_under_test<A>::ref_type;
    gpuheap::launch(1, ask_rounded<ref>{heap.ref(), asked.data(), rounded.data(), static_cast<unsigned>(sizes.size())});
    auto const found = rounded.read();
    for (std::size_t i = 0; i < sizes.size(); ++i) EXPECT_GE(found[i], sizes[i]);
  }
};

// An object whose making and ending can be counted.
struct counted_object {
  unsigned value;
  unsigned* ended;
  GPUHEAP_FN counted_object(unsigned v, unsigned* e) : value{v}, ended{e} {}
  GPUHEAP_FN ~counted_object() { simt::atomic_ref<unsigned>{*ended}.fetch_add(1, simt::relaxed); }  // relaxed: a count
  counted_object(counted_object const&) = delete;
};
struct aggregate {
  unsigned first;
  double second;
  void* third;
};
// Kernel: makes objects and ends them.
template <class Ref>
struct create_and_destroy {
  Ref heap;
  unsigned* ended;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto* const object = heap.template create<counted_object>(i, ended);
    auto* const parts = heap.template create<aggregate>(i, 0.5, nullptr);
    unsigned bad = 0;
    bad += object == nullptr || object->value != i;
    bad += parts == nullptr || parts->first != i || parts->second != 0.5 || parts->third != nullptr;
    if constexpr (gpuheap::has_aligned_malloc<typename Ref::allocator_type>) {
      struct alignas(256) wide {
        unsigned value;
      };
      auto* const aligned = heap.template create<wide>(i);
      bad += aligned == nullptr || reinterpret_cast<simt::uintptr_t>(aligned) % 256 != 0 || aligned->value != i;
      heap.destroy(aligned);
    }
    heap.destroy(object);
    heap.destroy(parts);
    heap.destroy(static_cast<aggregate*>(nullptr));
    if (bad != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(bad, simt::relaxed);  // relaxed: a count
  }
};
template <class A>
struct creates_and_destroys_objects {
  static constexpr char const* name = "CreatesAndDestroysObjects";
  static constexpr bool applies = true;
  static void run() {
    heap_under_test<A> heap;
    test::device_array<unsigned> ended(1), wrong(1);
    unsigned const threads = scale<A>::threads / 4;
    gpuheap::launch(threads, create_and_destroy<typename heap_under_test<A>::ref_type>{heap.ref(), ended.data(), wrong.data()});
    EXPECT_EQ(wrong.first(), 0u);
    EXPECT_EQ(ended.first(), threads);
    release_warps(heap);
    expect_all_freed(heap);
  }
};

template <class A>
void register_members(char const* allocator) {
  register_cases<A, zeroes_what_calloc_returns, keeps_contents_through_realloc, aligns_as_asked, lets_all_usable_bytes_be_used,
                 knows_its_own_blocks, rounds_sizes_up, creates_and_destroys_objects>(allocator);
}

}  // namespace conformance
