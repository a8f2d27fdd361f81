// Large blocks of host memory that a program requested from malloc, each in a mapping of its own that begins at a page. So pages of a file
// can replace the block's own pages: a copy of the file's bytes into the block becomes a change of its mapping. The class does not use the
// driver.
//
// The file's pages are mapped privately: a page that the host writes becomes the block's own, and the file never changes. A change of the
// file shows in the block's other pages, so a block that must keep its bytes is separated before that change.
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
    std::uint64_t bytes = 0;  // as requested; 0: there is no block
    std::uint64_t site = 0;   // the call site that requested it
    std::uint64_t twin = 0;   // `twin` of the last merge()
    bool fixed = false;       // it keeps its own pages
  };

  // Zeroed memory, aligned to a page and to `alignment`, a power of two; nullptr if the system gives no mapping.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment, std::uint64_t site);
  // Frees the block that begins at `address`. Returns false if none does.
  [[nodiscard]] bool release(void const* address);
  // The block that begins at `address`.
  [[nodiscard]] block begins_at(void const* address) const;

  // Replaces the bytes of the block that begins at `address` by those of `file` from `offset` on, a multiple of a page. Whole pages are
  // mapped, and the rest is read from `bytes_there`, where the file is mapped. Returns false if there is no such block, if it was fixed, or
  // if the system gives no mapping. Then nothing has changed except bytes that the caller's copy overwrites anyway.
  [[nodiscard]] bool merge(void const* address, int file, std::uint64_t offset, void const* bytes_there, std::uint64_t twin);
  // Gives every merged block pages of its own again, with the bytes that it shows. Other threads may read and write the blocks during the
  // call. Returns the blocks that were merged.
  std::vector<block> separate_all();
  // Makes the blocks that overlap the range keep their own pages for good, because something else relies on these pages. No other thread
  // may write to the blocks during the call; a program that changes a block's mapping does not write to the block either.
  void fix(void const* address, std::size_t bytes);

  // relaxed: merging.cpp orders the calls that merge and separate, so the counts need no order of their own.
  [[nodiscard]] bool any() const { return num_blocks_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] bool any_merged() const { return num_merged_.load(std::memory_order_relaxed) != 0; }

  // Called around fork. The child's merged blocks would change with the work of the parent's device, so before_fork() separates them all.
  // It takes the lock, which is free again in both processes afterwards.
  void before_fork();
  void after_fork_in_parent() { lock_.unlock(); }
  void after_fork_in_child() { new (&lock_) std::recursive_mutex; }  // the child's thread cannot unlock what a thread of the parent locked

 private:
  struct entry {
    std::uint64_t bytes;
    std::uint64_t site;
    std::uint64_t twin = 0;
    bool merged = false;
    bool of_file = false;  // it was merged: its mapping is the file's, although its pages may be its own
    bool fixed = false;
  };
  using entries = std::map<std::uint64_t, entry>;

  void separate(std::uint64_t address, entry& of);
  [[nodiscard]] static block block_of(entries::value_type const& of) {
    return {of.first, of.second.bytes, of.second.site, of.second.twin, of.second.fixed};
  }

  // Guards the entries and the mappings. Recursive, because the memory of the entries themselves may be freed while the lock is held, and
  // free() then looks for the address among the blocks.
  mutable std::recursive_mutex lock_;
  entries live_;  // by address
  std::atomic<std::size_t> num_blocks_{0};
  std::atomic<std::size_t> num_merged_{0};
};

}  // namespace gpuheap::interpose
