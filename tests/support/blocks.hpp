// A set of heap blocks under test: allocated, filled, verified and freed by kernels, checked for overlap and alignment on the host.
#pragma once

#include "device_array.hpp"
#include "pattern.hpp"

#include <gpuheap/heap.hpp>
#include <gpuheap/simt/launch.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace test {

// Kernels over arrays of pointers and sizes: thread i has block i.
template <class Ref>
struct malloc_each {
  Ref heap;
  std::size_t const* sizes;
  void** out;
  GPUHEAP_FN void operator()(unsigned i) const { out[i] = heap.malloc(sizes[i]); }
};
struct fill_each {
  void* const* blocks;
  std::size_t const* sizes;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (blocks[i] != nullptr) fill_pattern(blocks[i], sizes[i], simt::uint64_t{i} << 32);
  }
};
struct verify_each {
  void* const* blocks;
  std::size_t const* sizes;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const w = blocks[i] == nullptr ? 0 : wrong_words(blocks[i], sizes[i], simt::uint64_t{i} << 32);
    if (w != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(w, simt::relaxed);  // relaxed: a count
  }
};
// Thread i frees block (i * stride + 1) % count; `stride` is prime to `count`. The answers are by block.
template <class Ref>
struct free_each {
  Ref heap;
  void* const* blocks;
  gpuheap::free_status* answers;
  unsigned count;
  unsigned stride;
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const b = static_cast<unsigned>((simt::uint64_t{i} * stride + 1) % count);
    answers[b] = heap.free(blocks[b]);
  }
};

// The blocks and the checks of them. This class does not depend on the type of the heap, so each program compiles it once.
class block_set {
 public:
  [[nodiscard]] unsigned count() const { return static_cast<unsigned>(sizes_.size()); }
  [[nodiscard]] device_array<void*>& pointers() { return pointers_; }
  [[nodiscard]] device_array<std::size_t>& device_sizes() { return device_sizes_; }
  [[nodiscard]] std::vector<std::size_t> const& sizes() const { return sizes_; }

  void fill() { gpuheap::launch(count(), fill_each{pointers_.data(), device_sizes_.data()}); }
  void expect_intact(char const* when) {
    device_array<unsigned> wrong(1);
    gpuheap::launch(count(), verify_each{pointers_.data(), device_sizes_.data(), wrong.data()});
    EXPECT_EQ(wrong.first(), 0u) << "words of live blocks changed " << when;
  }

  [[nodiscard]] std::size_t failed_requests() const {
    auto const p = pointers_.read();
    return static_cast<std::size_t>(std::count(p.begin(), p.end(), nullptr));
  }
  // Blocks that are there: aligned, inside `where` (if it has bytes), apart from each other.
  void expect_sound(std::size_t alignment, gpuheap::memory::region where) const {
    struct interval {
      std::uintptr_t begin, end;
    };
    std::vector<interval> live;
    auto const p = pointers_.read();
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (p[i] == nullptr) continue;
      auto const at = reinterpret_cast<std::uintptr_t>(p[i]);
      live.push_back({at, at + sizes_[i]});
      ASSERT_EQ(at % alignment, 0u) << "block " << i << " of " << sizes_[i] << " bytes";
      if (where.bytes == 0) continue;
      auto const base = reinterpret_cast<std::uintptr_t>(where.base);
      ASSERT_TRUE(at >= base && at + sizes_[i] <= base + where.bytes)
          << "block " << i << " of " << sizes_[i] << " bytes lies outside the heap";
    }
    std::sort(live.begin(), live.end(), [](interval a, interval b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < live.size(); ++i) {
      ASSERT_LE(live[i - 1].end, live[i].begin)
          << "two blocks overlap: one of " << live[i - 1].end - live[i - 1].begin << " bytes, the next begins "
          << live[i].begin - live[i - 1].begin << " bytes after its start";
    }
  }

 protected:
  explicit block_set(std::vector<std::size_t> sizes)
      : sizes_{sizes}, device_sizes_{sizes}, pointers_{sizes.size()}, answers_{sizes.size()} {}

  std::vector<std::size_t> sizes_;
  device_array<std::size_t> device_sizes_;
  device_array<void*> pointers_;
  device_array<gpuheap::free_status> answers_;
};

template <class Ref>
class blocks : public block_set {
 public:
  explicit blocks(Ref heap, std::vector<std::size_t> sizes) : block_set{std::move(sizes)}, heap_{heap} {}
  blocks(Ref heap, std::size_t count, std::size_t bytes) : blocks(heap, std::vector<std::size_t>(count, bytes)) {}

  void malloc_all(unsigned block_threads = 256) {
    gpuheap::launch(count(), malloc_each<Ref>{heap_, device_sizes_.data(), pointers_.data()}, {.block_threads = block_threads});
  }
  // Returns the answers.
  std::vector<gpuheap::free_status> free_all(unsigned stride = 1) {
    while (std::gcd(stride, count()) != 1) ++stride;
    gpuheap::launch(count(), free_each<Ref>{heap_, pointers_.data(), answers_.data(), count(), stride});
    return answers_.read();
  }

 private:
  Ref heap_;
};

}  // namespace test
