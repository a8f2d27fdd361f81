// Programs of these tests choose this allocator. Kernels make objects and delete them.
#pragma once

#include <gpuheap/allocators/backing_reference.hpp>

#define GPUHEAP_PROGRAM_ALLOCATOR gpuheap::basic_coalesce_block_map<gpuheap::backing_reference>
#include <gpuheap/coalesced.hpp>

#include "fixtures.hpp"

namespace test {

namespace coalesced = gpuheap::coalesced;

// Counts threads of a launch.
struct faults_found {
  unsigned missing;    // a request of the thread got no memory
  unsigned misplaced;  // an object of the thread is less aligned than its type asks
};
// Makes and deletes an object and an array, of which the program's heap has those that destroy() and destroy_array() free there.
template <class T>
struct make_and_destroy {
  faults_found* found;
  GPUHEAP_FN void operator()(unsigned) const {
    T* const one = new (coalesced::memory_of<T>{}) T;
    T* const row = new (coalesced::memory_of<T>{}) T[3];
    bool const missing = one == nullptr || row == nullptr;
    bool const misplaced = (reinterpret_cast<simt::uintptr_t>(one) | reinterpret_cast<simt::uintptr_t>(row)) % alignof(T) != 0;
    coalesced::destroy(one);
    coalesced::destroy_array(row);
    if (missing) simt::atomic_ref<unsigned>{found->missing}.fetch_add(1u, simt::relaxed);  // relaxed: a count
    if (misplaced) simt::atomic_ref<unsigned>{found->misplaced}.fetch_add(1u, simt::relaxed);
  }
};
// Runs `what` in 40 threads, and expects that nothing is left of it in the program's heap.
template <class What>
void expect_clean() {
  coalesced::init(gpuheap::heap_size{64_MiB});
  device_array<faults_found> found(1);
  gpuheap::launch(40, What{found.data()});
  simt::synchronize_device();
  EXPECT_EQ(found.first().missing, 0u);
  EXPECT_EQ(found.first().misplaced, 0u);
  EXPECT_NO_THROW(EXPECT_EQ(coalesced::program_heap()->check(), 0u));
  EXPECT_EQ(coalesced::program_heap()->stats().live_allocations, 0u);
  coalesced::clean();
}

}  // namespace test
