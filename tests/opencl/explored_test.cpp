// kma.cl as C++: its text, with OpenCL's names for atomics and fences mapped to the simulator's, under chosen schedules and with stale
// loads. Atomics are relaxed, as in OpenCL 1.2: only the fences order.
#include "../hazards/mutant.hpp"
#include "../support/device_array.hpp"
#include "../support/pattern.hpp"
#include "../support/rng.hpp"
#include "../support/seeds.hpp"

#include <gpuheap/simt/explore.hpp>
#include <gpuheap/simt/simt.hpp>

#include <gpuheap_opencl/layout.hpp>

#include <algorithm>
#include <cstring>
#include <memory>

namespace {

namespace simt = gpuheap::simt;
using uint = unsigned;
using ulong = simt::uint64_t;

#define __global
#define KMA_SUPERBLOCK_LOG2 10
#define KMA_HEADS 2
#define KMA_LOAD(at) load(at)
#define KMA_FENCE() fences::between()

using word = volatile uint*;
simt::atomic_ref<uint> atomic(word at) { return simt::atomic_ref<uint>{*const_cast<uint*>(at)}; }
uint load(word at) { return atomic(at).load(simt::relaxed); }
uint atomic_inc(word at) { return atomic(at).fetch_add(1, simt::relaxed); }
uint atomic_dec(word at) { return atomic(at).fetch_sub(1, simt::relaxed); }
uint atomic_or(word at, uint bits) { return atomic(at).fetch_or(bits, simt::relaxed); }
uint atomic_and(word at, uint bits) { return atomic(at).fetch_and(bits, simt::relaxed); }
uint atomic_max(word at, uint value) { return atomic(at).fetch_max(value, simt::relaxed); }
uint atomic_xchg(word at, uint value) { return atomic(at).exchange(value, simt::relaxed); }
uint atomic_cmpxchg(word at, uint expected, uint value) {
  (void)atomic(at).compare_exchange(expected, value, simt::relaxed, simt::relaxed);
  return expected;
}
int clz(uint x) { return 31 - static_cast<int>(simt::highest_bit(x)); }
uint get_group_id(uint) { return simt::block_id(); }

struct fences {
  static void between() { simt::fence(simt::acq_rel); }
};
struct right {
#include "kma.cl"
#include "kma_containers.cl"
};
// The containers of a text in which nothing orders.
struct containers_without_fences {
#include "kma.cl"
#undef KMA_FENCE
#define KMA_FENCE() (void)0
#include "kma_containers.cl"
#undef KMA_FENCE
#define KMA_FENCE() fences::between()
};
// The tail is raised by a plain addition.
struct queue_that_adds {
#include "kma.cl"
  static uint atomic_cmpxchg(word at, uint expected, uint value) {
    uint const seen = load(at);
    if (seen != expected) return seen;
    atomic(at).fetch_add(value - expected, simt::relaxed);
    return expected;
  }
#include "kma_containers.cl"
};
// The fences are left out.
struct without_fences {
  struct fences {
    static void between() {}
  };
#include "kma.cl"
};
// Nobody sees that a superblock is being moved: searches end too early.
struct without_moves {
  static uint atomic_inc(word) { return 0; }
#include "kma.cl"
};
// Counts in by an addition.
struct that_adds {
  static uint atomic_cmpxchg(word at, uint expected, uint value) {
    uint const seen = load(at);
    if (seen != expected) return seen;
    atomic(at).fetch_add(value - expected, simt::relaxed);
    return expected;
  }
#include "kma.cl"
};

constexpr gpuheap::opencl::kma_config config{.superblock_log2 = KMA_SUPERBLOCK_LOG2, .heads_per_class = KMA_HEADS};
static_assert(sizeof(right::kma_heap) == sizeof(gpuheap::opencl::kma_head) + 4 * config.num_classes() * config.heads_per_class);
static_assert(offsetof(right::kma_heap, heads) == sizeof(gpuheap::opencl::kma_head));

using test::num_seeds;

// A heap of so many superblocks.
template <class Kma>
class heap {
 public:
  using state = typename Kma::kma_heap;
  explicit heap(unsigned superblocks) : memory_(gpuheap::opencl::bytes_for(config, superblocks) / 4) {
    auto const head = gpuheap::opencl::plan(config, memory_.size() * 4);
    words_ = head.superblocks_at / 4;
    memory_.write(gpuheap::opencl::initial_words(config, head));
    EXPECT_EQ(head.num_superblocks, superblocks);
  }
  [[nodiscard]] state* where() const { return reinterpret_cast<state*>(memory_.data()); }
  [[nodiscard]] gpuheap::opencl::kma_report examine() const {
    auto words = memory_.read();
    words.resize(words_);
    return gpuheap::opencl::examine(config, words);
  }

 private:
  test::device_array<uint> memory_;
  std::size_t words_ = 0;
};

// Kernel: blocks and runs come and go; a thread that finds a word of its own block changed, or its free refused, counts it.
template <class Kma>
struct live_together {
  typename Kma::kma_heap* heap;
  unsigned rounds, run_in;  // one in `run_in` is more than a superblock
  unsigned* wrong;
  void operator()(unsigned i) const {
    test::rng random{i};
    ulong held[3] = {};
    unsigned sizes[3] = {};
    for (unsigned round = 0; round < rounds + 3; ++round) {
      unsigned const slot = round < rounds ? random.below(3) : round - rounds;
      if (held[slot] != 0) {
        bool const changed = test::wrong_words(Kma::kma_at(heap, held[slot]), sizes[slot] < 64 ? sizes[slot] : 64, i * 3 + slot) != 0;
        if (changed || Kma::kma_free(heap, held[slot]) != KMA_DONE) simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
      }
      held[slot] = 0;
      if (round >= rounds) continue;
      unsigned const kind = random.below(run_in);
      sizes[slot] = kind == 0 ? 1025 + random.below(3000) : kind % 2 == 0 ? 16u << random.below(7) : 1 + random.below(60);
      held[slot] = Kma::kma_malloc(heap, sizes[slot]);
      if (held[slot] != 0) test::fill_pattern(Kma::kma_at(heap, held[slot]), sizes[slot] < 64 ? sizes[slot] : 64, i * 3 + slot);
    }
  }
};
template <class Kma, unsigned Superblocks = 13, unsigned RunIn = 8>
bool a_small_heap_survives() {
  heap<Kma> h{Superblocks};
  test::device_array<unsigned> wrong(1);
  for (unsigned launch = 0; launch < 2; ++launch) {
    gpuheap::launch(80, live_together<Kma>{h.where(), 5, RunIn, wrong.data()}, {.block_threads = 16});
    auto const report = h.examine();
    if (wrong.first() != 0 || !report.problem.empty() || report.held_superblocks != 0) return false;
  }
  return true;
}
TEST(KmaText, SurvivesWithAllEdgesNear) {
  hazards::expect_right(num_seeds(2000), a_small_heap_survives<right>);
  hazards::expect_right(num_seeds(1000), a_small_heap_survives<right, 40, 1000>);
}
TEST(KmaText, NeedsItsFences) { hazards::expect_found(100, a_small_heap_survives<without_fences>); }
TEST(KmaText, NeedsItsExchanges) { hazards::expect_found(100, a_small_heap_survives<that_adds>); }

// Kernels: a block of so many bytes for each thread; every third is given back.
template <class Kma>
struct ask_each {
  typename Kma::kma_heap* heap;
  unsigned bytes;
  ulong* blocks;
  void operator()(unsigned i) const { blocks[i] = Kma::kma_malloc(heap, bytes); }
};
template <class Kma>
struct give_some {
  typename Kma::kma_heap* heap;
  ulong* blocks;
  void operator()(unsigned i) const {
    if (i % 3 != 0) return;
    Kma::kma_free(heap, blocks[i]);
    blocks[i] = 0;
  }
};
// More threads than blocks are left, all at once: as many are served as there are blocks.
template <class Kma>
bool all_that_is_there_is_served() {
  heap<Kma> h{7};
  unsigned const all = 7 * 16, half = all / 2, given = (half + 2) / 3;
  test::device_array<ulong> first(half), second(all);
  gpuheap::launch(half, ask_each<Kma>{h.where(), 64, first.data()}, {.block_threads = 8});
  gpuheap::launch(half, give_some<Kma>{h.where(), first.data()}, {.block_threads = 8});
  gpuheap::launch(all, ask_each<Kma>{h.where(), 64, second.data()}, {.block_threads = 8});
  auto blocks = second.read();
  auto const kept = first.read();
  blocks.insert(blocks.end(), kept.begin(), kept.end());
  std::erase(blocks, 0);
  std::sort(blocks.begin(), blocks.end());
  bool const apart = std::adjacent_find(blocks.begin(), blocks.end()) == blocks.end();
  return kept.size() - given == static_cast<std::size_t>(std::count_if(kept.begin(), kept.end(), [](ulong b) { return b != 0; })) &&
         apart && blocks.size() == all && h.examine().problem.empty();
}
TEST(KmaText, RefusesNobodyWhileThereIsRoom) { hazards::expect_right(num_seeds(2000), all_that_is_there_is_served<right>); }
TEST(KmaText, NeedsToKnowOfMoves) { hazards::expect_found(500, all_that_is_there_is_served<without_moves>); }

// Blocks of a heap of more than 4 GiB: the large ones fill it, so that some lie beyond.
TEST(KmaText, ServesBeyond4GiB) {
  gpuheap::opencl::kma_config const of_pages{.superblock_log2 = KMA_SUPERBLOCK_LOG2, .heads_per_class = KMA_HEADS};
  std::uint64_t const bytes = std::uint64_t{5} << 30;
  // Memory that nobody touches takes none.
  struct freed {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, freed> const memory{std::calloc(bytes, 1)};
  ASSERT_NE(memory, nullptr);
  auto const head = gpuheap::opencl::plan(of_pages, bytes);
  auto const words = gpuheap::opencl::initial_words(of_pages, head);
  std::memcpy(memory.get(), words.data(), words.size() * 4);
  auto* const h = static_cast<right::kma_heap*>(memory.get());
  test::device_array<ulong> large(6), small(300);
  gpuheap::launch(6, ask_each<right>{h, 800u << 20, large.data()}, {.block_threads = 1});
  gpuheap::launch(300, ask_each<right>{h, 500, small.data()}, {.block_threads = 32});
  auto blocks = large.read();
  auto const others = small.read();
  blocks.insert(blocks.end(), others.begin(), others.end());
  std::sort(blocks.begin(), blocks.end());
  EXPECT_NE(blocks.front(), 0u);
  EXPECT_GT(blocks.back(), std::uint64_t{1} << 32);
  EXPECT_LE(blocks.back(), bytes);
  EXPECT_EQ(std::adjacent_find(blocks.begin(), blocks.end()), blocks.end());
  for (ulong const block : blocks) EXPECT_EQ(right::kma_free(h, block), KMA_DONE);
  std::vector<std::uint32_t> now(words.size());
  std::memcpy(now.data(), memory.get(), now.size() * 4);
  EXPECT_EQ(gpuheap::opencl::examine(of_pages, now).problem, "");
  EXPECT_EQ(gpuheap::opencl::examine(of_pages, now).held_superblocks, 0u);
}

// Kernel: threads 2k and 2k + 1 both free block k.
struct free_in_pairs {
  right::kma_heap* heap;
  ulong const* blocks;
  unsigned* answers;
  void operator()(unsigned i) const { answers[i] = static_cast<unsigned>(right::kma_free(heap, blocks[i / 2])); }
};
bool one_of_two_frees_is_refused() {
  heap<right> h{9};
  test::device_array<ulong> blocks(40);
  test::device_array<unsigned> answers(80);
  gpuheap::launch(40, ask_each<right>{h.where(), 40, blocks.data()}, {.block_threads = 8});
  gpuheap::launch(80, free_in_pairs{h.where(), blocks.data(), answers.data()}, {.block_threads = 8});
  auto const said = answers.read();
  return std::count(said.begin(), said.end(), unsigned{KMA_DONE}) == 40 &&
         std::count(said.begin(), said.end(), unsigned{KMA_DOUBLE_FREE}) >= 0 && h.examine().problem.empty() &&
         h.examine().held_superblocks == 0;
}
TEST(KmaText, OneOfTwoFreesIsRefused) { hazards::expect_right(num_seeds(1000), one_of_two_frees_is_refused); }

// ---- the list and the queue

// Kernel: each thread appends entries of two words that tell whose they are.
template <class Kma>
struct append_entries {
  typename Kma::kma_heap* heap;
  typename Kma::kma_list* list;
  unsigned rounds;
  unsigned* refused;
  void operator()(unsigned i) const {
    for (unsigned round = 0; round < rounds; ++round) {
      uint const at = Kma::kma_list_add(heap, list, 8);
      if (at == KMA_NONE) {
        simt::atomic_ref<unsigned>{*refused}.fetch_add(1, simt::relaxed);
        continue;
      }
      auto* const entry = static_cast<uint*>(Kma::kma_list_at(heap, list, at, 8));
      simt::plain_write(entry[0], i);
      simt::plain_write(entry[1], round);
    }
  }
};
struct read_entries {
  right::kma_heap* heap;
  right::kma_list* list;
  unsigned* seen;  // of each thread and round
  unsigned rounds;
  void operator()(unsigned i) const {
    auto* const entry = static_cast<uint*>(right::kma_list_at(heap, list, i, 8));
    simt::atomic_ref<unsigned>{seen[entry[0] * rounds + entry[1]]}.fetch_add(1, simt::relaxed);
  }
};
struct clear_list {
  right::kma_heap* heap;
  right::kma_list* list;
  void operator()(unsigned) const { right::kma_list_clear(heap, list); }
};
// So many entries that pages 0 to 2 are taken; a heap of few superblocks has not enough for all.
bool a_list_keeps_its_entries(unsigned superblocks, bool fits) {
  heap<right> h{superblocks};
  unsigned const threads = 60, rounds = 5;
  test::device_array<right::kma_list> list(1);
  test::device_array<unsigned> refused(1), seen(threads * rounds);
  for (unsigned again = 0; again < 2; ++again) {
    gpuheap::launch(threads, append_entries<right>{h.where(), list.data(), rounds, refused.data()}, {.block_threads = 16});
    unsigned const size = list.first().size;
    if (size + refused.first() != threads * rounds || fits != (refused.first() == 0)) return false;
    test::device_array<unsigned> once(threads * rounds);
    gpuheap::launch(size, read_entries{h.where(), list.data(), once.data(), rounds}, {.block_threads = 32});
    auto const all = once.read();
    if (std::count(all.begin(), all.end(), 1u) != size || std::count(all.begin(), all.end(), 0u) != threads * rounds - size) return false;
    gpuheap::launch(1, clear_list{h.where(), list.data()});
    if (!h.examine().problem.empty() || h.examine().held_superblocks != 0) return false;
    if (!fits) return true;
  }
  return true;
}
TEST(KmaContainers, AListKeepsItsEntries) {
  hazards::expect_right(num_seeds(400), [] { return a_list_keeps_its_entries(220, true); });
  hazards::expect_right(num_seeds(100), [] { return a_list_keeps_its_entries(2, false); });
}

template <class Kma>
struct begin_queue {
  typename Kma::kma_queue* queue;
  void operator()(unsigned i) const { Kma::kma_queue_init(queue, i); }
};
// Kernel: each thread pushes values of its own and pops as many as it can; each value that is popped is counted. A value is the place of a
// word, written before the push, that says so.
template <class Kma>
struct push_and_pop {
  typename Kma::kma_heap* heap;
  typename Kma::kma_queue* queue;
  unsigned rounds;
  uint* words;
  unsigned *popped, *pushed, *wrong;
  void operator()(unsigned i) const {
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const mine = i * rounds + round;
      simt::plain_write(words[mine], mine ^ 0x5a5a5a5au);
      if (Kma::kma_queue_push(heap, queue, ulong{mine} << 32 | mine) != 0) simt::atomic_ref<unsigned>{*pushed}.fetch_add(1, simt::relaxed);
      if (round % 3 != 0) take();
    }
    // Most of what is left.
    for (unsigned k = 0; k < rounds; ++k) take();
  }
  void take() const {
    ulong value = 0;
    if (Kma::kma_queue_pop(heap, queue, &value) == 0) return;
    auto const which = static_cast<uint>(value);
    if (value >> 32 != which) {
      simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
      return;
    }
    if (simt::plain_read(words[which]) != (which ^ 0x5a5a5a5au)) simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
    simt::atomic_ref<unsigned>{popped[which]}.fetch_add(1, simt::relaxed);
  }
};
template <class Kma>
struct pop_rest {
  typename Kma::kma_heap* heap;
  typename Kma::kma_queue* queue;
  unsigned* popped;
  void operator()(unsigned) const {
    ulong value = 0;
    while (Kma::kma_queue_pop(heap, queue, &value) != 0) ++popped[static_cast<uint>(value)];
  }
};
template <class Kma>
struct end_queue {
  typename Kma::kma_heap* heap;
  typename Kma::kma_queue* queue;
  void operator()(unsigned i) const { Kma::kma_queue_clear(heap, queue, i); }
};
// Pages of 64 entries: they come and go during the launch. All threads may take a page at once,
// and loads show what was in use before.
template <class Kma>
bool a_queue_keeps_its_values() {
  heap<Kma> h{200};
  unsigned const threads = 48, rounds = 6;
  test::device_array<typename Kma::kma_queue> queue(1);
  test::device_array<uint> words(threads * rounds);
  test::device_array<unsigned> popped(threads * rounds), pushed(1), wrong(1);
  gpuheap::launch(KMA_QUEUE_FRAMES, begin_queue<Kma>{queue.data()});
  gpuheap::launch(threads, push_and_pop<Kma>{h.where(), queue.data(), rounds, words.data(), popped.data(), pushed.data(), wrong.data()},
                  {.block_threads = 12});
  gpuheap::launch(1, pop_rest<Kma>{h.where(), queue.data(), popped.data()});
  auto const all = popped.read();
  if (wrong.first() != 0 || pushed.first() != threads * rounds || std::count(all.begin(), all.end(), 1u) != threads * rounds) return false;
  gpuheap::launch(KMA_QUEUE_FRAMES, end_queue<Kma>{h.where(), queue.data()});
  return h.examine().problem.empty() && h.examine().held_superblocks == 0;
}
TEST(KmaContainers, AQueueKeepsItsValues) { hazards::expect_right(num_seeds(400), a_queue_keeps_its_values<right>); }
TEST(KmaContainers, AQueueNeedsItsFences) { hazards::expect_found(100, a_queue_keeps_its_values<containers_without_fences>); }
TEST(KmaContainers, AQueueNeedsItsExchanges) { hazards::expect_found(100, a_queue_keeps_its_values<queue_that_adds>); }

}  // namespace
