// Requests that fail because a test says so. failing<Allocator> is the allocator with a few words beside it, which say which requests get
// nullptr.
//
//   gpuheap::heap<gpuheap::failing<gpuheap::scatteralloc>> heap{64_MiB};
//   heap.ref().allocator().fail({.first = 9});                                        // host: the tenth request from now on, and no other
//   heap.ref().allocator().fail({.count = ~std::uint64_t{0}, .least_bytes = 4096});   // host: every request of 4 KiB or more
//   heap.ref().allocator().fail({.count = 0});                                        // host: no request
//
// The heap records a request that fails in this way as one that found no memory, and heap::check() reports it.
//
// Layout of a region:  | which requests fail, how many requests were made | the allocator's own region |
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/block_tag.hpp>
#include <gpuheap/default_allocator.hpp>
#include <gpuheap/misuse.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/runtime.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief Which requests fail. The requests for least_bytes to most_bytes bytes are numbered from 0; of these, `count` requests fail, from
// number `first` on.
struct failing_requests {
  simt::uint64_t first = 0;
  simt::uint64_t count = 1;
  simt::size_t least_bytes = 0;
  simt::size_t most_bytes = ~simt::size_t{0};
};

// @brief An allocator some of whose requests fail: they get nullptr. No request fails before fail() is called.
// @tparam Allocator the allocator that serves the other requests; any that does not free `collectively` and is not process_wide
// @note heap::check() of a heap of failing<checked<Allocator>> or failing<hardened<Allocator>> also reports the misuse that it finds. In a
// heap of checked<failing<Allocator>>, a program cannot reach fail().
// @note For tests. The schedule decides which thread makes the n-th request, but exactly one thread does. Each request of a numbered size
// costs one atomic addition to a word that all threads share.
#if defined(GPUHEAP_NO_DEFAULT_ALLOCATOR)
template <device_allocator Allocator>
#else
template <device_allocator Allocator = sharded_spans>
#endif
class failing {
  static_assert(Allocator::traits.free != frees::collectively && !Allocator::traits.process_wide,
                "gpuheap: failing<> is for allocators that free block by block, in a region of their own");

 public:
  static constexpr allocator_traits traits = Allocator::traits;
  static constexpr bool takes_census = has_census<Allocator>;

  // ---- the allocator's interface

  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const { return fails(bytes) ? nullptr : inner_.malloc(bytes); }
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes, block_tag tag) const requires has_tagged_malloc<Allocator> {
    return fails(bytes) ? nullptr : inner_.malloc(bytes, tag);
  }
  [[nodiscard]] GPUHEAP_FN void* aligned_malloc(simt::size_t bytes, simt::size_t alignment) const requires has_aligned_malloc<Allocator> {
    return fails(bytes) ? nullptr : inner_.aligned_malloc(bytes, alignment);
  }
  [[nodiscard]] GPUHEAP_FN void* aligned_malloc(simt::size_t bytes, simt::size_t alignment,
                                                block_tag tag) const requires has_tagged_aligned_malloc<Allocator> {
    return fails(bytes) ? nullptr : inner_.aligned_malloc(bytes, alignment, tag);
  }
  GPUHEAP_FN auto free(void* p) const { return inner_.free(p); }
  GPUHEAP_FN free_status free(void* p, block_tag tag) const requires has_tagged_free<Allocator> { return inner_.free(p, tag); }
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void* p) const requires has_usable_size<Allocator> { return inner_.usable_size(p); }
  [[nodiscard]] GPUHEAP_HD simt::size_t rounded_size(simt::size_t bytes) const requires has_rounded_size<Allocator> {
    return inner_.rounded_size(bytes);
  }
  GPUHEAP_FN void expect_size(void* p, simt::size_t bytes) const requires has_expected_size<Allocator> { inner_.expect_size(p, bytes); }
  [[nodiscard]] GPUHEAP_HD auto* record() const requires finds_misuse<Allocator> { return inner_.record(); }
  [[nodiscard]] GPUHEAP_FN bool is_live(void* p) const requires has_is_live<Allocator> { return inner_.is_live(p); }
  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const requires has_owns<Allocator> { return inner_.owns(p); }

#if GPUHEAP_HAS_HOST
  [[nodiscard]] static simt::size_t min_region_bytes() { return header_bytes + Allocator::min_region_bytes(); }
  [[nodiscard]] static failing create(memory::region region, stream_ref stream) {
    failing made;
    made.words_ = static_cast<words*>(region.base);
    simt::fill(region.base, 0, header_bytes, stream);
    made.inner_ = Allocator::create({static_cast<char*>(region.base) + header_bytes, region.bytes - header_bytes}, stream);
    return made;
  }
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const requires has_footprint<Allocator> {
    allocator_footprint made = inner_.footprint(stream);
    made.metadata_bytes += header_bytes;
    return made;
  }
  [[nodiscard]] auto verify(stream_ref stream) const requires has_verify<Allocator> { return inner_.verify(stream); }
  void take_census(live_total* into, stream_ref stream) const requires has_census<Allocator> { inner_.take_census(into, stream); }
  [[nodiscard]] auto live_blocks(stream_ref stream) const requires has_live_blocks<Allocator> { return inner_.live_blocks(stream); }
  [[nodiscard]] auto blocks(stream_ref stream) const requires has_blocks<Allocator> { return inner_.blocks(stream); }
  void check_blocks(stream_ref stream) const requires finds_misuse<Allocator> { inner_.check_blocks(stream); }

  // @brief Makes requests fail in kernels that are launched later on `stream`, or on any stream after this call returns. The numbers of
  // requests begin at 0 again. Host; waits for the stream. The heap's reset() undoes the call.
  void fail(failing_requests which, stream_ref stream = {}) const {
    words const now{which, 0};
    simt::copy(words_, &now, sizeof now, stream);
    simt::synchronize(stream);
  }
#endif

 private:
  struct words {
    failing_requests which;
    simt::uint64_t made;  // the number of requests for numbered sizes so far
  };
  static constexpr simt::size_t header_bytes = 256;

  [[nodiscard]] GPUHEAP_FN bool fails(simt::size_t bytes) const {
    failing_requests const which = words_->which;  // written by the host before the launch
    if (which.count == 0 || bytes < which.least_bytes || bytes > which.most_bytes) return false;
    // relaxed: each request only needs a number of its own.
    simt::uint64_t const number = simt::atomic_ref<simt::uint64_t>{words_->made}.fetch_add(1, simt::relaxed);
    return number >= which.first && number - which.first < which.count;
  }

  Allocator inner_{};
  words* words_ = nullptr;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
