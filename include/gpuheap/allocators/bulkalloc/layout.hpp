// The layout of a BulkAllocator heap: the buddy tree of its pages, and arenas, chunks, bins and tails.
#pragma once

#include <gpuheap/memory/region.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/bitmap_tree.hpp>
#include <gpuheap/structures/bulk_semaphore.hpp>
#include <gpuheap/structures/collective_mutex.hpp>
#include <gpuheap/structures/hinted_bits.hpp>
#include <gpuheap/structures/rcu.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// Parameters that the paper fixes or leaves open. A small heap has fewer arenas and smaller chunks.
struct bulkalloc_config {
  unsigned chunk_pages = 64;   // pages of a chunk: a power of two, 4 to 64
  unsigned max_arenas = 1024;  // a heap also has at most one for each multiprocessor
};

namespace bulk {

using simt::size_t;
using simt::uint16_t;
using simt::uint32_t;
using simt::uint64_t;
using structures::bitmap_tree;

// The bytes of a page, the smallest block of the tree. No object begins at the start of a page.
inline constexpr unsigned page_bytes = 4096;
inline constexpr uint32_t no_page = ~uint32_t{0};

// ---- sizes of objects

// Classes of 16, 32, ... 1024 bytes; class 0 is the smallest. A bin is a page that holds a header and data. Each bin also has a tail of
// 128 bytes, which lies in a header page of its chunk.
inline constexpr unsigned num_classes = 7;
inline constexpr unsigned header_bytes = 128;
inline constexpr unsigned data_bytes = page_bytes - header_bytes;
inline constexpr unsigned tail_bytes = 128;
inline constexpr unsigned tails_per_page = data_bytes / tail_bytes;
[[nodiscard]] GPUHEAP_HD constexpr unsigned class_of(size_t bytes) { return bytes <= 16 ? 0 : simt::ceil_log2(bytes) - 4; }
[[nodiscard]] GPUHEAP_HD constexpr unsigned object_bytes(unsigned c) { return 16u << c; }
// The number of objects of a bin. Objects of more than 128 bytes do not use the tail.
[[nodiscard]] GPUHEAP_HD constexpr unsigned objects(unsigned c) {
  return (object_bytes(c) <= tail_bytes ? page_bytes : data_bytes) / object_bytes(c);
}
static_assert(class_of(1) == 0 && class_of(16) == 0 && class_of(17) == 1 && class_of(1024) == 6 && class_of(1025) == 7);
static_assert(objects(0) == 256 && objects(3) == 32 && objects(4) == 15 && objects(5) == 7 && objects(6) == 3);

// ---- the heap's metadata

// A word that says what begins at a page.
struct page_word {
  static constexpr uint32_t live = 1u << 8, chunk = 1u << 9, freed = 1u << 10;  // flags of a block; its order is in the low bits
  uint32_t bits = 0;
  [[nodiscard]] GPUHEAP_HD static constexpr page_word of(unsigned order, uint32_t flags) { return {order | flags}; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned order() const { return bits & 31; }
  [[nodiscard]] GPUHEAP_HD constexpr bool has(uint32_t flag) const { return (bits & flag) != 0; }
};

// The nodes of one order of the buddy tree: blocks of 2^order pages. Each available node has a bit, and the semaphore has a unit for it.
struct alignas(128) order_slot {
  structures::bulk_semaphore::word units = 0;
  bitmap_tree available;
};

// The list of bins of one class that have free objects; the semaphore counts these objects.
struct alignas(128) class_list {
  structures::bulk_semaphore::word units = 0;
  structures::rcu_state rcu;
  uint64_t audit = 0;  // used by verify()
  uint32_t first = no_page;
  structures::collective_mutex::word lock = 0;  // held while the list changes
};
// The list of chunks that have free bins; the semaphore counts these bins. The lock guards the list.
struct alignas(128) chunk_list {
  structures::bulk_semaphore::word units = 0;
  uint64_t audit = 0;  // used by verify()
  uint32_t first = no_page;
  structures::collective_mutex::word lock = 0;
};
// The lists of an arena. Multiprocessor i uses arena i % num_arenas.
struct arena {
  class_list classes[num_classes];
  chunk_list chunks;
};

// The header at the start of a bin's page.
struct bin_header {
  static constexpr uint32_t closed = 1u << 16;  // in `free`: the bin is not in use, or is about to be given back
  static constexpr uint32_t linked = 1u << 8;   // in `info`, under the class list's lock; the low bits are the class

  structures::rcu_link link;
  structures::hinted_bits::word hints;
  structures::hinted_bits::word taken[8];
  uint32_t free;  // free objects that no thread has claimed
  uint32_t next, previous;
  uint32_t info;
};
static_assert(sizeof(bin_header) <= header_bytes && structures::hinted_bits::segments_for(objects(0)) == 8);

// The header at the start of a chunk.
struct chunk_header {
  uint64_t used;     // a bit for each page that is a bin in use or a header page; changes under the arena's lock
  uint64_t touched;  // a bit for each page that is a header page or was ever a bin in use
  uint32_t next, previous;
  uint32_t arena;
  uint32_t linked;
};
static_assert(sizeof(chunk_header) <= header_bytes);

// Orders are less than this number.
inline constexpr unsigned max_orders = 32;

// The places of the parts of one heap. Trivially copyable.
struct geometry {
  char* pool = nullptr;       // the pages
  uint32_t* words = nullptr;  // one page_word for each page
  arena* arenas = nullptr;
  uint32_t num_pages = 0;
  uint32_t num_arenas = 0;
  uint32_t chunk_pages = 0;
  uint32_t top = 0;  // order of the largest blocks

  [[nodiscard]] GPUHEAP_HD char* page_at(uint32_t page) const { return pool + size_t{page} * page_bytes; }
  [[nodiscard]] GPUHEAP_FN bin_header& bin(uint32_t page) const { return *reinterpret_cast<bin_header*>(page_at(page)); }
  [[nodiscard]] GPUHEAP_FN chunk_header& chunk(uint32_t page) const { return *reinterpret_cast<chunk_header*>(page_at(page)); }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint32_t> word(uint32_t page) const { return simt::global_ref<uint32_t>{words[page]}; }
  [[nodiscard]] GPUHEAP_HD uint32_t chunk_of(uint32_t page) const { return page & ~(chunk_pages - 1); }
  [[nodiscard]] GPUHEAP_HD unsigned chunk_order() const { return simt::highest_bit(chunk_pages); }
  // The number of header pages of a chunk. They hold the chunk's header and the tails of its bins, and are no bins themselves.
  [[nodiscard]] GPUHEAP_HD unsigned header_pages() const { return chunk_pages <= tails_per_page + 1 ? 1 : 2; }
  [[nodiscard]] GPUHEAP_HD unsigned bins_per_chunk() const { return chunk_pages - header_pages(); }
  [[nodiscard]] GPUHEAP_HD uint64_t header_bits() const { return simt::low_bits(header_pages()); }
  [[nodiscard]] GPUHEAP_HD uint64_t all_bits() const { return simt::low_bits(chunk_pages); }

  // Whether the tree has this node: all of its 2^order pages lie in the pool.
  [[nodiscard]] GPUHEAP_HD bool has_node(uint32_t node, unsigned order) const { return order <= top && node < num_pages >> order; }

  // Object i of class c in the bin at `page`.
  [[nodiscard]] GPUHEAP_FN char* object_at(uint32_t page, unsigned c, unsigned i) const {
    unsigned const offset = i * object_bytes(c);
    if (offset < data_bytes) return page_at(page) + header_bytes + offset;
    unsigned const tail = page % chunk_pages - header_pages();
    return page_at(chunk_of(page) + tail / tails_per_page) + header_bytes + tail % tails_per_page * tail_bytes + (offset - data_bytes);
  }

#if GPUHEAP_HAS_HOST
  // ---- host. The layout: | state | arenas | trees of all orders | words of pages | pages |. Parts are aligned to 256 bytes, pages to
  // 4096.

  static constexpr size_t part_alignment = 256;

  [[nodiscard]] static unsigned top_of(size_t num_pages) { return simt::highest_bit(uint64_t{num_pages}); }
  [[nodiscard]] static uint32_t leaves_of(size_t num_pages, unsigned order) { return bitmap_tree::leaves_for(num_pages >> order); }
  [[nodiscard]] static size_t tree_words(size_t num_pages, unsigned order) {
    return bitmap_tree::words_for(leaves_of(num_pages, order), 1);
  }
  // The geometry of a heap of num_pages pages (at least 1) from `base` on. Sets `trees` to the trees' address, and `end` to the address
  // behind the heap.
  [[nodiscard]] static geometry over(void* base, size_t num_pages, bulkalloc_config config, unsigned num_sms, size_t state_bytes,
                                     uint64_t*& trees, simt::uintptr_t& end) {
    geometry at;
    at.num_pages = static_cast<uint32_t>(num_pages);
    at.top = top_of(num_pages);
    auto const at_most = [](size_t n, size_t most) { return static_cast<uint32_t>(n < 1 ? 1 : n < most ? n : most); };
    at.num_arenas = at_most(num_pages / 8, num_sms < config.max_arenas ? num_sms : config.max_arenas);
    // A chunk has at most an eighth of an arena's share of the pages (but at least 4 pages), so that a chunk with few bins in use wastes
    // little.
    uint32_t const share = at_most(num_pages / (8 * size_t{at.num_arenas}), config.chunk_pages);
    at.chunk_pages = share < 4 ? 4 : 1u << simt::highest_bit(share);
    end = reinterpret_cast<simt::uintptr_t>(base);
    auto const part = [&end](size_t bytes, size_t alignment) {
      auto const here = simt::round_up_pow2(end, alignment);
      end = here + bytes;
      return here;
    };
    (void)part(state_bytes, part_alignment);
    at.arenas = reinterpret_cast<arena*>(part(at.num_arenas * sizeof(arena), part_alignment));
    size_t words = 0;
    for (unsigned order = 0; order <= at.top; ++order) words += tree_words(num_pages, order);
    trees = reinterpret_cast<uint64_t*>(part(words * sizeof(uint64_t), part_alignment));
    at.words = reinterpret_cast<uint32_t*>(part(num_pages * sizeof(uint32_t), part_alignment));
    at.pool = reinterpret_cast<char*>(part(num_pages * page_bytes, page_bytes));
    return at;
  }
  // The geometry of as many pages as fit into the region.
  [[nodiscard]] static geometry within(memory::region where, bulkalloc_config config, unsigned num_sms, size_t state_bytes,
                                       uint64_t*& trees) {
    auto const limit = reinterpret_cast<simt::uintptr_t>(where.base) + where.bytes;
    size_t pages = where.bytes / page_bytes;
    if (pages >= no_page) pages = no_page - 1;
    simt::uintptr_t end = 0;
    geometry at = over(where.base, pages, config, num_sms, state_bytes, trees, end);
    // Ends: each pass lowers `pages` by half of the excess or more, down to one page.
    while (end > limit && pages > 1) {
      size_t const less = (end - limit) / (2 * page_bytes);
      pages -= less < 1 ? 1 : less;
      at = over(where.base, pages, config, num_sms, state_bytes, trees, end);
    }
    return at;
  }
#endif
};

// The result of take_census. Device and host.
struct census {
  uint64_t objects = 0, object_bytes = 0;
  uint64_t bins = 0, chunks = 0;
  uint64_t first_fault = 0;  // {page or arena, fault}, inverted so that a maximum finds the lowest; 0: no fault
};

}  // namespace bulk
}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
