// The vocabulary of the machine: lane masks, memory orders, scopes, launch shapes, streams.
#pragma once

#include <gpuheap/simt/config.hpp>

#include <cuda/std/atomic>
#include <cuda/std/cstddef>
#include <cuda/std/cstdint>
#include <cuda/std/type_traits>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace simt {

using ::cuda::std::size_t;
using ::cuda::std::uint16_t;
using ::cuda::std::uint32_t;
using ::cuda::std::uint64_t;
using ::cuda::std::uint8_t;
using ::cuda::std::uintptr_t;

// One bit per lane of a warp, lane 0 in bit 0.
using lane_mask = uint32_t;
inline constexpr unsigned warp_lanes = 32;
inline constexpr lane_mask all_lanes = 0xffffffffu;

// Memory orders of the C++ model. There is no default: each use names one and says why.
using memory_order = ::cuda::std::memory_order;
inline constexpr memory_order relaxed = ::cuda::std::memory_order_relaxed;
inline constexpr memory_order acquire = ::cuda::std::memory_order_acquire;
inline constexpr memory_order release = ::cuda::std::memory_order_release;
inline constexpr memory_order acq_rel = ::cuda::std::memory_order_acq_rel;
inline constexpr memory_order seq_cst = ::cuda::std::memory_order_seq_cst;

// Among whom an operation is atomic and ordered. `system` includes the host.
enum class scope { block, device, system };

// A CUDA stream, or the simulator's only one. Null is the default stream.
struct stream_ref {
  void* native = nullptr;
};

// How a kernel is launched. `block_threads` is 1..1024. `cooperative`: all threads are resident at once, so that any of them may wait for
// any other; a launch of more than can be is refused.
struct launch_config {
  unsigned block_threads = 256;
  stream_ref stream{};
  bool cooperative = false;
};

// What a kernel needs of the machine, for each of its threads.
struct kernel_attributes {
  unsigned registers = 0;
  size_t local_bytes = 0;  // stack frame and spilled registers together
};

// Where memory lies. `device`: the GPU's own. `managed`: migrates. `pinned`: the host's, reachable by kernels. `host`: pageable host
// memory, reachable by kernels in the simulator and on machines with a shared page table only.
enum class memory_kind { device, managed, pinned, host };

}  // namespace simt

using simt::launch_config;
using simt::stream_ref;

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
