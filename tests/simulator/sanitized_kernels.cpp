// Kernels with one mistake each, for ThreadSanitizer or AddressSanitizer to find, and their correct versions, for them to pass. A program
// of its own: a report ends it. Usage: sanitized_kernels SCENARIO; exit code 2 for an unknown one.
#include <gpuheap/simt/simt.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

namespace simt = gpuheap::simt;
using word = simt::atomic_ref<unsigned>;

template <class Body>
void run(unsigned num_threads, Body body, unsigned block_threads = 256) {
  gpuheap::launch(num_threads, body, {.block_threads = block_threads});
}

// ---- ThreadSanitizer

void plain_race() {
  unsigned x = 0;
  run(64, [&](unsigned i) { x = i; });
}
void race_of_two_blocks() {
  unsigned x = 0;
  run(
      2, [&](unsigned) { ++x; }, 1);
}
void no_race() {
  unsigned x[64] = {};
  run(64, [&](unsigned i) { x[i] = i; });
  run(64, [&](unsigned i) { x[63 - i] += i; });  // a launch happens after the one before it
}

void pass_message(simt::memory_order publish) {
  unsigned data = 0, flag = 0;
  run(
      2,
      [&](unsigned i) {
        if (i == 0) {
          data = 42;
          word(flag).store(1, publish);
        } else {
          simt::back_off pause;
          // Ends: thread 0 stores the flag.
          while (word(flag).load(simt::acquire) == 0) pause.wait();
          if (data != 42) std::abort();
        }
      },
      1);
}
void relaxed_publication() { pass_message(simt::relaxed); }
void released_publication() { pass_message(simt::release); }

void pass_by_fences(bool first, bool second) {
  unsigned data = 0, flag = 0;
  run(
      2,
      [&](unsigned i) {
        if (i == 0) {
          data = 42;
          if (first) simt::fence(simt::release);
          word(flag).store(1, simt::relaxed);
        } else {
          simt::back_off pause;
          // Ends: thread 0 stores the flag.
          while (word(flag).load(simt::relaxed) == 0) pause.wait();
          if (second) simt::fence(simt::acquire);
          if (data != 42) std::abort();
        }
      },
      1);
}
void lost_fence() { pass_by_fences(true, false); }
void fences() { pass_by_fences(true, true); }

void meet(bool orders) {
  unsigned x[64] = {};
  run(64, [&](unsigned i) {
    x[i] = i;
    if (orders) {
      simt::sync_warp(simt::all_lanes);
    } else {
      (void)simt::ballot(simt::all_lanes, true);
    }
    unsigned const neighbour = x[i ^ 1];
    simt::sync_block();
    x[63 - i] = neighbour;
  });
}
void ballot_as_barrier() { meet(false); }
void barriers() { meet(true); }

// ---- AddressSanitizer

// Knows no bounds, so this mistake is AddressSanitizer's to find and not UndefinedBehaviorSanitizer's.
[[gnu::noinline]] void put(unsigned volatile* p, unsigned i, unsigned value) { p[i] = value; }

void overflow_on_a_lanes_stack() {
  unsigned total = 0;
  run(64, [&](unsigned i) {
    unsigned volatile local[8] = {};
    word(total).fetch_add(1, simt::relaxed);
    put(local + (i == 40 ? 4 : 0), i == 40 ? 5 : 0, i);
    word(total).fetch_add(local[i % 8], simt::relaxed);
  });
}
void use_after_free() {
  auto* const p = static_cast<unsigned*>(simt::allocate(simt::memory_kind::device, 64));
  simt::deallocate(simt::memory_kind::device, p);
  run(64, [=](unsigned i) { word(p[i % 16]).store(i, simt::relaxed); });
}
// Many lanes with poisoned frames of their own, some of them abandoned: later lanes on the same stacks see none of it.
void reused_stacks() {
  for (unsigned round = 0; round < 3; ++round) {
    unsigned total = 0;
    try {
      run(2000, [&](unsigned i) {
        char volatile local[200];
        for (unsigned k = 0; k < sizeof local; ++k) local[k] = 1;
        word(total).fetch_add(1, simt::relaxed);
        if (round == 1 && i == 1500) simt::trap();
        word(total).fetch_add(local[i % 200] == 1, simt::relaxed);
      });
    } catch (simt::error const&) {
    }
  }
}

struct scenario {
  char const* name;
  void (*run)();
};
constexpr scenario scenarios[] = {
    {"plain_race", plain_race},
    {"race_of_two_blocks", race_of_two_blocks},
    {"no_race", no_race},
    {"relaxed_publication", relaxed_publication},
    {"released_publication", released_publication},
    {"lost_fence", lost_fence},
    {"fences", fences},
    {"ballot_as_barrier", ballot_as_barrier},
    {"barriers", barriers},
    {"overflow_on_a_lanes_stack", overflow_on_a_lanes_stack},
    {"use_after_free", use_after_free},
    {"reused_stacks", reused_stacks},
};

}  // namespace

int main(int argc, char** argv) {
  for (scenario const& s : scenarios) {
    if (argc != 2 || std::strcmp(argv[1], s.name) != 0) continue;
    s.run();
    std::puts("ran to its end");
    return 0;
  }
  std::fputs("usage: sanitized_kernels SCENARIO\n", stderr);
  return 2;
}
