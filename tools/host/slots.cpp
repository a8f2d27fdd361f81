#include "slots.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace gpuheap::interpose {

index_set::index_set(std::size_t num) {
  for (auto& level : words_) {
    num = (num + 63) / 64;
    level.assign(std::max<std::size_t>(num, 1), 0);
  }
}

void index_set::insert(std::size_t index) {
  for (auto& level : words_) {
    level[index / 64] |= std::uint64_t{1} << index % 64;
    index /= 64;
  }
}

void index_set::erase(std::size_t index) {
  for (auto& level : words_) {
    level[index / 64] &= ~(std::uint64_t{1} << index % 64);
    if (level[index / 64] != 0) return;
    index /= 64;
  }
}

bool index_set::contains(std::size_t index) const { return (words_[0][index / 64] >> index % 64 & 1) != 0; }

std::optional<std::size_t> index_set::first_from(std::size_t index) const {
  // Goes up until a level has a member at or after the index, and then down to the first member below that one.
  for (std::size_t level = 0; level < 3; ++level) {
    if (index / 64 >= words_[level].size()) return std::nullopt;
    std::uint64_t const rest = words_[level][index / 64] & ~std::uint64_t{0} << index % 64;
    if (rest != 0) {
      index = index / 64 * 64 + static_cast<std::size_t>(std::countr_zero(rest));
      while (level > 0) {
        --level;
        index = index * 64 + static_cast<std::size_t>(std::countr_zero(words_[level][index]));
      }
      return index;
    }
    index = index / 64 + 1;
  }
  return std::nullopt;
}

slot_table::slot_table(std::vector<planned_slot> const& slots) {
  slots_.reserve(slots.size());
  for (planned_slot const& wanted : slots) {
    auto const site_number = site_of_.try_emplace(wanted.site, static_cast<std::uint32_t>(sites_.size())).first->second;
    if (site_number == sites_.size()) sites_.emplace_back().name = wanted.site;
    auto const place = place_of_.try_emplace(wanted.offset, static_cast<std::uint32_t>(place_of_.size())).first->second;
    sites_[site_number].by_size.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.push_back({wanted.offset, wanted.bytes, 0, site_number, 0, place, 0, false, {}});
  }
  live_at_place_.assign(place_of_.size(), 0);
  for (site& of : sites_) {
    // stable_sort keeps the plan's order among slots of one size, as the planner assumes (python/gpuheap/host/plan.py).
    std::stable_sort(of.by_size.begin(), of.by_size.end(), [this](auto a, auto b) { return slots_[a].bytes < slots_[b].bytes; });
    of.free = index_set{of.by_size.size()};
    for (std::size_t rank = 0; rank < of.by_size.size(); ++rank) {
      of.sizes.push_back(slots_[of.by_size[rank]].bytes);
      slots_[of.by_size[rank]].rank = static_cast<std::uint32_t>(rank);
      of.free.insert(rank);
    }
  }
  // Finds the pairs of slots that share bytes: goes through the slots by offset. `open` has those that begin before the current slot and
  // have not ended.
  std::vector<std::uint32_t> order(slots_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [this](auto a, auto b) { return slots_[a].offset < slots_[b].offset; });
  std::vector<std::uint32_t> open;
  for (std::uint32_t const next : order) {
    std::erase_if(open, [&](auto other) { return slots_[other].offset + slots_[other].bytes <= slots_[next].offset; });
    for (std::uint32_t const other : open) {
      slots_[next].sharing.push_back(other);
      slots_[other].sharing.push_back(next);
    }
    open.push_back(next);
  }
}

void slot_table::block_sharers(slot const& of) {
  for (std::uint32_t const other : of.sharing) {
    if (slots_[other].blocked_by++ == 0) sites_[slots_[other].site].free.erase(slots_[other].rank);
  }
}

void slot_table::unblock_sharers(slot const& of) {
  for (std::uint32_t const other : of.sharing) {
    slot& freed = slots_[other];
    if (--freed.blocked_by == 0 && freed.asked == 0 && !freed.pinned) sites_[freed.site].free.insert(freed.rank);
  }
}

block_source::grant slot_table::allocate(std::uint64_t site, std::uint64_t bytes) {
  std::lock_guard const held{lock_};
  auto const found = site_of_.find(site);
  if (found == site_of_.end()) return {outcome::unprofiled};
  slot_table::site& of = sites_[found->second];
  auto const first = static_cast<std::size_t>(std::lower_bound(of.sizes.begin(), of.sizes.end(), bytes) - of.sizes.begin());
  if (first == of.sizes.size()) return {outcome::too_large, 0, of.sizes.back()};
  auto const rank = of.free.first_from(first);
  if (!rank) return {outcome::busy, 0, of.sizes[first]};
  slot& chosen = slots_[of.by_size[*rank]];
  of.free.erase(*rank);
  chosen.asked = std::max<std::uint64_t>(bytes, 1);
  chosen.pinned = pinning_;
  block_sharers(chosen);
  live_at_place_[chosen.place] = of.by_size[*rank] + 1;
  live_bytes_ += chosen.asked;
  ++num_live_;
  return {outcome::served, chosen.offset, chosen.bytes};
}

bool slot_table::release(std::uint64_t offset) {
  std::lock_guard const held{lock_};
  auto const found = place_of_.find(offset);
  if (found == place_of_.end() || live_at_place_[found->second] == 0) return false;
  slot& ended = slots_[live_at_place_[found->second] - 1];
  live_at_place_[found->second] = 0;
  live_bytes_ -= ended.asked;
  --num_live_;
  ended.asked = 0;
  // A pinned slot still blocks the slots that share its bytes, and is never handed out again.
  if (ended.pinned) return true;
  unblock_sharers(ended);
  if (ended.blocked_by == 0) sites_[ended.site].free.insert(ended.rank);
  return true;
}

void slot_table::pin(bool on) {
  std::lock_guard const held{lock_};
  pinning_ = on;
  if (!on) return;
  for (slot& each : slots_) each.pinned = each.pinned || each.asked != 0;
}

bool slot_table::begins_live(std::uint64_t offset) const {
  std::lock_guard const held{lock_};
  auto const found = place_of_.find(offset);
  return found != place_of_.end() && live_at_place_[found->second] != 0;
}

block_source::block slot_table::described(slot const& of) const { return {of.offset, of.asked, sites_[of.site].name}; }

block_source::block slot_table::live_at(std::uint64_t offset) const {
  std::lock_guard const held{lock_};
  auto const begins = place_of_.find(offset);
  if (begins != place_of_.end() && live_at_place_[begins->second] != 0) return described(slots_[live_at_place_[begins->second] - 1]);
  for (slot const& each : slots_) {
    if (each.asked != 0 && offset >= each.offset && offset < each.offset + each.bytes) return described(each);
  }
  return {};
}

std::uint64_t slot_table::live_bytes() const {
  std::lock_guard const held{lock_};
  return live_bytes_;
}

std::size_t slot_table::num_live() const {
  std::lock_guard const held{lock_};
  return num_live_;
}

}  // namespace gpuheap::interpose
