// An allocator that is not the library's: a program writes one and gives it to gpuheap::heap.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

namespace own {

// One block of 256 bytes for each of the region's slots, never reused.
class slots {
 public:
  static constexpr gpuheap::allocator_traits traits{.name = "own_slots", .largest_bytes = 256, .free = gpuheap::frees::never};

  GPUHEAP_FN void* malloc(gpuheap::simt::size_t bytes) const {
    if (bytes > 256) return nullptr;
    // relaxed: the counter alone decides who owns which slot.
    unsigned const slot = gpuheap::simt::atomic_ref<unsigned>{*next_}.fetch_add(1, gpuheap::simt::relaxed);
    return slot < count_ ? first_ + slot * 256 : nullptr;
  }
  GPUHEAP_FN void free(void*) const {}

  static gpuheap::simt::size_t min_region_bytes() { return 512; }
  static slots create(gpuheap::memory::region region, gpuheap::stream_ref stream);

  unsigned* next_ = nullptr;
  char* first_ = nullptr;
  unsigned count_ = 0;
};

// Kernel: the counter starts at 0.
struct start_counter {
  slots of;
  GPUHEAP_FN void operator()(unsigned) const { *of.next_ = 0; }
};
inline slots slots::create(gpuheap::memory::region region, gpuheap::stream_ref stream) {
  slots s;
  s.next_ = static_cast<unsigned*>(region.base);
  s.first_ = static_cast<char*>(region.base) + 256;
  s.count_ = static_cast<unsigned>(region.bytes / 256) - 1;
  gpuheap::launch(1, start_counter{s}, {.block_threads = 32, .stream = stream});
  return s;
}

}  // namespace own
