// The record of requests that a heap could not serve and of frees that it refused. It lies in the heap's memory; kernels write it, and the
// host reads it.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/kernel_stop.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/types.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief The answer to a kernel's request when no free memory fits it.
enum class exhaustion_policy {
  null,  // nullptr, and the record counts the request
  trap,  // the kernel stops with an error, and the host learns the request's size, block and thread
};

// @brief Why a request got nullptr.
enum class request_fault : simt::uint32_t {
  none,       // the request was valid, but no free memory fitted it
  too_large,  // the request asked for more bytes than one block of the heap can ever have
  overflow,   // calloc: the product exceeds 2^64 - 1
  alignment,  // the alignment is not a power of two, or more than largest_alignment
};

// @brief A failed request, as the host reports it. `block` and `thread` are linear indices in the grid and in the block.
struct failed_request {
  simt::uint64_t bytes = 0;
  simt::uint64_t alignment = 0;  // 0: the request was not for an aligned block
  simt::uint32_t block = 0;
  simt::uint32_t thread = 0;
  request_fault fault = request_fault::none;
};

// The report of a kernel that exhaustion_policy::trap stops. It lies in pinned host memory, since device memory cannot be read after a
// trap.
struct trap_report {
  failed_request request{};
  simt::uint32_t written = 0;  // becomes 1, by a release store, after `request` is written
};

// All zero in a new heap. Every counter is 64 bits wide and cannot wrap in practice (at 10^9 failures a second, after 584 years).
struct failure_record {
  // Requests that found no memory. Each counter serves a part of the multiprocessors and has 64 bytes to itself, because all threads of a
  // launch may fail at once.
  static constexpr unsigned num_counters = 8, words_per_counter = 8;
  simt::uint64_t failed_requests[num_counters * words_per_counter] = {};
  simt::uint32_t has_first_failed = 0;  // 1: a thread has claimed `first_failed`
  failed_request first_failed{};
  simt::uint64_t least_failed = 0;  // the bitwise NOT of the smallest size that found no memory; 0 if no request failed
  // Requests that this heap could never serve.
  simt::uint64_t invalid_requests = 0;
  failed_request first_invalid{};
  simt::uint64_t most_bytes = 0;  // the largest block that the heap can ever have; 0: no limit. Written by the host
  simt::uint64_t double_frees = 0;
  simt::uint64_t foreign_frees = 0;
  // The thread whose increment of double_frees found 0 writes first_double_free. foreign_frees and invalid_requests work in the same way.
  void* first_double_free = nullptr;
  void* first_foreign_free = nullptr;
  trap_report* final = nullptr;  // null unless the policy is exhaustion_policy::trap. The host writes it in stream order
  simt::uint32_t stopping = 0;   // 1: a thread writes the trap report; 2: the report is complete
};

namespace detail {

// A view that no heap made has no record: `record` is null, and the record_ functions do nothing.

// Writes `request` to `final` in pinned host memory, and stops the kernel.
GPUHEAP_COLD inline void stop_exhausted(failure_record* record, trap_report* final, failed_request const& request) {
  stop_kernel(record->stopping, final->written, [final, &request] { final->request = request; });
}

// Stops the kernel if the heap's policy is `trap`.
GPUHEAP_FN inline void stop_if_asked(failure_record* record, failed_request const& request) {
  // relaxed: the host wrote the pointer, and what it points to, before this kernel began.
  if (trap_report* const final = simt::atomic_ref<trap_report*>{record->final}.load(simt::relaxed)) stop_exhausted(record, final, request);
}

// Records a request that this heap could never serve. The caller is the lane that made the request, and has set `bytes`, `alignment` and
// `fault`.
GPUHEAP_COLD inline void record_invalid(failure_record* record, failed_request request) {
  if (record == nullptr) return;
  request.block = simt::block_id();
  request.thread = simt::thread_in_block();
  // relaxed: a count that the host reads after the kernel.
  if (simt::atomic_ref<simt::uint64_t>{record->invalid_requests}.fetch_add(1, simt::relaxed) == 0) record->first_invalid = request;
  stop_if_asked(record, request);
}

// Records that a request for `bytes` (> 0) found no memory. Each lane that made such a request calls this function.
GPUHEAP_COLD inline void record_exhaustion(failure_record* record, simt::uint64_t bytes, simt::uint64_t alignment = 0) {
  if (record == nullptr) return;
  if (record->most_bytes != 0 && bytes > record->most_bytes) {
    record_invalid(record, {.bytes = bytes, .alignment = alignment, .fault = request_fault::too_large});
    return;
  }
  failed_request const request{bytes, alignment, simt::block_id(), simt::thread_in_block()};
  // Lanes that fail together may hold different heaps.
  simt::lane_mask const here = simt::match_any(simt::active_mask(), record);
  // relaxed, all: the words are counts, a minimum, and a claim that only the winning thread acts on. The host reads them after the kernel.
  simt::atomic_ref<simt::uint64_t> const least{record->least_failed};
  if (least.load(simt::relaxed) < ~bytes) least.fetch_max(~bytes, simt::relaxed);
  if (simt::lane_id() == simt::lowest_bit(here)) {
    unsigned const counter = simt::sm_id() % failure_record::num_counters * failure_record::words_per_counter;
    simt::atomic_ref<simt::uint64_t>{record->failed_requests[counter]}.fetch_add(simt::popcount(here), simt::relaxed);
    simt::atomic_ref<simt::uint32_t> const claimed{record->has_first_failed};
    if (claimed.load(simt::relaxed) == 0 && claimed.exchange(1, simt::relaxed) == 0) record->first_failed = request;
  }
  stop_if_asked(record, request);
}

// Records that the heap refused a free of `p`, as `status` (foreign or double_free) says. The caller is the lane that made the free.
GPUHEAP_COLD inline void record_refused_free(failure_record* record, void* p, free_status status) {
  if (record == nullptr) return;
  bool const twice = status == free_status::double_free;
  // relaxed: a count that the host reads after the kernel.
  simt::uint64_t const before =
      simt::atomic_ref<simt::uint64_t>{twice ? record->double_frees : record->foreign_frees}.fetch_add(1, simt::relaxed);
  if (before == 0) (twice ? record->first_double_free : record->first_foreign_free) = p;
}

}  // namespace detail

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
