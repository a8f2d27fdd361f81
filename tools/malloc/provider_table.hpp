// An allocator as the table of provider.hpp: the host's part of a heap that serves a program's malloc.
#pragma once

#include <gpuheap/heap.hpp>
#include <gpuheap/leaks.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tools/host/heaps/within_region.hpp"
#include "tools/malloc/beside_captures.hpp"
#include "tools/malloc/device_side.hpp"
#include "tools/malloc/provider.hpp"

namespace gpuheap::device_malloc {

// The size of a heap.
struct heap_bytes {
  simt::size_t initial = 0;
  bool grows = false;

  // A heap that grows begins with 1 / part_left of the free memory, and leaves 1 / part_left of the device's memory free.
  static constexpr simt::size_t part_left = 8;

  template <class Allocator>
  [[nodiscard]] static heap_bytes of(provider_settings const& settings) {
    if (char const* const text = std::getenv("GPUHEAP_BYTES"); text != nullptr && *text != '\0')
      return {heap_size::from_environment().resolve(memory::device), false};
    simt::size_t const free = memory::device.query()->free_bytes;
    if (settings.malloc_limit != 0) return {for_limit(settings.malloc_limit, free), false};
    return {free / part_left, has_grow<Allocator>};
  }

  // The size of a heap that serves everything that CUDA's malloc serves with `limit` bytes: the limit, and extra memory for metadata and
  // for the loss by rounding to size classes and segments. The extra is at most half of the free memory beyond the limit.
  [[nodiscard]] static simt::size_t for_limit(simt::size_t limit, simt::size_t free) {
    simt::size_t const wanted = limit / 2 + 16_MiB, left = free > limit ? (free - limit) / 2 : 0;
    return limit + std::min(wanted, left);
  }
};

// A stream that is destroyed with its owner, also if the owner's constructor throws.
struct owned_stream {
  stream_ref const ref = simt::make_stream();
  owned_stream() = default;
  owned_stream(owned_stream const&) = delete;
  owned_stream& operator=(owned_stream const&) = delete;
  ~owned_stream() { simt::destroy_stream(ref); }
};

template <class Allocator>
class served_heap {
 public:
  using heap_type = gpuheap::heap<Allocator, uncounted>;
  using state = device_state<Allocator>;

  explicit served_heap(provider_settings const& settings) {
    auto const size = heap_bytes::of<Allocator>(settings);
    told_ = memory::allocation{memory::device, sizeof(simt::uint32_t)};
    refused_ = memory::allocation{memory::pinned, sizeof(simt::uint32_t)};
    *static_cast<simt::uint32_t*>(refused_.base()) = 0;
    simt::fill(told_.base(), 0, sizeof(simt::uint32_t), stream_);
    make(size);
    simt::synchronize(stream_);
  }

  [[nodiscard]] state device_view() const {
    return {heap_->ref(), heap_->at_most(), static_cast<simt::uint32_t*>(told_.base()), static_cast<simt::uint32_t*>(refused_.base())};
  }

  [[nodiscard]] bool refused() const { return *static_cast<simt::uint32_t const volatile*>(refused_.base()) != 0; }

  grow_answer grow() {
    auto* const refused = static_cast<simt::uint32_t volatile*>(refused_.base());
    if constexpr (has_grow<Allocator>) {
      if (heap_->grows()) {
        simt::synchronize_device();
        auto const there = *memory::device.query();
        simt::size_t const kept = there.total_bytes / heap_bytes::part_left;
        simt::size_t const room = there.free_bytes > kept ? there.free_bytes - kept : 0;
        simt::size_t const more = std::min({heap_->capacity(), heap_->at_most() - heap_->capacity(), room});
        // A smaller step is not worth the wait, because each launch that finds the heap full would wait again.
        if (more >= heap_->capacity() / 64 && more != 0) {
          heap_->grow(more, stream_);
          simt::fill(told_.base(), 0, sizeof(simt::uint32_t), stream_);
          simt::synchronize(stream_);
          *refused = 0;
          return grow_answer::grown;
        }
      }
    }
    *refused = 0;  // `told` stays 1, so that no thread tells the host again
    return grow_answer::at_most;
  }
  // Called when the device has refused memory. `told` stays 1, so that no thread tells the host again.
  void give_up() { *static_cast<simt::uint32_t volatile*>(refused_.base()) = 0; }

  // Does not wait for the program's streams.
  void sample(provider_report& out) const {
    constexpr auto untold = provider_report::untold;
    statistics const s = heap_->stats(stream_);
    out = {};
    out.heap_bytes = s.heap_bytes;
    out.held_bytes = s.knows_footprint ? s.held_bytes : untold;
    out.peak_held_bytes = s.peak_held_bytes != 0 ? s.peak_held_bytes : untold;
    out.metadata_bytes = s.knows_footprint ? s.metadata_bytes : untold;
    out.failed_requests = s.failed_requests;
    out.first_failed_bytes = s.failed_requests != 0 ? s.first_failure.bytes : 0;
    out.double_frees = Allocator::traits.detects_double_free ? s.double_frees : untold;
    out.foreign_frees = Allocator::traits.detects_foreign_free ? s.foreign_frees : untold;
    out.live_blocks = s.counts_allocations ? s.live_allocations : untold;
    out.live_bytes = s.counts_bytes ? s.live_bytes : untold;
  }

  long report(provider_report& out, provider_live* live, std::size_t room) const {
    simt::synchronize_device();
    sample(out);
    out.live_blocks = out.live_bytes = provider_report::untold;
    if constexpr (has_live_blocks<Allocator>) {
      auto const sizes = heap_->live_blocks(stream_);
      out.live_blocks = out.live_bytes = 0;
      long lines = 0;
      for (live_size const& size : sizes) {
        out.live_blocks += size.blocks;
        out.live_bytes += size.blocks * size.block_bytes;
        if (static_cast<std::size_t>(lines) < room) live[lines] = {size.block_bytes, size.blocks};
        ++lines;
      }
      return lines;
    } else {
      (void)live, (void)room;
      return 0;
    }
  }

  // Calls `say` with each line about misuse that the heap has found, and about blocks that are not freed. Returns the number of misuses.
  template <class Say>
  long findings(provider_place_text* text_of, Say say) requires finds_misuse<Allocator> {
    simt::synchronize_device();
    long count = 0;
    // The tags of the program's calls are numbers of its places.
    auto const place = [text_of](block_tag tag) -> std::string {
      char const* const text = tag.word == 0 || text_of == nullptr ? nullptr : text_of(tag.number());
      return text == nullptr ? "" : text;
    };
    auto const clause = [&](block_tag tag) { return place(tag).empty() ? std::string{} : " " + place(tag); };
    heap_->on_misuse([&](misuse_finding const& found, std::string const&) {
      ++count;
      say(detail::misuse_text(found, {clause(found.tag), clause(found.freed_tag), clause(found.found_tag)}).c_str());
    });
    heap_->on_exhausted([](exhaustion const&) {});  // the report tells of exhaustion
    (void)heap_->check(stream_);
    heap_->on_misuse({});
    std::vector<block_info> const live = heap_->blocks(stream_);
    tag_names names;
    for (block_info const& block : live) {
      if (names.knows({block.tag})) continue;
      std::string text = place({block.tag});
      names.add({block.tag}, text.empty() ? "at an unknown place" : std::move(text));
    }
    leak_report const leaks = leak_report::of(live, names);
    if (leaks.empty()) return count;
    std::string const text = leaks.text();
    // Ends: one pass for each line.
    for (std::size_t at = 0; at < text.size();) {
      std::size_t const end = std::min(text.find('\n', at), text.size());
      say(((at == 0 ? "not freed: " : "") + text.substr(at, end - at)).c_str());
      at = end + 1;
    }
    return count;
  }

  void destroy() {
    simt::synchronize_device();
    heap_.reset();
  }

 private:
  void make(heap_bytes size) {
    if constexpr (has_grow<Allocator>) {
      if (size.grows) {
        heap_ = std::make_unique<heap_type>(growth{.initial = size.initial}, stream_);
        return;
      }
    }
    heap_ = std::make_unique<heap_type>(heap_size{size.initial}, stream_);
  }

  owned_stream owned_stream_;
  stream_ref const stream_ = owned_stream_.ref;
  memory::allocation told_, refused_;
  std::unique_ptr<heap_type> heap_;
};

inline void put(provider_text* into, std::string_view words) {
  if (into == nullptr) return;
  std::size_t const length = std::min(words.size(), sizeof into->words - 1);
  std::memcpy(into->words, words.data(), length);
  into->words[length] = '\0';
}

// Runs f, whose calls are allowed during stream captures of the program. If f throws, the exception's text goes into `why`, and the result
// is `otherwise`.
template <class Result, class F>
Result told(provider_text* why, Result otherwise, F f) noexcept {
  put(why, "");
  beside_captures const relaxed;
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

// The table of an allocator without its image; `name` is the allocator's name in lists.
template <class Allocator>
constexpr provider provider_of(char const* name) {
  provider all{};
  all.version = provider_version;
  all.allocator = name;
  all.refusal = refusal_of<Allocator>();
  if constexpr (refusal_of<Allocator>() == nullptr) {
    using heap = served_heap<Allocator>;
    all.state_bytes = sizeof(typename heap::state);
    all.alignment = Allocator::traits.min_alignment;
    all.make = [](provider_settings const* settings, void* state_out, provider_text* why) {
      return told<void*>(why, nullptr, [&] {
        auto made = std::make_unique<heap>(*settings);
        auto const state = made->device_view();
        std::memcpy(state_out, &state, sizeof state);
        return made.release();
      });
    };
    all.refused = [](void const* of) { return static_cast<heap const*>(of)->refused(); };
    all.grow = [](void* of, provider_text* why) {
      auto const answer = told(why, grow_answer::failed, [&] { return static_cast<heap*>(of)->grow(); });
      if (answer == grow_answer::failed) static_cast<heap*>(of)->give_up();
      return answer;
    };
    all.report = [](void* of, provider_report* out, provider_live* live, std::size_t room, provider_text* why) {
      return told(why, -1L, [&] { return static_cast<heap*>(of)->report(*out, live, room); });
    };
    all.sample = [](void* of, provider_report* out, provider_text* why) {
      return told(why, false, [&] {
        static_cast<heap*>(of)->sample(*out);
        return true;
      });
    };
    if constexpr (finds_misuse<Allocator>) {
      all.findings = [](void* of, provider_place_text* text_of, void (*say)(void*, char const*), void* to, provider_text* why) {
        return told(why, -1L, [&] { return static_cast<heap*>(of)->findings(text_of, [&](char const* line) { say(to, line); }); });
      };
    }
    all.destroy = [](void* of) {
      told(nullptr, 0, [&] {
        std::unique_ptr<heap> const mine{static_cast<heap*>(of)};
        mine->destroy();
        return 0;
      });
    };
    // The destructors of the heap's members would free memory that the device no longer has. So the object stays, which takes about a KiB
    // of host memory.
    all.forget = [](void*) {};
  }
  return all;
}

// The table of the form of an allocator that lies entirely in its region. A caller does not name the type of that form, because nvcc 13.0
// writes it for g++ with names that g++ does not know.
template <class Allocator>
constexpr provider provider_within_region() {
  return provider_of<typename interpose::within_region<Allocator>::type>(Allocator::traits.name);
}

}  // namespace gpuheap::device_malloc
