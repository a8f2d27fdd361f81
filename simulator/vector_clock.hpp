// Vector clocks of the happens-before relation: a clock holds the latest known epoch of each resident lane. Several owners share a clock by
// a reference count, and only a sole owner changes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace gpuheap::simulator {

// The epochs follow it in memory: as many as the pool has lanes, rounded up to a multiple of 4.
struct alignas(16) vector_clock {
  std::uint32_t references;
  vector_clock* next_free;

  [[nodiscard]] std::int32_t* epochs() { return reinterpret_cast<std::int32_t*>(this + 1); }
  [[nodiscard]] std::int32_t const* epochs() const { return reinterpret_cast<std::int32_t const*>(this + 1); }
};

// Makes and recycles the clocks of one launch. Not thread-safe.
class clock_pool {
 public:
  // Forgets all clocks; those made from now on have `num_lanes` entries.
  void reset(std::size_t num_lanes) {
    std::size_t const entries = (num_lanes + 3) / 4 * 4;
    if (entries != entries_) {
      chunks_.clear();
      entries_ = entries;
    }
    free_ = nullptr;
    for (auto const& chunk : chunks_) add_to_free_list(chunk.get());
  }

  // A clock with all entries 0. The caller owns one reference.
  [[nodiscard]] vector_clock* make_zero() {
    vector_clock* const c = take();
    std::memset(c->epochs(), 0, entries_ * sizeof(std::int32_t));
    return c;
  }
  [[nodiscard]] vector_clock* copy_of(vector_clock const* from) {
    vector_clock* const c = take();
    std::memcpy(c->epochs(), from->epochs(), entries_ * sizeof(std::int32_t));
    return c;
  }
  [[nodiscard]] static vector_clock* share(vector_clock* c) {
    if (c != nullptr) ++c->references;
    return c;
  }
  void drop(vector_clock* c) {
    if (c == nullptr || --c->references != 0) return;
    c->next_free = free_;
    free_ = c;
  }
  // Makes the caller the sole owner of `c`, by a copy if the clock is shared.
  void make_sole(vector_clock*& c) {
    if (c->references == 1) return;
    vector_clock* const mine = copy_of(c);
    drop(c);
    c = mine;
  }
  // Writes the entrywise maximum of both into `to`, which must have one owner.
  void join(vector_clock& to, vector_clock const& from) const {
    using four = std::int32_t __attribute__((vector_size(16)));
    auto* const a = reinterpret_cast<four*>(to.epochs());
    auto const* const b = reinterpret_cast<four const*>(from.epochs());
    for (std::size_t i = 0; i < entries_ / 4; ++i) {
      four const greater = a[i] > b[i];
      a[i] = (a[i] & greater) | (b[i] & ~greater);
    }
  }

 private:
  static constexpr std::size_t clocks_per_chunk = 64;

  [[nodiscard]] std::size_t clock_bytes() const { return sizeof(vector_clock) + entries_ * sizeof(std::int32_t); }
  void add_to_free_list(std::byte* chunk) {
    for (std::size_t i = clocks_per_chunk; i-- > 0;) {
      auto* const c = reinterpret_cast<vector_clock*>(chunk + i * clock_bytes());
      c->next_free = free_;
      free_ = c;
    }
  }
  [[nodiscard]] vector_clock* take() {
    if (free_ == nullptr) {
      chunks_.emplace_back(new (std::align_val_t{16}) std::byte[clocks_per_chunk * clock_bytes()]);
      add_to_free_list(chunks_.back().get());
    }
    vector_clock* const c = free_;
    free_ = c->next_free;
    c->references = 1;
    return c;
  }

  struct aligned_delete {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{16}); }
  };
  std::size_t entries_ = 0;
  vector_clock* free_ = nullptr;
  std::vector<std::unique_ptr<std::byte, aligned_delete>> chunks_;
};

}  // namespace gpuheap::simulator
