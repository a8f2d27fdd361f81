// The stores to one location that a load may still return, and a record of which thread has read which store.
//
// Stores are numbered in modification order, which is the order of execution; the newest is what memory holds. At most `longest_history`
// are kept.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "happens_before.hpp"

namespace gpuheap::simulator {

inline constexpr unsigned longest_history = 16;

struct stored {
  std::uint64_t value = 0;
  moment by{};
  release_info release{};
};

class store_history {
 public:
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::uint32_t oldest() const { return first_; }
  [[nodiscard]] std::uint32_t newest() const { return first_ + count_ - 1; }
  [[nodiscard]] stored& operator[](std::uint32_t number) { return ring_[number % ring_.size()]; }
  [[nodiscard]] stored const& operator[](std::uint32_t number) const { return ring_[number % ring_.size()]; }

  // Begins with a value that happens before everything.
  void start(std::uint64_t value) {
    if (ring_.empty()) ring_.resize(2);
    first_ = 0;
    count_ = 1;
    (*this)[0] = {value, {}, {}};
    forget_reads();
  }
  // Forgets all stores, and returns their clocks to `order`.
  void forget(happens_before& order) {
    for (std::uint32_t i = 0; i < count_; ++i) order.drop((*this)[first_ + i].release);
    clear();
  }
  // Forgets all stores without returning their clocks, because the pool of clocks has been reset.
  void clear() {
    count_ = 0;
    forget_reads();
  }

  void append(happens_before& order, stored const& s) {
    if (count_ == ring_.size()) {
      if (count_ < longest_history) {
        grow();
      } else {
        order.drop((*this)[first_].release);
        ++first_;
        --count_;
      }
    }
    ++count_;
    (*this)[newest()] = s;
  }

  // The oldest store that a load by `v` may return. If `cached`, earlier reads by any lane do not limit it.
  [[nodiscard]] std::uint32_t oldest_readable(thread_view const& v, bool cached) const {
    std::uint32_t number = newest();
    // Ends: number goes down to the oldest.
    while (number > first_ && !(cached ? v.knows((*this)[number].by) : v.reaches((*this)[number].by))) --number;
    if (cached) return number;
    // The later records are of newer stores, as a rule, so they come first.
    for (auto r = reads_.rbegin(); r != reads_.rend() && number != newest(); ++r) {
      if (static_cast<std::int32_t>(r->number - number) > 0 && v.reaches(r->by)) number = r->number;
    }
    return number;
  }

  // Records that `v` has read store `number`. The record is kept until `v` reads a later store in the same epoch, or at least until store
  // `number` is the oldest one, because from then on the record excludes no store.
  void note_read(thread_view const& v, std::uint32_t number, std::size_t num_slots) {
    if (number == first_) return;
    if (last_read_.empty()) last_read_.resize(num_slots);
    if (std::uint32_t const position = last_read_[v.slot]; position != 0) {
      read_record& r = reads_[position - 1];
      if (r.number == number) return;  // the earlier record already says so
      if (r.by.epoch == v.epoch) {
        r.number = number;
        return;
      }
    }
    if (reads_.size() >= prune_at_) prune();
    reads_.push_back({v.now(), number});
    last_read_[v.slot] = static_cast<std::uint32_t>(reads_.size());
  }

  // Whether some kept store does not happen before a plain access that `v` makes now (a plain write, if `writes`). has_unknown_read() says
  // the same of the recorded reads, and matters to plain writes only.
  [[nodiscard]] bool has_unknown_store(thread_view const& v, bool writes) const {
    for (std::uint32_t i = 0; i < count_; ++i) {
      moment const by = (*this)[first_ + i].by;
      if (!(writes ? v.reaches(by) : v.knows(by))) return true;
    }
    return false;
  }
  [[nodiscard]] bool has_unknown_read(thread_view const& v) const {
    return std::any_of(reads_.begin(), reads_.end(), [&](read_record const& r) { return !v.reaches(r.by); });
  }

 private:
  struct read_record {
    moment by{};
    std::uint32_t number = 0;
  };
  static constexpr std::size_t first_prune = 64;

  void forget_reads() {
    reads_.clear();
    last_read_.clear();
    prune_at_ = first_prune;
  }
  void grow() {
    std::vector<stored> larger(ring_.size() * 2);
    for (std::uint32_t i = 0; i < count_; ++i) larger[(first_ + i) % larger.size()] = (*this)[first_ + i];
    ring_.swap(larger);
  }
  void prune() {
    std::erase_if(reads_, [&](read_record const& r) { return static_cast<std::int32_t>(r.number - first_) <= 0; });
    std::fill(last_read_.begin(), last_read_.end(), 0);
    for (std::size_t i = 0; i < reads_.size(); ++i) last_read_[reads_[i].by.slot] = static_cast<std::uint32_t>(i + 1);
    prune_at_ = std::max(first_prune, 2 * reads_.size());
  }

  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
  std::vector<stored> ring_;
  std::vector<read_record> reads_;
  std::vector<std::uint32_t> last_read_;  // by slot: the index of its last record in reads_ plus 1, or 0; empty until the first record
  std::size_t prune_at_ = first_prune;
};

}  // namespace gpuheap::simulator
