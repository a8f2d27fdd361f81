// Small heaps of scatteralloc, with parts of it replaced or not.
#pragma once

#include "mutant.hpp"

#include <gpuheap/allocators/scatteralloc.hpp>

#include <cstdlib>

namespace hazards {

using gpuheap::scatteralloc_config;
namespace scatter = gpuheap::scatter;
using scatter::slab_word;

// Few pages, regions and super blocks: all edges are near. A page has 63 chunks of 16 bytes, in two segments; larger ones are in one.
constexpr scatteralloc_config small{.page_bytes = 1024, .region_pages = 3, .super_blocks = 3, .region_full_visits = 2};
template <class Parts = scatter::parts>
using small_heap = gpuheap::heap<gpuheap::basic_scatteralloc<small, Parts>>;
template <class Heap>
using blocks_of = test::blocks<typename Heap::ref_type>;

[[nodiscard]] inline std::uint64_t num_seeds(std::uint64_t otherwise) {
  char const* const text = std::getenv("GPUHEAP_SEEDS");
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}
// Bytes of a heap of so many pages.
template <class Heap>
[[nodiscard]] simt::size_t bytes_of_pages(unsigned pages) {
  using allocator = typename Heap::allocator_type;
  simt::size_t const state = sizeof(typename allocator::state_type);
  return Heap::min_bytes() - allocator::min_region_bytes() + allocator::layout_type::bytes_for(pages, state);
}
template <class Heap>
[[nodiscard]] unsigned num_pages(Heap const& heap) {
  return heap.ref().allocator().geometry().max_pages;
}
template <class Heap>
[[nodiscard]] unsigned served(Heap& heap, unsigned count, simt::size_t bytes) {
  blocks_of<Heap> b(heap.ref(), count, bytes);
  b.malloc_all();
  unsigned const n = count - static_cast<unsigned>(b.nulls());
  b.free_all();
  return n;
}

}  // namespace hazards
