// Checks the map of a coalescing allocator while no kernel runs on its heap. Host only, for tests and for heap::verify.
//
// While no kernel runs:
//   1. each key is in one of its two buckets, and in one place only
//   2. if a superblock has a piece in the map, it has as many there as its head counts
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/structures/address_map.hpp>

#if GPUHEAP_HAS_HOST
#include <gpuheap/memory/allocation.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::coalesce_parts {

// The result of verify().
struct audit {
  std::string problem;  // empty: every invariant holds
  simt::size_t live_pieces = 0, live_superblocks = 0;
};

// Kernel, one thread for each superblock: reads the superblock's head. A kernel does this because the host cannot read the memory of every
// upstream allocator.
struct read_heads {
  simt::uint64_t* words;  // before: the address of each head; after: its contents
  GPUHEAP_FN void operator()(unsigned i) const {
    simt::plain_write(words[i], simt::plain_read(*reinterpret_cast<simt::uint64_t const*>(simt::plain_read(words[i]))));
  }
};

// Checks the map. Waits for the stream; no kernel may be running on the heap.
[[nodiscard]] inline audit verify(structures::address_map const& map, stream_ref stream) {
  using structures::address_map;
  std::vector<address_map::key> keys(simt::size_t{map.num_buckets} * address_map::bucket_places);
  std::vector<address_map::value> values(keys.size());
  simt::copy(keys.data(), map.keys, keys.size() * sizeof(keys[0]), stream);
  simt::copy(values.data(), map.values, values.size() * sizeof(values[0]), stream);
  simt::synchronize(stream);

  audit found;
  auto const fail = [&found](address_map::key k, char const* what) {
    if (found.problem.empty()) found.problem = "the piece at address " + std::to_string(k) + what;
  };
  std::map<simt::uint64_t, simt::size_t> pieces;  // the number of pieces of each superblock
  std::vector<address_map::key> live;
  for (simt::size_t at = 0; at < keys.size(); ++at) {
    address_map::key const k = keys[at];
    if (k == 0) continue;
    live.push_back(k);
    ++pieces[k - values[at]];
    auto const bucket = static_cast<unsigned>(at / address_map::bucket_places);
    bool const in_place = bucket == address_map::bucket_of(address_map::hash(k), 0, map.num_buckets) ||
                          bucket == address_map::bucket_of(address_map::hash(k), 1, map.num_buckets);
    if (!in_place) fail(k, " is in a bucket of the map in which no search for it looks");
  }
  std::sort(live.begin(), live.end());
  if (auto const twice = std::adjacent_find(live.begin(), live.end()); twice != live.end()) fail(*twice, " is in the map twice");
  found.live_pieces = live.size();
  found.live_superblocks = pieces.size();
  if (pieces.empty() || !found.problem.empty()) return found;

  std::vector<simt::uint64_t> heads;
  for (auto const& [base, count] : pieces) heads.push_back(base);
  memory::allocation const words{memory::device, heads.size() * sizeof(heads[0])};
  simt::copy(words.base(), heads.data(), words.bytes(), stream);
  simt::launch(static_cast<unsigned>(heads.size()), read_heads{static_cast<simt::uint64_t*>(words.base())}, {.stream = stream});
  simt::copy(heads.data(), words.base(), words.bytes(), stream);
  simt::synchronize(stream);
  auto head = heads.cbegin();
  for (auto const& [base, count] : pieces) {
    simt::uint64_t const said = *head++ & 0xffff;
    if (said != count && found.problem.empty()) {
      found.problem = "the superblock at address " + std::to_string(base) + " counts " + std::to_string(said) + " live pieces, and " +
                      std::to_string(count) + " are in the map";
    }
  }
  return found;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::coalesce_parts
#endif
