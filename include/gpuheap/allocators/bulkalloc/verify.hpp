// Checks the invariants of a BulkAllocator heap while no kernel uses it.
//
// While no kernel is running on the heap:
//   1. no semaphore (structures/bulk_semaphore.hpp) has units that are promised or waited for, and no lock is held; no thread is an RCU
//      reader of a class list, and no bin waits to be reclaimed. Each order of the tree, each class of an arena, and each arena's list of
//      chunks has a semaphore;
//   2. each order has as many units as available nodes; two buddies are both available only if the tree has no parent of them;
//   3. every page lies in exactly one live block or available node (a chunk is a live block);
//   4. in a bin in use, the set bits and the count of free objects add up to the number of its objects; at least one bit is set, and the
//      bin is linked if and only if it has a free object;
//   5. each class of an arena has as many units as its bins have free objects, and all bins with free objects are in its list;
//   6. an arena has as many units of bins as its chunks have free pages, and all chunks with free pages are in its list.
#pragma once

#include <gpuheap/allocators/bulkalloc/ualloc.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::bulk {

// The faults that the kernels report. The last three are faults of an arena, the others of a page.
enum class fault : uint32_t { none, wrong_header, wrong_count, empty_bin, wrong_link, class_units, bin_units, busy };

// Kernel: thread i checks every `threads`-th page, from page i on. All accesses are relaxed, since no other kernel uses the heap.
template <class Parts>
struct take_census {
  heap_state<Parts>* state;
  unsigned threads;
  census* result;

  template <class T>
  [[nodiscard]] GPUHEAP_FN static T read(T& word) {
    return simt::global_ref<T>{word}.load(simt::relaxed);
  }
  GPUHEAP_FN static void add(uint64_t& to, uint64_t n) {
    if (n != 0) simt::global_ref<uint64_t>{to}.fetch_add(n, simt::relaxed);
  }
  GPUHEAP_FN static void report(census* to, uint32_t where, fault what) {
    if (what == fault::none) return;
    simt::global_ref<uint64_t>{to->first_fault}.fetch_max(~(uint64_t{where} << 32 | static_cast<uint32_t>(what)), simt::relaxed);
  }

  GPUHEAP_FN void operator()(unsigned i) const {
    geometry const at = state->at();
    GPUHEAP_NO_UNROLL
    for (uint64_t page = i; page < at.num_pages; page += threads) {
      uint32_t const first = at.chunk_of(static_cast<uint32_t>(page));
      if (page_word{read(at.words[first])}.has(page_word::chunk))
        report(result, static_cast<uint32_t>(page), look(at, first, static_cast<uint32_t>(page)));
    }
  }
  GPUHEAP_FN fault look(geometry const& at, uint32_t first, uint32_t page) const {
    chunk_header& chunk = at.chunk(first);
    uint64_t const used = read(chunk.used);
    uint32_t const arena = read(chunk.arena);
    bool const whole = (used & at.header_bits()) == at.header_bits() && (used & ~at.all_bits()) == 0 && arena < at.num_arenas;
    if (!whole || used == at.header_bits() || (read(chunk.linked) != 0) == (used == at.all_bits())) return fault::wrong_header;
    if (page == first) {
      add(result->chunks, 1);
      add(at.arenas[arena].chunks.audit, at.chunk_pages - simt::popcount(used));
    }
    if (page - first < at.header_pages() || (used >> (page - first) & 1) == 0) return fault::none;
    bin_header& bin = at.bin(page);
    uint32_t const info = read(bin.info), free = read(bin.free);
    unsigned const c = info & (bin_header::linked - 1);
    if (c >= num_classes) return fault::wrong_header;
    unsigned taken = 0;
    GPUHEAP_NO_UNROLL
    for (unsigned s = 0; s != 8; ++s) taken += simt::popcount(read(bin.taken[s]));
    if (free > objects(c) || taken + free != objects(c)) return fault::wrong_count;
    if (taken == 0) return fault::empty_bin;
    if ((free != 0) != ((info & bin_header::linked) != 0)) return fault::wrong_link;
    add(result->bins, 1);
    add(result->objects, taken);
    add(result->object_bytes, uint64_t{taken} * object_bytes(c));
    add(at.arenas[arena].classes[c].audit, free);
    return fault::none;
  }
};

// Kernel that runs after take_census. The lists are numbered from 0 on: for each arena a list of bins for each class, and then the list of
// chunks. Thread i compares three numbers of list i: the units of its semaphore; the free objects, or free pages, that take_census counted;
// and the free objects of the bins, or the free pages of the chunks, that are linked into the list. It then clears the count for the next
// verify().
template <class Parts>
struct compare_units {
  heap_state<Parts>* state;
  census* result;
  using census_type = take_census<Parts>;

  GPUHEAP_FN void operator()(unsigned i) const {
    geometry const at = state->at();
    unsigned const which = i / (num_classes + 1), c = i % (num_classes + 1);
    arena& mine = at.arenas[which];
    census_type::report(result, which, c == num_classes ? look_at_chunks(at, mine.chunks) : look_at_bins(at, mine.classes[c], c));
  }
  GPUHEAP_FN fault look_at_bins(geometry const& at, class_list& mine, unsigned c) const {
    structures::rcu_state& rcu = mine.rcu;
    bool const idle = census_type::read(mine.lock) == 0 && census_type::read(rcu.readers[0]) == 0 &&
                      census_type::read(rcu.readers[1]) == 0 && census_type::read(rcu.runner) == 0 && census_type::read(rcu.barrier) == 0 &&
                      census_type::read(rcu.queue) == 0;
    uint64_t const counted = census_type::read(mine.audit);
    simt::global_ref<uint64_t>{mine.audit}.store(0, simt::relaxed);
    uint64_t sum = 0;
    uint32_t left = at.num_pages;
    GPUHEAP_NO_UNROLL
    for (uint32_t page = census_type::read(mine.first); page != no_page && left != 0; page = census_type::read(at.bin(page).next), --left) {
      if ((census_type::read(at.bin(page).info) & (bin_header::linked - 1)) != c) return fault::class_units;
      sum += census_type::read(at.bin(page).free);
    }
    if (!idle) return fault::busy;
    // The whole word is compared, so that a promise is a fault too.
    return counted == sum && census_type::read(mine.units) == sum ? fault::none : fault::class_units;
  }
  GPUHEAP_FN fault look_at_chunks(geometry const& at, chunk_list& mine) const {
    uint64_t sum = 0;
    uint32_t left = at.num_pages;
    GPUHEAP_NO_UNROLL
    for (uint32_t first = census_type::read(mine.first); first != no_page && left != 0;
         first = census_type::read(at.chunk(first).next), --left)
      sum += at.chunk_pages - simt::popcount(census_type::read(at.chunk(first).used));
    uint64_t const counted = census_type::read(mine.audit);
    simt::global_ref<uint64_t>{mine.audit}.store(0, simt::relaxed);
    if (census_type::read(mine.lock) != 0) return fault::busy;
    return counted == sum && census_type::read(mine.units) == sum ? fault::none : fault::bin_units;
  }
};

#if GPUHEAP_HAS_HOST
// The result of verify(). Host.
struct audit {
  std::string problem;  // empty: every invariant holds
  uint64_t live_objects = 0, live_blocks = 0;
  uint64_t bins = 0, chunks = 0;
  uint64_t free_pages = 0;
};

// Checks that each order's units match its available nodes, that buddies were joined, and that every page is in exactly one place. Host;
// waits for the stream.
template <class Parts>
void verify_tree(heap_state<Parts>* state, geometry const& at, audit& result, stream_ref stream) {
  std::vector<uint32_t> words(at.num_pages), covered(at.num_pages);
  simt::copy(words.data(), at.words, words.size() * sizeof words[0], stream);
  auto const cover = [&](uint64_t first, unsigned order) {
    for (uint64_t page = first; page != first + (uint64_t{1} << order) && page < at.num_pages; ++page) ++covered[page];
  };
  for (unsigned order = 0; order <= at.top; ++order) {
    order_slot slot;
    simt::copy(&slot, &state->blocks.orders[order], sizeof slot, stream);
    simt::synchronize(stream);
    std::vector<uint64_t> leaves(slot.available.num_leaves);
    simt::copy(leaves.data(), slot.available.leaves, leaves.size() * sizeof leaves[0], stream);
    simt::synchronize(stream);
    uint64_t nodes = 0;
    for (uint64_t node = 0; node != leaves.size() * 64; ++node) {
      if ((leaves[node / 64] >> (node % 64) & 1) == 0) continue;
      ++nodes;
      cover(node << order, order);
      bool const buddy = (leaves[node / 64] >> (node % 64 ^ 1) & 1) != 0;
      if (buddy && at.has_node(static_cast<uint32_t>(node >> 1), order + 1))
        result.problem = "two available buddies of order " + std::to_string(order) + ", one at node " + std::to_string(node);
    }
    result.free_pages += nodes << order;
    if (slot.units != nodes) {
      result.problem = "order " + std::to_string(order) + " has " + std::to_string(nodes) + " available nodes, " +
                       std::to_string(structures::bulk_semaphore::count(slot.units)) +
                       " units; units promised less units waited for: " + std::to_string(structures::bulk_semaphore::surplus(slot.units));
    }
  }
  for (size_t page = 0; page != words.size(); ++page) {
    page_word const word{words[page]};
    if (!word.has(page_word::live)) continue;
    if (!word.has(page_word::chunk)) ++result.live_blocks;
    cover(page, word.order());
  }
  for (size_t page = 0; page != covered.size(); ++page) {
    if (covered[page] != 1)
      result.problem = "page " + std::to_string(page) + " is in " + std::to_string(covered[page]) + " live blocks or available nodes";
  }
}

// Checks all invariants. Host; waits for the stream.
template <class Parts>
[[nodiscard]] audit verify(heap_state<Parts>* state, stream_ref stream) {
  constexpr unsigned most_threads = 1u << 17;
  audit result;
  geometry at;
  simt::copy(&at, &state->blocks.at, sizeof at, stream);
  simt::synchronize(stream);
  verify_tree(state, at, result, stream);
  census found;
  simt::copy(&state->scratch, &found, sizeof found, stream);
  unsigned const threads = at.num_pages < most_threads ? at.num_pages : most_threads;
  launch(threads, take_census<Parts>{state, threads, &state->scratch}, {.stream = stream});
  launch(at.num_arenas * (num_classes + 1), compare_units<Parts>{state, &state->scratch}, {.stream = stream});
  simt::copy(&found, &state->scratch, sizeof found, stream);
  simt::synchronize(stream);
  result.live_objects = found.objects;
  result.bins = found.bins;
  result.chunks = found.chunks;
  if (found.first_fault != 0) {
    constexpr char const* texts[] = {
        "",
        "the page is in a chunk, or has a bin, with a wrong header",
        "the page has a bin whose count of free objects differs from its bits",
        "the page has a bin without live objects",
        "the page has a bin that is linked and has no free object, or is not linked and has one",
        "the arena has a class whose units, free and listed objects differ in number, or a wrong bin in its list",
        "the arena's units of bins, free pages of chunks and listed free pages differ in number",
        "the arena has a list that is still in use"};
    uint64_t const which = ~found.first_fault;
    result.problem = "page or arena " + std::to_string(which >> 32) + ": " + texts[static_cast<uint32_t>(which)];
  }
  return result;
}
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::bulk
