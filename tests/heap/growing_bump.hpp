// An allocator for the tests of heaps that grow: hands out its data from the first byte to the last, reuses nothing, and knows which pages
// of it are in use. Its data and its metadata lie apart and grow side by side.
//
//   whole    +0       control
//            +4096    one word a page of data: live blocks that begin there
//            data     half way: pages of 4096 bytes. A block lies in one page, or begins one and has the next ones to itself
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace test {

namespace simt = gpuheap::simt;

class growing_bump {
 public:
  static constexpr gpuheap::allocator_traits traits{.name = "growing_bump", .reuse = "none"};
  static constexpr simt::size_t page_bytes = 4096;

  struct control {
    simt::uint64_t next = 0;   // byte of the data that the next block begins at
    simt::uint64_t pages = 0;  // of the data that may be used. Changed by the host only
    simt::uint64_t live = 0;   // blocks
  };
  struct report {
    std::string problem;
  };

  GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    simt::uint64_t const need = simt::round_up_pow2(bytes, 16);
    // relaxed, all: the words count, and what they count is ordered by the kernels' ends.
    simt::atomic_ref<simt::uint64_t> const next{control_->next};
    simt::uint64_t const end = simt::plain_read(control_->pages) * page_bytes;
    simt::uint64_t before = next.load(simt::relaxed), at = 0;
    do {
      // Not over a page's end, unless it begins there.
      at = before % page_bytes + need <= page_bytes ? before : simt::round_up_pow2(before, page_bytes);
      if (at > end || bytes > end - at) return nullptr;
    } while (!next.compare_exchange(before, need <= page_bytes ? at + need : simt::round_up_pow2(at + need, page_bytes), simt::relaxed,
                                    simt::relaxed));
    simt::atomic_ref<simt::uint64_t>{control_->live}.fetch_add(1, simt::relaxed);
    for (simt::uint64_t page = at / page_bytes; page * page_bytes < at + need; ++page) begins(page).fetch_add(1, simt::relaxed);
    return data_ + at;
  }
  // Blocks of more than a page stay.
  GPUHEAP_FN void free(void* p) const {
    if (p == nullptr) return;
    begins(static_cast<simt::uint64_t>(static_cast<char*>(p) - data_) / page_bytes).fetch_sub(1, simt::relaxed);
    simt::atomic_ref<simt::uint64_t>{control_->live}.fetch_sub(1, simt::relaxed);
  }

  static simt::size_t min_region_bytes() { return 16 * page_bytes; }
  static growing_bump create(gpuheap::memory::region region, gpuheap::stream_ref stream) {
    return create_growable(
        region, region.bytes / 2, [](simt::size_t, simt::size_t) {}, stream);
  }
  static simt::size_t min_initial_bytes(simt::size_t) { return min_region_bytes(); }
  static growing_bump create_growable(gpuheap::memory::region whole, simt::size_t initial_bytes, gpuheap::memory::map_function const& map,
                                      gpuheap::stream_ref stream) {
    growing_bump a;
    a.control_ = static_cast<control*>(whole.base);
    a.data_offset_ = whole.bytes / 2 / page_bytes * page_bytes;
    a.data_ = static_cast<char*>(whole.base) + a.data_offset_;
    a.most_pages_ = (whole.bytes - a.data_offset_) / page_bytes;
    map(0, page_bytes);
    control const start{};
    simt::copy(a.control_, &start, sizeof start, stream);
    simt::synchronize(stream);
    a.grow(initial_bytes, map, stream);
    return a;
  }
  void grow(simt::size_t new_bytes, gpuheap::memory::map_function const& map, gpuheap::stream_ref stream) const {
    control now = read(stream);
    simt::uint64_t const pages = std::min<simt::uint64_t>((new_bytes - page_bytes) / (page_bytes + 4), most_pages_);
    if (pages <= now.pages) return;
    simt::uint64_t const more = pages - now.pages;
    map(page_bytes + now.pages * 4, more * 4);
    map(data_offset_ + now.pages * page_bytes, more * page_bytes);
    simt::fill(words() + now.pages, 0, more * 4, stream);
    simt::copy(&control_->pages, &pages, sizeof pages, stream);
    simt::synchronize(stream);  // `pages` is this function's
  }
  simt::size_t trim(gpuheap::stream_ref stream) const {
    control now = read(stream);
    std::vector<simt::uint32_t> const begun = read_words(now.pages, stream);
    simt::uint64_t pages = now.pages;
    while (pages > 1 && begun[pages - 1] == 0) --pages;
    simt::size_t const given_up = (now.pages - pages) * page_bytes;
    now.next = std::min(now.next, pages * page_bytes);
    now.pages = pages;
    simt::copy(control_, &now, sizeof now, stream);
    simt::synchronize(stream);
    return given_up;
  }
  [[nodiscard]] report verify(gpuheap::stream_ref stream) const {
    control const now = read(stream);
    simt::uint64_t begun = 0;
    for (simt::uint32_t const word : read_words(now.pages, stream)) begun += word;
    return {begun == now.live ? "" : std::to_string(now.live) + " blocks live, and " + std::to_string(begun) + " begin somewhere"};
  }

 private:
  [[nodiscard]] GPUHEAP_HD simt::uint32_t* words() const {
    return reinterpret_cast<simt::uint32_t*>(reinterpret_cast<char*>(control_) + page_bytes);
  }
  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<simt::uint32_t> begins(simt::uint64_t page) const {
    return simt::atomic_ref<simt::uint32_t>{words()[page]};
  }
  [[nodiscard]] control read(gpuheap::stream_ref stream) const {
    control now;
    simt::copy(&now, control_, sizeof now, stream);
    simt::synchronize(stream);
    return now;
  }
  [[nodiscard]] std::vector<simt::uint32_t> read_words(simt::uint64_t pages, gpuheap::stream_ref stream) const {
    std::vector<simt::uint32_t> begun(pages);
    simt::copy(begun.data(), words(), pages * 4, stream);
    simt::synchronize(stream);
    return begun;
  }

  control* control_ = nullptr;
  char* data_ = nullptr;
  simt::uint64_t data_offset_ = 0;
  simt::uint64_t most_pages_ = 0;
};

static_assert(gpuheap::has_grow<growing_bump> && gpuheap::has_trim<growing_bump> && gpuheap::has_verify<growing_bump>);

}  // namespace test
