// The device's view of a heap: kernels take it by value and call its members. Compiles under NVRTC.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/block_tag.hpp>
#include <gpuheap/collective.hpp>
#include <gpuheap/default_allocator.hpp>
#include <gpuheap/failure_record.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/far_call.hpp>
#include <gpuheap/simt/types.hpp>
#include <gpuheap/statistics.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// The largest alignment that aligned_malloc() takes, in bytes.
inline constexpr simt::size_t largest_alignment = simt::size_t{2} << 20;

// @brief The device's view of a heap. heap::ref() makes it; it is trivially copyable and valid as long as the heap lives.
//
// Any thread in any state of divergence may call any member, and kernels of any number of streams of one device may do so at once. The
// program itself orders accesses to a block that one thread passes to another, by release and acquire. malloc() orders a block's reuse
// after its free.
//
// A request that nothing fits gets nullptr, and the heap records it (heap::stats, heap::check). A request for 0 bytes gets nullptr too,
// which is not a failure. A new block's contents are undefined.
//
// A view that no heap made has no memory: it answers requests with nullptr, reports frees as foreign, and records nothing.
//
// Code that is compiled for both sides, such as a __host__ __device__ lambda, may call the members too. On a GPU's host they do nothing and
// return nullptr, 0, false or free_status::null.
template <device_allocator Allocator, class Statistics>
class heap_ref {
  static constexpr bool knows_bytes = Statistics::counts && has_usable_size<Allocator>;
  static_assert((Allocator::traits.free == frees::collectively) == has_release_warp<Allocator>,
                "gpuheap: an Allocator has release_warp() if its traits.free is frees::collectively, and only then");

 public:
  using allocator_type = Allocator;
  using statistics_type = Statistics;

  heap_ref() = default;

  // @brief Allocates a block.
  // @param bytes the size that is needed; the block may be larger
  // @return a block aligned to traits.min_alignment (16 or more), or nullptr for 0 bytes and when nothing fits
  [[nodiscard]] GPUHEAP_HD void* malloc(simt::size_t bytes) const {
    if constexpr (simt::compiles_device_code) {
      void* const p = bytes == 0 || is_empty() ? nullptr : allocator_.malloc(bytes);
      finish_malloc(p, bytes);
      return p;
    } else {
      return nullptr;
    }
  }

  // @brief Allocates a block as malloc(bytes) does, and gives it a tag.
  // @param bytes the size of the block in bytes
  // @param tag the name of the block in a checked heap's reports: gpuheap::here(), or tag_number(). Other heaps ignore it
  // @return as malloc(bytes)
  [[nodiscard]] GPUHEAP_HD void* malloc(simt::size_t bytes, [[maybe_unused]] block_tag tag) const {
    if constexpr (simt::compiles_device_code && has_tagged_malloc<Allocator>) {
      void* const p = bytes == 0 || is_empty() ? nullptr : allocator_.malloc(bytes, tag);
      finish_malloc(p, bytes);
      return p;
    } else {
      return malloc(bytes);
    }
  }

  // @brief Frees a block.
  // @param p what a member of this heap returned, or nullptr, which does nothing
  // @return done, null, or the reason why the heap refused the pointer. Where the allocator's traits promise it, the heap refuses and
  // records a second free of a block, and a pointer that it never returned. Elsewhere such a free is undefined
  // @note Where frees are collective, the call does nothing: the block stays live, also in the counts, until release_warp().
  GPUHEAP_HD free_status free(void* p) const {
    if constexpr (simt::compiles_device_code) {
      if constexpr (Allocator::traits.free == frees::collectively) {
        return p == nullptr ? free_status::null : free_status::done;
      } else {
        return free_singly(p);
      }
    } else {
      return free_status::null;
    }
  }

  // @brief Frees a block as free(p) does, and gives the free a tag.
  // @param p as for free(p)
  // @param tag the name of the free in a checked heap's reports: gpuheap::here(), or tag_number(). Other heaps ignore it
  // @return as free(p)
  GPUHEAP_HD free_status free(void* p, [[maybe_unused]] block_tag tag) const {
    if constexpr (simt::compiles_device_code && has_tagged_free<Allocator>) {
      return free_singly(p, tag);
    } else {
      return free(p);
    }
  }

  // @brief Frees a block as free() does, in a function that is called rather than inlined.
  //
  // A called function saves each register that it uses beyond a few, which costs as much as the free itself. So this function contains only
  // the common case, a whole warp that frees neighbouring blocks, and calls other functions for all other cases.
  // @param p as for free()
  // @return as free()
  // @note The view lies in the GPU's global memory. Device.
  GPUHEAP_FN free_status free_when_called(void* p) const {
    if constexpr (!knows_bytes && has_free_neighbours<Allocator>) {
      free_status status;
      auto const rest = [&](auto const& m) { return simt::far_call(&finish_free<simt::remove_cvref_t<decltype(m)>>, this, p, m); };
      if (!is_empty() && allocator_.free_neighbours(p, status, rest)) {
        if (status == free_status::done) statistics_.freed(0);
        return status;
      }
      return simt::far_call(&free_far, this, p);
    } else {
      return free(p);
    }
  }

  // @brief Allocates an array of zeros.
  // @param count the number of objects
  // @param bytes the size of each
  // @return a block of zeros, or nullptr as from malloc(). If the product exceeds 2^64 - 1, the result is nullptr too, and the heap records
  // request_fault::overflow
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

  // @brief Changes the size of a block. The contents stay, up to the smaller size.
  // @param p a block of this heap; nullptr: the call is malloc(bytes)
  // @param bytes the new size; 0: the call is free(p) and returns nullptr
  // @return `p` itself if its block is large enough and would be at most half empty, if the block can grow or shrink in place, or if the
  // block is large enough and no smaller one is free; otherwise a new block. nullptr when nothing fits; `p` then stays as it is
  // @note A pointer that free() would refuse gets nullptr, and the heap records it as free() would.
  [[nodiscard]] GPUHEAP_HD void* realloc(void* p, simt::size_t bytes) const {
    return realloc(p, bytes, [&](void* old) { return free(old); });
  }
  // @brief Changes the size of a block as realloc(p, bytes) does, and frees the old block by a call of the caller's function, which is
  // shared by several calls where free() would be inlined into each.
  // @param p as for realloc(p, bytes)
  // @param bytes as for realloc(p, bytes)
  // @param free_old called with p at most once: free_status(void*), which does what free(p) does
  template <class Free>
  [[nodiscard]] GPUHEAP_HD void* realloc(void* p, simt::size_t bytes, Free const& free_old) const {
    if constexpr (simt::compiles_device_code) {
      static_assert(has_realloc<Allocator> || has_usable_size<Allocator>,
                    "gpuheap: this Allocator cannot realloc: it has neither realloc(p, bytes) nor usable_size(p)");
      if constexpr (has_realloc<Allocator>) {
        if (p == nullptr) return malloc(bytes);
        if (bytes == 0) {
          free_old(p);
          return nullptr;
        }
        if (is_empty()) return nullptr;
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
        // All cases share one request and one free: the lanes of a warp ask and free together, and the code is inlined once.
        bool asks = bytes != 0, holds = false;
        simt::size_t usable = 0;
        if (p != nullptr && bytes != 0) {
          if (is_empty()) return nullptr;
          usable = usable_size(p);
          if (is_known_as_free(p, usable)) return nullptr;
          asks = !is_known_as_foreign(usable);
          holds = asks && resize_in_place(p, bytes, usable);
          if (holds && !is_much_less(bytes, usable)) return p;
        }
        void* moved = nullptr;
        if (asks) {
          if (!is_empty()) moved = holds ? malloc_smaller(bytes) : allocator_.malloc(bytes);
          if (moved == nullptr && holds) return p;
          finish_malloc(moved, bytes);
          if (moved == nullptr || p == nullptr) return moved;
          copy(moved, p, bytes < usable ? bytes : usable);
        }
        free_old(p);  // records a pointer that the heap refuses
        return moved;
      }
    } else {
      return nullptr;
    }
  }

  // @brief Allocates an aligned block.
  // @param bytes as for malloc()
  // @param alignment a power of two up to 2 MiB. Any other value gets nullptr, and the heap records request_fault::alignment
  // @return as malloc()
  [[nodiscard]] GPUHEAP_HD void* aligned_malloc(simt::size_t bytes, simt::size_t alignment) const {
    if constexpr (simt::compiles_device_code) {
      return malloc_aligned(bytes, alignment);
    } else {
      return nullptr;
    }
  }

  // @brief Allocates a block as aligned_malloc(bytes, alignment) does, and gives it a tag.
  // @param bytes as for malloc()
  // @param alignment as for aligned_malloc(bytes, alignment)
  // @param tag as for malloc(bytes, tag)
  // @return as malloc()
  [[nodiscard]] GPUHEAP_HD void* aligned_malloc(simt::size_t bytes, simt::size_t alignment, [[maybe_unused]] block_tag tag) const {
    if constexpr (simt::compiles_device_code && has_tagged_aligned_malloc<Allocator>) {
      return malloc_aligned(bytes, alignment, tag);
    } else {
      return aligned_malloc(bytes, alignment);
    }
  }

  // @param p a live block of this heap, or nullptr
  // @return how many bytes of the block the program may use, at least the requested ones; 0 for nullptr
  [[nodiscard]] GPUHEAP_HD simt::size_t usable_size(void* p) const {
    if constexpr (simt::compiles_device_code) {
      static_assert(has_usable_size<Allocator>, "gpuheap: this Allocator has no usable_size(p)");
      return p == nullptr || is_empty() ? 0 : allocator_.usable_size(p);
    } else {
      return 0;
    }
  }

  // @param p any pointer
  // @return true for the start of every live block of this heap, and false for every pointer outside its memory. For pointers into free
  // memory or into a block, the answer depends on the allocator
  [[nodiscard]] GPUHEAP_HD bool owns(void const* p) const {
    if constexpr (simt::compiles_device_code) {
      static_assert(has_owns<Allocator>, "gpuheap: this Allocator has no owns(p); process_wide allocators cannot have one");
      return p != nullptr && !is_empty() && allocator_.owns(p);
    } else {
      return false;
    }
  }

  // @brief Allocates and constructs an object.
  // @param args the arguments of T's constructor, or the members of an aggregate
  // @return the object, or nullptr when nothing fits; then no constructor runs
  template <class T, class... Args>
  [[nodiscard]] GPUHEAP_HD T* create(Args&&... args) const {
    static_assert(!simt::is_array_v<T>,
                  "gpuheap: create<T>() makes one object: memory for an array comes from malloc(count * sizeof(element))");
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
  // @brief Destroys an object and frees its block.
  // @param p what create<T>() returned, not a pointer to a base class; nullptr does nothing
  // @return as free()
  template <class T>
  GPUHEAP_HD free_status destroy(T* p) const {
    static_assert(!simt::is_same_v<simt::remove_cvref_t<T>, void>, "gpuheap: destroy(p) needs the object's type: free(p) takes a void*");
    if constexpr (simt::compiles_device_code) {
      if (p == nullptr) return free_status::null;
      p->~T();
      if constexpr (has_expected_size<Allocator>) {
        if (!is_empty()) allocator_.expect_size(p, sizeof(T));
      }
      return free(p);
    } else {
      return free_status::null;
    }
  }

  // ---- calls by a group of threads (collective.hpp): every thread of the group calls, and each call waits for all of them

  // @brief Allocates one block for a whole group. One thread allocates, so the heap counts one allocation or one failure.
  // @param group the calling threads
  // @param bytes the same in every thread
  // @return the same pointer in all threads, or nullptr in all. The block is freed once, by free(group, p) or by free(p) of one thread
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

  // @brief Allocates a piece for each thread of a group. All pieces lie in one block, in the order of the ranks, and are freed together by
  // free(group, p); a single piece cannot be freed.
  // @param group the calling threads
  // @param bytes the size of the calling thread's piece, which may differ from thread to thread
  // @return the thread's piece, aligned to 16 bytes, or nullptr in all threads when nothing fits. A thread with 0 bytes gets nullptr,
  //         except rank 0, which gets the block's pointer if any thread has more than 0 bytes
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

  // @brief Allocates a block for each thread of a group. With the allocators coalesce_* the blocks lie side by side in the order of the
  // ranks and one thread allocates all, which pays most for a group of a whole thread block. With other allocators each thread allocates
  // for itself, and no thread waits for another thread's call.
  // @param group the calling threads
  // @param bytes should be the same in all threads
  // @return a block of the thread's own, as from malloc(bytes), which free(p) of any thread frees at any later time
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

  // @brief Frees a block that malloc(group, ...) or malloc_each(group, ...) returned to a group with the same rank 0, or that malloc()
  // returned to the thread of rank 0. Every thread's accesses to the block happen before the free.
  // @param group the calling threads
  // @param p the pointer of rank 0; those of the other ranks are ignored
  // @return as free(p), the same in all threads
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

  // ---- calls by a warp, for allocators whose frees are collective

  // @brief Frees all blocks that lanes of the calling warp have obtained, in this kernel or in earlier ones, and counts them.
  // @param group the calling threads: every lane of the warp that still uses a block of this heap or may request one. A group of several
  //        warps frees the blocks of each. The call waits for all threads of the group, before and after: their accesses to the blocks
  //        happen before the release, and their next requests come after it
  // @note A warp is known by its number in the grid. If several kernels run at the same time, the call also frees the blocks of the other
  // kernels' warps of the same number.
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
  // @brief The same for the lanes that make this call together now. No other lane of the warp may use the heap between this call and the
  // end of the kernel: a lane that calls later releases the warp's blocks once more.
  GPUHEAP_HD void release_warp() const {
    if constexpr (simt::compiles_device_code) {
      release_warp(this_warp());
    }
  }

  // @brief The same for a warp that continues to allocate: the allocator keeps what the warp's next requests need.
  // @param group as for release_warp()
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

  // @return the allocator, for members that only it has. The statistics do not count requests and frees that a program makes on it directly
  [[nodiscard]] GPUHEAP_HD Allocator const& allocator() const { return allocator_; }

 private:
  friend class heap<Allocator, Statistics>;
  GPUHEAP_HD heap_ref(Allocator const& allocator, failure_record* record, Statistics const& statistics)
      : allocator_{allocator}, record_{record}, statistics_{statistics} {}

  GPUHEAP_HD static constexpr void require_single_requests() {
    static_assert(!Allocator::traits.warp_level, "gpuheap: this Allocator serves whole warps, and a group's request comes from one thread");
  }

  // Whether no heap made this view. False for allocators that handle such a view themselves.
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

  // The bytes that the statistics count for a live block.
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

  // Whether a pointer whose usable_size() is `usable` is no block of this heap, as far as the allocator can tell.
  [[nodiscard]] GPUHEAP_FN static bool is_known_as_foreign(simt::size_t usable) {
    return Allocator::traits.detects_foreign_free && usable == 0;
  }
  // Whether p is a block that is free, as far as the allocator can tell. The heap records it as it would a free of p.
  [[nodiscard]] GPUHEAP_FN bool is_known_as_free([[maybe_unused]] void* p, [[maybe_unused]] simt::size_t usable) const {
    if constexpr (Allocator::traits.detects_double_free && has_is_live<Allocator>) {
      if (!is_known_as_foreign(usable) && !allocator_.is_live(p)) {
        detail::record_refused_free(record_, p, free_status::double_free);
        return true;
      }
    }
    return false;
  }

  // Tries to make block p, of `usable` bytes, hold `bytes` where it is. True: it does; `usable` is then its present size.
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
  // Allocates a smaller block for realloc() to move to. nullptr is no failure: the block then stays where it is.
  [[nodiscard]] GPUHEAP_FN void* malloc_smaller(simt::size_t bytes) const {
    if constexpr (has_try_malloc<Allocator>) {
      return allocator_.try_malloc(bytes);
    } else {
      return allocator_.malloc(bytes);
    }
  }
  // Whether a new block for `bytes` would have less than half of `usable` bytes.
  [[nodiscard]] GPUHEAP_FN bool is_much_less(simt::size_t bytes, simt::size_t usable) const {
    if constexpr (has_rounded_size<Allocator>) bytes = allocator_.rounded_size(bytes);
    return bytes < usable / 2;
  }

  // Frees p by the allocator, and records a refusal.
  // `tag`: nothing, or a block_tag.
  template <class... Tag>
  GPUHEAP_FN void* malloc_aligned(simt::size_t bytes, simt::size_t alignment, Tag... tag) const {
    static_assert(has_aligned_malloc<Allocator>, "gpuheap: this Allocator has no aligned_malloc(bytes, alignment)");
    bool const valid = alignment != 0 && (alignment & (alignment - 1)) == 0 && alignment <= largest_alignment;
    void* const p = bytes == 0 || !valid || is_empty() ? nullptr : allocator_.aligned_malloc(bytes, alignment, tag...);
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
  }
  template <class... Tag>
  GPUHEAP_FN free_status free_singly(void* p, Tag... tag) const {
    // There is no early return for nullptr: lanes that diverge here and converge again cost registers, and the allocator handles
    // nullptr.
    simt::size_t const bytes = p == nullptr || is_empty() ? 0 : block_bytes(p);
    free_status const status = free_block(p, tag...);
    if (status == free_status::done) statistics_.freed(bytes);
    return status;
  }
  template <class... Tag>
  GPUHEAP_FN free_status free_block(void* p, Tag... tag) const {
    if (is_empty()) return p == nullptr ? free_status::null : free_status::foreign;
    auto const refused = [record = record_](void* what, free_status why) { detail::record_refused_free(record, what, why); };
    if constexpr (reports_refused_frees<Allocator>) {
      return allocator_.free(p, refused);
    } else if constexpr (answers_free<Allocator>) {
      free_status const status = allocator_.free(p, tag...);
      if (status != free_status::done && status != free_status::null) refused(p, status);
      return status;
    } else {
      allocator_.free(p);
      return p == nullptr ? free_status::null : free_status::done;
    }
  }

  // The functions that free_when_called() calls by simt::far_call().
  GPUHEAP_COLD static free_status free_far(heap_ref const* all, void* p) { return all->free(p); }
  template <class Marked>
  GPUHEAP_COLD static free_status finish_free(heap_ref const* all, void* p, Marked m) {
    auto const refused = [record = all->record_](void* what, free_status why) { detail::record_refused_free(record, what, why); };
    return all->allocator_.finish_marked(simt::all_lanes, p, m, refused);
  }

  // zero() and copy() access whole words first, then the bytes left over: blocks are aligned to at least 16 bytes.
  GPUHEAP_FN static void zero(void* p, simt::size_t bytes) {
    auto* const words = static_cast<simt::uint64_t*>(p);
    for (simt::size_t i = 0; i < bytes / 8; ++i) simt::plain_write(words[i], simt::uint64_t{0});
    auto* const rest = static_cast<unsigned char*>(p);
    for (simt::size_t i = bytes & ~simt::size_t{7}; i < bytes; ++i) simt::plain_write(rest[i], static_cast<unsigned char>(0));
  }
  GPUHEAP_FN static void copy(void* to, void const* from, simt::size_t bytes) {
    auto* const to_words = static_cast<simt::uint64_t*>(to);
    auto const* const from_words = static_cast<simt::uint64_t const*>(from);
    for (simt::size_t i = 0; i < bytes / 8; ++i) simt::plain_write(to_words[i], simt::plain_read(from_words[i]));
    auto* const to_rest = static_cast<unsigned char*>(to);
    auto const* const from_rest = static_cast<unsigned char const*>(from);
    for (simt::size_t i = bytes & ~simt::size_t{7}; i < bytes; ++i) simt::plain_write(to_rest[i], simt::plain_read(from_rest[i]));
  }

  Allocator allocator_{};
  failure_record* record_ = nullptr;
  Statistics statistics_{};
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
