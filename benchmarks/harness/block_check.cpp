// Device code: compiled by the compiler of the backend's kernels.
#include "harness/block_check.hpp"

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/launch.hpp>

#include <algorithm>

#include "harness/random.hpp"

namespace gpuheap::bench {

namespace {

// A block is checked in pieces of this many bytes, one thread each, so that few large blocks do not take longer than many small ones.
constexpr simt::uint64_t piece_bytes = 64 * 1024;

// relaxed: a tally that the host reads after the kernel.
GPUHEAP_FN void count(simt::uint64_t& tally, simt::uint64_t more = 1) {
  simt::atomic_ref<simt::uint64_t>{tally}.fetch_add(more, simt::relaxed);
}

struct inspect_addresses {
  block_list blocks;
  simt::size_t alignment;
  memory::region heap;
  address_report* report;

  GPUHEAP_FN void operator()(unsigned i) const {
    void* const block = blocks.pointers[i];
    if (block == nullptr) {
      count(report->failed_requests);
      return;
    }
    auto const address = reinterpret_cast<simt::uintptr_t>(block);
    auto const base = reinterpret_cast<simt::uintptr_t>(heap.base);
    if (address % alignment != 0) count(report->misaligned);
    if (base == 0) return;
    // An address below the base wraps round to an offset beyond any heap.
    auto const offset = address - base;
    if (offset > heap.bytes || blocks.sizes[i] > heap.bytes - offset) count(report->outside);
  }
};

// The value that the owner of block `i` writes to its `w`-th word. Its lowest byte goes to tail bytes.
GPUHEAP_FN simt::uint32_t pattern(simt::uint64_t i, simt::uint64_t w, simt::uint32_t round) {
  return static_cast<simt::uint32_t>((mix_bits(i + round * 0x9e3779b97f4a7c15u) + w * 0xd6e8feb86659fd93u) >> 32);
}

// One piece of one block: thread t has piece t / count of block t % count, so that a warp's threads work on neighbouring blocks.
template <class OnWord, class OnByte>
GPUHEAP_FN void for_each_word_of_piece(block_list const& blocks, unsigned thread, simt::uint32_t round, OnWord on_word, OnByte on_byte) {
  unsigned const i = thread % blocks.count;
  auto const block = static_cast<unsigned char*>(blocks.pointers[i]);
  simt::uint64_t const begin = thread / blocks.count * piece_bytes;
  simt::uint64_t const size = blocks.sizes[i];
  if (block == nullptr || begin >= size) return;
  simt::uint64_t const end = begin + piece_bytes < size ? begin + piece_bytes : size;
  simt::uint64_t byte = begin;
  // Ends: once for each word of the piece.
  for (; byte + 4 <= end; byte += 4) on_word(*reinterpret_cast<simt::uint32_t*>(block + byte), pattern(i, byte / 4, round));
  for (; byte < end; ++byte) on_byte(block[byte], static_cast<unsigned char>(pattern(i, byte, round)));
}

struct write_contents {
  block_list blocks;
  simt::uint32_t round;

  GPUHEAP_FN void operator()(unsigned thread) const {
    for_each_word_of_piece(
        blocks, thread, round, [](simt::uint32_t& word, simt::uint32_t value) { word = value; },
        [](unsigned char& byte, unsigned char value) { byte = value; });
  }
};

struct read_contents {
  block_list blocks;
  simt::uint32_t round;
  simt::uint64_t* num_lost;

  GPUHEAP_FN void operator()(unsigned thread) const {
    simt::uint64_t lost = 0;
    for_each_word_of_piece(
        blocks, thread, round, [&](simt::uint32_t word, simt::uint32_t value) { lost += word != value; },
        [&](unsigned char byte, unsigned char value) { lost += byte != value; });
    if (lost != 0) count(*num_lost, lost);
  }
};

}  // namespace

std::string address_report::fault(std::size_t alignment) const {
  if (misaligned != 0) return std::to_string(misaligned) + " blocks are not aligned to " + std::to_string(alignment) + " bytes";
  if (outside != 0) return std::to_string(outside) + " blocks do not lie within the heap";
  return "";
}

address_report block_checker::inspect(block_list const& blocks, std::size_t alignment, memory::region heap) {
  report_.zero(stream_);
  launch(blocks.count, inspect_addresses{blocks, alignment, heap, report_.data()}, {.stream = stream_});
  return report_.download(stream_)[0];
}

simt::uint64_t block_checker::count_lost(block_list const& blocks, simt::uint64_t largest_bytes, unsigned round) {
  auto const num_pieces = static_cast<unsigned>(std::max<simt::uint64_t>(1, simt::ceil_div(largest_bytes, piece_bytes)));
  num_lost_.zero(stream_);
  launch(blocks.count * num_pieces, write_contents{blocks, round}, {.stream = stream_});
  launch(blocks.count * num_pieces, read_contents{blocks, round, num_lost_.data()}, {.stream = stream_});
  return num_lost_.download(stream_)[0];
}

}  // namespace gpuheap::bench
