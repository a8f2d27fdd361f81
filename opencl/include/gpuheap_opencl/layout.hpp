// The places of a KMA heap's parts in its buffer, which the host prepares and kma.cl uses. Needs no OpenCL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpuheap::opencl {

// Sizes; the defaults are the paper's where it has such.
struct kma_config {
  unsigned superblock_log2 = 12;  // 4096 bytes
  unsigned smallest_log2 = 4;     // 16 bytes, at least; each class is twice as large as the one before
  unsigned heads_per_class = 16;  // superblocks that a class hands blocks out of at the same time, at most

  [[nodiscard]] constexpr unsigned num_classes() const { return superblock_log2 - smallest_log2 + 1; }
  [[nodiscard]] constexpr unsigned words_per_superblock() const { return ((1u << (num_classes() - 1)) + 31) / 32; }  // of bits
  // The options with which the program is built.
  [[nodiscard]] std::string build_options() const;
};

// The part of the heap's head that the host writes, and kma.cl's `kma_heap` begins with. `..._at`: bytes from the heap's start.
struct kma_head {
  std::uint32_t num_superblocks = 0, num_heads = 0;  // num_heads: of each class
  std::uint32_t num_leaves = 0, num_mids = 0;        // words of a set
  std::uint64_t words_at = 0, bits_at = 0, sets_at = 0, superblocks_at = 0;
  std::uint32_t moves_begun = 0, moves_ended = 0;
  std::uint32_t run_hint = 0, runs_foiled = 0;
};
static_assert(sizeof(kma_head) == 64);

inline constexpr std::uint32_t no_superblock = 0xffffffff;

// The layout of a heap of `bytes`; no superblocks: too small.
//   | head, heads of classes | words | bits | sets | superblocks |, each part aligned to 256 bytes
[[nodiscard]] kma_head plan(kma_config config, std::uint64_t bytes);
// Bytes that a heap of so many superblocks takes.
[[nodiscard]] std::uint64_t bytes_for(kma_config config, std::uint64_t superblocks);

// The heap's bytes below superblocks_at, as they are before its first use.
[[nodiscard]] std::vector<std::uint32_t> initial_words(kma_config config, kma_head const& head);

// The blocks in use, and the damage.
struct kma_report {
  std::string problem;  // empty: every invariant holds
  std::uint64_t live_blocks = 0, live_runs = 0;
  std::uint64_t live_bytes = 0;        // of blocks and runs
  std::uint64_t held_superblocks = 0;  // in use for a class or a run
};
// Looks at the heap's bytes below superblocks_at, of a heap that no kernel uses: superblocks that are free have no bit set and are in the
// set of the free ones; those in use have as many bits set as their word says; those that are partly in use are a head of their class or in
// its set; runs are whole; nothing is being moved.
[[nodiscard]] kma_report examine(kma_config config, std::vector<std::uint32_t> const& words);

}  // namespace gpuheap::opencl
