// The record of misuse by a program that a checked or hardened heap has found. It lies in the heap's memory; kernels write it, and the host
// reads it.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/block_tag.hpp>
#include <gpuheap/kernel_stop.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>
#include <gpuheap/simt/warp.hpp>

#if GPUHEAP_HAS_HOST
#include <gpuheap/simt/error.hpp>

#include <string>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief The kinds of misuse of a heap by a program.
enum class misuse : simt::uint32_t {
  double_free,       // the block was freed before: a checked heap has it in quarantine, or a hardened heap can tell
  interior_free,     // the pointer lies inside a block
  foreign_free,      // the pointer lies outside the heap
  unknown_free,      // the pointer lies in the heap, but no block begins there: it was freed before, or never handed out
  mismatched_free,   // destroy() of an object whose size is not the one that the block was asked for
  write_past_end,    // bytes after the end of a block changed
  write_after_free,  // bytes of a block changed while it lay in quarantine
  damaged_header,    // bytes before a block changed
};
inline constexpr unsigned num_misuses = 8;

// @brief The ways in which a program learns of misuse.
enum class when_misused {
  record,  // heap::check() reports it
  trap,    // the kernel stops with an error, and heap::check() reports the misuse
};

// @brief One misuse, as the host reports it. A block of threads is given by its linear index in the grid, a thread by its linear index in
// the block.
struct misuse_finding {
  static constexpr simt::uint32_t nobody = 0xffffffff;

  misuse what = misuse::double_free;
  simt::uint32_t found_while = 0;  // 0: at a free or resize of the block; 1: when the block left quarantine; 2: during check()
  simt::uint64_t pointer = 0;      // the pointer that was freed, or the first byte that changed
  simt::uint64_t address = 0;      // the address of the memory block; 0: not known
  simt::uint64_t bytes = 0;        // the size of the memory block
  simt::uint64_t believed = 0;     // the size that a mismatched free gave
  block_tag tag{};                 // the tag of the memory block
  simt::uint32_t asked_block = nobody, asked_thread = nobody;  // the thread that asked for the memory block
  simt::uint32_t freed_block = nobody, freed_thread = nobody;  // the thread that freed it first
  simt::uint32_t found_block = nobody, found_thread = nobody;  // the thread that found the misuse
  block_tag freed_tag{};                                       // the tag of the memory block's first free
  block_tag found_tag{};                                       // the tag of the free that found the misuse
};

// The report of a kernel that when_misused::trap stops. It lies in pinned host memory, since device memory cannot be read after a trap.
struct misuse_words {
  misuse_finding finding{};
  char files[3][96] = {};      // the files' names of the tags that are places: of the block, of its first free, of the last free
  simt::uint32_t written = 0;  // becomes 1, by a release store, after the other members are written
};

// All zero in a new heap.
struct misuse_record {
  static constexpr unsigned room = 64;

  simt::uint64_t num_found = 0;
  simt::uint64_t counts[num_misuses] = {};
  misuse_finding found[room];     // the first findings
  misuse_words* final = nullptr;  // null unless the policy is when_misused::trap. The host writes it in stream order
  simt::uint32_t stopping = 0;    // 1: a thread writes the misuse_words; 2: they are complete
};

// @brief The allocator finds misuse. It has `misuse_record* record() const`, and on the host `check_blocks(stream_ref)`, which examines all
// blocks.
template <class A>
concept finds_misuse = device_allocator<A> && requires(A const& a) {
  { a.record() } -> simt::same_as<misuse_record*>;
};

namespace detail {

// Writes `finding` to `final` in pinned host memory, and stops the kernel.
GPUHEAP_COLD inline void stop_misused(misuse_record* record, misuse_words* final, misuse_finding const& finding) {
  stop_kernel(record->stopping, final->written, [final, &finding] {
    final->finding = finding;
    block_tag const tags[] = {finding.tag, finding.freed_tag, finding.found_tag};
    GPUHEAP_NO_UNROLL
    for (unsigned t = 0; t < 3; ++t) {
      if (!tags[t].is_place()) continue;
      GPUHEAP_NO_UNROLL
      for (unsigned i = 0; i + 1 < sizeof final->files[t] && tags[t].file()[i] != '\0'; ++i) final->files[t][i] = tags[t].file()[i];
    }
  });
}

// Records a misuse. The caller is the thread that found it, and `finding` receives its indices.
GPUHEAP_COLD inline void record_misuse(misuse_record* record, misuse_finding& finding) {
  finding.found_block = simt::block_id();
  finding.found_thread = simt::thread_in_block();
  using word = simt::atomic_ref<simt::uint64_t>;
  // relaxed, all: the words are counts, one of which gives this thread a place that only it writes. The host reads them after the kernel.
  word{record->counts[static_cast<unsigned>(finding.what)]}.fetch_add(1, simt::relaxed);
  simt::uint64_t const place = word{record->num_found}.fetch_add(1, simt::relaxed);
  if (place < misuse_record::room) record->found[place] = finding;
  if (finding.found_while == 2) return;  // the program's kernel has ended
  // relaxed: the host wrote the pointer, and what it points to, before this kernel began.
  if (misuse_words* const final = simt::atomic_ref<misuse_words*>{record->final}.load(simt::relaxed)) stop_misused(record, final, finding);
}

}  // namespace detail

#if GPUHEAP_HAS_HOST
// @brief Thrown when heap::check() finds misuse. The text names the first finding.
class misuse_error : public plain_error {
 public:
  misuse_error(std::string const& text, misuse_finding const& first) : plain_error(text), first_{first} {}
  [[nodiscard]] misuse_finding const& first() const { return first_; }

 private:
  misuse_finding first_;
};

namespace detail {

[[nodiscard]] inline std::string thread_text(simt::uint32_t block, simt::uint32_t thread) {
  return block == misuse_finding::nobody ? std::string{"an unknown thread"} : text_of("block %u, thread %u", block, thread);
}

// " at tree.cu:45", " with the tag 7", or an empty string.
[[nodiscard]] inline std::string tag_text(block_tag tag, std::string const& file) {
  if (tag.word == 0) return {};
  if (tag.is_place()) return text_of(" at %s:%u", file.c_str(), tag.line());
  return text_of(" with the tag %llu", static_cast<unsigned long long>(tag.number()));
}

// The texts of a finding's three tags, each made by tag_text(): the tag of the memory block, that of its first free, and that of the free
// that found the misuse.
struct misuse_places {
  std::string asked, freed, found;
};

// The finding as one clause.
[[nodiscard]] inline std::string misuse_text(misuse_finding const& f, misuse_places const& places) {
  auto const hex = [](simt::uint64_t address) { return text_of("0x%llx", static_cast<unsigned long long>(address)); };
  auto const number = [](simt::uint64_t n) { return std::to_string(n); };
  std::string block = "an unknown block";
  if (f.address != 0) block = "the block of " + number(f.bytes) + " bytes at " + hex(f.address);
  // A hardened heap does not know the thread that asked for a block.
  if (f.address != 0 && f.asked_block != misuse_finding::nobody)
    block += " (asked for by " + thread_text(f.asked_block, f.asked_thread) + places.asked + ")";
  std::string const by = thread_text(f.found_block, f.found_thread) + places.found;
  std::string const when = f.found_while == 2   ? ", found by check()"
                           : f.found_while == 1 ? ", found when the block left quarantine"
                                                : ", found when the block was freed or resized by " + by;
  std::string const freed =
      f.freed_block == misuse_finding::nobody ? "" : ", freed by " + thread_text(f.freed_block, f.freed_thread) + places.freed;
  switch (f.what) {
    case misuse::double_free:
      if (f.asked_block == misuse_finding::nobody)
        return "double free: " + by + " freed the block of " + number(f.bytes) + " bytes at " + hex(f.address) +
               ", which is free: it was freed before, or never handed out";
      return "double free: " + by + " freed " + block + freed + " before";
    case misuse::interior_free:
      return "interior free: " + by + " freed " + hex(f.pointer) + ", which lies " + number(f.pointer - f.address) + " bytes into " + block;
    case misuse::foreign_free:
      return "foreign free: " + by + " freed " + hex(f.pointer) + ", which lies outside this heap";
    case misuse::unknown_free:
      return "free of no block: " + by + " freed " + hex(f.pointer) +
             ", where no block of this heap begins: it was freed longer ago, or was never handed out";
    case misuse::mismatched_free:
      return "mismatched free: " + by + " destroyed an object of " + number(f.believed) + " bytes, which is " + block;
    case misuse::write_past_end:
      return "write past the end: byte " + number(f.pointer - f.address) + " of " + block + " has changed" + when;
    case misuse::write_after_free:
      return "write after free: " + (f.address == 0 ? std::string{} : "byte " + number(f.pointer - f.address) + " of ") + block + freed +
             " has changed" + when;
    case misuse::damaged_header:
      return "write before a block: the bytes before " + hex(f.pointer) +
             " have changed, by a write before that block's begin or far past the end of the one before it" + when;
  }
  return {};
}

}  // namespace detail
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
