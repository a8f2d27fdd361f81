// The weak mode's records by address: a hash table with one granule for each aligned 8 bytes that a kernel has accessed.
#pragma once

#include <gpuheap_simulator/operation.hpp>

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "random.hpp"
#include "store_history.hpp"

namespace gpuheap::simulator {

inline constexpr unsigned granule_bytes = 8;
inline constexpr unsigned cells_per_granule = 8;

using byte_mask = std::uint8_t;  // bit i: byte i of a granule

// One plain access.
struct access_cell {
  moment by{};
  std::uint32_t global_index = 0;  // of the thread
  site at{};
  byte_mask bytes = 0;
  bool writes = false;
};
struct access_cells {
  std::array<access_cell, cells_per_granule> kept;
  unsigned num_kept = 0;
  unsigned oldest = 0;
};

// An atomic object within a granule.
struct location {
  byte_mask bytes = 0;
  store_history stores;
  location* next = nullptr;
};

struct granule {
  location* locations = nullptr;
  access_cells* cells = nullptr;
  bool mixed = false;       // atomic accesses of different size or offset overlap in it: no store history
  release_info releases{};  // of a mixed granule: the join of all releases made there
};

class granule_table {
 public:
  // Forgets all records, and keeps the table's memory for the next launch.
  void reset() {
    if (++generation_ == 0) entries_.clear();
    if (entries_.empty()) entries_.resize(1024);
    num_used_ = 0;
    num_granules_ = num_locations_ = num_cells_ = 0;
  }

  [[nodiscard]] granule* find(std::uintptr_t address) {
    entry const& e = entries_[position_of(address / granule_bytes)];
    return e.generation == generation_ ? e.what : nullptr;
  }
  [[nodiscard]] granule& find_or_make(std::uintptr_t address) {
    if (2 * num_used_ >= entries_.size()) grow();
    std::uintptr_t const key = address / granule_bytes;
    entry& e = entries_[position_of(key)];
    if (e.generation != generation_) {
      e = {key, next_of(granules_, num_granules_), generation_};
      *e.what = {};
      ++num_used_;
    }
    return *e.what;
  }
  [[nodiscard]] location& add_location(granule& g, byte_mask bytes) {
    location* const l = next_of(locations_, num_locations_);
    l->bytes = bytes;
    l->stores.clear();
    l->next = g.locations;
    g.locations = l;
    return *l;
  }
  [[nodiscard]] access_cells& cells_of(granule& g) {
    if (g.cells == nullptr) {
      g.cells = next_of(cells_, num_cells_);
      g.cells->num_kept = g.cells->oldest = 0;
    }
    return *g.cells;
  }

 private:
  struct entry {
    std::uintptr_t key = 0;
    granule* what = nullptr;
    std::uint32_t generation = 0;
  };

  [[nodiscard]] std::size_t position_of(std::uintptr_t key) const {
    std::size_t const last = entries_.size() - 1;
    std::size_t i = mix(key) & last;
    // Ends: at most half of the entries are used.
    while (entries_[i].generation == generation_ && entries_[i].key != key) i = (i + 1) & last;
    return i;
  }
  void grow() {
    std::vector<entry> old(entries_.size() * 2);
    old.swap(entries_);
    for (entry const& e : old) {
      if (e.generation == generation_) entries_[position_of(e.key)] = e;
    }
  }
  template <class T>
  [[nodiscard]] static T* next_of(std::deque<T>& pool, std::size_t& num_used) {
    if (num_used == pool.size()) pool.emplace_back();
    return &pool[num_used++];
  }

  std::vector<entry> entries_;  // their number is a power of two
  std::uint32_t generation_ = 0;
  std::size_t num_used_ = 0;
  std::deque<granule> granules_;
  std::deque<location> locations_;
  std::deque<access_cells> cells_;
  std::size_t num_granules_ = 0, num_locations_ = 0, num_cells_ = 0;
};

}  // namespace gpuheap::simulator
