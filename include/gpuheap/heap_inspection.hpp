// The host's queries about the blocks of a heap: the live blocks, leaks, damage, and the findings of a checked heap. Host code;
// heap<Allocator> derives from the class.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/block_tag.hpp>
#include <gpuheap/misuse.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <gpuheap/memory/allocation.hpp>
#include <gpuheap/memory/function.hpp>

#include <string>
#include <vector>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// Defined in leaks.hpp.
class tag_names;
struct leak_report;

namespace detail {

// Kernel of one thread: copies a text from memory that only device code can read.
struct read_text {
  char const* from;
  char* to;
  unsigned room;
  GPUHEAP_FN void operator()(unsigned) const {
    unsigned at = 0;
    GPUHEAP_NO_UNROLL
    for (; at + 1 < room && from[at] != '\0'; ++at) to[at] = from[at];
    to[at] = '\0';
  }
};
// Reads a text that device code points to, at most 255 characters. Waits for the stream. It is a template so that only programs that call
// it contain its kernel.
template <class Reader = read_text>
[[nodiscard]] std::string text_on_device(char const* from, stream_ref stream) {
  constexpr unsigned room = 256;
  memory::allocation const copy{memory::device, room};
  simt::launch(1, Reader{from, static_cast<char*>(copy.base()), room}, {.block_threads = 32, .stream = stream});
  char words[room];
  simt::copy(words, copy.base(), room, stream);
  simt::synchronize(stream);
  return words;
}
// The name of a tag in reports: "tree.cu:45", "tag 7". Waits for the stream.
template <class Reader = read_text>
[[nodiscard]] std::string tag_name(block_tag tag, stream_ref stream) {
  if (tag.is_place()) return text_of("%s:%u", text_on_device<Reader>(tag.file(), stream).c_str(), tag.line());
  return text_of("tag %llu", static_cast<unsigned long long>(tag.number()));
}

}  // namespace detail

// @brief The members of heap<Allocator> that examine blocks.
// @tparam Heap the heap that derives from this
// @note No kernel may use the heap during a call of blocks(), report_leaks(), write_dump() or verify(), or of live_blocks() of a checked
// heap. Each call but on_misuse() waits for its stream.
template <class Heap, device_allocator Allocator>
class heap_inspection {
 public:
  // @brief A function that check() calls with a finding and the finding's text.
  using misuse_callback = memory::function<void(misuse_finding const&, std::string const&)>;

  // @brief Counts the live blocks.
  // @return one entry for each size that has live blocks, the smallest size first
  [[nodiscard]] std::vector<live_size> live_blocks(stream_ref stream = {}) const requires has_live_blocks<Allocator> {
    simt::device_scope const here{device()};
    return allocator().live_blocks(stream);
  }
  template <class A = Allocator>
  requires(!has_live_blocks<A>) void live_blocks(stream_ref = {}) const {
    static_assert(has_live_blocks<A>, "gpuheap: this Allocator has no live_blocks(stream)");
  }

  // @brief Lists every live block, with its address and its size: the requested size in a checked heap, the usable size in others. A
  // checked heap adds the block's tag and the thread that asked for it.
  // @return the blocks in the order of their addresses
  // @note A program that calls this function, report_leaks() or write_dump() includes <gpuheap/leaks.hpp> or <gpuheap/checked.hpp>.
  [[nodiscard]] std::vector<block_info> blocks(stream_ref stream = {}) const requires has_blocks<Allocator> {
    require_leaks_header<leak_report>();
    simt::device_scope const here{device()};
    return allocator().blocks(stream);
  }
  template <class A = Allocator>
  requires(!has_blocks<A>) void blocks(stream_ref = {}) const {
    static_assert(has_blocks<A>, "gpuheap: this Allocator has no blocks(stream): make the heap a gpuheap::checked<Allocator>");
  }

  // @brief Groups the live blocks by tag, or by size where they have no tag. The group with most bytes comes first.
  // @return a leak_report
  template <class Report = leak_report, class Names = tag_names>
  [[nodiscard]] auto report_leaks(stream_ref stream = {}) const requires has_blocks<Allocator> {
    require_leaks_header<Report>();
    simt::device_scope const here{device()};
    std::vector<block_info> const live = blocks(stream);
    return Report::of(live, names_of<Names>(live, stream));
  }

  // @brief Writes the live blocks into a file for `gpuheap inspect`.
  // @throws gpuheap::error if the file cannot be written
  template <class Report = leak_report, class Names = tag_names>
  void write_dump(std::string const& path, stream_ref stream = {}) const requires has_blocks<Allocator> {
    simt::device_scope const here{device()};
    std::vector<block_info> const live = blocks(stream);
    auto const& heap = static_cast<Heap const&>(*this);
    write_block_dump(path, Allocator::traits.name, heap.arena_, heap.bytes(), live, names_of<Names>(live, stream));
  }

  // @brief Checks the allocator's structures for damage. The call walks the whole heap, so it is for tests and for the search for an error.
  // @return the allocator's report. Its `problem` is empty if the structures are sound
  [[nodiscard]] auto verify(stream_ref stream = {}) const requires has_verify<Allocator> {
    simt::device_scope const here{device()};
    return allocator().verify(stream);
  }
  template <class A = Allocator>
  requires(!has_verify<A>) void verify(stream_ref = {}) const {
    static_assert(has_verify<A>, "gpuheap: this Allocator has no verify(stream)");
  }

  // @brief Sets the function that check() calls for each misuse that it reports, instead of throwing misuse_error. An empty callback
  // restores the exception.
  // @note The heap's record keeps the first 64 findings after the heap was made or reset.
  void on_misuse(misuse_callback callback) requires finds_misuse<Allocator> { misuse_callback_ = static_cast<misuse_callback&&>(callback); }

  // @brief Sets the policy for misuse in kernels that are launched later on `stream`, or on any stream after this call returns. Waits for
  // the stream.
  // @param policy `trap` stops the kernel, and the CUDA context is lost; check() then throws the misuse_error
  // @param stream the stream in whose order the policy changes
  void set_misuse_policy(when_misused policy, stream_ref stream = {}) requires finds_misuse<Allocator> {
    simt::device_scope const here{device()};
    if (policy == when_misused::trap && misuse_words_.base() == nullptr) {
      misuse_words_ = memory::allocation{memory::pinned, sizeof(misuse_words)};
      *static_cast<misuse_words*>(misuse_words_.base()) = {};
    }
    misuse_policy_ = policy;
    write_misuse_policy(stream);
    simt::synchronize(stream);
  }

  // @return the number of misuses of this kind that were found since the heap was made or reset. The call examines no block
  [[nodiscard]] simt::uint64_t misuses(misuse what, stream_ref stream = {}) const requires finds_misuse<Allocator> {
    simt::device_scope const here{device()};
    return read_misuses(stream)[0].counts[static_cast<unsigned>(what)];
  }

 protected:
  // Makes the heap's device current, for heap::check(). If the device's context has failed, throws the report of the kernel that stopped.
  [[nodiscard]] simt::device_scope enter() {
    try {
      return simt::device_scope{device()};
    } catch (error const& stopped) {
      static_cast<Heap&>(*this).throw_trap_report(stopped.what());
      throw;
    }
  }
  // A part of heap::check(): examines all blocks, and reports the findings since the last call.
  void report_misuse(stream_ref stream) {
    if constexpr (finds_misuse<Allocator>) {
      allocator().check_blocks(stream);
      std::vector<misuse_record> const copy = read_misuses(stream);
      misuse_record const& record = copy[0];
      simt::uint64_t const first = reported_misuses_, found = record.num_found;
      reported_misuses_ = found;
      if (first == found) return;
      simt::uint64_t const last = found < misuse_record::room ? found : simt::uint64_t{misuse_record::room};
      if (first >= last) {
        if (misuse_callback_) return;
        throw misuse_error(
            text_of("gpuheap: a heap of '%s' was misused %llu times more, after the %u misuses that its record keeps: correct "
                    "those that check() reported before",
                    Allocator::traits.name, static_cast<unsigned long long>(found - first), misuse_record::room),
            {});
      }
      if (misuse_callback_) {
        for (simt::uint64_t i = first; i < last; ++i) misuse_callback_(record.found[i], finding_text(record.found[i], stream));
        return;
      }
      std::string text =
          text_of("gpuheap: a heap of '%s' was misused: ", Allocator::traits.name) + finding_text(record.found[first], stream);
      if (found - first > 1) text += text_of("; and %llu times more", static_cast<unsigned long long>(found - first - 1));
      throw misuse_error(text + ". Correct the program: docs/misuse.md says what each misuse is", record.found[first]);
    } else {
      (void)stream;
    }
  }
  // If a kernel left a finding before misuse stopped it, throws that finding, once.
  void throw_misuse_words(char const* how) {
    if constexpr (finds_misuse<Allocator>) {
      if (misuse_words_.base() == nullptr) return;
      auto& words = *static_cast<misuse_words*>(misuse_words_.base());
      // acquire: pairs with the release in stop_kernel(), so the copy below has the kernel's finding.
      if (simt::atomic_ref<simt::uint32_t, simt::scope::system>{words.written}.load(simt::acquire) == 0) return;
      misuse_words const last = words;
      words = {};  // no kernel writes the words any more: the trap has ended all kernels
      throw misuse_error(text_of("gpuheap: a kernel was stopped because a heap of '%s' was misused: %s. (%s)", Allocator::traits.name,
                                 detail::misuse_text(last.finding, {detail::tag_text(last.finding.tag, last.files[0]),
                                                                    detail::tag_text(last.finding.freed_tag, last.files[1]),
                                                                    detail::tag_text(last.finding.found_tag, last.files[2])})
                                     .c_str(),
                                 how),
                         last.finding);
    } else {
      (void)how;
    }
  }
  // Called when the heap has just been made or reset.
  void forget_misuse(stream_ref stream) {
    reported_misuses_ = 0;
    if (misuse_policy_ != when_misused::record) write_misuse_policy(stream);
  }

 private:
  [[nodiscard]] Allocator const& allocator() const { return static_cast<Heap const&>(*this).allocator_; }
  [[nodiscard]] int device() const { return static_cast<Heap const&>(*this).device_; }
  template <class Report>
  static constexpr void require_leaks_header() {
    static_assert(
        requires { sizeof(Report); }, "gpuheap: blocks(), report_leaks() and write_dump() need #include <gpuheap/leaks.hpp>");
  }

  void write_misuse_policy(stream_ref stream) {
    if constexpr (finds_misuse<Allocator>) {
      misuse_words* const final = misuse_policy_ == when_misused::trap ? static_cast<misuse_words*>(misuse_words_.base()) : nullptr;
      simt::copy(&allocator().record()->final, &final, sizeof final, stream);
    }
  }
  // Copies the heap's misuse_record to the host: a vector of one element, since the record is too large for the stack.
  [[nodiscard]] std::vector<misuse_record> read_misuses(stream_ref stream) const requires finds_misuse<Allocator> {
    std::vector<misuse_record> copy(1);
    simt::copy(copy.data(), allocator().record(), sizeof(misuse_record), stream);
    simt::synchronize(stream);
    return copy;
  }
  [[nodiscard]] std::string finding_text(misuse_finding const& found, stream_ref stream) const {
    auto const text = [stream](block_tag tag) {
      return detail::tag_text(tag, tag.is_place() ? detail::text_on_device(tag.file(), stream) : std::string{});
    };
    return detail::misuse_text(found, {text(found.tag), text(found.freed_tag), text(found.found_tag)});
  }
  // The names of the blocks' tags.
  template <class Names>
  [[nodiscard]] static Names names_of(std::vector<block_info> const& live, stream_ref stream) {
    Names names;
    for (block_info const& block : live) {
      if (block.tag != 0 && !names.knows({block.tag})) names.add({block.tag}, detail::tag_name({block.tag}, stream));
    }
    return names;
  }

  memory::allocation misuse_words_;  // the misuse_words, from the first time that the policy is `trap`
  when_misused misuse_policy_ = when_misused::record;
  misuse_callback misuse_callback_;
  simt::uint64_t reported_misuses_ = 0;  // the number that check() has reported
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
#endif
