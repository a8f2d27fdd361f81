// Contended mixes on a heap of the default allocator, under many schedules, half of them with weak memory. A mutant of its protocol must
// fail them. Prints how many schedules passed; exit code 1 at the first that did not, 2 if it cannot run.
#include <gpuheap/allocators/sharded_spans.hpp>
#include <gpuheap/simt/explore.hpp>
#include <gpuheap/simt/launch.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../eager.hpp"

namespace {

namespace simt = gpuheap::simt;

using sharded_test::eager;
using fixed_heap = sharded_test::fixed_heap<eager>;

GPUHEAP_FN void count(unsigned& what) { (void)simt::atomic_ref<unsigned>{what}.fetch_add(1, simt::relaxed); }

struct outcome {
  unsigned overwritten = 0, refused = 0, served = 0, twice = 0, recognised = 0;
};

// Every thread keeps a few blocks, replaces them in random order and checks what lies in them.
struct churn {
  eager heap;
  outcome* out;
  unsigned rounds, seed, least, most;
  bool wrong_frees;

  GPUHEAP_FN void operator()(unsigned i) const {
    constexpr unsigned slots = 4;
    unsigned state = seed * 2654435761u ^ (i + 1) * 40503u;
    auto const next = [&] {
      state = state * 747796405u + 2891336453u;
      return state >> 9;
    };
    unsigned* blocks[slots] = {};
    unsigned words[slots] = {};
    auto const drop = [&](unsigned k) {
      unsigned* const block = blocks[k];
      blocks[k] = nullptr;
      if (block == nullptr) return;
      for (unsigned j = 0; j < words[k]; j += 3) {
        if (simt::plain_read(block[j]) != i + k + j) return count(out->overwritten);
      }
      if (heap.free(block) != gpuheap::free_status::done) count(out->refused);
    };
    for (unsigned r = 0; r < rounds; ++r) {
      unsigned const k = next() % slots;
      drop(k);
      unsigned const bytes = least + next() % (most - least + 1);
      words[k] = bytes / 4;
      blocks[k] = static_cast<unsigned*>(heap.malloc(bytes));
      if (blocks[k] == nullptr) continue;
      count(out->served);
      for (unsigned j = 0; j < words[k]; j += 3) simt::plain_write(blocks[k][j], i + k + j);
      if (bytes > 4096 && next() % 2 == 0 && heap.try_resize(blocks[k], bytes / 2)) words[k] /= 2;
    }
    for (unsigned k = 0; k < slots; ++k) drop(k);
    // One of several frees of a block is right.
    if (wrong_frees && i % 8 == 0) {
      void* const p = heap.malloc(64);
      if (p != nullptr && heap.free(p) == gpuheap::free_status::done) count(out->twice);
      if (p != nullptr && heap.free(static_cast<char*>(p) + 16) == gpuheap::free_status::done) count(out->recognised);
    }
  }
};

struct fill {
  eager heap;
  void** blocks;
  unsigned *num, bytes;
  GPUHEAP_FN void operator()(unsigned) const {
    for (void* p = heap.malloc(bytes); p != nullptr; p = heap.malloc(bytes))
      blocks[simt::atomic_ref<unsigned>{*num}.fetch_add(1, simt::relaxed)] = p;
  }
};
struct drain {
  eager heap;
  void** blocks;
  unsigned* refused;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (heap.free(blocks[i]) != gpuheap::free_status::done) count(*refused);
  }
};

// Each warp asks for one of twelve sizes, another one in each round, and gives everything back. So the shards of the sizes that a round
// leaves out have idle spans, and warps that lack memory take them over, while others claim from them.
struct visit {
  eager heap;
  outcome* out;
  unsigned round;
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const size = (i / 32 * 7 + round * (i / 32 % 3 + 1)) % 12, bytes = 120 + size * size * 24, words = bytes / 4;
    auto* const block = static_cast<unsigned*>(heap.malloc(bytes));
    if (block == nullptr) return;
    count(out->served);
    for (unsigned j = 0; j < words; j += 9) simt::plain_write(block[j], i + j);
    for (unsigned j = 0; j < words; j += 9) {
      if (simt::plain_read(block[j]) != i + j) return count(out->overwritten);
    }
    if (heap.free(block) != gpuheap::free_status::done) count(out->refused);
  }
};

bool is_sound(eager const& heap, char const* when) {
  auto const found = heap.verify();
  if (found.problem.empty() && found.live_slots + found.large_allocations == 0) return true;
  std::printf("%s: %s, %u slots and %u large allocations live\n", when, found.problem.c_str(), static_cast<unsigned>(found.live_slots),
              static_cast<unsigned>(found.large_allocations));
  return false;
}
bool mix(unsigned heap_kib, unsigned threads, unsigned rounds, unsigned least, unsigned most, bool wrong_frees) {
  fixed_heap heap{std::size_t{heap_kib} << 10};
  outcome out;
  for (unsigned launch = 0; launch < 2; ++launch) {
    gpuheap::launch(threads, churn{heap.view, &out, rounds, launch + threads, least, most, wrong_frees}, {.block_threads = 96});
    if (!is_sound(heap.view, "after a mix")) return false;
  }
  if (out.overwritten + out.refused + out.recognised != 0 || out.served == 0) {
    std::printf("%u blocks overwritten, %u frees refused, %u wrong ones accepted\n", out.overwritten, out.refused, out.recognised);
    return false;
  }
  return true;
}
bool visits(unsigned heap_kib, unsigned threads) {
  fixed_heap heap{std::size_t{heap_kib} << 10};
  outcome out;
  for (unsigned round = 0; round < 8; ++round) {
    gpuheap::launch(threads, visit{heap.view, &out, round}, {.block_threads = 64});
    if (!is_sound(heap.view, "after a visit")) return false;
  }
  if (out.overwritten + out.refused != 0 || out.served == 0) {
    std::printf("visits: %u blocks overwritten, %u frees refused\n", out.overwritten, out.refused);
    return false;
  }
  return true;
}
// A heap that is filled and emptied gives as much again, for another size.
bool refill(unsigned bytes) {
  fixed_heap heap{std::size_t{256} << 10};
  std::vector<void*> blocks(heap.view.geometry().heap_bytes() / 16);
  unsigned first = 0;
  for (unsigned round = 0; round < 3; ++round) {
    unsigned num = 0, refused = 0;
    unsigned const size = round == 1 ? bytes * 3 : bytes;
    gpuheap::launch(70, fill{heap.view, blocks.data(), &num, size}, {.block_threads = 48});
    if (round == 0) first = num;
    if (round == 2 && num * 10 < first * 9) {
      std::printf("%u blocks of %u bytes at first, then %u\n", first, bytes, num);
      return false;
    }
    gpuheap::launch(num, drain{heap.view, blocks.data(), &refused}, {.block_threads = 48});
    if (refused != 0 || !is_sound(heap.view, "after a heap was emptied")) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t const num_seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 60;
  simt::exploration const result = simt::explore(num_seeds, [] {
    return mix(160, 128, 10, 200, 4000, true) && mix(256, 96, 10, 1, 64, false) && mix(512, 48, 8, 1000, 60000, false) && refill(100) &&
           refill(6000) && visits(192, 256) && visits(4096, 320);
  });
  std::printf("%llu schedules%s%s\n", static_cast<unsigned long long>(result.num_runs),
              result ? "" : ", the last of which failed: ", result ? "" : result.what.c_str());
  return result ? 0 : 1;
}
