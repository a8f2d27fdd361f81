// A holder of the lock is alone, and sees the accesses of the holders before: for the lock and for mutants of it.
#pragma once

#include "../support/device_array.hpp"
#include "exploration.hpp"

#include <gpuheap/structures/spin_lock.hpp>

#include <string>
#include <vector>

namespace structures_test {

using gpuheap::structures::spin_lock;

// Kernel: every thread, its warp in two parts that contend, passes a baton of several words on that only the holder may touch.
template <class Lock>
struct pass_on {
  simt::uint32_t* lock;
  unsigned* words;  // num_words of them, all equal whenever the lock is open
  unsigned num_words;
  unsigned rounds;
  unsigned* torn;

  GPUHEAP_FN void operator()(unsigned i) const {
    if (i % 3 == 0) {
      take_turns();
    } else {
      take_turns();
    }
  }
  GPUHEAP_FN void take_turns() const {
    for (unsigned round = 0; round < rounds; ++round) {
      Lock{lock}.run([&] {
        unsigned const count = simt::plain_read(words[0]);
        for (unsigned w = 0; w < num_words; ++w) {
          if (simt::plain_read(words[w]) != count) simt::atomic_ref<unsigned>{*torn}.fetch_add(1, simt::relaxed);  // relaxed: a count
          simt::plain_write(words[w], count + 1);
        }
      });
    }
  }
};

// Nothing is counted twice or lost.
template <class Lock>
std::string holders_are_alone(unsigned threads, unsigned rounds) {
  test::device_array<simt::uint32_t> lock(1);
  test::device_array<unsigned> words(3), torn(1);
  gpuheap::launch(threads, pass_on<Lock>{lock.data(), words.data(), 3, rounds, torn.data()}, {.block_threads = 64});
  std::string problems;
  require(problems, torn.first() == 0, "a holder saw another one's half-done work");
  for (unsigned w : words.read()) require(problems, w == threads * rounds, "turns were lost: " + std::to_string(w));
  require(problems, lock.first() == 0, "the lock is held after all have ended");
  return problems;
}

}  // namespace structures_test
