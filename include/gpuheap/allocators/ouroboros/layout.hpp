// The places of the parts of an Ouroboros heap, its size classes, and the word of a chunk.
#pragma once

#include <gpuheap/memory/region.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/bitmap_tree.hpp>
#include <gpuheap/structures/ring_queue.hpp>
#include <gpuheap/structures/virtual_queue.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// The contents of a size class's queue: free pages, or chunks that have a free page.
enum class queue_of { pages, chunks };
// How a queue is stored: in a ring of its own, or in chunks of the heap that an array or a list leads to.
enum class stored_in { static_ring, virtual_array, virtual_list };

// The paper's sizes.
struct ouroboros_config {
  unsigned chunk_bytes = 8192;        // a power of two: the largest page of the first instance
  unsigned smallest_page_bytes = 16;  // a power of two, 16 or more
  unsigned stacked_classes = 2;  // classes of the second instance: pages of twice and four times a chunk. Its chunk is its largest page
  unsigned static_places = 1u << 23;  // the most places of a static ring of pages
  unsigned backing_percent = 20;      // percent of the heap for the backing, which serves requests of more than the largest page
  unsigned kept_share = 1024;  // a virtual queue keeps one finished segment for this many chunks of the heap, instead of giving all away
};

namespace ouro {

using simt::size_t;
using simt::uint32_t;
using simt::uint64_t;
using structures::bitmap_tree;
using structures::no_block;

// The use of a chunk.
//
//   bit  0            16      24
//        | free pages | class | use |
//
//   free pages   the number of the chunk's spare pages, which are neither live nor in a queue of pages
//   tail         the chunk is part of a larger one, and not its first
//   marked       set by verify() while it runs
struct chunk_word {
  enum use_type : uint32_t { unused, pages, tail, queue };
  static constexpr uint32_t marked = uint32_t{1} << 31;
  uint32_t bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr chunk_word of(use_type use, unsigned size_class = 0, unsigned count = 0) {
    return {static_cast<uint32_t>(use) << 24 | size_class << 16 | count};
  }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned count() const { return bits & 0xffff; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned size_class() const { return bits >> 16 & 0xff; }
  [[nodiscard]] GPUHEAP_HD constexpr use_type use() const { return static_cast<use_type>(bits >> 24 & 0x7f); }
};

// A static ring. All threads of a device may use it at the same time. `Put`: the order of a push (ring_queue.hpp).
template <simt::memory_order Put>
using static_ring = structures::ring_queue<uint32_t, 1024, Put>;

// A bit for each page of each chunk, in words of 32 bits. The first words of all chunks form one array: a chunk of 32 pages or fewer uses
// only its first word, and pages of such sizes come from many chunks.
struct page_bits {
  uint32_t* first = nullptr;   // the first word of each chunk
  uint32_t* others = nullptr;  // words_per_chunk - 1 further words of each chunk
};

// The place of a chunk's word among the words, if queues hold chunks. All threads of a launch change the words of the few chunks that serve
// it. These chunks are adjacent, and words in one cache line are changed one after the other, by one slice of the L2. So four adjacent
// chunks, which may be a region, have words in one line, and the next four chunks have theirs in the next line. 32 lines make a group.
inline constexpr uint32_t words_of_group = 1024;
[[nodiscard]] GPUHEAP_HD constexpr uint32_t spread_over_lines(uint32_t chunk) {
  uint32_t const line = chunk / 4 % 32, place = chunk / 128 % 8;
  return (chunk & ~(words_of_group - 4)) | line * 32 | place * 4;
}
static_assert(spread_over_lines(3) == 3 && spread_over_lines(4) == 32 && spread_over_lines(128) == 4);
static_assert(spread_over_lines(1022) == 1022 && spread_over_lines(1024 + 257) == 1024 + 9);

// The layout. Trivially copyable.
template <queue_of Holds, stored_in Stored, ouroboros_config Config>
struct layout {
  static constexpr unsigned chunk_bytes = Config.chunk_bytes;
  static constexpr unsigned most_pages = chunk_bytes / Config.smallest_page_bytes;  // pages of a chunk
  static constexpr unsigned base_classes = simt::ceil_log2(most_pages) + 1;
  static constexpr unsigned num_classes = base_classes + Config.stacked_classes;
  static constexpr unsigned lg_region = Config.stacked_classes;
  static constexpr unsigned region_chunks = 1u << lg_region;  // chunks that make a chunk of the second instance
  static constexpr size_t region_bytes = size_t{chunk_bytes} << lg_region;
  static constexpr unsigned words_per_chunk = most_pages > 32 ? most_pages / 32 : 1;
  static constexpr unsigned lg_pages = simt::ceil_log2(most_pages < region_chunks ? region_chunks : most_pages);
  static constexpr unsigned places = chunk_bytes / 4;  // places of a queue's segment
  static constexpr size_t largest_bytes = size_t{Config.smallest_page_bytes} << (num_classes - 1);
  static_assert(simt::popcount(chunk_bytes) == 1 && simt::popcount(Config.smallest_page_bytes) == 1);
  static_assert(Config.smallest_page_bytes >= 16 && chunk_bytes >= 256 && most_pages <= 4096 && lg_region <= 6 && num_classes <= 32);
  static_assert(Config.kept_share != 0);
  // The most chunks of a heap. If queues hold pages, a page is one number of 32 bits, as published, and none of the numbers is no_block.
  static constexpr size_t most_chunks = (size_t{1} << (Holds == queue_of::pages ? 32 - lg_pages : 31)) - region_chunks;

  char* chunks = nullptr;
  uint32_t* words = nullptr;        // the chunk_word of each chunk, at spread_over_lines(chunk) if queues hold chunks
  uint32_t* later_words = nullptr;  // those of them that get memory together with the chunks
  page_bits spare;                  // pages that are neither live nor in a queue
  page_bits idle;                   // if queues hold pages: pages that are not live
  uint64_t* records = nullptr;      // a word for each chunk, for virtual queues
  uint64_t* numbers = nullptr;      // a word for each chunk, for lists
  uint64_t* free = nullptr;         // a tree of the used chunks that no thread has
  uint64_t* listed = nullptr;       // for each class a tree of the chunks that have a spare page and are not in a queue of chunks
  char* queues = nullptr;
  uint32_t max_chunks = 0;  // the most chunks that the heap can have, a multiple of region_chunks

  // ---- classes

  static constexpr unsigned lg_smallest = simt::ceil_log2(Config.smallest_page_bytes);
  [[nodiscard]] GPUHEAP_HD static constexpr size_t page_bytes(unsigned q) { return size_t{1} << (lg_smallest + q); }
  // The class of a request of `bytes` bytes, 1 <= bytes <= largest_bytes.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned class_of(size_t bytes) {
    return simt::ceil_log2((bytes + Config.smallest_page_bytes - 1) / Config.smallest_page_bytes);
  }
  static_assert(class_of(1) == 0 && class_of(Config.smallest_page_bytes) == 0 && class_of(Config.smallest_page_bytes + 1) == 1 &&
                class_of(largest_bytes) == num_classes - 1);
  // The base chunks that make a chunk of class q, and the pages of such a chunk.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned span(unsigned q) { return q < base_classes ? 1 : region_chunks; }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned lg_pages_of(unsigned q) {
    return q < base_classes ? base_classes - 1 - q : num_classes - 1 - q;
  }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned pages_of(unsigned q) { return 1u << lg_pages_of(q); }
  // The number of chunks of class q that n pages need.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned chunks_for(unsigned n, unsigned q) { return (n + pages_of(q) - 1) >> lg_pages_of(q); }
  static_assert(pages_of(0) == most_pages && pages_of(base_classes - 1) == 1 && pages_of(num_classes - 1) == 1);

  // ---- places

  [[nodiscard]] GPUHEAP_HD char* page_at(uint32_t chunk, unsigned q, unsigned page) const {
    return chunks + size_t{chunk} * chunk_bytes + (size_t{page} << (lg_smallest + q));
  }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint32_t> word(uint32_t chunk) const {
    return simt::global_ref<uint32_t>{words[Holds == queue_of::chunks ? spread_over_lines(chunk) : chunk]};
  }
  // Word i of a chunk's bits.
  [[nodiscard]] GPUHEAP_FN static simt::global_ref<uint32_t> word_of(page_bits const& of, uint32_t chunk, unsigned i) {
    uint32_t* const at = i == 0 ? of.first + chunk : of.others + (size_t{chunk} * (words_per_chunk - 1) + i - 1);
    return simt::global_ref<uint32_t>{*at};
  }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint32_t> spare_word(uint32_t chunk, unsigned i) const { return word_of(spare, chunk, i); }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint32_t> idle_word(uint32_t chunk, unsigned i) const { return word_of(idle, chunk, i); }

  // ---- trees

  [[nodiscard]] GPUHEAP_HD static constexpr size_t tree_words(uint32_t num_chunks) {
    return bitmap_tree::words_for(bitmap_tree::leaves_for(num_chunks), 1);
  }
  [[nodiscard]] GPUHEAP_HD bitmap_tree tree_at(uint64_t* words) const {
    return bitmap_tree::over(words, bitmap_tree::leaves_for(max_chunks), 1);
  }
  [[nodiscard]] GPUHEAP_HD bitmap_tree free_tree() const { return tree_at(free); }
  [[nodiscard]] GPUHEAP_HD bitmap_tree class_tree(unsigned q) const { return tree_at(listed + q * tree_words(max_chunks)); }

  // ---- queues. All queues of a heap have the same size. Static rings of pages have fewer places than the paper's if all rings would
  // exceed a sixteenth of the heap

  [[nodiscard]] GPUHEAP_HD static constexpr uint32_t rounded_down(uint64_t n) {
    return n < 2 ? 2 : uint32_t{1} << simt::highest_bit(n < (1u << 30) ? n : 1u << 30);
  }
  using ring_type = static_ring<simt::release>;  // the order changes no size
  // Places of a ring, or segments of a virtual queue.
  [[nodiscard]] GPUHEAP_HD static constexpr uint32_t queue_capacity(uint64_t max_chunks) {
    if (Stored == stored_in::static_ring) {
      if (Holds == queue_of::chunks) return rounded_down(max_chunks);
      uint64_t const share = max_chunks * (chunk_bytes / 16) / num_classes / sizeof(ring_type::cell);
      return rounded_down(share < Config.static_places ? share : Config.static_places);
    }
    // Room for all entries that there can be, and as much again for segments that have few entries left.
    uint64_t const entries = max_chunks * (Holds == queue_of::pages ? most_pages : 1);
    return rounded_down(4 * (entries / places + 2));
  }
  [[nodiscard]] GPUHEAP_HD static constexpr size_t queue_bytes(uint64_t max_chunks) {
    uint32_t const capacity = queue_capacity(max_chunks);
    size_t bytes = ring_type::bytes_for(capacity);
    if (Stored == stored_in::virtual_array) bytes = structures::virtual_queue<structures::array_directory>::bytes_for(capacity);
    if (Stored == stored_in::virtual_list) bytes = structures::virtual_queue<structures::list_directory>::bytes_for(capacity);
    return simt::round_up_pow2(bytes, 256);
  }
  // The finished segments that a virtual queue keeps for further pushes: at most a thousandth of all chunks in each queue. A quarter of the
  // segments that a queue of chunks can have takes at least half of all chunks as entries.
  [[nodiscard]] GPUHEAP_HD static constexpr uint32_t kept_segments(uint64_t max_chunks) {
    uint32_t const capacity = queue_capacity(max_chunks);
    if (Holds == queue_of::pages) return capacity / Config.kept_share;
    return capacity / 4 < max_chunks / Config.kept_share ? capacity / 4 : static_cast<uint32_t>(max_chunks / Config.kept_share);
  }
  [[nodiscard]] GPUHEAP_HD char* queue_memory(unsigned q) const { return queues + q * queue_bytes(max_chunks); }

#if GPUHEAP_HAS_HOST
  // ---- host: | state | trees | queues | a group of words | the other words of each chunk | chunks |, each part aligned to 256 bytes. The
  // parts before later_words are usable from the start

  // Calls part(pointer, bytes of each chunk, bytes in all) for each array, in order. The words of the first n chunks lie among the first
  // n + words_of_group - 1 words. So the words of a group are there from the start, each chunk brings the memory of one more word, and
  // a heap that grows clears no word of an older chunk.
  template <class F>
  void for_each_part(F part) {
    auto const n = max_chunks;
    part(free, 0, tree_words(n) * 8);
    part(listed, 0, num_classes * tree_words(n) * 8);
    part(queues, 0, num_classes * queue_bytes(n));
    part(words, 0, Holds == queue_of::chunks ? words_of_group * 4 : 0);
    part(later_words, 4, 0);
    constexpr unsigned others = words_per_chunk - 1;
    part(spare.first, 4, 0);
    part(spare.others, 4 * others, 0);
    if (Holds == queue_of::pages) part(idle.first, 4, 0);
    if (Holds == queue_of::pages) part(idle.others, 4 * others, 0);
    if (Stored != stored_in::static_ring) part(records, 8, 0);
    if (Stored == stored_in::virtual_list) part(numbers, 8, 0);
    part(chunks, chunk_bytes, 0);
  }
  // Sets the layout for num_chunks chunks behind a state of `state_bytes` at `base`, which is aligned to 256. Returns the bytes that all
  // parts take.
  size_t lay_out(char* base, size_t state_bytes, size_t num_chunks) {
    max_chunks = static_cast<uint32_t>(num_chunks);
    size_t at = simt::round_up_pow2(state_bytes, 256);
    for_each_part([&](auto*& array, size_t each, size_t fixed) {
      array = reinterpret_cast<simt::remove_reference_t<decltype(array)>>(base + at);
      at = simt::round_up_pow2(at + each * max_chunks + fixed, 256);
    });
    return at;
  }
  // The layout with as many chunks as fit into `whole`, a multiple of region_chunks.
  [[nodiscard]] static layout over(memory::region whole, size_t state_bytes) {
    layout at;
    size_t low = 0, high = most_chunks >> lg_region;  // in regions
    if (whole.bytes / region_bytes < high) high = whole.bytes / region_bytes;
    // Ends: each pass halves the interval.
    while (low < high) {
      size_t const middle = (low + high + 1) / 2;
      if (at.lay_out(static_cast<char*>(whole.base), state_bytes, middle << lg_region) <= whole.bytes) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    (void)at.lay_out(static_cast<char*>(whole.base), state_bytes, low << lg_region);
    return at;
  }
#endif
};

}  // namespace ouro
}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
