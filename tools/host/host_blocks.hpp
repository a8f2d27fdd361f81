// Large blocks of host memory that a program requested from malloc, each in a mapping of its own that begins at a page. So pages of a file
// can take the place of the block's own, and a copy of the file's bytes into the block is a change of its mapping. This file knows neither
// the driver nor the program.
//
// The file's pages are mapped privately: a write of the host goes to a page of its own, and never changes the file. A change of the file
// shows in the block, so a block that has to keep its bytes must be separated before.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace gpuheap::interpose {

class host_blocks {
 public:
  static constexpr std::size_t page_bytes = 4096;
  // malloc serves smaller requests: a mapping costs more than copying that many bytes.
  static constexpr std::size_t least_bytes = std::size_t{64} << 10;

  struct block {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;  // asked for; 0: none
    std::uint64_t site = 0;   // that asked for it
    std::uint64_t twin = 0;   // what merge() was told last
    bool fixed = false;       // it keeps its own pages
  };

  // Zeroed memory, aligned to a page and to `alignment`, a power of two; nullptr if the system gives no mapping.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment, std::uint64_t site);
  // Frees the block that begins there. False: there is none.
  [[nodiscard]] bool release(void const* address);
  // The block that begins there.
  [[nodiscard]] block begins_at(void const* address) const;

  // Replaces the bytes of the block that begins there by those of `file` from `offset`, a multiple of a page, on: whole pages by mapping,
  // the rest by reading `bytes_there`, where the file is mapped. No page is copied. False if there is no such block, if it was fixed, or if
  // the system gives no mapping; then nothing has changed except bytes that the copy overwrites anyway.
  [[nodiscard]] bool merge(void const* address, int file, std::uint64_t offset, void const* bytes_there, std::uint64_t twin);
  // Gives every merged block pages of its own again, with the bytes that it shows. Other threads may read and write the blocks meanwhile.
  // Returns those that were merged.
  std::vector<block> separate_all();
  // Blocks that meet the range keep their own pages for good, since something else relies on these pages. No other thread may write the
  // blocks meanwhile; no thread writes a block whose mapping it changes.
  void fix(void const* address, std::size_t bytes);

  // relaxed: a thread that merges or separates orders it with what it is for (merging.cpp).
  [[nodiscard]] bool any() const { return num_blocks_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] bool any_merged() const { return num_merged_.load(std::memory_order_relaxed) != 0; }

  // Called around fork. The child's merged blocks would change with the work of the parent's device, so there are none then; and the lock
  // is free in both processes afterwards.
  void before_fork();
  void after_fork_in_parent() { lock_.unlock(); }
  void after_fork_in_child() { new (&lock_) std::recursive_mutex; }  // the child's thread is another one, which could not unlock it

 private:
  struct entry {
    std::uint64_t bytes;
    std::uint64_t site;
    std::uint64_t twin = 0;
    bool merged = false;
    bool of_file = false;  // was merged: its mapping is the file's, though its pages may be its own
    bool fixed = false;
  };
  using entries = std::map<std::uint64_t, entry>;

  void separate(std::uint64_t address, entry& of);
  [[nodiscard]] static block block_of(entries::value_type const& of) {
    return {of.first, of.second.bytes, of.second.site, of.second.twin, of.second.fixed};
  }

  // Guards the entries and the mappings. Recursive: the memory of the entries themselves may be freed under it, and that free asks whether
  // it is a block.
  mutable std::recursive_mutex lock_;
  entries live_;  // by address
  std::atomic<std::size_t> num_blocks_{0};
  std::atomic<std::size_t> num_merged_{0};
};

}  // namespace gpuheap::interpose
