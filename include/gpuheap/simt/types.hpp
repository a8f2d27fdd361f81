// The vocabulary of the machine: lane masks, memory orders, scopes, launch shapes, streams.
#pragma once

#include <gpuheap/simt/config.hpp>
#include <gpuheap/simt/language.hpp>

#if GPUHEAP_HAS_HOST
#include <cstddef>
#include <cstdint>
#endif

// A cudaStream_t points to this struct.
struct CUstream_st;

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace simt {

#if GPUHEAP_HAS_HOST
using std::int64_t;
using std::ptrdiff_t;
using std::size_t;
using std::uint16_t;
using std::uint32_t;
using std::uint64_t;
using std::uint8_t;
using std::uintptr_t;
#else  // as libcu++ defines them without standard headers
using size_t = decltype(sizeof 0);
using ptrdiff_t = decltype(static_cast<char*>(nullptr) - static_cast<char*>(nullptr));
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned;
using uint64_t = unsigned long long;
using uintptr_t = unsigned long long;
#endif

// Whether the compiled code runs where device code runs. False in the host part of a CUDA program, in which a __host__ __device__ function
// must not access device memory.
#if defined(GPUHEAP_BACKEND_HOST) || defined(__CUDA_ARCH__)
inline constexpr bool compiles_device_code = true;
#else
inline constexpr bool compiles_device_code = false;
#endif

// One bit per lane of a warp, lane 0 in bit 0.
using lane_mask = uint32_t;
inline constexpr unsigned warp_lanes = 32;
inline constexpr lane_mask all_lanes = 0xffffffffu;

// Memory orders of the C++ model, with the numbers of the compilers' __ATOMIC_ macros. No operation has a default order: each use names one
// and states the reason.
enum class memory_order : int {
  relaxed = 0,
  acquire = 2,
  release = 3,
  acq_rel = 4,
  seq_cst = 5,
};
#if GPUHEAP_HAS_HOST
static_assert(__ATOMIC_RELAXED == 0 && __ATOMIC_ACQUIRE == 2 && __ATOMIC_RELEASE == 3 && __ATOMIC_ACQ_REL == 4 && __ATOMIC_SEQ_CST == 5);
#endif
inline constexpr memory_order relaxed = memory_order::relaxed;
inline constexpr memory_order acquire = memory_order::acquire;
inline constexpr memory_order release = memory_order::release;
inline constexpr memory_order acq_rel = memory_order::acq_rel;
inline constexpr memory_order seq_cst = memory_order::seq_cst;

// The threads among which an operation is atomic and ordered: those of the caller's thread block, those of the device, or all, the host's
// included.
enum class scope { block, device, system };

#if GPUHEAP_HAS_HOST
namespace detail {
template <class Stream>
concept has_stream = __is_class(Stream) && requires(Stream const& stream) {
  { stream.get() } -> same_as<CUstream_st*>;
};
template <class Stream>
concept is_stream = __is_class(Stream) && !has_stream<Stream> && convertible_to<Stream const&, CUstream_st*>;
}  // namespace detail
#endif

// @brief A CUDA stream or a stream of the simulator. Null is the default stream.
//
// A cudaStream_t converts to it, and so do streams of other libraries that have get() or convert to cudaStream_t, such as cuda::stream_ref
// and rmm::cuda_stream_view. The caller keeps the stream alive.
struct stream_ref {
  void* native = nullptr;

#if GPUHEAP_HAS_HOST
  constexpr stream_ref() = default;
  // NOLINTBEGIN(google-explicit-constructor): heap.check(stream)
  constexpr stream_ref(decltype(nullptr)) {}
  template <class T>
  requires(is_same_v<T, void> || is_same_v<T, CUstream_st>) constexpr stream_ref(T* stream) : native{stream} {}
  template <detail::has_stream Stream>
  constexpr stream_ref(Stream const& stream) : native{stream.get()} {}
  template <detail::is_stream Stream>
  constexpr stream_ref(Stream const& stream) : native{static_cast<CUstream_st*>(stream)} {}
  // NOLINTEND(google-explicit-constructor)
#endif
};

// The parameters of a launch. `block_threads`: threads of a block, 1..1024. `cooperative`: all threads are resident at once, so that any
// thread may wait for any other. A cooperative launch of more threads than can be resident throws.
struct launch_config {
  unsigned block_threads = 256;
  stream_ref stream{};
  bool cooperative = false;
};

// The resources that each thread of a kernel needs.
struct kernel_attributes {
  unsigned registers = 0;
  size_t local_bytes = 0;  // stack frame and spilled registers together
};

// The kind of a memory. `device`: memory of the GPU. `managed`: memory that migrates. `pinned`: host memory that kernels can access.
// `host`: pageable host memory, which kernels can access in the simulator, and on machines whose GPU shares the host's page table.
enum class memory_kind { device, managed, pinned, host };

}  // namespace simt

using simt::launch_config;
using simt::stream_ref;

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
