// A heap that the host owns and kernels allocate from: gpuheap::heap<Allocator>. Host code; the device's side is heap_ref.hpp.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/default_allocator.hpp>
#include <gpuheap/failure_record.hpp>
#include <gpuheap/growth.hpp>
#include <gpuheap/heap_inspection.hpp>
#include <gpuheap/heap_kernels.hpp>
#include <gpuheap/heap_ref.hpp>
#include <gpuheap/heap_report.hpp>
#include <gpuheap/memory/address_range.hpp>
#include <gpuheap/memory/allocation.hpp>
#include <gpuheap/memory/device_span.hpp>
#include <gpuheap/memory/literals.hpp>
#include <gpuheap/memory/region.hpp>
#include <gpuheap/memory/resource.hpp>
#include <gpuheap/memory/size.hpp>
#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/statistics.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#include <vector>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief A heap that owns its memory and the allocator in it. Move-only. A program may have several heaps at the same time.
// @tparam Statistics whether the heap counts each malloc and free: `counted` or `uncounted`
// @note Kernels take ref() by value. Kernels of the heap's device, which is current when the heap is made, may use the heap at the same
// time, from any number of streams and in replayed graphs. A host call that changes the heap is ordered on the stream that the call names,
// by default the device's null stream. Only one host thread at a time may call members, while any device is current.
// @note While kernels of other streams use the heap:
//   stats(), live_blocks()   safe; each number was true at some moment during the call, but not all at the same moment
//   check()                  safe; this call or the next check() reports a failure that happens meanwhile
//   free(pointers), set_policy()       safe; a kernel that is already running may follow the old or the new policy
//   copy_to_host(), copy_from_host()   safe for blocks that no other thread writes or frees
//   verify(), blocks(), report_leaks(), grow(), trim(), reset(), check() of a checked heap or under grow_when_exhausted()   undefined
// @note A heap that was moved from may only be assigned to or destroyed. Destroying a heap while kernels use it is undefined.
template <device_allocator Allocator, class Statistics>
class heap : public heap_inspection<heap<Allocator, Statistics>, Allocator> {
 public:
  using allocator_type = Allocator;
  using ref_type = heap_ref<Allocator, Statistics>;
  // @brief A function that check() calls with a description of the requests that failed since the last check().
  using exhaustion_callback = memory::function<void(exhaustion const&)>;

  // @brief Makes a heap in new memory.
  // @param size the bytes of the heap in all, bookkeeping included: `heap{8_GiB}`, `heap{fraction_of_free(0.5)}`. `heap{}` takes
  // GPUHEAP_BYTES or a default: heap_size::from_environment. For a process_wide allocator the size is a limit, and `from` supplies only
  // memory for the allocator's own metadata
  // @param from the source of the memory, such as memory::managed
  // @param stream later kernels of this stream can use the heap; kernels of other streams must first wait for this stream
  // @throws out_of_memory if the source does not have the memory
  // @throws gpuheap::error if the size is too small for the allocator
  explicit heap(heap_size size = heap_size::from_environment(), memory::resource from = memory::device, stream_ref stream = {}) {
    simt::size_t const bytes = size.resolve(from);
    require_at_least(min_bytes(), bytes, "a heap");
    if constexpr (Allocator::traits.process_wide) {
      records_ = memory::allocation{memory::device, records_bytes};
      if constexpr (has_own_bytes<Allocator>) memory_ = take(static_cast<memory::resource&&>(from), Allocator::own_bytes(bytes));
      arena_ = {memory_.base(), bytes};
    } else {
      memory_ = take(static_cast<memory::resource&&>(from), bytes);
      lay_out();
    }
    initialise(stream);
  }
  heap(heap_size size, stream_ref stream) : heap(size, memory::device, stream) {}

  // @brief Makes a heap in memory of the caller, which must outlive the heap.
  // @param callers memory that device code can access, aligned to at least 256 bytes
  // @param stream later kernels of this stream can use the heap; kernels of other streams must first wait for this stream
  // @throws gpuheap::error if the region is too small, null or misaligned, or if the allocator is process_wide
  explicit heap(memory::region callers, stream_ref stream = {}) : memory_{callers} {
    if constexpr (Allocator::traits.process_wide) {
      throw plain_error("gpuheap: the allocator '" + name() +
                        "' has one heap for the whole process, which cannot lie in a given region: make the heap from a size");
    } else {
      if (callers.base == nullptr) {
        throw plain_error(text_of("gpuheap: cannot make a heap in a region of %s whose base is null: allocate the region's memory first",
                                  memory::format_bytes(callers.bytes).c_str()));
      }
      if (reinterpret_cast<std::uintptr_t>(callers.base) % 256 != 0)
        throw plain_error(text_of(
            "gpuheap: cannot make a heap in a region at %p: a heap's region must be aligned to 256 bytes: align its base", callers.base));
      require_at_least(min_bytes(), callers.bytes, "a region");
      lay_out();
      initialise(stream);
    }
  }

  // @brief Makes a heap that grows from size.initial bytes up to size.at_most. No block ever moves.
  // @param size the bytes for the allocator, rounded up to units of memory::address_range; the heap's records take further memory
  // @param stream later kernels of this stream can use the heap; kernels of other streams must first wait for this stream
  // @throws gpuheap::error if size.initial is too small or exceeds size.limit(); out_of_memory if the device does not have the memory
  explicit heap(growth size, stream_ref stream = {}) requires has_grow<Allocator> : records_{memory::device, records_bytes} {
    simt::size_t const initial = size.initial.resolve(memory::device);
    simt::size_t const most = size.limit();
    if (initial > most) {
      throw plain_error(
          text_of("gpuheap: growth::initial is %s, more than growth::at_most, which is %s: make at_most at least as large as initial",
                  memory::format_bytes(initial).c_str(), memory::format_bytes(most).c_str()));
    }
    growing_ = memory::shared<growing>{new growing{most}};
    require_at_least(Allocator::min_initial_bytes(growing_->range.bytes()), initial,
                     text_of("for a heap that grows to %s, growth::initial", memory::format_bytes(most).c_str()).c_str());
    arena_ = growing_->range.where();
    capacity_ = initial;
    initialise(stream);
  }
  template <class A = Allocator>
  requires(!has_grow<A>) explicit heap(growth, stream_ref = {}) {
    static_assert(has_grow<A>, "gpuheap: this Allocator cannot grow: it has no create_growable() and grow()");
  }

  heap(heap&&) noexcept = default;
  heap& operator=(heap&&) noexcept = default;
  heap(heap const&) = delete;
  heap& operator=(heap const&) = delete;
  ~heap() = default;

  // @return the smallest size in bytes that a heap of this allocator can have
  [[nodiscard]] static simt::size_t min_bytes() {
    return Allocator::traits.process_wide ? Allocator::min_region_bytes() : Allocator::min_region_bytes() + records_bytes + 256;
  }
  // @return the smallest growth::initial, in bytes: the heap has the metadata for size.limit() from the start
  [[nodiscard]] static simt::size_t min_bytes(growth const& size) requires has_grow<Allocator> {
    // Addresses come in units of up to 2 MiB.
    simt::size_t const asked = Allocator::min_initial_bytes(size.limit());
    simt::size_t const rounded = Allocator::min_initial_bytes(simt::round_up_pow2(size.limit(), simt::size_t{2} << 20));
    return asked > rounded ? asked : rounded;
  }

  // @return the device's view, which kernels take by value. It stays valid as long as the heap lives, across reset() and moves
  [[nodiscard]] ref_type ref() const { return {allocator_, &records()->failures, statistics_}; }

  // @brief Forgets every block at once, in stream order, and sets counts and records to 0. Policies and callbacks stay. No kernel of
  // another stream may use the heap meanwhile. If reset() throws, the heap may only be reset again or destroyed.
  // @throws gpuheap::error if the allocator is process_wide
  void reset(stream_ref stream = {}) {
    if constexpr (Allocator::traits.process_wide) {
      throw plain_error("gpuheap: the allocator '" + name() + "' cannot be reset: it has one heap for the whole process: free its blocks");
    } else {
      simt::device_scope const here{device_};
      initialise(stream);
    }
  }

  // @brief Returns counts of live blocks and of failures, exact if no other stream uses the heap meanwhile. Waits for the stream.
  // @note An `uncounted` heap asks its allocator: a kernel walks the metadata, which takes up to a millisecond in the largest heaps.
  [[nodiscard]] statistics stats(stream_ref stream = {}) const {
    simt::device_scope const here{device_};
    if constexpr (asks_allocator) allocator_.take_census(&records()->census, stream);
    std::vector<std::uint64_t> const copy = read_records(stream);
    auto const& found = *reinterpret_cast<heap_records const*>(copy.data());
    statistics s;
    detail::read_failures(s, found.failures);
    s.counts_allocations = Statistics::counts || asks_allocator;
    s.counts_bytes = s.counts_allocations && has_usable_size<Allocator>;
    s.knows_peak = Statistics::counts && has_usable_size<Allocator>;
    if constexpr (asks_allocator) {
      s.live_allocations = not_below_zero(found.census.allocations);
      s.live_bytes = not_below_zero(found.census.bytes);
    } else {
      live_counts const live = statistics_.read(reinterpret_cast<char const*>(copy.data()) + record_bytes);
      s.live_allocations = live.allocations;
      if (s.counts_bytes) {
        s.live_bytes = live.bytes;
        s.peak_live_bytes = live.peak_bytes;
        s.peak_error_bytes = live.peak_error_bytes;
      }
    }
    s.heap_bytes = bytes();
    s.usable_bytes = capacity();
    if constexpr (has_footprint<Allocator>) {
      allocator_footprint const held = allocator_.footprint(stream);
      s.knows_footprint = true;
      s.held_bytes = held.held_bytes;
      s.metadata_bytes = held.metadata_bytes;
      s.peak_held_bytes = held.peak_held_bytes;
      s.usable_bytes = capacity() - held.metadata_bytes;
    }
    return s;
  }

  // @return all bytes that this heap takes now, bookkeeping included; if the allocator is process_wide, those of the process's heap too
  [[nodiscard]] simt::size_t bytes() const {
    if constexpr (!Allocator::traits.process_wide) {
      return grows() ? growing_->range.mapped_bytes() + records_bytes : memory_.bytes();
    } else if constexpr (has_granted_bytes<Allocator>) {
      return memory_.bytes() + Allocator::granted_bytes();
    } else {
      return arena_.bytes;
    }
  }

  // @return the bytes that the allocator may use now, its metadata included. grow() raises this number, and trim() lowers it
  [[nodiscard]] simt::size_t capacity() const { return grows() ? capacity_ : arena_.bytes; }
  // @return the most that capacity() can become, in bytes
  [[nodiscard]] simt::size_t at_most() const { return arena_.bytes; }
  // @return the number of the device on which the heap was made
  [[nodiscard]] int device() const { return device_; }
  // @return whether the heap was made from a growth
  [[nodiscard]] bool grows() const { return static_cast<bool>(growing_); }

  // ---- growth. No kernel may use the heap meanwhile; views and blocks stay valid. Throws gpuheap::error for a heap of a fixed size

  // @brief Adds memory to the heap, for kernels launched later on the stream, or on another stream that has waited for this one.
  // @param more_bytes the bytes to add to the capacity. The allocator takes memory in units of its own; later calls use the rest of a unit
  // @param stream kernels that run on it later can use the added memory
  // @throws gpuheap::error if the capacity would be more than at_most()
  // @throws out_of_memory if the device does not have the memory; the capacity is then as it was
  void grow(simt::size_t more_bytes, stream_ref stream = {}) requires has_grow<Allocator> {
    require_growing();
    if (more_bytes > at_most() - capacity_) {
      throw plain_error(text_of("gpuheap: cannot grow a heap of %s, of at most %s, by %s: make the heap with a larger growth::at_most",
                                memory::format_bytes(capacity_).c_str(), memory::format_bytes(at_most()).c_str(),
                                memory::format_bytes(more_bytes).c_str()));
    }
    if (more_bytes == 0) return;
    simt::device_scope const here{device_};
    (void)add_memory(more_bytes, stream);
    capacity_ += more_bytes;
  }
  template <class A = Allocator>
  requires(!has_grow<A>) void grow(simt::size_t, stream_ref = {}) {
    static_assert(has_grow<A>, "gpuheap: this Allocator cannot grow: it has no create_growable() and grow()");
  }

  // @brief Lets check() answer failed requests by growing the heap. Off at first.
  // @param step the amount by which each check() grows the heap. The heap grows by less if less is left up to at_most(), and by more if the
  // allocator cannot use so little. growth_step{} switches growth off
  // @note A kernel that exhaustion_policy::trap stopped does not continue: the trap has ended all work of the CUDA context.
  void grow_when_exhausted(growth_step step) requires has_grow<Allocator> {
    require_growing();
    step.require_valid();
    growing_->step = step;
  }
  template <class A = Allocator>
  requires(!has_grow<A>) void grow_when_exhausted(growth_step) {
    static_assert(has_grow<A>, "gpuheap: this Allocator cannot grow: it has no create_growable() and grow()");
  }

  // @brief Gives unused memory at the heap's end back to the device. Later growth brings it back. Waits for the stream and the device.
  // @return the number of bytes given back. Only whole pieces of memory::address_range go back; the rest stays
  simt::size_t trim(stream_ref stream = {}) requires has_trim<Allocator> {
    require_growing();
    simt::device_scope const here{device_};
    simt::size_t const given_up = allocator_.trim(stream);
    capacity_ -= given_up;  // comes before the wait, which may throw: the allocator has given the memory up already
    growing_->reach -= given_up;
    simt::synchronize(stream);
    return growing_->range.unmap(growing_->reach, growing_->range.bytes() - growing_->reach);
  }
  template <class A = Allocator>
  requires(!has_trim<A>) simt::size_t trim(stream_ref = {}) {
    static_assert(has_trim<A>, "gpuheap: this Allocator has no trim(stream)");
    return 0;
  }

  // ---- exhaustion

  // @brief Sets the policy for requests that no free memory fits, for kernels launched later on the stream, or on any stream after this
  // call returns. Waits for the stream.
  // @param policy `null`, the default, or `trap`
  // @param stream kernels that run on it later follow the policy
  void set_policy(exhaustion_policy policy, stream_ref stream = {}) {
    simt::device_scope const here{device_};
    if (policy == exhaustion_policy::trap && final_.base() == nullptr) {
      final_ = memory::allocation{memory::pinned, sizeof(trap_report)};
      *static_cast<trap_report*>(final_.base()) = {};
    }
    policy_ = policy;
    write_policy(stream);
    simt::synchronize(stream);
  }

  // @brief Sets the function that check() calls, on the thread that calls check(), instead of throwing out_of_memory. An empty callback
  // restores the exception.
  void on_exhausted(exhaustion_callback callback) { callback_ = static_cast<exhaustion_callback&&>(callback); }

  // @brief Waits for the stream, and reports what went wrong in this heap since the last check(). Call it after a launch. check() reports
  // each failure once. If check() or a callback throws, the next check() reports the failures that are not reported yet.
  // @return the number of bytes by which the heap has grown. If it is not 0, repeat the requests that failed. The heap does not grow if it
  // has its largest size, if the device has no more memory, or if growth would not help; the report says which of these is the reason
  // @throws out_of_memory if exhaustion_policy::trap stopped a kernel. The error names the request. The CUDA context is lost
  // @throws out_of_memory if requests failed and no callback is set, unless the heap has grown and all of them were valid (request_fault)
  // @throws gpuheap::error if the heap refused frees and is neither checked nor hardened
  // @throws misuse_error if a checked or hardened heap has found misuse, unless on_misuse() has set a callback
  // @note Under grow_when_exhausted() the heap first grows by one step if requests found no memory, but not for requests that it could
  // never serve (request_fault). The callback learns whether the heap grew.
  simt::size_t check(stream_ref stream = {}) {
    simt::device_scope const here = this->enter();
    try {
      simt::synchronize(stream);
    } catch (error const& stopped) {
      throw_trap_report(stopped.what());
      throw;
    }
    throw_trap_report("the launch has failed already");  // needed in the simulator, where launch() has already reported the error
    this->report_misuse(stream);
    failure_record const record = failures(stream);
    statistics now;
    detail::read_failures(now, record);
    if (reported_ == detail::failure_counts::of(now)) return 0;
    now = stats(stream);  // stats() may walk the heap, so it runs only if there is something to report
    detail::failure_counts const found = detail::failure_counts::of(now);
    exhaustion what{.failed_requests = found.requests - reported_.requests,
                    .invalid_requests = found.invalid - reported_.invalid,
                    .first = now.first_failure,
                    .stats = now,
                    .most_bytes = record.most_bytes};
    std::uint64_t const refused = found.frees - reported_.frees;
    if (what.failed_requests != 0) {
      if (growing_ && what.failed_requests != what.invalid_requests) growing_->take_step(*this, what, ~record.least_failed, stream);
      reported_.requests = found.requests;
      reported_.invalid = found.invalid;
      if (callback_) {
        callback_(what);
      } else if (what.grown_bytes == 0 || what.invalid_requests != 0) {
        throw out_of_memory(what.text() + (refused != 0 ? ". Frees were refused as well: the next check() says which" : ""));
      }
    }
    reported_.frees = found.frees;
    if (refused != 0 && !finds_misuse<Allocator>) throw plain_error(detail::refused_frees_text(name(), now));
    return what.grown_bytes;
  }

  // ---- from the host

  // @brief Frees blocks of this heap whose addresses lie in host memory: a vector<void*>, span<node*>, ... A nullptr is skipped. Waits for
  // the stream.
  template <class Pointers>
  requires requires(Pointers const& p) {
    requires simt::is_pointer_v<simt::remove_cvref_t<decltype(*std::data(p))>>;
    std::size(p);
  }
  void free(Pointers const& pointers, stream_ref stream = {}) { free_listed_on_host(std::data(pointers), std::size(pointers), stream); }
  // @brief Frees blocks, in stream order. Device code can access the array of addresses, and the array stays until the blocks are freed.
  template <class Pointer>
  requires simt::is_pointer_v<Pointer>
  void free(device_span<Pointer> pointers, stream_ref stream = {}) {
    free_listed_on_device(const_cast<void* const*>(reinterpret_cast<void const* const*>(pointers.data)), pointers.size, stream);
  }

  // @brief copy_to_host() copies bytes from heap memory to host memory, copy_from_host() the other way. Both wait for the stream.
  // @throws gpuheap::error if the range does not lie in this heap, unless the allocator is process_wide
  void copy_to_host(void* to, void const* from, simt::size_t bytes, stream_ref stream = {}) const {
    if (bytes == 0) return;
    simt::device_scope const here{device_};
    if constexpr (Allocator::traits.process_wide) {
      memory::allocation const staging{memory::device, bytes};
      launch_copy(staging.base(), from, bytes, stream);
      simt::copy(to, staging.base(), bytes, stream);
      simt::synchronize(stream);
    } else {
      require_inside(from, bytes);
      simt::copy(to, from, bytes, stream);
      simt::synchronize(stream);
    }
  }
  void copy_from_host(void* to, void const* from, simt::size_t bytes, stream_ref stream = {}) {
    if (bytes == 0) return;
    simt::device_scope const here{device_};
    if constexpr (Allocator::traits.process_wide) {
      memory::allocation const staging{memory::device, bytes};
      simt::copy(staging.base(), from, bytes, stream);
      launch_copy(to, staging.base(), bytes, stream);
      simt::synchronize(stream);
    } else {
      require_inside(to, bytes);
      simt::copy(to, from, bytes, stream);
      simt::synchronize(stream);
    }
  }

 private:
  friend heap_inspection<heap, Allocator>;

  // The records; the statistics' counters follow. In memory shared with the arena they come last: the arena keeps the memory's alignment.
  struct heap_records {
    failure_record failures;
    live_total census;  // the allocator's answer to the last stats()
  };
  static constexpr simt::size_t record_bytes = 1024;
  static constexpr simt::size_t records_bytes = record_bytes + Statistics::counter_bytes;
  static_assert(sizeof(heap_records) <= record_bytes && simt::is_trivially_copyable_v<heap_records>);
  // Whether stats() asks the allocator for the number and the bytes of live blocks.
  static constexpr bool asks_allocator = !Statistics::counts && has_census<Allocator>;
  static_assert(simt::is_trivially_copyable_v<ref_type>, "kernels get the view by value");

  [[nodiscard]] static std::string name() { return Allocator::traits.name; }
  static void require_at_least(simt::size_t least, simt::size_t bytes, char const* what) {
    if (bytes >= least) return;
    throw plain_error(text_of("gpuheap: %s of %s is too small for the allocator '%s': it needs at least %zu bytes (%s)", what,
                              memory::format_bytes(bytes).c_str(), Allocator::traits.name, least, memory::format_bytes(least).c_str()));
  }

  // Takes the heap's memory. If the source refuses, the error says how much memory there is.
  [[nodiscard]] static memory::allocation take(memory::resource from, simt::size_t bytes) {
    try {
      return {from, bytes};
    } catch (out_of_memory const& refused) {
      throw out_of_memory(detail::no_memory_text(from, bytes, refused.what()));
    }
  }

  void lay_out() {
    auto* const base = static_cast<char*>(memory_.base());
    simt::size_t const arena_bytes = (memory_.bytes() - records_bytes) & ~simt::size_t{255};
    arena_ = {base, arena_bytes};
    records_ = memory::allocation{memory::region{base + arena_bytes, records_bytes}};
  }

  void initialise(stream_ref stream) {
    simt::fill(records_.base(), 0, records_bytes, stream);
    if (policy_ != exhaustion_policy::null) write_policy(stream);
    statistics_ = Statistics{static_cast<char*>(records_.base()) + record_bytes, capacity()};
    create(stream);
    this->forget_misuse(stream);
    write_most_bytes(stream);
    reported_ = {};
  }
  void create(stream_ref stream) {
    if (growing_) {
      growing_->create(*this, stream);
    } else {
      allocator_ = Allocator::create(arena_, stream);
    }
  }

  // The additional state of a heap that grows. The heap calls its functions through pointers, so that other heaps do not compile them.
  struct growing : memory::held {
    explicit growing(simt::size_t most) : range{most} {}
    void (*create)(heap&, stream_ref) = &create_growable;
    void (*take_step)(heap&, exhaustion&, simt::size_t, stream_ref) = &heap::take_step;
    mutable memory::address_range range;  // the heap's addresses
    mutable simt::size_t reach = 0;       // the end, as an offset, of the highest memory that was mapped for the allocator
    mutable bool has_taken = false;       // whether memory was mapped for the allocator since add_memory() cleared this
    mutable growth_step step{};
  };
  static void create_growable([[maybe_unused]] heap& me, [[maybe_unused]] stream_ref stream) {
    if constexpr (has_grow<Allocator>) {
      me.growing_->reach = 0;
      me.allocator_ = Allocator::create_growable(me.arena_, me.capacity_, me.mapper(), stream);
    }
  }

  // Returns a function that maps parts of the range. It refers to *this: the allocator may call it only during the call that gets it.
  [[nodiscard]] memory::map_function mapper() {
    return [this](simt::size_t offset, simt::size_t bytes) {
      growing_->range.map(offset, bytes);
      growing_->has_taken = growing_->has_taken || bytes != 0;
      if (growing_->reach < offset + bytes) growing_->reach = offset + bytes;
    };
  }
  void require_growing() const {
    if (!grows())
      throw plain_error(
          "gpuheap: this heap has a fixed size and cannot grow or shrink: make it as heap{gpuheap::growth{.initial = ..., .at_most = "
          "...}}");
  }
  // Lets the allocator use `more_bytes` more. Returns whether memory was mapped for them.
  bool add_memory(simt::size_t more_bytes, stream_ref stream) requires has_grow<Allocator> {
    simt::size_t const reach = growing_->reach;
    growing_->has_taken = false;
    try {
      allocator_.grow(capacity_ + more_bytes, mapper(), stream);
    } catch (...) {
      growing_->reach = reach;
      throw;
    }
    return growing_->has_taken;
  }
  // Grows the heap by a step, for check(), after requests that found no memory. The smallest of them asked for `least_bytes`.
  static void take_step([[maybe_unused]] heap& me, [[maybe_unused]] exhaustion& what, [[maybe_unused]] simt::size_t least_bytes,
                        [[maybe_unused]] stream_ref stream) {
    if constexpr (has_grow<Allocator>) {
      simt::size_t const step = me.growing_->step.after(me.capacity_), left = me.at_most() - me.capacity_;
      if (step == 0) return;
      // The record forgets the smallest failed request, so that the next check() sees the smallest of later ones.
      simt::fill(&me.records()->failures.least_failed, 0, sizeof(failure_record::least_failed), stream);
      if (constexpr simt::size_t largest = Allocator::traits.largest_bytes; largest != 0 && least_bytes > largest) {
        what.not_grown = text_of(" Growth does not help: requests of more than %s go to another allocator, whose memory does not grow.",
                                 memory::format_bytes(largest).c_str());
        return;
      }
      simt::size_t more = step < left ? step : left;
      try {
        // Ends: `more` doubles, up to what is left.
        for (; more != 0; more = more < left / 2 ? 2 * more : left) {
          if (me.add_memory(more, stream)) {
            me.capacity_ += more;
            what.grown_bytes = more;
            return;
          }
          if (more == left) break;
        }
        what.not_grown = " The heap cannot grow: it has all of growth::at_most that the allocator can use.";
      } catch (out_of_memory const& refused) {
        what.not_grown = text_of(" The heap could not grow by %s (%s).", memory::format_bytes(more).c_str(), refused.what());
      }
    }
  }

  // A sum of counters that were read at different moments may be negative; then the result is 0.
  [[nodiscard]] static std::uint64_t not_below_zero(std::uint64_t sum) { return static_cast<std::int64_t>(sum) < 0 ? 0 : sum; }
  [[nodiscard]] heap_records* records() const { return static_cast<heap_records*>(records_.base()); }

  // Writes the largest size of a request that this heap can ever serve into the record. Kernels record larger requests as invalid.
  void write_most_bytes(stream_ref stream) {
    simt::uint64_t most = at_most();
    if constexpr (Allocator::traits.process_wide) most = simt::uint64_t{1} << 63;
    if constexpr (has_largest_request<Allocator>) most = allocator_.largest_request();
    simt::copy(&records()->failures.most_bytes, &most, sizeof most, stream);
  }
  void write_policy(stream_ref stream) {
    trap_report* const final = policy_ == exhaustion_policy::trap ? static_cast<trap_report*>(final_.base()) : nullptr;
    simt::copy(&records()->failures.final, &final, sizeof final, stream);
  }

  [[nodiscard]] failure_record failures(stream_ref stream) const {
    failure_record copy;
    simt::copy(&copy, &records()->failures, sizeof copy, stream);
    simt::synchronize(stream);
    return copy;
  }
  [[nodiscard]] std::vector<std::uint64_t> read_records(stream_ref stream) const {
    std::vector<std::uint64_t> copy(records_bytes / sizeof(std::uint64_t));
    simt::copy(copy.data(), records_.base(), records_bytes, stream);
    simt::synchronize(stream);
    return copy;
  }

  // If a kernel left a report before it trapped, throws that report, once.
  void throw_trap_report(char const* how) {
    this->throw_misuse_words(how);
    if (final_.base() == nullptr) return;
    auto& final = *static_cast<trap_report*>(final_.base());
    // acquire: pairs with the release in stop_kernel(), so the load of `request` finds what the kernel wrote.
    if (simt::atomic_ref<simt::uint32_t, simt::scope::system>{final.written}.load(simt::acquire) == 0) return;
    failed_request const request = final.request;
    final = {};  // no kernel writes the report any more: the trap has ended all kernels
    throw out_of_memory(detail::stopped_text(name(), request, how));
  }

  void require_inside(void const* p, simt::size_t bytes) const {
    auto const* const byte = static_cast<char const*>(p);
    auto const* const base = static_cast<char const*>(arena_.base);
    // The addresses are compared as numbers, since the language defines no order of pointers into different objects.
    auto const offset = reinterpret_cast<std::uintptr_t>(byte) - reinterpret_cast<std::uintptr_t>(base);
    if (offset > arena_.bytes || arena_.bytes - offset < bytes || (grows() && !growing_->range.is_mapped(offset, bytes))) {
      throw plain_error(text_of("gpuheap: the %s at the given address do not lie in this heap: give an address within the heap",
                                memory::format_bytes(bytes).c_str()));
    }
  }

  static void launch_copy(void* to, void const* from, simt::size_t bytes, stream_ref stream) {
    unsigned const threads = bytes < 1u << 16 ? static_cast<unsigned>(bytes) : 1u << 16;
    simt::launch(threads, detail::copy_bytes{static_cast<char*>(to), static_cast<char const*>(from), bytes, threads}, {.stream = stream});
  }

  void free_listed_on_device(void* const* pointers, simt::size_t count, stream_ref stream) {
    simt::device_scope const here{device_};
    constexpr simt::size_t at_once = simt::size_t{1} << 30;
    for (simt::size_t at = 0; at < count; at += at_once) {
      simt::launch(static_cast<unsigned>(count - at < at_once ? count - at : at_once), detail::free_each<ref_type>{ref(), pointers + at},
                   {.stream = stream});
    }
  }

  void free_listed_on_host(void const* pointers, simt::size_t count, stream_ref stream) {
    if (count == 0) return;
    simt::device_scope const here{device_};
    memory::allocation const staging{memory::device, count * sizeof(void*)};
    simt::copy(staging.base(), pointers, count * sizeof(void*), stream);
    free_listed_on_device(static_cast<void* const*>(staging.base()), count, stream);
    simt::synchronize(stream);
  }

  int device_ = simt::current_device();
  memory::allocation memory_;   // the arena and the records; only own_bytes() for a process_wide allocator; empty if the heap grows
  memory::allocation records_;  // a part of memory_, or an allocation of its own
  memory::allocation final_;    // the trap_report, from the first time that the policy is `trap`
  memory::region arena_{};      // the allocator's memory; if the heap grows, all addresses up to at_most()
  simt::size_t capacity_ = 0;   // if the heap grows: the bytes of the arena that the allocator may use now
  memory::shared<growing> growing_;
  Allocator allocator_{};
  Statistics statistics_{};
  exhaustion_policy policy_ = exhaustion_policy::null;
  exhaustion_callback callback_;
  detail::failure_counts reported_{};  // the counts that check() has reported
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
#endif
