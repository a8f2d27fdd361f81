// Stops a kernel and tells the host why, for a heap whose policy is `trap`. Device code.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::detail {

// Stops the kernel. The first thread that calls this runs write(), which stores the reason in pinned host memory. Then the thread sets
// `written`, which lies in pinned memory as well, to 1. The other threads wait for the first one before they trap, because one trap ends
// all threads; they wait for at most 2^14 pauses. `stopping` is a word of the heap: 0, then 1 while a thread writes, then 2.
template <class Write>
GPUHEAP_FN inline void stop_kernel(simt::uint32_t& stopping, simt::uint32_t& written, Write write) {
  simt::atomic_ref<simt::uint32_t> const state{stopping};
  // relaxed: the claim only decides which thread writes.
  simt::uint32_t none = 0;
  if (state.compare_exchange(none, 1, simt::relaxed, simt::relaxed)) {
    write();
    // release: a host that reads 1 (heap::check) then reads what write() stored.
    simt::atomic_ref<simt::uint32_t, simt::scope::system>{written}.store(1, simt::release);
    simt::fence<simt::scope::system>(simt::seq_cst);  // the stores have reached the host before `stopping` becomes 2
    state.store(2, simt::relaxed);                    // relaxed: the fence orders it, and readers use only its value
  }
  simt::back_off pause;
  GPUHEAP_NO_UNROLL
  for (unsigned pass = 0; pass < 1u << 14 && state.load(simt::relaxed) != 2; ++pass) pause.wait();
  simt::trap();
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::detail
