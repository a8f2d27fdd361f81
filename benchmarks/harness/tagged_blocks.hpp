// Blocks of random sizes that the kernel which takes them also checks: their owner writes words that follow from the request's number, and
// looks for them before it gives the block back.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>

#include <string>

#include "harness/random.hpp"

namespace gpuheap::bench {

struct block_tally {
  simt::uint64_t failed_requests = 0;
  simt::uint64_t lost = 0;        // 8-byte words that were not what their owner wrote
  simt::uint64_t misaligned = 0;  // blocks

  // The fault of the memory, or "".
  [[nodiscard]] std::string fault() const {
    if (misaligned != 0) return std::to_string(misaligned) + " blocks are misaligned";
    if (lost != 0) return std::to_string(lost) + " words did not keep their contents while their block was live";
    return "";
  }
};

// The smallest request.
inline constexpr simt::uint32_t tagged_smallest_bytes = 16;

template <class Ref>
struct tagged_blocks {
  Ref heap;
  random_sequence random;
  simt::uint32_t largest;
  bool whole_contents;  // write and check every 8-byte word of a block; otherwise the first
  block_tally* tally;

  // A request: its size and what its owner writes into it follow from its number alone, so that only pointers are kept.
  struct request_facts {
    simt::uint64_t tag;
    simt::uint32_t bytes;
    [[nodiscard]] GPUHEAP_FN simt::uint32_t num_words() const { return bytes / 8; }
  };
  [[nodiscard]] GPUHEAP_FN request_facts request(simt::uint64_t n) const {
    return {random.bits(n), tagged_smallest_bytes + random.below(n, largest - tagged_smallest_bytes + 1)};
  }

  // Asks for a block and writes into it. nullptr is counted.
  GPUHEAP_FN simt::uint64_t* take(request_facts const& r) const {
    auto const words = static_cast<simt::uint64_t*>(heap.malloc(r.bytes));
    count(tally->failed_requests, words == nullptr);
    if (words == nullptr) return nullptr;
    count(tally->misaligned, reinterpret_cast<simt::uintptr_t>(words) % Ref::allocator_type::traits.min_alignment != 0);
    for (simt::uint32_t w = 0; w < r.num_words(); w += stride(r.num_words())) words[w] = r.tag + w;
    return words;
  }

  // Looks for what take() wrote, and frees. `words` is not nullptr.
  GPUHEAP_FN void deallocate(simt::uint64_t* words, request_facts const& r) const {
    simt::uint32_t lost = 0;
    for (simt::uint32_t w = 0; w < r.num_words(); w += stride(r.num_words())) lost += words[w] != r.tag + w;
    count(tally->lost, lost);
    heap.free(words);
  }

 private:
  [[nodiscard]] GPUHEAP_FN simt::uint32_t stride(simt::uint32_t num_words) const { return whole_contents ? 1 : num_words; }

  // relaxed: tallies that the host reads after the kernel. Rare, so each is added where it happens.
  GPUHEAP_FN static void count(simt::uint64_t& what, simt::uint32_t more) {
    if (more != 0) simt::atomic_ref<simt::uint64_t>{what}.fetch_add(more, simt::relaxed);
  }
};

}  // namespace gpuheap::bench
