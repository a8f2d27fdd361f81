// Small heaps of scatteralloc, with parts of it replaced or not.
#pragma once

#include "mix.hpp"

#include <gpuheap/allocators/scatteralloc.hpp>

namespace hazards {

using gpuheap::scatteralloc_config;
namespace scatter = gpuheap::scatter;
using scatter::slab_word;

// Few pages, regions and super blocks: all edges are near. A page has 63 chunks of 16 bytes, in two segments; larger ones are in one.
constexpr scatteralloc_config small{.page_bytes = 1024, .region_pages = 3, .super_blocks = 3, .region_full_visits = 2};
template <class Parts = scatter::parts>
using small_heap = gpuheap::heap<gpuheap::basic_scatteralloc<small, Parts>>;

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

}  // namespace hazards
