// An allocator that is not the library's own.
#pragma once

#include <gpuheap/heap.hpp>

class own_allocator : public gpuheap::sharded_spans {
 public:
  own_allocator() = default;
  static own_allocator create(gpuheap::memory::region region, gpuheap::stream_ref stream) {
    return own_allocator{gpuheap::sharded_spans::create(region, stream)};
  }

 private:
  explicit own_allocator(gpuheap::sharded_spans const& base) : gpuheap::sharded_spans{base} {}
};
static_assert(gpuheap::device_allocator<own_allocator>);
