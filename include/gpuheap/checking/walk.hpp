// Walks over a checked heap: kernels that look for the header of a block at every address where one may begin. The walks need nothing from
// the inner allocator, and read the whole heap.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/checking/block_words.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/warp.hpp>

#if GPUHEAP_HAS_HOST
#include <gpuheap/memory/allocation.hpp>
#include <gpuheap/simt/runtime.hpp>

#include <algorithm>
#include <map>
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::checking {

// Calls visit(address, header) for each block in this thread's share of the addresses [first, end). Device; each of `threads` threads
// calls, with its number.
template <class Checked, class Visit>
GPUHEAP_FN void each_block(Checked const& heap, simt::uint64_t first, simt::uint64_t end, unsigned thread, unsigned threads, Visit visit) {
  for (simt::uint64_t address = first + simt::uint64_t{thread} * 16; address < end; address += simt::uint64_t{threads} * 16) {
    header_words header;
    if (heap.find_block(reinterpret_cast<void const*>(static_cast<simt::uintptr_t>(address)), header)) visit(address, header);
  }
}

// Kernel: checks each block.
template <class Checked>
struct check_each {
  Checked heap;
  unsigned threads;
  GPUHEAP_FN void operator()(unsigned i) const {
    each_block(heap, heap.first_address() + header_bytes, heap.end_address(), i, threads,
               [&](simt::uint64_t address, header_words header) { heap.check_block(address, header); });
  }
};

// Kernel: reports each of the inner allocator's live blocks that has no header, neither at its base nor where a block of a larger alignment
// has one.
template <class Checked>
struct check_bases {
  Checked heap;
  block_info const* blocks;
  GPUHEAP_FN void operator()(unsigned i) const {
    block_info const block = blocks[i];
    header_words header;
    for (unsigned lg = 4; lg <= 21; ++lg) {
      simt::uint64_t const address = block.address + (simt::uint64_t{1} << lg);
      if (lg > 4 && address >= block.address + block.bytes) break;
      if (heap.find_block(reinterpret_cast<void const*>(static_cast<simt::uintptr_t>(address)), header)) return;
    }
    heap.report_damaged(block.address);
  }
};

// Kernel: counts the live blocks and adds up their bytes.
template <class Checked>
struct count_each {
  Checked heap;
  live_total* into;
  unsigned threads;
  GPUHEAP_FN void operator()(unsigned i) const {
    live_total sum;
    each_block(heap, heap.first_address() + header_bytes, heap.end_address(), i, threads, [&](simt::uint64_t, header_words header) {
      if (header.state() != block_state::live) return;
      ++sum.allocations;
      sum.bytes += header.facts().bytes;
    });
    if (sum.allocations == 0) return;
    // relaxed, both: the host reads the totals after the kernel.
    word_ref{into->allocations}.fetch_add(sum.allocations, simt::relaxed);
    word_ref{into->bytes}.fetch_add(sum.bytes, simt::relaxed);
  }
};

// Kernel: lists the live blocks whose addresses lie in [first, end).
template <class Checked>
struct list_each {
  Checked heap;
  simt::uint64_t first, end;
  block_info* into;
  simt::uint64_t* count;
  unsigned threads;
  GPUHEAP_FN void operator()(unsigned i) const {
    each_block(heap, first, end, i, threads, [&](simt::uint64_t address, header_words header) {
      if (header.state() != block_state::live) return;
      // relaxed: each thread only needs a place of its own.
      into[word_ref{*count}.fetch_add(1, simt::relaxed)] = heap.described(address, header);
    });
  }
};

#if GPUHEAP_HAS_HOST
// Runs a walk's kernel with one thread for each place, or with as many threads as the device holds if that is less. Host.
template <class Kernel, class... Parts>
void launch_walk(stream_ref stream, simt::uint64_t places, Parts... parts) {
  constexpr unsigned block_threads = 256;
  unsigned const most = simt::most_resident_threads<Kernel>(block_threads);
  unsigned const threads = static_cast<unsigned>(std::min<simt::uint64_t>(simt::round_up_pow2(places, block_threads), most));
  simt::launch(threads, Kernel{parts..., threads}, {.block_threads = block_threads, .stream = stream});
}
[[nodiscard]] inline simt::uint64_t places_between(simt::uint64_t first, simt::uint64_t end) { return (end - first) / 16; }

// Checks every block, in stream order. Host.
template <class Checked>
void check_blocks(Checked const& heap, stream_ref stream) {
  launch_walk<check_each<Checked>>(stream, places_between(heap.first_address(), heap.end_address()), heap);
}
// Checks that each live block of the inner allocator has a header. `bases`: these blocks. Host; waits for the stream.
template <class Checked>
void check_headers(Checked const& heap, std::vector<block_info> const& bases, stream_ref stream) {
  if (bases.empty()) return;
  memory::allocation const list{memory::device, bases.size() * sizeof(block_info)};
  simt::copy(list.base(), bases.data(), bases.size() * sizeof(block_info), stream);
  simt::launch(static_cast<unsigned>(bases.size()), check_bases<Checked>{heap, static_cast<block_info const*>(list.base())},
               {.stream = stream});
  simt::synchronize(stream);
}
// Stores the number and the bytes of the live blocks in device memory at `into`, in stream order. Host.
template <class Checked>
void take_census(Checked const& heap, live_total* into, stream_ref stream) {
  simt::fill(into, 0, sizeof *into, stream);
  launch_walk<count_each<Checked>>(stream, places_between(heap.first_address(), heap.end_address()), heap, into);
}
// Lists every live block, in the order of addresses. Host; waits for the stream.
template <class Checked>
[[nodiscard]] std::vector<block_info> blocks(Checked const& heap, stream_ref stream) {
  // Every block takes at least 32 bytes of the inner allocator. So the blocks of a part of the heap fit into a list of part / 32 entries.
  constexpr simt::uint64_t part_bytes = simt::uint64_t{64} << 20, least_bytes = 32;
  simt::uint64_t const begin = heap.first_address() + header_bytes, end = heap.end_address();
  simt::uint64_t const part = std::min(part_bytes, end - begin);
  memory::allocation const list{memory::device, (part / least_bytes + 1) * sizeof(block_info)};
  memory::allocation const counter{memory::device, sizeof(simt::uint64_t)};
  std::vector<block_info> all;
  for (simt::uint64_t first = begin; first < end; first += part) {
    simt::uint64_t const last = std::min(first + part, end);
    simt::fill(counter.base(), 0, counter.bytes(), stream);
    launch_walk<list_each<Checked>>(stream, places_between(first, last) + 1, heap, first, last, static_cast<block_info*>(list.base()),
                                    static_cast<simt::uint64_t*>(counter.base()));
    simt::uint64_t count = 0;
    simt::copy(&count, counter.base(), sizeof count, stream);
    simt::synchronize(stream);
    std::size_t const before = all.size();
    all.resize(before + count);
    if (count == 0) continue;
    simt::copy(all.data() + before, list.base(), count * sizeof(block_info), stream);
    simt::synchronize(stream);
    std::sort(all.begin() + static_cast<std::ptrdiff_t>(before), all.end(),
              [](auto const& a, auto const& b) { return a.address < b.address; });
  }
  return all;
}
// Counts the live blocks of each size. Host; waits for the stream.
template <class Checked>
[[nodiscard]] std::vector<live_size> live_blocks(Checked const& heap, stream_ref stream) {
  std::map<simt::uint64_t, simt::uint64_t> counts;
  for (block_info const& block : blocks(heap, stream)) ++counts[block.bytes];
  std::vector<live_size> sizes;
  for (auto const& [bytes, count] : counts) sizes.push_back({bytes, count});
  return sizes;
}
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::checking
