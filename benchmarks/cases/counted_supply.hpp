// counted_supply: every thread takes one unit of a supply. Threads that find none enlarge the supply, a batch at a time: with a bulk
// semaphore, which lets as many threads as needed do so, and with a counting semaphore and a lock for the one that does.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/bulk_semaphore.hpp>

#include <string>

#include "harness/structure_rounds.hpp"

namespace gpuheap::bench {

// In device memory, a line each.
struct alignas(128) supply_word {
  simt::uint64_t value;
};
// The common part of both kernels: making a batch takes some atomics, one after the other, on a word of its own.
struct supply_kernel {
  supply_word* units;
  supply_word* lock;
  supply_word* made;  // batches
  supply_word* work;  // num_work words
  unsigned batch;
  unsigned steps;
  static constexpr unsigned num_work = 1024;

  GPUHEAP_FN void make_batch() const {
    // relaxed, all: counts.
    simt::uint64_t const number = simt::atomic_ref<simt::uint64_t>{made->value}.fetch_add(1, simt::relaxed);
    simt::uint64_t at = number * 0x9e3779b97f4a7c15ull >> 32;
    for (unsigned step = 0; step < steps; ++step)
      at += simt::atomic_ref<simt::uint64_t>{work[at % num_work].value}.fetch_add(1, simt::relaxed);
  }
};
// Lanes that come together ask together, as in the paper.
struct take_from_bulk : supply_kernel {
  GPUHEAP_FN void operator()(unsigned) const {
    (void)structures::bulk_semaphore{&units->value}.wait_together(structures::warp_group{simt::active_mask()}, batch, [this] {
      make_batch();
      return true;
    });
  }
};
struct take_from_counting : supply_kernel {
  GPUHEAP_FN void operator()(unsigned) const {
    simt::atomic_ref<simt::uint64_t> const count{units->value}, held{lock->value};
    simt::back_off pause;
    // Ends: each pass takes a unit, or loses it to another thread, or makes more, or waits for the one that does, which itself waits for no
    // thread. The work under the lock lies inside the loop, so that no lane that is done waits at the loop's end for one that is not.
    for (bool done = false; !done;) {
      simt::uint64_t seen = count.load(simt::relaxed);
      // acquire, here and below: pairs with the releases of threads that add units, or had the lock.
      while (seen != 0 && !done) done = count.compare_exchange(seen, seen - 1, simt::acquire, simt::relaxed);
      if (done) continue;
      if (held.exchange(1, simt::acquire) != 0) {
        pause.wait();
        continue;
      }
      if (count.load(simt::relaxed) == 0) {
        make_batch();
        count.fetch_add(batch - 1, simt::release);
        done = true;
      }
      held.store(0, simt::release);
    }
  }
};

struct counted_supply {
  static constexpr parameter parameters[] = {structure_threads_parameter, choice_parameter("which", "bulk", "bulk|counting"),
                                             number_parameter("batch", "256", 1, 65536),  // units
                                             number_parameter("steps", "16", 0, 65536),   // atomics that a batch takes
                                             block_threads_parameter};
  static constexpr case_description description{
      .name = "counted_supply",
      .brief = "every thread takes a unit, and a thread that finds none makes a batch: a bulk semaphore, or a counting one and a lock",
      .section = "Structures",
      .parameters = parameters,
      .without_allocator = true,
  };

  template <class>
  static outcome run(session const& s, point const& p) {
    owned_stream stream;
    device_array<supply_word> words(3 + supply_kernel::num_work);
    supply_kernel const shared{words.data(),
                               words.data() + 1,
                               words.data() + 2,
                               words.data() + 3,
                               static_cast<unsigned>(p.number("batch")),
                               static_cast<unsigned>(p.number("steps"))};
    auto const reset = [&](stream_ref on) { words.zero(on); };
    auto const fault = [&](stream_ref on) -> std::string {
      auto const after = words.download(on);
      auto const made = after[2].value * shared.batch;
      // Also of the bulk semaphore: its upper part, what is promised, is 0 again.
      if (after[0].value + p.threads() == made) return "";
      return std::to_string(after[0].value) + " of " + std::to_string(made) + " units are left after " + std::to_string(p.threads()) +
             " were taken";
    };
    return p.text("which") == "bulk" ? run_structure_rounds(s, p, stream, p.threads(), reset, take_from_bulk{shared}, fault)
                                     : run_structure_rounds(s, p, stream, p.threads(), reset, take_from_counting{shared}, fault);
  }
};

}  // namespace gpuheap::bench
