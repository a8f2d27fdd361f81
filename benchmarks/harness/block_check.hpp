// Are the blocks that an allocator handed out good memory: aligned, inside the heap, and each its owner's alone? In kernels of their own,
// never timed.
//
// Overlap is found by contents: every byte of every block is written with a pattern that names the block, then, in a second kernel,
// everything is read back. Two blocks that share a byte cannot both have kept it (but for the tail bytes of a block, which tell 256 values
// apart).
#pragma once

#include <gpuheap/memory/region.hpp>
#include <gpuheap/simt/runtime.hpp>

#include <string>

#include "harness/device_array.hpp"

namespace gpuheap::bench {

// `count` blocks in device arrays: where each begins (nullptr: the request failed) and how many bytes were asked for.
struct block_list {
  void* const* pointers = nullptr;
  simt::uint64_t const* sizes = nullptr;
  unsigned count = 0;
};

struct address_report {
  simt::uint64_t failed_requests = 0;
  simt::uint64_t misaligned = 0;
  simt::uint64_t outside = 0;  // not within the heap

  // Why the addresses are not to be used, or "".
  [[nodiscard]] std::string fault(std::size_t alignment) const;
};

class block_checker {
 public:
  explicit block_checker(stream_ref stream) : stream_{stream}, report_(1), num_lost_(1) {}

  // Counts failed_requests and bad addresses. `alignment`: what every address must be a multiple of. `heap`: where every block must lie;
  // base nullptr if it is unknown.
  [[nodiscard]] address_report inspect(block_list const& blocks, std::size_t alignment, memory::region heap);

  // Writes and reads back all blocks, each at most `largest_bytes` long, and returns how many words were not what their owner wrote. The
  // addresses must have passed inspect(). `round` changes the pattern, so that an earlier round's remains do not pass for this one's.
  [[nodiscard]] simt::uint64_t count_lost(block_list const& blocks, simt::uint64_t largest_bytes, unsigned round);

 private:
  stream_ref stream_;
  device_array<address_report> report_;
  device_array<simt::uint64_t> num_lost_;
};

}  // namespace gpuheap::bench
