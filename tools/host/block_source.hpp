// What a pool's requests are served from: slots of a plan (slots.hpp), or an allocator's heap (heap_blocks.hpp). Addresses are offsets into
// the pool. All members may be called by any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuheap::interpose {

class block_source {
 public:
  enum class outcome {
    served,
    unprofiled,  // the place has no slots
    too_large,
    busy,    // nothing that is large enough is free
    failed,  // the device refused the question itself; what it said has been told
  };
  struct grant {
    outcome how;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;  // served: of the slot; too_large: the most that is served; busy: the least that would have done
  };
  struct block {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;  // asked for; 0: none
    std::uint64_t site = 0;   // that asked; 0: not known
  };

  block_source() = default;
  block_source(block_source const&) = delete;
  block_source& operator=(block_source const&) = delete;
  virtual ~block_source() = default;

  [[nodiscard]] virtual grant allocate(std::uint64_t site, std::uint64_t bytes) = 0;

  // Ends the life of the live block that begins at `offset`. False: there is none.
  [[nodiscard]] virtual bool release(std::uint64_t offset) = 0;

  // While on, blocks that are live or handed out are not given again after their release: a captured graph may name them.
  virtual void pin(bool on) = 0;

  // Whether a live block begins there.
  [[nodiscard]] virtual bool begins_live(std::uint64_t offset) const = 0;
  // The live block that holds the offset.
  [[nodiscard]] virtual block live_at(std::uint64_t offset) const = 0;
  [[nodiscard]] virtual std::uint64_t live_bytes() const = 0;  // as asked for
  [[nodiscard]] virtual std::size_t num_live() const = 0;
};

}  // namespace gpuheap::interpose
