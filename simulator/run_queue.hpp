// The lanes of one core that can run, and the choice of the next one: the four schedulers.
// A turn is the number of scheduling points for which one lane runs before the scheduler chooses again. Every decision is a function of the
// seed and of the calls made so far.
// - run_through, round_robin: a ring; the cursor is the running lane.
// - random: an array, from which the next lane is drawn uniformly.
// - pct: a binary heap by priority (Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS
// 2010). The paper takes the number of points of a run as known; here each launch draws it, a power of two from 2^4 to 2^19.
#pragma once

#include <gpuheap_simulator/lane.hpp>
#include <gpuheap_simulator/settings.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include "random.hpp"

namespace gpuheap::simulator {

class run_queue {
 public:
  void reset(settings const& s, random_source& random) {
    kind_ = s.scheduler;
    random_ = &random;
    patience_ = std::max(1u, s.patience);
    cursor_ = nullptr;
    array_.clear();
    size_ = 0;
    if (kind_ == scheduler_kind::random) {
      static constexpr unsigned means[] = {1, 1, 2, 8, 32};
      mean_turn_ = means[random.below(5)];
    }
    if (kind_ == scheduler_kind::pct) plan_drops(s.depth);
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool draws_by_chance() const { return kind_ == scheduler_kind::random || kind_ == scheduler_kind::pct; }

  // Adds a lane that has just become able to run. round_robin puts it at the end of the round. run_through does so with a lane that has
  // just started, and lets a woken lane run next, so that few lanes are started and unfinished at a time.
  void add(lane* l) {
    l->runnable = true;
    ++size_;
    switch (kind_) {
      case scheduler_kind::run_through:
        if (!starting_ && cursor_ != nullptr) return link_before(l, cursor_->next);
        [[fallthrough]];
      case scheduler_kind::round_robin:
        return link_before(l, cursor_);
      case scheduler_kind::random:
        l->run_index = static_cast<std::uint32_t>(array_.size());
        array_.push_back(l);
        return;
      case scheduler_kind::pct:
        if (starting_) l->priority = random_->next() | lowest_initial_priority;
        l->run_index = static_cast<std::uint32_t>(array_.size());
        array_.push_back(l);
        sift_up(l->run_index);
        return;
    }
  }
  // While on, the lanes that are added are lanes that have just started.
  void set_starting(bool on) { starting_ = on; }

  void remove(lane* l) {
    l->runnable = false;
    --size_;
    switch (kind_) {
      case scheduler_kind::run_through:
      case scheduler_kind::round_robin:
        if (cursor_ == l) cursor_ = l->next == l ? nullptr : l->next;
        l->previous->next = l->next;
        l->next->previous = l->previous;
        return;
      case scheduler_kind::random: {
        lane* const last = array_.back();
        array_[l->run_index] = last;
        last->run_index = l->run_index;
        array_.pop_back();
        return;
      }
      case scheduler_kind::pct: {
        std::uint32_t const hole = l->run_index;
        lane* const last = array_.back();
        array_.pop_back();
        if (last == l) return;
        array_[hole] = last;
        last->run_index = hole;
        sift_down(hole);
        sift_up(last->run_index);
        return;
      }
    }
  }

  // The lane that runs next, now that `me` has used up its turn. `steps`: points passed since the launch began.
  [[nodiscard]] lane* after_turn(lane* me, std::uint64_t steps) {
    switch (kind_) {
      case scheduler_kind::run_through:
      case scheduler_kind::round_robin:
        return cursor_ = me->next;
      case scheduler_kind::random:
        return array_[random_->below(static_cast<std::uint32_t>(array_.size()))];
      case scheduler_kind::pct:
        if (next_drop_ < drops_.size() && steps >= drops_[next_drop_]) {
          // Each drop gives `me` a priority below all initial priorities, and different from those of other drops.
          set_priority(me, lowest_initial_priority - 1 - next_drop_++);
          turns_in_a_row_points_ = 0;
        } else if (array_.front() == me && (turns_in_a_row_points_ += turn_) >= patience_) {
          drop_below_all(me);
        }
        return array_.front();
    }
    return me;
  }
  // The lane that runs next, now that the running one has been removed; null: no lane can run.
  [[nodiscard]] lane* after_removal() {
    switch (kind_) {
      case scheduler_kind::run_through:
      case scheduler_kind::round_robin:
        return cursor_;
      case scheduler_kind::random:
        return array_.empty() ? nullptr : array_[random_->below(static_cast<std::uint32_t>(array_.size()))];
      case scheduler_kind::pct:
        turns_in_a_row_points_ = 0;
        return array_.empty() ? nullptr : array_.front();
    }
    return nullptr;
  }
  // Called when `me` can only wait for other lanes.
  void backs_off(lane* me) {
    if (kind_ == scheduler_kind::pct) drop_below_all(me);
  }

  // Length in points of the turn that starts now.
  [[nodiscard]] std::int64_t turn_length(std::uint64_t steps) {
    switch (kind_) {
      case scheduler_kind::run_through:
        return patience_;
      case scheduler_kind::round_robin:
        return 1;
      case scheduler_kind::random: {
        std::int64_t length = 1;
        // Ends: almost surely, after mean_turn_ passes on average.
        while (mean_turn_ > 1 && !random_->one_in(mean_turn_)) ++length;
        return length;
      }
      case scheduler_kind::pct: {
        std::uint64_t const to_drop = next_drop_ < drops_.size() && drops_[next_drop_] > steps ? drops_[next_drop_] - steps : patience_;
        turn_ = static_cast<std::int64_t>(std::min<std::uint64_t>(to_drop, patience_));
        return turn_;
      }
    }
    return 1;
  }
  // Whether a lane that has just become able to run may have to go before the running one.
  [[nodiscard]] bool preempts() const { return kind_ == scheduler_kind::pct; }

 private:
  static constexpr std::uint64_t lowest_initial_priority = std::uint64_t{1} << 63;

  void plan_drops(unsigned depth) {
    unsigned const lg_points = 4 + random_->below(16);
    drops_.clear();
    for (unsigned i = 1; i < depth; ++i) drops_.push_back(1 + random_->below(1u << lg_points));
    std::sort(drops_.begin(), drops_.end());
    next_drop_ = 0;
    lowest_priority_ = lowest_initial_priority - 1 - depth;
    turns_in_a_row_points_ = 0;
  }
  void drop_below_all(lane* me) {
    turns_in_a_row_points_ = 0;
    set_priority(me, --lowest_priority_);
  }
  void set_priority(lane* l, std::uint64_t priority) {
    l->priority = priority;
    sift_down(l->run_index);
  }

  // Inserts `l` into the ring before `successor`. Makes a ring of `l` alone if there is none.
  void link_before(lane* l, lane* successor) {
    if (cursor_ == nullptr) {
      l->next = l->previous = cursor_ = l;
      return;
    }
    l->next = successor;
    l->previous = successor->previous;
    successor->previous->next = l;
    successor->previous = l;
  }

  void sift_up(std::uint32_t i) {
    // Ends: i halves.
    while (i > 0 && array_[(i - 1) / 2]->priority < array_[i]->priority) {
      swap_at(i, (i - 1) / 2);
      i = (i - 1) / 2;
    }
  }
  void sift_down(std::uint32_t i) {
    // Ends: i at least doubles.
    for (;;) {
      std::uint32_t largest = i;
      for (std::uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child < array_.size(); ++child) {
        if (array_[child]->priority > array_[largest]->priority) largest = child;
      }
      if (largest == i) return;
      swap_at(i, largest);
      i = largest;
    }
  }
  void swap_at(std::uint32_t i, std::uint32_t j) {
    std::swap(array_[i], array_[j]);
    array_[i]->run_index = i;
    array_[j]->run_index = j;
  }

  scheduler_kind kind_ = scheduler_kind::round_robin;
  random_source* random_ = nullptr;
  lane* cursor_ = nullptr;
  std::vector<lane*> array_;
  std::size_t size_ = 0;
  unsigned patience_ = 1024;
  unsigned mean_turn_ = 1;
  bool starting_ = false;

  std::vector<std::uint64_t> drops_;
  std::size_t next_drop_ = 0;
  std::uint64_t lowest_priority_ = 0;
  std::int64_t turn_ = 1;
  std::int64_t turns_in_a_row_points_ = 0;
};

}  // namespace gpuheap::simulator
