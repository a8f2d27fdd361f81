// A contended mix on a heap of the default allocator, under the schedules of many seeds, with an audit after each launch.
#pragma once

#include "sharded.hpp"

#include <gpuheap/simt/launch.hpp>

#include <cstddef>

namespace sharded_test {

// A fault that a kernel found.
struct verdict {
  unsigned overwritten = 0, misaligned = 0, refused_free = 0, failed_requests = 0, served = 0;
};

// Every thread keeps `slots` allocations of random sizes, replaces them in random order, checks their contents, and frees all at the end
// unless `keep`.
template <class Allocator>
struct churn {
  Allocator heap;
  verdict* out;
  unsigned rounds, slots, seed;
  unsigned min_bytes, max_bytes;
  bool keep;

  static constexpr unsigned max_slots = 8;

  GPUHEAP_FN static unsigned next(unsigned& state) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
  }
  GPUHEAP_FN void drop(void* p, unsigned bytes, unsigned mark) const {
    auto const* w = static_cast<unsigned const*>(p);
    for (unsigned i = 0; i < bytes / 4; i += 5) {
      if (simt::plain_read(w[i]) != mark + i) return count(out->overwritten);
    }
    if (heap.free(p) != gpuheap::free_status::done) count(out->refused_free);
  }
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned state = (seed * 2654435761u) ^ ((i + 1) * 40503u);
    if (state == 0) state = 1;
    void* p[max_slots] = {};
    unsigned bytes[max_slots] = {}, marks[max_slots] = {};
    for (unsigned r = 0; r < rounds; ++r) {
      unsigned const k = next(state) % slots;
      if (p[k] != nullptr) {
        drop(p[k], bytes[k], marks[k]);
        p[k] = nullptr;
      }
      bytes[k] = min_bytes + next(state) % (max_bytes - min_bytes + 1);
      marks[k] = i * 31 + r;
      p[k] = heap.malloc(bytes[k]);
      if (p[k] == nullptr) {
        count(out->failed_requests);
        continue;
      }
      count(out->served);
      if ((reinterpret_cast<simt::uintptr_t>(p[k]) & 15) != 0) count(out->misaligned);
      // Checked accesses: in the weak mode the simulator reports any that is not ordered after the last owner's.
      auto* const w = static_cast<unsigned*>(p[k]);
      for (unsigned j = 0; j < bytes[k] / 4; j += 5) simt::plain_write(w[j], marks[k] + j);
    }
    if (keep) return;
    for (unsigned k = 0; k < slots; ++k) {
      if (p[k] != nullptr) drop(p[k], bytes[k], marks[k]);
    }
  }
};

struct mix {
  char const* name;
  std::size_t heap_bytes;
  unsigned threads, rounds, slots, min_bytes, max_bytes;
};

// Twice a seed, since the second launch finds a used heap.
template <class Allocator>
void explore_mix(mix const& m) {
  explore(m.name, [&] {
    fixed_heap<Allocator> heap{m.heap_bytes};
    verdict v;
    for (unsigned launch = 0; launch < 2; ++launch) {
      gpuheap::launch(m.threads, churn<Allocator>{heap.view, &v, m.rounds, m.slots, m.threads + launch, m.min_bytes, m.max_bytes, false},
                      {.block_threads = 96});
      auto const found = heap.view.verify();
      EXPECT_EQ(found.problem, "");
      EXPECT_EQ(found.live_slots, 0u);
      EXPECT_EQ(found.large_allocations, 0u);
    }
    EXPECT_EQ(v.overwritten, 0u);
    EXPECT_EQ(v.misaligned, 0u);
    EXPECT_EQ(v.refused_free, 0u);
    EXPECT_GT(v.served, 0u);
  });
}

}  // namespace sharded_test
