// A pool's slots, and the choice of a slot for each request. The class does not use the driver. Addresses are offsets into the pool.
//
// The plan (python/gpuheap/host/plan.py) gives each call site as many slots as it had live requests at a time, and places slots that were
// never live together on the same bytes. Whatever the program does, live slots never overlap: a slot whose bytes are in use is blocked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "block_source.hpp"

namespace gpuheap::interpose {

struct planned_slot {
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint64_t site;
};

// A set of small integers as bits of 64-bit words, in three levels: insert(), erase() and first_from(), the first member at or after a
// number, take constant time. At most 64^3 members.
class index_set {
 public:
  static constexpr std::size_t limit = std::size_t{64} * 64 * 64;

  explicit index_set(std::size_t num = 0);
  void insert(std::size_t index);
  void erase(std::size_t index);
  [[nodiscard]] bool contains(std::size_t index) const;
  [[nodiscard]] std::optional<std::size_t> first_from(std::size_t index) const;

 private:
  std::vector<std::uint64_t> words_[3];  // words_[0]: the members; a bit of words_[k + 1] says that the word of words_[k] is not 0
};

class slot_table final : public block_source {
 public:
  explicit slot_table(std::vector<planned_slot> const& slots);

  // Takes the smallest free slot of the site that is large enough. The cost is a hash look-up, a binary search among the site's sizes, at
  // most six words of the site's index_set, and a visit to each slot that shares bytes with the slot taken. The plan bounds the number of
  // such slots. The cost does not grow with the number of live blocks.
  [[nodiscard]] grant allocate(std::uint64_t site, std::uint64_t bytes) override;
  [[nodiscard]] bool release(std::uint64_t offset) override;
  void pin(bool on) override;
  [[nodiscard]] bool begins_live(std::uint64_t offset) const override;
  // Looks at every slot, unless a block begins at `offset`.
  [[nodiscard]] block live_at(std::uint64_t offset) const override;
  [[nodiscard]] std::uint64_t live_bytes() const override;
  [[nodiscard]] std::size_t num_live() const override;

 private:
  struct slot {
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint64_t asked = 0;  // requested bytes; 0: not live; a live request of 0 bytes counts as 1
    std::uint32_t site;
    std::uint32_t rank;            // its position among the slots of its site, ordered by size
    std::uint32_t place;           // its position among the distinct offsets
    std::uint32_t blocked_by = 0;  // live or pinned slots that share bytes with this one
    bool pinned = false;
    std::vector<std::uint32_t> sharing;  // the slots that share bytes with this one
  };
  struct site {
    std::uint64_t name = 0;
    std::vector<std::uint32_t> by_size;
    std::vector<std::uint64_t> sizes;
    index_set free;
  };

  [[nodiscard]] block described(slot const& of) const;
  void block_sharers(slot const& of);
  void unblock_sharers(slot const& of);

  mutable std::mutex lock_;  // guards all below; no other lock is taken under it
  std::vector<slot> slots_;
  std::vector<site> sites_;
  std::unordered_map<std::uint64_t, std::uint32_t> site_of_;
  std::unordered_map<std::uint64_t, std::uint32_t> place_of_;  // by offset
  std::vector<std::uint32_t> live_at_place_;                   // by place: the live slot + 1; 0: none
  std::uint64_t live_bytes_ = 0;
  std::size_t num_live_ = 0;
  bool pinning_ = false;
};

}  // namespace gpuheap::interpose
