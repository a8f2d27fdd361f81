// The device's view of a heap: what kernels get by value and call. Compiles under NVRTC.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/collective.hpp>
#include <gpuheap/default_allocator.hpp>
#include <gpuheap/failure_record.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>
#include <gpuheap/statistics.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// The largest alignment that aligned_malloc takes, in bytes.
inline constexpr simt::size_t largest_alignment = simt::size_t{2} << 20;

// Trivially copyable; made by heap::ref(). Valid as long as the heap lives. Every member may be called by any thread in any state of
// divergence, from any number of kernels of one device at once. A block that one thread hands to another needs the program's own release
// and acquire; a block that malloc returns again is ordered after its free.
//
// Exhaustion: nullptr, and an entry in the heap's record (heap::stats, heap::check). Requests for 0 bytes are answered nullptr and are no
// failure. Memory is not initialised.
//
// A view made by default, which no heap made, has no memory: it answers requests with nullptr, frees as foreign, and records nothing.
//
// Members may also be called in code that is compiled for both sides, such as a __host__ __device__ lambda: on a GPU's host they do nothing
// and answer nullptr, 0, false or free_status::null.
template <device_allocator Allocator, class Statistics>
class heap_ref {
  static constexpr bool knows_bytes = Statistics::counts && has_usable_size<Allocator>;
  static_assert((Allocator::traits.free == frees::collectively) == has_release_warp<Allocator>,
                "gpuheap: an Allocator has release_warp() if its traits.free is frees::collectively, and only then");

 public:
  using allocator_type = Allocator;
  using statistics_type = Statistics;

  heap_ref() = default;

  // `bytes` of memory aligned to traits.min_alignment, or nullptr.
  [[nodiscard]] GPUHEAP_HD void* malloc(simt::size_t bytes) const {
    if constexpr (simt::compiles_device_code) {
      void* const p = bytes == 0 || is_empty() ? nullptr : allocator_.malloc(bytes);
      finish_malloc(p, bytes);
      return p;
    } else {
      return nullptr;
    }
  }

  // Gives back what any member of this heap returned. nullptr does nothing. Where the traits promise it, a second free of a block and a
  // pointer that is not the heap's are refused, counted in the record and answered so; elsewhere they are undefined.
  // Where frees are collective it does nothing, and the block stays live, also in the counts, until release_warp().
  GPUHEAP_HD free_status free(void* p) const {
    if constexpr (simt::compiles_device_code) {
      if constexpr (Allocator::traits.free == frees::collectively) {
        return p == nullptr ? free_status::null : free_status::done;
      } else {
        // No early return for nullptr: lanes that part here and meet again cost registers, and the allocator answers it anyway.
        simt::size_t const bytes = p == nullptr || is_empty() ? 0 : block_bytes(p);
        free_status const status = free_block(p);
        if (status == free_status::done) statistics_.freed(bytes);
        return status;
      }
    } else {
      return free_status::null;
    }
  }

  // `count` objects of `bytes` each, all zero. nullptr if the product exceeds 2^64 - 1.
  [[nodiscard]] GPUHEAP_HD void* calloc(simt::size_t count, simt::size_t bytes) const {
    if constexpr (simt::compiles_device_code) {
      if (bytes != 0 && count > ~simt::size_t{0} / bytes) {
        detail::record_invalid(record_, {.bytes = ~simt::size_t{0}, .fault = request_fault::overflow});
        return nullptr;
      }
      void* const p = malloc(count * bytes);
      if (p != nullptr) zero(p, count * bytes);
      return p;
    } else {
      return nullptr;
    }
  }

  // A block of `bytes` with the contents of `p` up to the smaller size; `p` itself where it is large enough and at most half empty, or can
  // be made longer or shorter where it is, or there is no other. nullptr as `p`: malloc. 0 bytes: free, and nullptr. When nothing fits:
  // nullptr, and `p` stays as it is. What the traits promise of wrong frees holds for wrong pointers here: nullptr, recorded as of free(p).
  [[nodiscard]] GPUHEAP_HD void* realloc(void* p, simt::size_t bytes) const {
    if constexpr (simt::compiles_device_code) {
      static_assert(has_realloc<Allocator> || has_usable_size<Allocator>,
                    "gpuheap: this Allocator cannot realloc: it has neither realloc(p, bytes) nor usable_size(p)");
      if (p == nullptr) return malloc(bytes);
      if (bytes == 0) {
        free(p);
        return nullptr;
      }
      if (is_empty()) return nullptr;
      if constexpr (has_realloc<Allocator>) {
        simt::size_t const before = block_bytes(p);
        void* const moved = allocator_.realloc(p, bytes);
        if (moved == nullptr) {
          detail::record_exhaustion(record_, bytes);
        } else if constexpr (knows_bytes) {
          statistics_.freed(before);
          statistics_.allocated(block_bytes(moved));
        }
        return moved;
      } else {
        simt::size_t usable = usable_size(p);
        if (is_told_wrong(p, usable)) return nullptr;
        bool const holds = resize_in_place(p, bytes, usable);
        if (holds && !is_much_less(bytes, usable)) return p;
        void* const moved = holds ? malloc_smaller(bytes) : allocator_.malloc(bytes);
        if (moved == nullptr && holds) return p;
        finish_malloc(moved, bytes);
        if (moved == nullptr) return nullptr;
        copy(moved, p, bytes < usable ? bytes : usable);
        free(p);
        return moved;
      }
    } else {
      return nullptr;
    }
  }

  // Likewise aligned to `alignment`, a power of two up to 2 MiB. Any other alignment is answered nullptr, and recorded.
  [[nodiscard]] GPUHEAP_HD void* aligned_malloc(simt::size_t bytes, simt::size_t alignment) const {
    if constexpr (simt::compiles_device_code) {
      static_assert(has_aligned_malloc<Allocator>, "gpuheap: this Allocator has no aligned_malloc(bytes, alignment)");
      bool const valid = alignment != 0 && (alignment & (alignment - 1)) == 0 && alignment <= largest_alignment;
      void* const p = bytes == 0 || !valid || is_empty() ? nullptr : allocator_.aligned_malloc(bytes, alignment);
      if constexpr (knows_bytes) {
        if (p != nullptr) statistics_.allocated(block_bytes(p));
      } else {
        if (p != nullptr) statistics_.allocated(0);
      }
      if (p == nullptr && bytes != 0) {
        if (valid) {
          detail::record_exhaustion(record_, bytes, alignment);
        } else {
          detail::record_invalid(record_, {.bytes = bytes, .alignment = alignment, .fault = request_fault::alignment});
        }
      }
      return p;
    } else {
      return nullptr;
    }
  }

  // How many bytes may be used at `p`, which a member of this heap returned: at least as many as were asked. 0 for nullptr.
  [[nodiscard]] GPUHEAP_HD simt::size_t usable_size(void* p) const {
    if constexpr (simt::compiles_device_code) {
      static_assert(has_usable_size<Allocator>, "gpuheap: this Allocator has no usable_size(p)");
      return p == nullptr || is_empty() ? 0 : allocator_.usable_size(p);
    } else {
      return 0;
    }
  }

  // True for every live block of this heap, false for pointers into other memory. Any pointer may be asked about; what is said of pointers
  // into free memory or into the middle of a block is the allocator's affair.
  [[nodiscard]] GPUHEAP_HD bool owns(void const* p) const {
    if constexpr (simt::compiles_device_code) {
      static_assert(has_owns<Allocator>, "gpuheap: this Allocator has no owns(p); process_wide allocators cannot have one");
      return p != nullptr && !is_empty() && allocator_.owns(p);
    } else {
      return false;
    }
  }

  // A T made from the arguments (braces for an aggregate), or nullptr when exhausted; then no constructor runs.
  template <class T, class... Args>
  [[nodiscard]] GPUHEAP_HD T* create(Args&&... args) const {
    if constexpr (simt::compiles_device_code) {
      void* p;
      if constexpr (alignof(T) <= Allocator::traits.min_alignment) {
        p = malloc(sizeof(T));
      } else {
        p = aligned_malloc(sizeof(T), alignof(T));
      }
      if (p == nullptr) return nullptr;
      if constexpr (simt::is_constructible_v<T, Args...>) {
        return ::new (p) T(static_cast<Args&&>(args)...);
      } else {
        return ::new (p) T{static_cast<Args&&>(args)...};
      }
    } else {
      return nullptr;
    }
  }
  // Ends the object's life and frees it. nullptr does nothing. `p` is what create<T>() returned, not a base of it.
  template <class T>
  GPUHEAP_HD free_status destroy(T* p) const {
    if constexpr (simt::compiles_device_code) {
      if (p == nullptr) return free_status::null;
      p->~T();
      return free(p);
    } else {
      return free_status::null;
    }
  }

  // ---- by a group of threads (collective.hpp): every thread of it calls, and each call waits for all of them

  // One block of `bytes` (the same in every thread) for the whole group: all get the same pointer, or all nullptr. One thread allocates, so
  // the heap counts one allocation, or one failure. Freed once: by free(group, p), or by free(p) of any one thread.
  template <class Group>
  requires thread_group<Group> || cooperative_group<Group>
  [[nodiscard]] GPUHEAP_HD void* malloc(Group const& group, simt::size_t bytes) const {
    if constexpr (simt::compiles_device_code) {
      require_single_requests();
      auto const& threads = detail::as_thread_group(group);
      return threads.from_first(threads.rank() == 0 ? malloc(bytes) : nullptr);
    } else {
      return nullptr;
    }
  }

  // A piece of `bytes`, which may differ from thread to thread, for each thread of the group, aligned to 16. All pieces lie in one block,
  // in the order of the ranks; each thread gets its own, or all get nullptr. A thread that asks for 0 bytes gets nullptr, but for rank 0,
  // whose pointer is that of the block unless no thread asks for anything. Freed together, by free(group, p); a piece alone cannot be
  // freed.
  template <class Group>
  requires thread_group<Group> || cooperative_group<Group>
  [[nodiscard]] GPUHEAP_HD void* malloc_each(Group const& group, simt::size_t bytes) const {
    if constexpr (simt::compiles_device_code) {
      require_single_requests();
      auto const& threads = detail::as_thread_group(group);
      // Up to 2^10 threads: the sum cannot exceed 2^63, and no heap holds a single piece of 2^53.
      constexpr simt::uint64_t too_large = simt::uint64_t{1} << 53;
      simt::uint64_t const need = bytes < too_large ? simt::round_up_pow2(bytes, 16) : too_large;
      simt::uint64_t total = 0;
      simt::uint64_t const before = threads.sum_before(need, total);
      bool const first = threads.rank() == 0;
      auto* const block = static_cast<char*>(threads.from_first(first ? malloc(total) : nullptr));
      return block != nullptr && (bytes != 0 || first) ? block + before : nullptr;
    } else {
      return nullptr;
    }
  }

  // A block of `bytes` for each thread of the group, which should be the same in all of them: its own, as malloc(bytes) would give it, to
  // be freed by free(p) of any one thread at any later time. Where the allocator can (coalesce_*), the blocks lie side by side in the order
  // of the ranks, and one thread asks for all; a group of a block is then best. Elsewhere each thread asks for itself, and no thread waits.
  template <class Group>
  requires thread_group<Group> || cooperative_group<Group>
  [[nodiscard]] GPUHEAP_HD void* malloc_coalesced(Group const& group, simt::size_t bytes) const {
    if constexpr (simt::compiles_device_code) {
      auto const& threads = detail::as_thread_group(group);
      using threads_type = simt::remove_cvref_t<decltype(threads)>;
      constexpr bool of_block = detail::spans_warps<threads_type>;
      if (is_empty()) return nullptr;
      if constexpr (of_block && has_malloc_by_block<Allocator, threads_type>) {
        void* const p = allocator_.malloc_by_block(threads, bytes);
        finish_malloc(p, bytes);
        return p;
      } else if constexpr (!of_block && has_malloc_by_warp<Allocator, threads_type>) {
        void* const p = allocator_.malloc_by_warp(threads, bytes);
        finish_malloc(p, bytes);
        return p;
      } else {
        return malloc(bytes);
      }
    } else {
      return nullptr;
    }
  }

  // Frees what malloc(group, ...) or malloc_each(group, ...) gave a group with the same rank 0, or this thread's alone gave rank 0; the
  // pointers of the other ranks are not looked at. Every thread's accesses to the block happen before it is free. All get the answer.
  template <class Group>
  requires thread_group<Group> || cooperative_group<Group> GPUHEAP_HD free_status free(Group const& group, void* p)
  const {
    if constexpr (simt::compiles_device_code) {
      require_single_requests();
      auto const& threads = detail::as_thread_group(group);
      threads.sync();
      return static_cast<free_status>(threads.from_first(static_cast<simt::uint64_t>(threads.rank() == 0 ? free(p) : free_status::null)));
    } else {
      return free_status::null;
    }
  }

  // ---- of a warp, where frees are collective

  // Gives back all that lanes of the calling warp have obtained, in this kernel or in earlier ones, and counts it. Every thread of the
  // group calls, and the call waits for all of them, before and after: their accesses to the blocks happen before, their next requests are
  // served after it. The group must have every lane of its warp that still uses a block of this heap or may ask for one; a group of several
  // warps releases what each of them has. Kernels that run at the same time and whose warps have the same numbers share what is released.
  template <class Group>
  requires thread_group<Group> || cooperative_group<Group> GPUHEAP_HD void release_warp(Group const& group) const {
    if constexpr (simt::compiles_device_code) {
      static_assert(
          has_release_warp<Allocator>,
          "gpuheap: this Allocator has no release_warp(): its traits.free is not frees::collectively, and free(p) gives a block back");
      if (is_empty()) return;
      auto const& threads = detail::as_thread_group(group);
      threads.sync();
      count_release(allocator_.release_warp());
      threads.sync();
    }
  }
  // Likewise by the lanes that make this call together now. Only where no other lane of the warp uses the heap until the kernel ends: lanes
  // that come later release again.
  GPUHEAP_HD void release_warp() const {
    if constexpr (simt::compiles_device_code) {
      release_warp(this_warp());
    }
  }

  // Likewise, for a warp that goes on: keeps what its next requests need of the allocator's own.
  template <class Group>
  requires thread_group<Group> || cooperative_group<Group> GPUHEAP_HD void tidy_up_warp(Group const& group) const {
    if constexpr (simt::compiles_device_code) {
      static_assert(has_tidy_up_warp<Allocator>, "gpuheap: this Allocator has no tidy_up_warp()");
      if (is_empty()) return;
      auto const& threads = detail::as_thread_group(group);
      threads.sync();
      count_release(allocator_.tidy_up_warp());
      threads.sync();
    }
  }

  // The allocator itself: for its own further members. What is taken from it directly is not counted.
  [[nodiscard]] GPUHEAP_HD Allocator const& allocator() const { return allocator_; }

 private:
  friend class heap<Allocator, Statistics>;
  GPUHEAP_HD heap_ref(Allocator const& allocator, failure_record* record, Statistics const& statistics)
      : allocator_{allocator}, record_{record}, statistics_{statistics} {}

  GPUHEAP_HD static constexpr void require_single_requests() {
    static_assert(!Allocator::traits.warp_level, "gpuheap: this Allocator serves whole warps, and a group's request comes from one thread");
  }

  // Whether no heap made this view, where the allocator does not see to that by itself.
  [[nodiscard]] GPUHEAP_FN bool is_empty() const {
    if constexpr (has_empty_view<Allocator>) {
      return false;
    } else {
      return record_ == nullptr;
    }
  }

  GPUHEAP_FN void finish_malloc(void* p, simt::size_t bytes) const {
    if (p != nullptr) {
      if constexpr (knows_bytes && has_exact_rounded_size<Allocator>) {
        statistics_.allocated(allocator_.rounded_size(bytes));
      } else {
        statistics_.allocated(block_bytes(p));
      }
    } else if (bytes != 0) {
      detail::record_exhaustion(record_, bytes);
    }
  }

  // What the statistics count for a live block.
  [[nodiscard]] GPUHEAP_FN simt::size_t block_bytes([[maybe_unused]] void* p) const {
    if constexpr (knows_bytes) {
      return allocator_.usable_size(p);
    } else {
      return 0;
    }
  }

  GPUHEAP_FN void count_release(released_memory const& released) const {
    if (released.allocations != 0) statistics_.freed_together(released.allocations, released.bytes);
  }

  // Whether p, of `usable` bytes, is no live block as far as the allocator can tell: recorded then as a free of it would be.
  [[nodiscard]] GPUHEAP_FN bool is_told_wrong(void* p, simt::size_t usable) const {
    if constexpr (Allocator::traits.detects_foreign_free) {
      if (usable == 0) {
        free(p);  // refuses it, and says as what
        return true;
      }
    }
    if constexpr (Allocator::traits.detects_double_free && has_is_live<Allocator>) {
      if (!allocator_.is_live(p)) {
        detail::record_refused_free(record_, p, free_status::double_free);
        return true;
      }
    }
    return false;
  }

  // Whether `p` holds `bytes` from now on, of `usable` bytes, which it keeps up to date.
  GPUHEAP_FN bool resize_in_place(void* p, simt::size_t bytes, simt::size_t& usable) const {
    if constexpr (has_try_resize<Allocator>) {
      if (!allocator_.try_resize(p, bytes)) return false;
      simt::size_t const before = usable;
      usable = usable_size(p);
      if (usable != before && knows_bytes) {
        statistics_.freed(before);
        statistics_.allocated(usable);
      }
      return true;
    } else {
      return bytes <= usable;
    }
  }
  // A block to move to that would be nice to have.
  [[nodiscard]] GPUHEAP_FN void* malloc_smaller(simt::size_t bytes) const {
    if constexpr (has_try_malloc<Allocator>) {
      return allocator_.try_malloc(bytes);
    } else {
      return allocator_.malloc(bytes);
    }
  }
  // Whether a block of its own for `bytes` is less than half of one of `usable`.
  [[nodiscard]] GPUHEAP_FN bool is_much_less(simt::size_t bytes, simt::size_t usable) const {
    if constexpr (has_rounded_size<Allocator>) bytes = allocator_.rounded_size(bytes);
    return bytes < usable / 2;
  }

  // Gives p back to the allocator, and records it if that refuses.
  GPUHEAP_FN free_status free_block(void* p) const {
    if (is_empty()) return p == nullptr ? free_status::null : free_status::foreign;
    auto const refused = [record = record_](void* what, free_status why) { detail::record_refused_free(record, what, why); };
    if constexpr (reports_refused_frees<Allocator>) {
      return allocator_.free(p, refused);
    } else if constexpr (answers_free<Allocator>) {
      free_status const status = allocator_.free(p);
      if (status != free_status::done && status != free_status::null) refused(p, status);
      return status;
    } else {
      allocator_.free(p);
      return p == nullptr ? free_status::null : free_status::done;
    }
  }

  // Blocks are aligned to at least 16 bytes: whole words first, then the bytes left over.
  GPUHEAP_FN static void zero(void* p, simt::size_t bytes) {
    auto* const words = static_cast<simt::uint64_t*>(p);
    // Ends: bytes / 8 passes.
    for (simt::size_t i = 0; i < bytes / 8; ++i) simt::plain_write(words[i], simt::uint64_t{0});
    auto* const rest = static_cast<unsigned char*>(p);
    // Ends: at most 7 passes.
    for (simt::size_t i = bytes & ~simt::size_t{7}; i < bytes; ++i) simt::plain_write(rest[i], static_cast<unsigned char>(0));
  }
  GPUHEAP_FN static void copy(void* to, void const* from, simt::size_t bytes) {
    auto* const to_words = static_cast<simt::uint64_t*>(to);
    auto const* const from_words = static_cast<simt::uint64_t const*>(from);
    // Ends: bytes / 8 passes.
    for (simt::size_t i = 0; i < bytes / 8; ++i) simt::plain_write(to_words[i], simt::plain_read(from_words[i]));
    auto* const to_rest = static_cast<unsigned char*>(to);
    auto const* const from_rest = static_cast<unsigned char const*>(from);
    // Ends: at most 7 passes.
    for (simt::size_t i = bytes & ~simt::size_t{7}; i < bytes; ++i) simt::plain_write(to_rest[i], simt::plain_read(from_rest[i]));
  }

  Allocator allocator_{};
  failure_record* record_ = nullptr;
  Statistics statistics_{};
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
