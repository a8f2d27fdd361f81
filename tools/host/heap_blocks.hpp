// The live blocks of an allocator's heap in device memory: the address that the program has for each block, and the number of bytes that it
// requested. The class uses the heap only through its table of functions (heap_interface.hpp).
//
// A block is handed out only if it lies in the heap and shares no byte with a live block, whatever the allocator returns.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "block_source.hpp"
#include "heap_interface.hpp"

namespace gpuheap::interpose {

class heap_blocks final : public block_source {
 public:
  // A function like say() of messages.hpp, for errors of the device or the allocator.
  using reporter = void (*)(std::string_view code, std::string const& words);

  // Owns `heap`, which lies in [base, base + bytes).
  heap_blocks(heap_functions const& functions, void* heap, std::uint64_t base, std::uint64_t bytes, reporter report);
  ~heap_blocks() override;

  // allocate() and release() each run a kernel, one call at a time. The caller has made the heap's context current, and no stream of the
  // context is being captured.
  [[nodiscard]] grant allocate(std::uint64_t site, std::uint64_t bytes) override;
  // A block that the allocator does not take back stays allocated in the heap, and an error is reported.
  [[nodiscard]] bool release(std::uint64_t offset) override;

  void pin(bool on) override;
  [[nodiscard]] bool begins_live(std::uint64_t offset) const override;
  [[nodiscard]] block live_at(std::uint64_t offset) const override;
  [[nodiscard]] std::uint64_t live_bytes() const override;
  [[nodiscard]] std::size_t num_live() const override;

 private:
  struct entry {
    std::uint64_t bytes;  // as requested
    std::uint64_t given;  // the address that the allocator returned for the block
    bool pinned;
  };
  using entries = std::map<std::uint64_t, entry>;

  [[nodiscard]] bool is_free(std::uint64_t offset, std::uint64_t bytes) const;
  [[nodiscard]] entries::const_iterator at_or_before(std::uint64_t offset) const;

  heap_functions const& functions_;
  void* const heap_;
  std::uint64_t const base_;
  std::uint64_t const bytes_;
  reporter const report_;
  mutable std::mutex lock_;  // guards all below, and the heap: held while a kernel serves a call
  entries live_;             // by offset into the pool
  std::uint64_t live_bytes_ = 0;
  bool pinning_ = false;
};

}  // namespace gpuheap::interpose
