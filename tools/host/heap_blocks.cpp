#include "heap_blocks.hpp"

#include <iterator>

namespace gpuheap::interpose {

namespace {

constexpr std::size_t alignment = 512;  // pool_alignment of pool_service.hpp

}  // namespace

heap_blocks::heap_blocks(heap_functions const& functions, void* heap, std::uint64_t base, std::uint64_t bytes, reporter report)
    : functions_{functions}, heap_{heap}, base_{base}, bytes_{bytes}, report_{report} {}

heap_blocks::~heap_blocks() { functions_.forget(heap_); }

heap_blocks::entries::const_iterator heap_blocks::at_or_before(std::uint64_t offset) const {
  auto const after = live_.upper_bound(offset);
  return after == live_.begin() ? live_.end() : std::prev(after);
}

bool heap_blocks::is_free(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > bytes_ || bytes > bytes_ - offset) return false;
  auto const before = at_or_before(offset);
  if (before != live_.end() && before->first + before->second.bytes > offset) return false;
  auto const after = live_.lower_bound(offset);
  return after == live_.end() || after->first >= offset + bytes;
}

block_source::grant heap_blocks::allocate(std::uint64_t, std::uint64_t bytes) {
  std::lock_guard const held{lock_};
  if (bytes > bytes_) return {outcome::too_large, 0, bytes_};
  heap_block found{};
  heap_text why{};
  switch (functions_.allocate(heap_, bytes, alignment, &found, &why)) {
    case heap_answer::nothing_fits:
      return {outcome::busy, 0, bytes};
    case heap_answer::failed:
      report_("E05", std::string{"the heap did not answer a request: "} + why.words);
      return {outcome::failed};
    case heap_answer::ended:
      return {outcome::failed};
    case heap_answer::done:
      break;
  }
  std::uint64_t const offset = found.address - base_;
  if (found.address < base_ || found.address % alignment != 0 || !is_free(offset, bytes)) {
    report_("E05", std::string{"the allocator '"} + functions_.allocator + "' gave a block of " + std::to_string(bytes) +
                       " bytes that lies outside its heap or in a live block: it is not handed out");
    return {outcome::failed};
  }
  live_[offset] = {bytes, found.given, pinning_};
  live_bytes_ += bytes;
  return {outcome::served, offset, bytes};
}

bool heap_blocks::release(std::uint64_t offset) {
  std::lock_guard const held{lock_};
  auto const found = live_.find(offset);
  if (found == live_.end()) return false;
  entry const ended = found->second;
  live_.erase(found);
  live_bytes_ -= ended.bytes;
  if (ended.pinned) return true;
  heap_text why{};
  if (functions_.release(heap_, ended.given, &why) == heap_answer::failed) {
    report_("E07", "a block of " + std::to_string(ended.bytes) + " bytes could not be freed in the heap (" + why.words +
                       "): the heap does not reuse it; a write before or past a block may have damaged the heap");
  }
  return true;
}

void heap_blocks::pin(bool on) {
  std::lock_guard const held{lock_};
  pinning_ = on;
  if (!on) return;
  for (auto& [offset, each] : live_) each.pinned = true;
}

bool heap_blocks::begins_live(std::uint64_t offset) const {
  std::lock_guard const held{lock_};
  return live_.contains(offset);
}

block_source::block heap_blocks::live_at(std::uint64_t offset) const {
  std::lock_guard const held{lock_};
  auto const found = at_or_before(offset);
  if (found == live_.end() || offset - found->first >= found->second.bytes) return {};
  return {found->first, found->second.bytes};
}

std::uint64_t heap_blocks::live_bytes() const {
  std::lock_guard const held{lock_};
  return live_bytes_;
}

std::size_t heap_blocks::num_live() const {
  std::lock_guard const held{lock_};
  return live_.size();
}

}  // namespace gpuheap::interpose
