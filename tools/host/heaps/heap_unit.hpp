// An allocator as a table of C functions, which heap_unit.in instantiates for each allocator. The heap is only the allocator's view over
// the region, without statistics or records, since the caller knows every block.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/warp.hpp>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "tools/host/heap_interface.hpp"
#include "tools/host/heaps/within_region.hpp"

namespace gpuheap::interpose {

// The reason why an allocator cannot replace the driver's; null if it can.
template <class Allocator>
constexpr char const* refusal_of() {
  if (Allocator::traits.overwrites) return "by design it returns memory that is still in use";
  if (Allocator::traits.free == frees::collectively) return "it frees all blocks of a warp together, and cudaFree frees one";
  if (Allocator::traits.process_wide)
    return "its blocks are those of the kernels' own malloc, and the driver copies neither to them nor from them";
  return nullptr;
}

// Kernels of one thread.

template <class Allocator>
struct serve_request {
  Allocator heap;
  simt::size_t bytes, alignment;
  heap_block* out;

  GPUHEAP_FN void operator()(unsigned) const {
    auto const given = reinterpret_cast<simt::uint64_t>(ask());
    simt::plain_write(out->given, given);
    simt::plain_write(out->address, simt::round_up_pow2(given, simt::uint64_t{alignment}));
  }

 private:
  [[nodiscard]] GPUHEAP_FN void* ask() const {
    if constexpr (has_aligned_malloc<Allocator>) {
      return heap.aligned_malloc(bytes, alignment);
    } else {
      if constexpr (Allocator::traits.free == frees::individually) {
        // Most large blocks have the alignment without extra bytes.
        void* const p = heap.malloc(bytes);
        if (p == nullptr || reinterpret_cast<simt::uintptr_t>(p) % alignment == 0) return p;
        heap.free(p);
      }
      constexpr simt::size_t promised = Allocator::traits.min_alignment;
      return heap.malloc(bytes + (alignment > promised ? alignment - promised : 0));
    }
  }
};

template <class Allocator>
struct serve_release {
  Allocator heap;
  void* block;
  simt::uint32_t* refused;

  GPUHEAP_FN void operator()(unsigned) const {
    if constexpr (answers_free<Allocator>) {
      free_status const status = heap.free(block);
      simt::plain_write(*refused, status == free_status::done ? simt::uint32_t{0} : simt::uint32_t{1});
    } else {
      heap.free(block);
      simt::plain_write(*refused, simt::uint32_t{0});
    }
  }
};

template <class Allocator>
class served_heap {
  // The answers of a kernel, in memory that the host reads.
  struct answers {
    heap_block block;
    simt::uint32_t refused;
  };

 public:
  served_heap(void* base, simt::size_t bytes) {
    if (simt::size_t const least = Allocator::min_region_bytes(); bytes < least) {
      throw plain_error(std::string{"the allocator '"} + Allocator::traits.name + "' needs at least " + std::to_string(least) + " bytes");
    }
    // The kernels' code is loaded now, because a capture elsewhere could forbid a later call to load it.
    (void)simt::attributes_of_kernel<serve_request<Allocator>>();
    (void)simt::attributes_of_kernel<serve_release<Allocator>>();
    stream_ = simt::make_stream();
    answers_ = static_cast<answers*>(simt::allocate(simt::memory_kind::pinned, sizeof(answers)));
    heap_ = Allocator::create({base, bytes}, stream_);
    simt::synchronize(stream_);
  }

  // The context may be gone, so the destructor frees nothing in it.
  ~served_heap() = default;
  served_heap(served_heap const&) = delete;
  served_heap& operator=(served_heap const&) = delete;

  [[nodiscard]] heap_block allocate(simt::size_t bytes, simt::size_t alignment) {
    run(serve_request<Allocator>{heap_, bytes, alignment, &answers_->block});
    return answers_->block;
  }

  // Returns false if the allocator refused the block.
  [[nodiscard]] bool release(std::uint64_t given) {
    run(serve_release<Allocator>{heap_, reinterpret_cast<void*>(given), &answers_->refused});
    return answers_->refused == 0;
  }

 private:
  template <class Kernel>
  void run(Kernel kernel) {
    simt::launch(1, kernel, {.block_threads = simt::warp_lanes, .stream = stream_});
    simt::synchronize(stream_);
  }

  Allocator heap_{};
  stream_ref stream_{};
  answers* answers_ = nullptr;
};

inline void put(heap_text* into, std::string_view words) {
  std::size_t const length = std::min(words.size(), sizeof into->words - 1);
  std::memcpy(into->words, words.data(), length);
  into->words[length] = '\0';
}

// Whether exit() has reached this library, so that its CUDA runtime no longer answers. The destructor of end_of_process sets it. It is not
// a member of that object, because a compiler may leave out stores to an object in its destructor.
inline bool process_ends = false;
struct process_end {
  ~process_end() { process_ends = true; }
};
inline process_end const end_of_process;

// Runs f. If f throws, the exception goes into the text, and the result is `otherwise`.
template <class Result, class F>
Result told(heap_text* why, Result otherwise, F f) noexcept {
  put(why, "");
  try {
    return f();
  } catch (std::exception const& thrown) {
    std::string_view words = thrown.what();
    if (words.starts_with("gpuheap: ")) words.remove_prefix(9);  // because the line that will contain the words begins so
    put(why, words);
  } catch (...) {
    put(why, "an exception without a message");
  }
  return otherwise;
}

// The table of an allocator's functions.
template <class Listed>
heap_functions functions_of() {
  using Allocator = typename within_region<Listed>::type;
  heap_functions all{};
  all.version = heap_interface_version;
  all.allocator = Listed::traits.name;
  all.refusal = refusal_of<Allocator>();
  if constexpr (refusal_of<Allocator>() == nullptr) {
    using heap = served_heap<Allocator>;
    all.make = [](void* base, std::size_t bytes, heap_text* why) {
      return told<void*>(why, nullptr, [&] { return std::make_unique<heap>(base, bytes).release(); });
    };
    all.allocate = [](void* of, std::size_t bytes, std::size_t alignment, heap_block* out, heap_text* why) {
      if (process_ends) return heap_answer::ended;
      return told(why, heap_answer::failed, [&] {
        *out = static_cast<heap*>(of)->allocate(bytes, alignment);
        return out->given == 0 ? heap_answer::nothing_fits : heap_answer::done;
      });
    };
    all.release = [](void* of, std::uint64_t given, heap_text* why) {
      if (process_ends) return heap_answer::ended;
      return told(why, heap_answer::failed, [&] {
        if (static_cast<heap*>(of)->release(given)) return heap_answer::done;
        put(why, std::string{"the allocator '"} + Allocator::traits.name + "' does not know the block any more");
        return heap_answer::failed;
      });
    };
    all.forget = [](void* of) { delete static_cast<heap*>(of); };
  }
  return all;
}

}  // namespace gpuheap::interpose
