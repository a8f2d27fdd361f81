// Records the requests and frees that a program makes. recorded<Allocator> is the allocator with a buffer beside it, to which every request
// and every free adds an event. A program can write the recording to a file (trace.hpp), and `gpuheap` can replay it on any allocator.
//
//   gpuheap::heap<gpuheap::recorded<gpuheap::scatteralloc>> heap{1_GiB};
//   launch(...);
//   heap.ref().allocator().end_kernel();   // host, after each launch: later events did not happen at the same time as earlier ones
//   gpuheap::recording const what = heap.ref().allocator().read();
//   std::ofstream("program.trace") << gpuheap::trace_text{what};
//
// Layout of a region:  | number of events | event 0 | ... | event MaxEvents - 1 | the allocator's own region |
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/trace.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief An allocator that records every request and every free in a buffer beside it.
// @tparam Allocator the allocator that serves the requests; any but those whose frees are collective
// @tparam MaxEvents how many events, of 24 bytes each, the buffer holds. Later events are counted, but not recorded
// @note The events are in an order in which they may have happened: a block's free comes after its request, and before the request that
// gets the same memory next. A realloc is recorded as a request and a free, an aligned request as a plain one. Each request and each free
// costs one atomic addition to a word that all threads share.
template <device_allocator Allocator, simt::size_t MaxEvents = simt::size_t{1} << 20>
class recorded {
  static_assert(Allocator::traits.free != frees::collectively, "gpuheap: recorded<> cannot tell which blocks a warp's release gives back");
  static_assert(MaxEvents != 0);

 public:
  static constexpr allocator_traits traits = Allocator::traits;
  static constexpr simt::size_t max_events = MaxEvents;
  static constexpr bool takes_census = has_census<Allocator>;

  // ---- the allocator's interface

  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    void* const p = inner_.malloc(bytes);
    // The event comes after the allocation, and so after the free of the block that had the memory before.
    record(trace_event::request, p, bytes);
    return p;
  }
  // heap_ref makes this request, not the program. So a request that gets no memory adds no event.
  [[nodiscard]] GPUHEAP_FN void* try_malloc(simt::size_t bytes) const {
    void* const p = inner_.malloc(bytes);
    if (p != nullptr) record(trace_event::request, p, bytes);
    return p;
  }
  GPUHEAP_FN auto free(void* p) const {
    // The event comes before the free, so no other thread can have got the memory yet.
    if (p != nullptr) record(trace_event::release, p, 0);
    return inner_.free(p);
  }
  [[nodiscard]] GPUHEAP_FN void* aligned_malloc(simt::size_t bytes, simt::size_t alignment) const requires has_aligned_malloc<Allocator> {
    void* const p = inner_.aligned_malloc(bytes, alignment);
    record(trace_event::request, p, bytes);
    return p;
  }
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void* p) const requires has_usable_size<Allocator> { return inner_.usable_size(p); }
  [[nodiscard]] GPUHEAP_HD simt::size_t rounded_size(simt::size_t bytes) const requires has_rounded_size<Allocator> {
    return inner_.rounded_size(bytes);
  }
  [[nodiscard]] GPUHEAP_FN bool is_live(void* p) const requires has_is_live<Allocator> { return inner_.is_live(p); }
  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const requires has_owns<Allocator> { return inner_.owns(p); }

#if GPUHEAP_HAS_HOST
  [[nodiscard]] static simt::size_t min_region_bytes() { return buffer_bytes + Allocator::min_region_bytes(); }
  [[nodiscard]] static simt::size_t own_bytes(simt::size_t region_bytes) requires(Allocator::traits.process_wide) {
    if constexpr (has_own_bytes<Allocator>) {
      return buffer_bytes + Allocator::own_bytes(region_bytes - buffer_bytes);
    } else {
      return buffer_bytes;
    }
  }

  // Makes an empty recording. The events themselves need no initialisation.
  [[nodiscard]] static recorded create(memory::region region, stream_ref stream) {
    recorded made;
    auto* const base = static_cast<char*>(region.base);
    made.num_events_ = reinterpret_cast<simt::uint64_t*>(base);
    made.events_ = reinterpret_cast<trace_event*>(base + header_bytes);
    simt::fill(base, 0, header_bytes, stream);
    bool const has_memory = !Allocator::traits.process_wide || has_own_bytes<Allocator>;
    made.inner_ = Allocator::create({has_memory ? base + buffer_bytes : nullptr, region.bytes - buffer_bytes}, stream);
    return made;
  }
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const requires has_footprint<Allocator> {
    allocator_footprint made = inner_.footprint(stream);
    made.metadata_bytes += buffer_bytes;
    return made;
  }
  [[nodiscard]] auto verify(stream_ref stream) const requires has_verify<Allocator> { return inner_.verify(stream); }
  void take_census(live_total* into, stream_ref stream) const requires has_census<Allocator> { inner_.take_census(into, stream); }

  // ---- the recording. Host; no kernel uses the heap meanwhile; waits for the stream

  // @brief Adds the end of a kernel to the recording: later events belong to kernels that were launched later. Waits for the stream.
  void end_kernel(stream_ref stream = {}) const {
    simt::uint64_t const count = num_events(stream);
    if (count < MaxEvents) {
      trace_event const end{0, 0, 0, trace_event::kernel_end};
      simt::copy(events_ + count, &end, sizeof end, stream);
    }
    simt::uint64_t const more = count + 1;
    simt::copy(num_events_, &more, sizeof more, stream);
    simt::synchronize(stream);
  }
  // @brief Copies the recording to the host. Waits for the stream.
  // @return all events since the heap was made or reset, and how many were dropped
  [[nodiscard]] recording read(stream_ref stream = {}) const {
    simt::uint64_t const count = num_events(stream);
    recording made;
    made.events.resize(count < MaxEvents ? count : MaxEvents);
    made.dropped = count - made.events.size();
    if (!made.events.empty()) simt::copy(made.events.data(), events_, made.events.size() * sizeof(trace_event), stream);
    simt::synchronize(stream);
    return made;
  }
#endif

 private:
  static constexpr simt::size_t header_bytes = 256;
  static constexpr simt::size_t buffer_bytes = simt::round_up_pow2(header_bytes + MaxEvents * sizeof(trace_event), 256);

  GPUHEAP_FN void record(simt::uint32_t kind, void* p, simt::size_t bytes) const {
    // relaxed: all additions to one word have one order, and an addition that happens before another precedes it in that order. This thread
    // reads no other thread's event; the host reads the events after the kernel has ended.
    simt::uint64_t const place = simt::atomic_ref<simt::uint64_t>{*num_events_}.fetch_add(1, simt::relaxed);
    if (place >= MaxEvents) return;
    unsigned const thread = simt::block_id() * simt::threads_per_block() + simt::thread_in_block();
    simt::plain_write(events_[place], trace_event{reinterpret_cast<simt::uintptr_t>(p), bytes, thread, kind});
  }
#if GPUHEAP_HAS_HOST
  [[nodiscard]] simt::uint64_t num_events(stream_ref stream) const {
    simt::uint64_t count = 0;
    simt::copy(&count, num_events_, sizeof count, stream);
    simt::synchronize(stream);
    return count;
  }
#endif

  Allocator inner_{};
  simt::uint64_t* num_events_ = nullptr;
  trace_event* events_ = nullptr;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
