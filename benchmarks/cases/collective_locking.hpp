// collective_locking: every thread changes data that one lock protects: with a collective mutex, which the lanes of a warp hold together if
// they come together, and with a lock that each lane takes by itself.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/collective_mutex.hpp>

#include <string>

#include "harness/structure_rounds.hpp"

namespace gpuheap::bench {

// In device memory: the lock, and what it protects: a word for each lane, which only holders touch.
struct alignas(128) locked_words {
  structures::collective_mutex::word lock;
  alignas(128) unsigned sums[simt::warp_lanes];
};
// Each lane adds 1 to its word, all at once.
struct lock_together {
  locked_words* at;
  GPUHEAP_FN void operator()(unsigned) const {
    structures::warp_group const here{simt::active_mask()};
    structures::collective_mutex{&at->lock}.run(here, [&] {
      unsigned& mine = at->sums[simt::lane_id()];
      simt::plain_write(mine, simt::plain_read(mine) + 1);
    });
  }
};
struct lock_each {
  locked_words* at;
  GPUHEAP_FN void operator()(unsigned) const {
    structures::collective_mutex{&at->lock}.run_alone([&] {
      unsigned& mine = at->sums[simt::lane_id()];
      simt::plain_write(mine, simt::plain_read(mine) + 1);
    });
  }
};

struct collective_locking {
  static constexpr parameter parameters[] = {structure_threads_parameter, choice_parameter("which", "collective", "collective|each"),
                                             block_threads_parameter};
  static constexpr case_description description{
      .name = "collective_locking",
      .brief = "every thread changes what a lock protects: lanes hold it together, or each by itself",
      .section = "Structures",
      .parameters = parameters,
      .without_allocator = true,
  };

  template <class>
  static outcome run(session const& s, point const& p) {
    owned_stream stream;
    device_array<locked_words> words(1);
    auto const reset = [&](stream_ref on) { words.zero(on); };
    auto const fault = [&](stream_ref on) -> std::string {
      auto const after = words.download(on).front();
      unsigned sum = 0;
      for (unsigned const lane : after.sums) sum += lane;
      if (after.lock != 0) return "the lock is set, and no thread holds it";
      return sum == p.threads() ? "" : std::to_string(sum) + " of " + std::to_string(p.threads()) + " additions under the lock are left";
    };
    return p.text("which") == "collective" ? run_structure_rounds(s, p, stream, p.threads(), reset, lock_together{words.data()}, fault)
                                           : run_structure_rounds(s, p, stream, p.threads(), reset, lock_each{words.data()}, fault);
  }
};

}  // namespace gpuheap::bench
