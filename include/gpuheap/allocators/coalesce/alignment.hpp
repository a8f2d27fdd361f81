// The alignment of blocks in a superblock, which costs memory.
#pragma once

#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// `strict16`   every block is aligned to 16, as with any allocator
// `natural`    to the largest power of two up to the block's bytes, and 16 at most: enough for every type that fits into it, and for arrays
//              of it. heap_ref's create() refuses such a heap, since it knows only the allocator's least alignment
// `paper`      as published, which takes the least memory. For blocks without a header, and for coalesce_dynamic, the alignment is 4 at
//              most: a double, a pointer or a float4 in such a block is a misaligned access, which ends a kernel. For blocks of 4-byte
//              types; no calloc(), no realloc()
enum class coalesce_alignment { strict16, natural, paper };

namespace coalesce_parts {

// The alignment that suffices for any type of at most `bytes` (> 0).
[[nodiscard]] GPUHEAP_HD constexpr unsigned natural_alignment(simt::size_t bytes) {
  return bytes >= 16 ? 16 : 1u << simt::highest_bit(static_cast<simt::uint32_t>(bytes));
}
static_assert(natural_alignment(1) == 1 && natural_alignment(3) == 2 && natural_alignment(4) == 4 && natural_alignment(12) == 8 &&
              natural_alignment(15) == 8 && natural_alignment(16) == 16 && natural_alignment(1 << 20) == 16);

// The alignment of a block of so many bytes.
[[nodiscard]] GPUHEAP_HD constexpr unsigned alignment_of(coalesce_alignment policy, simt::size_t bytes) {
  unsigned const natural = natural_alignment(bytes);
  return policy == coalesce_alignment::strict16 ? 16 : policy == coalesce_alignment::natural || natural < 4 ? natural : 4;
}

}  // namespace coalesce_parts

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
