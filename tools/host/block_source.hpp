// The interface of a source of blocks for a pool: the slots of a plan (slots.hpp), or an allocator's heap (heap_blocks.hpp). Addresses are
// offsets into the pool. Any thread may call any member.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuheap::interpose {

class block_source {
 public:
  enum class outcome {
    served,
    unprofiled,  // the plan has no slots for this call site
    too_large,
    busy,    // no free block is large enough
    failed,  // the device failed, and its error has been reported
  };
  struct grant {
    outcome how;
    std::uint64_t offset = 0;
    std::uint64_t bytes =
        0;  // served: the size of the block; too_large: the largest size that can be served; busy: the smallest size that fits
  };
  struct block {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;  // as requested; 0: there is no block
    std::uint64_t site = 0;   // the call site of the request; 0: not known
  };

  block_source() = default;
  block_source(block_source const&) = delete;
  block_source& operator=(block_source const&) = delete;
  virtual ~block_source() = default;

  // Asks for a block of `bytes` bytes, for a request from the call site `site`.
  [[nodiscard]] virtual grant allocate(std::uint64_t site, std::uint64_t bytes) = 0;

  // Frees the live block that begins at `offset`. Returns false if no live block begins there.
  [[nodiscard]] virtual bool release(std::uint64_t offset) = 0;

  // While this is on, blocks that are live or are handed out are not reused after their release, because a captured graph may contain their
  // addresses.
  virtual void pin(bool on) = 0;

  // Whether a live block begins at the offset.
  [[nodiscard]] virtual bool begins_live(std::uint64_t offset) const = 0;
  // The live block that contains the offset.
  [[nodiscard]] virtual block live_at(std::uint64_t offset) const = 0;
  [[nodiscard]] virtual std::uint64_t live_bytes() const = 0;  // sum of the requested sizes
  [[nodiscard]] virtual std::size_t num_live() const = 0;
};

}  // namespace gpuheap::interpose
