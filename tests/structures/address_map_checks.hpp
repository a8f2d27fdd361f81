// Checks of the map from addresses to what belongs to them, for the real one and for one with a mistake in it.
#pragma once

#include "../support/device_array.hpp"
#include "../support/rng.hpp"
#include "exploration.hpp"

#include <gpuheap/structures/address_map.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace structures_test {

using gpuheap::structures::address_map;

// Its arrays.
struct address_memory {
  unsigned num_buckets;
  test::device_array<address_map::key> keys{num_buckets * std::size_t{address_map::bucket_places}};
  test::device_array<address_map::value> values{num_buckets * std::size_t{address_map::bucket_places}};
  template <class Map = address_map>
  [[nodiscard]] Map map() const {
    return Map{{keys.data(), values.data(), num_buckets}};
  }
  [[nodiscard]] std::size_t in_use() const {
    auto const k = keys.read();
    return k.size() - static_cast<std::size_t>(std::count(k.begin(), k.end(), 0u));
  }
};
struct plain_address_map : address_map {};

// Kernel: thread i puts keys in that are its own, finds each with its value, and takes it out, in other orders each round. A key that is
// taken out is put in by the next thread of the round.
template <class Map>
struct keys_in_turn {
  Map map;
  unsigned rounds;
  unsigned per_thread;  // up to 8
  unsigned* wrong;
  unsigned* refused;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    simt::uint64_t held[8] = {};
    unsigned values[8] = {};
    unsigned bad = 0, full = 0;
    for (unsigned n = 0; n < rounds * per_thread; ++n) {
      unsigned const k = random.below(per_thread);
      if (held[k] != 0) {
        unsigned const at = map.find(held[k]);
        bad += at == address_map::none || map.value_at(at) != values[k] || !map.remove(at, held[k]);
        bad += map.find(held[k]) != address_map::none;
        held[k] = 0;
      } else {
        simt::uint64_t const key = (simt::uint64_t{i} * 8 + k + 1) * 16;
        values[k] = random.below(1u << 30);
        if (map.insert(key, values[k])) {
          held[k] = key;
        } else {
          ++full;
        }
      }
    }
    for (unsigned k = 0; k < per_thread; ++k) {
      if (held[k] == 0) continue;
      unsigned const at = map.find(held[k]);
      bad += at == address_map::none || map.value_at(at) != values[k] || !map.remove(at, held[k]);
    }
    // relaxed, both: counts.
    if (bad != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(bad, simt::relaxed);
    if (full != 0) simt::atomic_ref<unsigned>{*refused}.fetch_add(full, simt::relaxed);
  }
};
template <class Map>
[[nodiscard]] std::string keys_come_and_go(unsigned num_buckets, unsigned threads, unsigned rounds, unsigned per_thread, bool has_room) {
  address_memory memory{num_buckets};
  test::device_array<unsigned> wrong(1), refused(1);
  gpuheap::launch(threads, keys_in_turn<Map>{memory.map<Map>(), rounds, per_thread, wrong.data(), refused.data()}, {.block_threads = 64});
  std::string problems;
  require(problems, wrong.first() == 0, "a key was not found, or with another value, or after it was taken out");
  require(problems, memory.in_use() == 0, "places are in use, and all keys were taken out");
  require(problems, !has_room || refused.first() == 0, "a key was refused in a map that is half empty");
  return problems;
}

}  // namespace structures_test
