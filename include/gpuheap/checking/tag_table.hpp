// The tags of the blocks of a checked heap: a table in the heap's memory, in which each tag has a place. Compiles under NVRTC.
#pragma once

#include <gpuheap/block_tag.hpp>
#include <gpuheap/checking/block_words.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::checking {

// A hash table without removal. Place 0 stands for no tag, and for each tag that finds no free place among the 16 at which it looks.
class tag_table {
 public:
  static constexpr unsigned num_places = 1024;
  static constexpr simt::size_t bytes = num_places * sizeof(simt::uint64_t);

  tag_table() = default;
  // `words`: tag_table::bytes of zeroed memory.
  GPUHEAP_HD explicit tag_table(simt::uint64_t* words) : words_{words} {}

  // The place of a tag. The first call for a tag gives it a place. Any thread.
  [[nodiscard]] GPUHEAP_FN unsigned place_of(block_tag tag) const {
    if (tag.word == 0) return 0;
    constexpr unsigned most_looks = 16;
    unsigned at = static_cast<unsigned>(mixed(tag.word)) % num_places;
    GPUHEAP_NO_UNROLL
    for (unsigned look = 0; look < most_looks; ++look, at = (at + 1) % num_places) {
      if (at == 0) continue;
      word_ref const word{words_[at]};
      // relaxed, both: readers use only the word itself, and it never changes again.
      simt::uint64_t found = word.load(simt::relaxed);
      if (found == 0 && word.compare_exchange(found, tag.word, simt::relaxed, simt::relaxed)) return at;
      if (found == tag.word) return at;
    }
    return 0;
  }
  [[nodiscard]] GPUHEAP_FN block_tag tag_at(unsigned place) const {
    if (place == 0) return {};
    return {word_ref{words_[place]}.load(simt::relaxed)};  // relaxed: as above
  }

 private:
  simt::uint64_t* words_ = nullptr;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::checking
