// The alignment of blocks in a superblock. A greater alignment costs more memory.
#pragma once

#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// `strict16`   every block is aligned to 16, as with any allocator
// `natural`    a block is aligned to the largest power of two that does not exceed its bytes, 16 at most. That suits every type that fits
//              into the block, and arrays of it. heap_ref's create() refuses such a heap, since create() relies on the allocator's least
//              alignment only
// `paper`      as published, which takes the least memory. The alignment of blocks without a header, and of those of coalesce_dynamic, is 4
//              at most. An access to a double, a pointer or a float4 in such a block may be misaligned, which ends the kernel. Such heaps
//              are for 4-byte types, and have no calloc() and no realloc()
enum class coalesce_alignment { strict16, natural, paper };

namespace coalesce_parts {

// The alignment that suffices for any type of at most `bytes` (> 0).
[[nodiscard]] GPUHEAP_HD constexpr unsigned natural_alignment(simt::size_t bytes) {
  return bytes >= 16 ? 16 : 1u << simt::highest_bit(static_cast<simt::uint32_t>(bytes));
}
static_assert(natural_alignment(1) == 1 && natural_alignment(3) == 2 && natural_alignment(4) == 4 && natural_alignment(12) == 8 &&
              natural_alignment(15) == 8 && natural_alignment(16) == 16 && natural_alignment(1 << 20) == 16);

// The alignment of a block of `bytes` bytes.
[[nodiscard]] GPUHEAP_HD constexpr unsigned alignment_of(coalesce_alignment policy, simt::size_t bytes) {
  unsigned const natural = natural_alignment(bytes);
  return policy == coalesce_alignment::strict16 ? 16 : policy == coalesce_alignment::natural || natural < 4 ? natural : 4;
}

}  // namespace coalesce_parts

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
