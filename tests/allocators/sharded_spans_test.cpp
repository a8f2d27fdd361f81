// The default allocator under chosen schedules: contended mixes on heaps so small that every transition of a span happens all the time,
// audited after each launch.
#include "../support/blocks.hpp"
#include "sharded_churn.hpp"

#include <gpuheap/heap.hpp>

#include <algorithm>
#include <vector>

namespace sharded_test {
namespace {

TEST(ShardedSpans, SmallObjectsInAnAmpleHeap) { explore_mix<plain>({"small", 1 << 20, 200, 12, 4, 1, 64}); }
TEST(ShardedSpans, MixedSizesUnderPressure) { explore_mix<plain>({"pressure", 256 << 10, 160, 10, 4, 1, 2000}); }
TEST(ShardedSpans, ReuseAndDrainsAllTheTime) { explore_mix<eager>({"eager", 192 << 10, 128, 12, 4, 200, 4000}); }
TEST(ShardedSpans, LargeAndSmallTogether) { explore_mix<eager>({"large", 512 << 10, 64, 10, 3, 1000, 60000}); }
TEST(ShardedSpans, OneClassUntilFull) { explore_mix<eager>({"one class", 160 << 10, 256, 8, 4, 512, 512}); }
TEST(ShardedSpans, ManyWordsAndGroups) { explore_mix<plain>({"wide", 32 << 20, 512, 12, 4, 1, 3000}); }
TEST(ShardedSpans, SeveralShards) { explore_mix<eager>({"shards", 4 << 20, 320, 8, 4, 4000, 8000}); }

// One thread takes blocks until refused.
template <class Allocator>
struct fill {
  Allocator heap;
  void** out;
  unsigned* num;
  std::size_t bytes;
  GPUHEAP_FN void operator()(unsigned) const {
    for (;;) {
      void* const p = heap.malloc(bytes);
      if (p == nullptr) return;
      out[simt::atomic_ref<unsigned>{*num}.fetch_add(1, simt::relaxed)] = p;
    }
  }
};
template <class Allocator>
struct take_all {
  Allocator heap;
  void** out;
  GPUHEAP_FN void operator()(unsigned i) const { out[i] = heap.malloc(16); }
};
template <class Allocator>
struct free_all {
  Allocator heap;
  void** p;
  unsigned* refused;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (heap.free(p[i]) != gpuheap::free_status::done) count(*refused);
  }
};

// A shard word counts a bounded number of slots: a span with room for more would waste the rest. On paper, since it takes heaps that no
// test machine has.
TEST(ShardedSpans, NoSpanHasMoreRoomThanItsShardCanHandOut) {
  namespace sharded = gpuheap::sharded;
  for (simt::size_t bytes = 1 << 20; bytes <= simt::size_t{256} << 30; bytes *= 2) {
    sharded::layout const at = sharded::plan_layout({nullptr, bytes}, 4096, bytes, false).shape;
    for (unsigned c = 0; c < at.num_classes; ++c) {
      simt::size_t const slot = sharded::size_classes::slot_bytes(c), span = at.max_span_segments(c) * at.segment_bytes();
      ASSERT_LE(span, slot * gpuheap::structures::shard_word::max_slots) << bytes << " bytes of heap, class " << c;
      ASSERT_LE(span, simt::size_t{1} << 30);
      // Or else pages will do.
      if (span == 0) {
        ASSERT_LT(slot * gpuheap::structures::shard_word::max_slots, at.segment_bytes());
      }
    }
  }
}

// Several requests of one class, until the heap is full, with a search before each refusal the first time only.
TEST(ShardedSpans, AFullHeapRefusesUntilSomethingIsFreed) {
  gpuheap::heap<gpuheap::sharded_spans> heap{1u << 20};
  using blocks = test::blocks<gpuheap::heap<gpuheap::sharded_spans>::ref_type>;
  for (std::size_t const bytes : {16u, 100u, 4000u}) {
    blocks all(heap.ref(), (1u << 20) / bytes, bytes);
    all.malloc_all();
    ASSERT_GT(all.failed_requests(), 0u);
    blocks none(heap.ref(), 500, bytes);
    none.malloc_all();
    EXPECT_EQ(none.failed_requests(), 500u) << bytes;
    auto pointers = all.pointers().read();
    std::vector<void*> go;
    for (std::size_t i = 0; i < pointers.size() && go.size() < 10; i += 37) {
      if (pointers[i] != nullptr) go.push_back(pointers[i]);
    }
    heap.free(go);
    blocks some(heap.ref(), 500, bytes);
    some.malloc_all();
    EXPECT_EQ(some.failed_requests(), 500 - go.size()) << bytes;
    heap.reset();
  }
}

// One thread. Which refusals a request that has begun to search believes.
struct believe_refusals {
  plain::control* heap;
  unsigned* wrong;
  GPUHEAP_FN void expect(bool right) const {
    if (!right) count(*wrong);
  }
  GPUHEAP_FN void operator()(unsigned) const {
    auto const first = heap->begin_search(), second = heap->begin_search(), third = heap->begin_search();
    expect(first != 0 && first < second && second < third);
    heap->refuse(7, 0, 0);
    expect(!heap->refused_since(7, first) && !heap->refused_large_since(1, first));
    heap->refuse_large(3, second);
    expect(heap->refused_large_since(3, first) && heap->refused_large_since(4, first) && !heap->refused_large_since(2, first));
    expect(!heap->refused_large_since(3, second) && !heap->refused_since(7, first));
    // Of a search that began after it, for its class or a smaller one.
    heap->refuse(7, 0, second);
    expect(heap->refused_since(7, first) && heap->refused_since(8, first) && !heap->refused_since(6, first));
    expect(!heap->refused_since(7, second) && !heap->refused_since(8, third));
    // A search that finds no page for a slot finds no two in one segment, where half of a larger extent lies.
    unsigned const pages = heap->at.large_pages(gpuheap::structures::size_classes::slot_bytes(7));
    expect(heap->refused_large_since(2 * pages, first) && !heap->refused_large_since(2 * pages, second));
    expect(!heap->refused_large_since(2 * pages - 1, first));
    // Of a larger class: nothing new for the smaller, which keeps what is known of it.
    heap->refuse(9, 0, third);
    expect(heap->refused_since(9, second) && !heap->refused_since(7, second) && heap->refused_since(7, first));
  }
};
TEST(ShardedSpans, ARefusalIsBelievedByWhoAskedBeforeAndForNoLess) {
  fixed_heap<plain> heap{1 << 20};
  unsigned wrong = 0;
  gpuheap::launch(1, believe_refusals{heap.view.control_block(), &wrong}, {.block_threads = 1});
  EXPECT_EQ(wrong, 0u);
}

// Every thread gives back what it has and asks for more than there is, of many sizes, again and again.
template <class Allocator>
struct ask_for_too_much {
  Allocator heap;
  void** blocks;  // of each thread
  unsigned num_blocks, round;
  unsigned* failed_requests;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned j = 0; j < num_blocks; ++j) {
      void*& block = blocks[i * num_blocks + j];
      if (block != nullptr) heap.free(block);
      unsigned random = (i * num_blocks + j + 1) * 2654435761u ^ round * 40503u;
      random ^= random >> 15;
      block = heap.malloc(16 + random * 747796405u % 16369);
      if (block == nullptr) count(*failed_requests);
    }
  }
};

// Threads that are to be refused do not keep each other searching: what they do grows with their number, not with its square.
TEST(ShardedSpans, ManyAreRefusedWithFewSearches) {
  constexpr unsigned num_threads = 1024, num_blocks = 8;
  fixed_heap<plain> heap{16 << 20};
  std::vector<void*> blocks(num_threads * num_blocks);
  unsigned failed_requests = 0;
  for (unsigned round = 0; round < 4; ++round) {
    gpuheap::launch(num_threads, ask_for_too_much<plain>{heap.view, blocks.data(), num_blocks, round, &failed_requests},
                    {.block_threads = 64});
    ASSERT_EQ(heap.view.verify().problem, "");
  }
  auto const* const control = heap.view.control_block();
  EXPECT_GT(failed_requests, num_threads * num_blocks);
  // 6 and 4 for each refusal. 19 searches if each thread must find out by itself, 8 moves if each drops the same classes; with twice as
  // many threads it would be more.
  EXPECT_LT(control->searches, failed_requests * 9);
  EXPECT_LT(control->relocation_word >> 32, failed_requests * 6);
}

// Two threads: one refills a shard of a class in vain, again and again; the other drains that class, which holds nothing.
template <class Allocator>
struct look_and_take_back {
  Allocator heap;
  unsigned rounds, looked_for, other;
  GPUHEAP_FN void operator()(unsigned) const {
    auto& control = *heap.control_block();
    for (unsigned round = 0; round < rounds; ++round) {
      if (simt::block_id() == 0) {
        auto const shard = heap.geometry().shard(looked_for, 0);
        (void)shard.fetch_add(1, simt::consume);
        (void)shard.exchange(0, simt::consume_release);
      } else {
        (void)control.reclaim(simt::active_mask(), other);
      }
    }
  }
};

// Dropping the class and taking it up again would move something in each round: threads of several classes that are all to be refused would
// cross each other's searches for ever.
TEST(ShardedSpans, AClassThatHasNoSpanIsErasedOnce) {
  constexpr unsigned looked_for = 20, other = 5;
  explore("erasing", [] {
    fixed_heap<plain> heap{1 << 20};
    auto* const control = heap.view.control_block();
    control->active_word |= simt::uint64_t{1} << looked_for;
    gpuheap::launch(2, look_and_take_back<plain>{heap.view, 12, looked_for, other}, {.block_threads = 1});
    EXPECT_LE(control->relocation_word >> 32, 1u);
    EXPECT_EQ(control->active_word >> looked_for & 1, 0u);
  });
}

TEST(ShardedSpans, EveryByteIsHandedOutBeforeARefusalAndComesBackForEverySize) {
  fixed_heap<plain> heap{1 << 20};
  auto const& at = heap.view.geometry();
  std::vector<void*> p(at.heap_bytes() / 16);
  for (std::size_t bytes : {16u, 48u, 4096u, 112u, 8192u, 1000u, 16384u, 16u, 100000u}) {
    for (unsigned threads : {1u, 77u}) {
      unsigned num = 0, refused = 0;
      gpuheap::launch(threads, fill<plain>{heap.view, p.data(), &num, bytes});
      // Small pages have a little less room for bits than for the smallest slots.
      std::size_t const slot_bytes = heap.view.rounded_size(bytes), bits = std::size_t{at.num_pages} * at.bits_per_page;
      std::size_t const fit =
          bytes <= at.largest_slot() ? std::min(at.heap_bytes() / slot_bytes, bits) : at.num_pages / (slot_bytes >> at.page_shift);
      // The tail of a span, shorter than a slot, is the only loss.
      EXPECT_GE(num * 100, (bytes <= at.largest_slot() ? fit - 4 : fit) * 99) << bytes;
      EXPECT_EQ(heap.view.verify().problem, "");
      gpuheap::launch(num, free_all<plain>{heap.view, p.data(), &refused});
      EXPECT_EQ(refused, 0u);
      auto const found = heap.view.verify();
      EXPECT_EQ(found.problem, "");
      EXPECT_EQ(found.live_slots + found.large_allocations, 0u);
    }
  }
}

// Every other thread asks with an alignment, until nothing is left.
template <class Allocator>
struct ask_aligned {
  Allocator heap;
  void** blocks;
  unsigned num_blocks, round;
  unsigned *misaligned, *served;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned j = 0; j < num_blocks; ++j) {
      void*& block = blocks[i * num_blocks + j];
      unsigned random = (i * num_blocks + j + 1) * 2654435761u ^ round * 40503u;
      random ^= random >> 15;
      // From the second round on, half of the threads give back what they have.
      if (block != nullptr && round % 2 == 1 && random % 2 == 0) {
        heap.free(block);
        block = nullptr;
      }
      if (block != nullptr) continue;
      std::size_t const bytes = 1 + random * 747796405u % 900, alignment = (i + j) % 2 == 0 ? 16 : std::size_t{16} << (random >> 8) % 8;
      block = heap.aligned_malloc(bytes, alignment);
      if (block != nullptr) count(*served);
      if (reinterpret_cast<std::uintptr_t>(block) % alignment != 0) count(*misaligned);
    }
  }
};
TEST(ShardedSpans, BlocksAreAlignedFromAnEmptyHeapToAFullOne) {
  explore("aligned", [] {
    constexpr unsigned num_threads = 64, num_blocks = 16;
    fixed_heap<plain> heap{256 << 10};
    std::vector<void*> blocks(num_threads * num_blocks);
    unsigned misaligned = 0, served = 0;
    for (unsigned round = 0; round < 3; ++round)
      gpuheap::launch(num_threads, ask_aligned<plain>{heap.view, blocks.data(), num_blocks, round, &misaligned, &served},
                      {.block_threads = 48});
    EXPECT_EQ(misaligned, 0u);
    EXPECT_GT(served, 200u);
    EXPECT_GT(std::count(blocks.begin(), blocks.end(), nullptr), 0) << "the heap never was full";
    EXPECT_EQ(heap.view.verify().problem, "");
  });
}

// Frees wrong pointers of every kind and reports what the allocator said.
template <class Allocator>
struct misuse {
  Allocator heap;
  gpuheap::free_status* said;
  GPUHEAP_FN void operator()(unsigned) const {
    auto* const p = static_cast<char*>(heap.malloc(100));
    auto* const large = static_cast<char*>(heap.malloc(40000));
    int local = 0;
    unsigned n = 0;
    said[n++] = heap.free(nullptr);
    said[n++] = heap.free(&local);
    said[n++] = heap.free(p + 16);                     // inside a slot
    said[n++] = heap.free(p + 112);                    // a slot never handed out
    said[n++] = heap.free(large + 16);                 // inside a large block
    said[n++] = heap.free(large + (1 << 14));          // a page of it
    said[n++] = heap.free(heap.geometry().base - 16);  // metadata
    said[n++] = heap.free(p);
    said[n++] = heap.free(p);  // again
    said[n++] = heap.free(large);
    said[n++] = heap.free(large);  // again, its segments are free now
  }
};

TEST(ShardedSpans, WrongPointersChangeNothingAndAreNamed) {
  fixed_heap<plain> heap{1 << 20};
  using gpuheap::free_status;
  free_status said[11];
  gpuheap::launch(1, misuse<plain>{heap.view, said});
  free_status const expected[11] = {free_status::null,        free_status::foreign, free_status::foreign, free_status::foreign,
                                    free_status::foreign,     free_status::foreign, free_status::foreign, free_status::done,
                                    free_status::double_free, free_status::done,    free_status::foreign};
  for (unsigned i = 0; i < 11; ++i) EXPECT_EQ(said[i], expected[i]) << i;
  EXPECT_EQ(heap.view.verify().problem, "");
}

// All lanes of a warp free one pointer: one wins.
template <class Allocator>
struct free_together {
  Allocator heap;
  void* p;
  unsigned* done;
  GPUHEAP_FN void operator()(unsigned) const {
    if (heap.free(p) == gpuheap::free_status::done) count(*done);
  }
};

TEST(ShardedSpans, OneOfManySimultaneousFreesOfAPointerIsRight) {
  for (std::size_t bytes : {16u, 40000u}) {
    fixed_heap<plain> heap{1 << 20};
    void* p[4] = {};
    unsigned done = 0;
    struct one {
      plain heap;
      void** p;
      std::size_t bytes;
      GPUHEAP_FN void operator()(unsigned) const { *p = heap.malloc(bytes); }
    };
    gpuheap::launch(1, one{heap.view, p, bytes});
    gpuheap::launch(64, free_together<plain>{heap.view, p[0], &done});
    EXPECT_EQ(done, 1u);
    EXPECT_EQ(heap.view.verify().problem, "");
  }
}

// The lanes of a warp take blocks of so many `sizes`, and free them: each its own, or that of a lane `shift` further on, or in reverse; of
// the lanes below `twice`, two free each block. Lanes at `wrong` free what is no block, and lanes at `absent` do not free.
struct order {
  unsigned sizes = 1, shift = 0, twice = 0;
  simt::lane_mask wrong = 0, absent = 0;
  bool reversed = false;
};
template <class Allocator>
struct free_in_order {
  Allocator heap;
  void** blocks;  // 32
  order how;
  unsigned* said;  // by status

  GPUHEAP_FN void operator()(unsigned i) const {
    blocks[i] = heap.malloc(16 + 48 * (i * 7 % how.sizes));
    simt::sync_warp(simt::all_lanes);
    if ((how.absent >> i & 1) != 0) return;
    unsigned const of = (i < how.twice ? i / 2 : i) + how.shift;
    auto* const p = static_cast<char*>(blocks[(how.reversed ? 31 - of : of) % 32]);
    count(said[static_cast<unsigned>(heap.free((how.wrong >> i & 1) == 0 ? p : i % 2 == 0 ? nullptr : p + 4))]);
  }
};
// Takes `already` blocks of 16 bytes first, so that the warp's begin elsewhere in a word.
void frees_in_order(order how, unsigned already) {
  explore("a warp's frees", [&] {
    fixed_heap<plain> heap{1 << 20};
    void* blocks[32] = {};
    unsigned said[4] = {};
    std::vector<void*> others(already);
    if (already != 0) gpuheap::launch(already, take_all<plain>{heap.view, others.data()}, {.block_threads = 32});
    gpuheap::launch(32, free_in_order<plain>{heap.view, blocks, how, said}, {.block_threads = 32});
    unsigned const again = how.twice / 2, none = simt::popcount(how.wrong & 0x55555555u), foreign = simt::popcount(how.wrong) - none;
    unsigned const done = 32 - again - none - foreign - simt::popcount(how.absent);
    using gpuheap::free_status;
    EXPECT_EQ(said[static_cast<unsigned>(free_status::done)], done);
    EXPECT_EQ(said[static_cast<unsigned>(free_status::null)], none);
    // A block's second free may find that its span was reset.
    EXPECT_EQ(said[static_cast<unsigned>(free_status::double_free)] + said[static_cast<unsigned>(free_status::foreign)], again + foreign);
    auto const found = heap.view.verify();
    EXPECT_EQ(found.problem, "");
    EXPECT_EQ(found.live_slots, already + 32 - done);
  });
}

TEST(ShardedSpans, LanesThatFreeInAnyOrder) {
  for (unsigned const sizes : {1u, 2u, 5u}) {
    // From the begin of a word, within it, and over its end.
    for (unsigned const already : {0u, 20u, 45u, 62u}) {
      for (order how : {order{}, order{.shift = 3}, order{.twice = 8}, order{.shift = 1, .twice = 32}, order{.wrong = 0x11},
                        order{.wrong = 0x80000222}, order{.wrong = 0x55555555}, order{.reversed = true}, order{.absent = 0x7},
                        order{.absent = 0xfff00001}, order{.absent = 0x55555555}}) {
        how.sizes = sizes;
        frees_in_order(how, already);
      }
    }
  }
}

// Kernel: the lanes at `second` of a warp use one heap, the others another one. Each lane frees the slot after that of the lane before, as
// far as the numbers of pages and slots say.
struct free_in_two_heaps {
  plain a, b;
  simt::lane_mask second;
  void** blocks;  // 64
  unsigned* refused;

  GPUHEAP_FN void operator()(unsigned i) const {
    blocks[i] = a.malloc(16);
    blocks[32 + i] = b.malloc(16);
    simt::sync_warp(simt::all_lanes);
    bool const in_b = (second >> i & 1) != 0;
    if ((in_b ? b : a).free(blocks[in_b ? 32 + i : i]) != gpuheap::free_status::done) count(*refused);
  }
};

TEST(ShardedSpans, NeighboursInTwoHeapsAreNone) {
  for (simt::lane_mask const second : {0x80000000u, 0xffff0000u, 0x55555555u, 0x1u}) {
    for (unsigned const already : {0u, 45u}) {
      explore("a warp's frees in two heaps", [&] {
        fixed_heap<plain> a{1 << 20}, b{1 << 20};
        void* blocks[64] = {};
        unsigned refused = 0;
        std::vector<void*> others(already);
        if (already != 0) {
          gpuheap::launch(already, take_all<plain>{a.view, others.data()}, {.block_threads = 32});
          gpuheap::launch(already, take_all<plain>{b.view, others.data()}, {.block_threads = 32});
        }
        gpuheap::launch(32, free_in_two_heaps{a.view, b.view, second, blocks, &refused}, {.block_threads = 32});
        EXPECT_EQ(refused, 0u);
        auto const in_a = a.view.verify(), in_b = b.view.verify();
        EXPECT_EQ(in_a.problem, "");
        EXPECT_EQ(in_b.problem, "");
        EXPECT_EQ(in_a.live_slots, already + simt::popcount(second));
        EXPECT_EQ(in_b.live_slots, already + 32 - simt::popcount(second));
      });
    }
  }
}

}  // namespace
}  // namespace sharded_test
