// Tags of requests and of frees: a program gives a call a tag, and reports of a checked heap show it. Compiles under NVRTC.
//
//   void* p = heap.malloc(64, gpuheap::here());          the file and the line of this call
//   void* q = heap.malloc(64, gpuheap::tag_number(7));   a number of the program's own
//   heap.free(p, gpuheap::here());
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief A place in the source, or a number, in one word. 0 is no tag.
// @note The word of a place has bit 0 set, the line in bits 1 to 16, and the address of the file's name in bits 17 to 63. The word of a
// number has bit 0 clear, and the number in bits 1 to 63.
struct block_tag {
  simt::uint64_t word = 0;

  [[nodiscard]] GPUHEAP_HD constexpr bool is_place() const { return (word & 1) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr simt::uint64_t number() const { return word >> 1; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned line() const { return static_cast<unsigned>(word >> 1 & 0xffff); }
  [[nodiscard]] GPUHEAP_HD char const* file() const { return reinterpret_cast<char const*>(static_cast<simt::uintptr_t>(word >> 17)); }
};

// @brief Makes a tag of a number that the program chooses.
// @param number 1 to 2^63 - 1; 0 is no tag
[[nodiscard]] GPUHEAP_HD constexpr block_tag tag_number(simt::uint64_t number) { return {number << 1}; }

// @brief Makes the tag of the place of this call. Device code. The caller passes no argument.
// @note The tag holds the line modulo 65536.
[[nodiscard]] GPUHEAP_HD inline block_tag here(char const* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  return {static_cast<simt::uint64_t>(reinterpret_cast<simt::uintptr_t>(file)) << 17 | simt::uint64_t{line & 0xffff} << 1 | 1};
}

// @brief The allocator keeps the tag of each block.
template <class A>
concept has_tagged_malloc = device_allocator<A> && requires(A const& a, simt::size_t bytes, block_tag tag) {
  { a.malloc(bytes, tag) } -> simt::same_as<void*>;
};

// @brief The allocator keeps the tag of each free, as long as it keeps the block from new requests.
template <class A>
concept has_tagged_free = device_allocator<A> && requires(A const& a, void* p, block_tag tag) {
  { a.free(p, tag) } -> simt::same_as<free_status>;
};

// @brief The allocator keeps the tag of each block that was asked for with an alignment.
template <class A>
concept has_tagged_aligned_malloc = device_allocator<A> && requires(A const& a, simt::size_t bytes, block_tag tag) {
  { a.aligned_malloc(bytes, bytes, tag) } -> simt::same_as<void*>;
};

// @brief Before a free, the allocator can be told the size that the program believes the block to have. heap_ref::destroy() tells it.
template <class A>
concept has_expected_size = device_allocator<A> && requires(A const& a, void* p, simt::size_t bytes) {
  a.expect_size(p, bytes);
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
