// The stop of a kernel by a heap whose policy says so, and the record that tells the host why. Device code.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::detail {

// Stops the kernel. The first thread that comes calls write(), which stores the reason in pinned host memory; `written` lies there too,
// and becomes 1 after it. The others wait for that thread, since any trap ends all. `stopping` is a word of the heap: 0, then 1 while a
// thread writes, then 2.
template <class Write>
GPUHEAP_FN inline void stop_kernel(simt::uint32_t& stopping, simt::uint32_t& written, Write write) {
  simt::atomic_ref<simt::uint32_t> const state{stopping};
  // relaxed: the claim only decides who writes.
  simt::uint32_t none = 0;
  if (state.compare_exchange(none, 1, simt::relaxed, simt::relaxed)) {
    write();
    // release: the host that reads 1 (heap::check) then reads what was written.
    simt::atomic_ref<simt::uint32_t, simt::scope::system>{written}.store(1, simt::release);
    simt::fence<simt::scope::system>(simt::seq_cst);  // performed at the host before this thread says so
    state.store(2, simt::relaxed);                    // relaxed: ordered by the fence, and read for its value only
  }
  simt::back_off pause;
  GPUHEAP_NO_UNROLL
  for (unsigned pass = 0; pass < 1u << 14 && state.load(simt::relaxed) != 2; ++pass) pause.wait();
  simt::trap();
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::detail
