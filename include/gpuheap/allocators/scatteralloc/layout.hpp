// The places of the parts of a ScatterAlloc heap, the chunk sizes that a page can have, and the page at which a search begins.
#pragma once

#include <gpuheap/memory/region.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/free_bits.hpp>
#include <gpuheap/structures/hinted_bits.hpp>
#include <gpuheap/structures/slab_word.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// The parameters that the paper leaves to the user, with the values of its implementation.
struct scatteralloc_config {
  unsigned page_bytes = 4096;         // a power of two, 512 to 65536
  unsigned region_pages = 16;         // pages that searches skip together while they look full
  unsigned super_blocks = 8;          // parts of the heap. Searches begin in one of them, the active one
  unsigned waste_factor = 2;          // a chunk serves requests down to its size divided by this
  unsigned region_full_visits = 12;   // unsuccessful visits after which a region looks full
  unsigned super_block_percent = 90;  // the next super block becomes active if this share of the active one's regions looks full
  // page = bytes * hash_size + multiprocessor * hash_multiprocessor + warp * (hash_warp + hash_wide_warp * (32 * bytes / page_bytes))
  unsigned hash_size = 38183, hash_multiprocessor = 17497, hash_warp = 1, hash_wide_warp = 1;
  unsigned hash_warps = 64;  // a power of two: the number of a multiprocessor's warps that the hash distinguishes
};

namespace scatter {

using simt::size_t;
using simt::uint32_t;
using simt::uint64_t;
using structures::slab_word;

// The kinds of pages in slab words: chunks of `kind` units, or one of these. Sizes are counted in units of 16 bytes.
inline constexpr unsigned unit_bytes = 16;
inline constexpr unsigned run_tail = slab_word::max_kind;
inline constexpr unsigned run_head = slab_word::max_kind - 1;

// The number of the heap's pages and its active super block, in one word.
struct extent {
  uint64_t bits = 0;
  [[nodiscard]] GPUHEAP_HD static constexpr extent of(uint32_t pages, unsigned active) { return {uint64_t{active} << 32 | pages}; }
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t pages() const { return static_cast<uint32_t>(bits); }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned active() const { return static_cast<unsigned>(bits >> 32); }
};

// The place of a pointer. `no_page` stands for no page.
inline constexpr uint32_t no_page = ~uint32_t{0};
struct place {
  uint32_t page = no_page;
  slab_word seen{};  // the word of its page
  unsigned chunk = 0;
  bool exact = false;  // whether a chunk of the page, or a run, begins at the pointer
};

// The layout. Trivially copyable: the view that kernels get contains a copy of it, and so does the heap's state.
template <scatteralloc_config Config, class Parts>
struct layout {
  using bits_type = typename Parts::bits;
  using chunks_type = typename Parts::chunks;
  using slab_type = typename Parts::slab;

  static constexpr unsigned page_bytes = Config.page_bytes;
  static constexpr unsigned page_units = page_bytes / unit_bytes;
  static_assert(page_bytes >= 512 && page_bytes <= 65536 && (page_bytes & (page_bytes - 1)) == 0);
  static_assert(page_units <= run_head && (Config.hash_warps & (Config.hash_warps - 1)) == 0);
  static_assert(Config.region_pages != 0 && Config.super_blocks != 0 && Config.waste_factor != 0 && Config.region_full_visits != 0);

  char* pages = nullptr;
  slab_word::word* states = nullptr;  // a word for each page
  uint32_t* masks = nullptr;   // a word for each page: bits of up to 32 chunks; hints if it has more; the length of a run that begins there
  uint32_t* visits = nullptr;  // for each region, the searches of it that found nothing. A hint
  uint32_t max_pages = 0;      // the most pages that the heap can have
  uint32_t sure_pages = 0;     // pages that the heap has at any time; 0 in a heap that grows
  uint32_t block_pages = 0;    // pages of a super block

  // ---- sizes of chunks

  // Whether a page has more chunks of `units` units than a word has bits, that is, 33 * bytes + 8 <= page_bytes. The bits then lie in words
  // at the page's end.
  static constexpr unsigned most_two_level_units = (page_bytes - 8) / (33 * unit_bytes);
  [[nodiscard]] GPUHEAP_HD static constexpr bool is_two_level(unsigned units) { return units <= most_two_level_units; }
  // The number of chunks of `units` units in a page.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned capacity(unsigned units) {
    if (!is_two_level(units)) return page_units / units;
    // For the paper's page size, the capacities are the bytes of one constant. malloc needs them several times, and a division takes some
    // twenty dependent instructions on a GPU.
    if constexpr (most_two_level_units < sizeof(uint64_t) && page_bytes <= 256 * unit_bytes) {
      constexpr uint64_t packed = pack_capacities();
      return static_cast<unsigned>(packed >> 8 * units) & 255;
    } else {
      return two_level_capacity(units);
    }
  }
  // Whether a page of chunks of `kind` units serves requests of `units`.
  [[nodiscard]] GPUHEAP_HD static constexpr bool serves(unsigned kind, unsigned units) {
    return kind >= units && kind <= page_units && kind <= Config.waste_factor * units;
  }
  // Whether a page serves requests of `units`, and has a chunk left. The page is in use, or it is free and last had chunks of exactly that
  // size.
  [[nodiscard]] GPUHEAP_HD static constexpr bool has_room(slab_word word, unsigned units) {
    if (word.is_opening() || !serves(word.kind(), units)) return false;
    return word.fill() < capacity(word.kind()) && (word.kind() == units || !word.is_free());
  }

  // ---- places

  [[nodiscard]] GPUHEAP_FN slab_type state(uint32_t page) const { return {states + page}; }
  [[nodiscard]] GPUHEAP_HD char* page_at(uint32_t page) const { return pages + size_t{page} * page_bytes; }
  [[nodiscard]] GPUHEAP_FN bits_type flat_chunks(uint32_t page, unsigned units) const { return {masks + page, capacity(units)}; }
  [[nodiscard]] GPUHEAP_FN chunks_type many_chunks(uint32_t page, unsigned units) const {
    unsigned const count = capacity(units);
    auto* const end = reinterpret_cast<uint32_t*>(page_at(page) + page_bytes);
    return {masks + page, end - structures::hinted_bits::segments_for(count), count};
  }
  // Takes a chunk of a page in which the caller has a reservation, and returns its address. The search begins at chunk `start`.
  [[nodiscard]] GPUHEAP_FN void* take_chunk(uint32_t page, unsigned units, unsigned start) const {
    unsigned chunk;
    if (is_two_level(units)) {
      chunk = many_chunks(page, units).claim(start);
    } else {
      auto const bits = flat_chunks(page, units);
      // Ends: by the reservation, a bit for the caller is clear at any time. A search of all bits that finds none met takes and frees by
      // other threads. Lock-free.
      GPUHEAP_NO_UNROLL
      do {
        chunk = bits.claim(start);
      } while (chunk == structures::free_bits::none);
    }
    return page_at(page) + size_t{chunk} * units * unit_bytes;
  }
  // take_chunk() for each lane of `group` that wants a chunk. `start` differs between these lanes. All lanes of the group call.
  [[nodiscard]] GPUHEAP_FN void* take_chunks(simt::lane_mask group, uint32_t page, unsigned units, unsigned start, bool wants) const {
    constexpr unsigned most = structures::free_bits::most;
    bool const two_level = is_two_level(units);
    auto const bits = two_level ? many_chunks(page, units).segment(start / most) : flat_chunks(page, units);
    if (bits.claim_together(group, start % most, wants)) return page_at(page) + size_t{start} * units * unit_bytes;
    return wants ? take_chunk(page, units, start) : nullptr;
  }
  // The bit of a chunk, and the word that it is in.
  struct chunk_bit {
    structures::free_bits bits;
    unsigned bit = 0;
  };
  [[nodiscard]] GPUHEAP_FN chunk_bit bits_of(place at) const {
    constexpr unsigned most = structures::free_bits::most;
    unsigned const units = at.seen.kind();
    if (is_two_level(units)) return {many_chunks(at.page, units).segment(at.chunk / most), at.chunk % most};
    return {flat_chunks(at.page, units), at.chunk};
  }
  // Called after bits of the chunk's word were cleared. `before`: the word until then.
  GPUHEAP_FN void filled_no_more(place at, uint32_t before) const {
    if (is_two_level(at.seen.kind())) many_chunks(at.page, at.seen.kind()).filled_no_more(at.chunk, before);
  }
  // Clears the bit of a chunk. Returns false if it was clear already, so that no thread owned the chunk.
  [[nodiscard]] GPUHEAP_FN bool release_chunk(place at) const {
    unsigned const units = at.seen.kind();
    if (is_two_level(units)) return many_chunks(at.page, units).release(at.chunk);
    return (flat_chunks(at.page, units).release(at.chunk) >> at.chunk & 1) != 0;
  }

  // ---- pages, regions and super blocks

  [[nodiscard]] GPUHEAP_HD uint32_t num_regions(uint32_t num_pages) const {
    return static_cast<uint32_t>(simt::ceil_div(num_pages, Config.region_pages));
  }
  [[nodiscard]] GPUHEAP_HD unsigned num_blocks(uint32_t num_pages) const {
    return static_cast<unsigned>(simt::ceil_div(num_pages, block_pages));
  }
  // The pages of a super block in a heap of num_pages pages.
  [[nodiscard]] GPUHEAP_HD uint32_t pages_in_block(unsigned block, uint32_t num_pages) const {
    uint32_t const first = block * block_pages;
    return num_pages - first < block_pages ? num_pages - first : block_pages;
  }
  // The page where this thread's search for `units` begins: in the active super block, `further` pages behind the page where its warp's
  // search begins.
  [[nodiscard]] GPUHEAP_FN uint32_t first_page(extent there, unsigned units, unsigned further) const {
    unsigned const bytes = units * unit_bytes;
    // With warp_on_sm(), warps that run on one multiprocessor at the same time begin at different pages.
    unsigned const warp = simt::warp_on_sm() & (Config.hash_warps - 1);
    unsigned const hash = bytes * Config.hash_size + simt::sm_id() * Config.hash_multiprocessor +
                          (Config.hash_warp + Config.hash_wide_warp * (32 * bytes / page_bytes)) * warp + further;
    return there.active() * block_pages + hash % pages_in_block(there.active(), there.pages());
  }

#if GPUHEAP_HAS_HOST
  // ---- host: | state | states of pages | masks | visits of regions | pages |, each part aligned to 256 bytes

  static constexpr size_t part_alignment = 256;
  static constexpr size_t page_cost = page_bytes + 2 * sizeof(uint32_t);

  // The most bytes that num_pages pages, their metadata and a state of `state_bytes` take.
  [[nodiscard]] static constexpr size_t bytes_for(size_t num_pages, size_t state_bytes) {
    return state_bytes + 4 * part_alignment + num_pages * page_cost + simt::ceil_div(num_pages, Config.region_pages) * sizeof(uint32_t);
  }
  // The number of pages that fit into `bytes`.
  [[nodiscard]] static constexpr size_t pages_within(size_t bytes, size_t state_bytes) {
    size_t const fixed = bytes_for(0, state_bytes), region_cost = Config.region_pages * page_cost + sizeof(uint32_t);
    if (bytes < fixed) return 0;
    size_t const regions = (bytes - fixed) / region_cost, rest = (bytes - fixed) % region_cost;
    size_t const num_pages = regions * Config.region_pages + (rest < sizeof(uint32_t) ? 0 : (rest - sizeof(uint32_t)) / page_cost);
    return num_pages < no_page ? num_pages : no_page - 1;
  }
  // The layout of a heap in the region `whole`, with as many pages as fit.
  [[nodiscard]] static layout over(memory::region whole, size_t state_bytes) {
    layout at;
    at.max_pages = static_cast<uint32_t>(pages_within(whole.bytes, state_bytes));
    size_t const block_regions = simt::ceil_div(at.num_regions(at.max_pages), Config.super_blocks);
    at.block_pages = static_cast<uint32_t>(block_regions * Config.region_pages);
    auto next = reinterpret_cast<simt::uintptr_t>(whole.base);
    auto const part = [&next](size_t bytes) {
      auto const here = simt::round_up_pow2(next, part_alignment);
      next = here + bytes;
      return here;
    };
    (void)part(state_bytes);
    at.states = reinterpret_cast<slab_word::word*>(part(size_t{at.max_pages} * sizeof(uint32_t)));
    at.masks = reinterpret_cast<uint32_t*>(part(size_t{at.max_pages} * sizeof(uint32_t)));
    at.visits = reinterpret_cast<uint32_t*>(part(size_t{at.num_regions(at.max_pages)} * sizeof(uint32_t)));
    at.pages = reinterpret_cast<char*>(part(0));
    return at;
  }
#endif

 private:
  // The chunks of a page that also holds a bit for each of them. The bits take words of 4 bytes, for which the page may have one chunk
  // less.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned two_level_capacity(unsigned units) {
    unsigned const chunk_bytes = units * unit_bytes, n = 8 * page_bytes / (8 * chunk_bytes + 1);
    if (n >= structures::hinted_bits::most) return structures::hinted_bits::most;
    return n * chunk_bytes + 4 * structures::hinted_bits::segments_for(n) <= page_bytes ? n : n - 1;
  }
  // Byte `units` of the result is the capacity for `units`. Used only if all capacities fit.
  [[nodiscard]] GPUHEAP_HD static constexpr uint64_t pack_capacities() {
    uint64_t packed = 0;
    for (unsigned units = 1; units <= most_two_level_units && units < sizeof packed; ++units) {
      packed |= uint64_t{two_level_capacity(units)} << 8 * units;
    }
    return packed;
  }
};

// The counts of take_census (verify.hpp). Device and host.
struct census {
  uint64_t held_pages = 0;
  uint64_t chunks = 0, chunk_bytes = 0;
  uint64_t runs = 0, run_pages = 0;
  uint64_t first_fault = 0;  // {page, fault} with the lowest page, inverted so that a maximum finds it; 0: no fault
};

}  // namespace scatter
}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
