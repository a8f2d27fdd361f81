// Reports of the live blocks of a heap: heap::blocks(), leaks in groups, also at a heap's end, and the file that `gpuheap inspect` reads.
// Host code.
//
// A program includes this header to call blocks(), report_leaks() or write_dump(), or to use leaks_at_end. heap.hpp does not include it,
// because this header's maps and sorting take a tenth of a small program's compile time.
//
// The file, little-endian:
//   "gpuheap\1"                           8 bytes
//   u64 base, region bytes, heap bytes, number of blocks, number of names, length of the allocator's name; the name, padded to 8
//   names:  u64 length; the text, padded to 8
//   blocks: two u64 each
//     first u64:   bits 0 to 37    offset of the block in the region, in units of 16 bytes
//                  bits 38 to 53   number of its name, counted from 1; 0: no name
//                  bits 54 to 63   thread that asked for it
//     second u64:  bits 0 to 37    bytes
//                  bits 38 to 63   block of the grid that asked for it
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/sharded_spans/list.hpp>
#include <gpuheap/block_tag.hpp>
#include <gpuheap/memory/function.hpp>
#include <gpuheap/memory/region.hpp>
#include <gpuheap/memory/size.hpp>
#include <gpuheap/misuse.hpp>
#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/types.hpp>

#if GPUHEAP_HAS_HOST
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief The names of a program's tags, for reports.
class tag_names {
 public:
  [[nodiscard]] bool knows(block_tag tag) const { return names_.count(tag.word) != 0; }
  void add(block_tag tag, std::string name) { names_[tag.word] = std::move(name); }
  // @return the tag's name, or an empty string if the tag has none
  [[nodiscard]] std::string const& name(block_tag tag) const {
    static std::string const none;
    auto const found = names_.find(tag.word);
    return found == names_.end() ? none : found->second;
  }
  [[nodiscard]] std::map<std::uint64_t, std::string> const& all() const { return names_; }

 private:
  std::map<std::uint64_t, std::string> names_;
};

// @brief Live blocks with the same tag, or, if they have no tag, with the same size.
struct leak_group {
  std::string name;  // "tree.cu:45", "tag 7", "64 bytes"
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  block_info first{};  // the group's block with the lowest address
};

// @brief The live blocks of a heap, in groups. A program asks for it where no block should be live.
struct leak_report {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  std::vector<leak_group> groups;  // most bytes first

  [[nodiscard]] bool empty() const { return blocks == 0; }

  // @brief Groups blocks by tag, or by size where they have no tag.
  // @param live the blocks, in the order of their addresses
  // @param names the names of the blocks' tags
  // @return the report. The group with most bytes comes first
  [[nodiscard]] static leak_report of(std::vector<block_info> const& live, tag_names const& names) {
    leak_report made;
    std::map<std::pair<std::uint64_t, std::uint64_t>, leak_group> groups;  // the key is {tag, 0}, or {0, size} for blocks without a tag
    for (block_info const& block : live) {
      leak_group& group = groups[{block.tag, block.tag != 0 ? 0 : block.bytes}];
      if (group.blocks++ == 0) group.first = block;
      group.bytes += block.bytes;
      ++made.blocks;
      made.bytes += block.bytes;
    }
    for (auto& [key, group] : groups) {
      group.name = key.first != 0 ? names.name({key.first}) : std::to_string(key.second) + " bytes";
      made.groups.push_back(std::move(group));
    }
    std::stable_sort(made.groups.begin(), made.groups.end(), [](auto const& a, auto const& b) { return a.bytes > b.bytes; });
    return made;
  }

  // @return one line for all blocks, and one for each of the first `most_groups` groups
  [[nodiscard]] std::string text(std::size_t most_groups = 20) const {
    if (empty()) return "no block is live\n";
    auto const number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    std::string all = text_of("%llu live block%s, %s:\n", number(blocks), blocks == 1 ? "" : "s", memory::format_bytes(bytes).c_str());
    std::size_t shown = 0;
    for (leak_group const& group : groups) {
      if (shown++ == most_groups) {
        all += text_of("  and %zu groups more\n", groups.size() - most_groups);
        break;
      }
      all += text_of("  %s in %llu block%s, %s", memory::format_bytes(group.bytes).c_str(), number(group.blocks),
                     group.blocks == 1 ? "" : "s", group.name.c_str());
      if (group.first.block != misuse_finding::nobody) {
        all += text_of("; the first at 0x%llx, asked for by block %u, thread %u", number(group.first.address), group.first.block,
                       group.first.thread);
      }
      all += "\n";
    }
    return all;
  }

  // @return the report as one JSON object
  [[nodiscard]] std::string json() const {
    auto const number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    std::string all = text_of("{\"blocks\": %llu, \"bytes\": %llu, \"groups\": [", number(blocks), number(bytes));
    char const* before = "";
    for (leak_group const& group : groups) {
      std::string name;
      for (char const c : group.name) {
        if (c == '"' || c == '\\') name += '\\';
        if (static_cast<unsigned char>(c) < 0x20) {
          name += text_of("\\u%04x", static_cast<unsigned>(c));
        } else {
          name += c;
        }
      }
      all += text_of("%s{\"name\": \"%s\", \"blocks\": %llu, \"bytes\": %llu}", before, name.c_str(), number(group.blocks),
                     number(group.bytes));
      before = ", ";
    }
    return all + "]}";
  }
};

// @brief Reports the blocks of a heap that are live when this object ends. A program declares it after the heap, so it ends before the
// heap does.
//
//   gpuheap::heap<> heap{1_GiB};
//   gpuheap::leaks_at_end const leaks{heap};
//
// @tparam Heap a heap that lists its blocks, as the default and the checked one do
// @note When the object ends, the heap is where it was, and no kernel uses it. The end waits for the stream and throws nothing: if the
// blocks cannot be listed, as after a trap, it prints the reason to the standard error.
template <class Heap>
class leaks_at_end {
 public:
  // @brief A function that is called with the report, if a block is live.
  using callback = memory::function<void(leak_report const&)>;

  // @param heap the heap, which lives longer than this object
  // @param to the function; without one, the report is printed to the standard error
  // @param stream the stream that the end waits for and lists the blocks on
  explicit leaks_at_end(Heap const& heap, callback to = {}, stream_ref stream = {})
      : heap_{heap}, to_{static_cast<callback&&>(to)}, stream_{stream} {}
  leaks_at_end(leaks_at_end const&) = delete;
  leaks_at_end& operator=(leaks_at_end const&) = delete;
  ~leaks_at_end() {
    char const* const name = Heap::allocator_type::traits.name;
    try {
      leak_report const report = heap_.report_leaks(stream_);
      if (report.empty()) return;
      if (to_) {
        to_(report);
      } else {
        std::fprintf(stderr, "gpuheap: a heap of '%s' ends: not freed: %s", name, report.text().c_str());
      }
    } catch (std::exception const& e) {
      std::fprintf(stderr, "gpuheap: a heap of '%s' ends: its blocks cannot be reported: %s\n", name, e.what());
    }
  }

 private:
  Heap const& heap_;
  callback to_;
  stream_ref stream_;
};

// @brief Writes the file that `gpuheap inspect` reads.
// @throws gpuheap::error if the file cannot be written, with the system's reason
inline void write_block_dump(std::string const& path, char const* allocator, memory::region where, std::uint64_t heap_bytes,
                             std::vector<block_info> const& live, tag_names const& names) {
  std::vector<std::uint64_t> words;
  auto const put_text = [&words](std::string const& text) {
    words.push_back(text.size());
    std::size_t const before = words.size();
    words.resize(before + (text.size() + 7) / 8);
    std::copy(text.begin(), text.end(), reinterpret_cast<char*>(words.data() + before));
  };
  std::map<std::uint64_t, std::uint64_t> number;  // the number of each tag, from 1 on
  std::uint64_t magic = 0;
  std::copy_n("gpuheap\1", 8, reinterpret_cast<char*>(&magic));
  auto const base = reinterpret_cast<std::uintptr_t>(where.base);
  words = {magic, base, where.bytes, heap_bytes, live.size(), names.all().size()};
  put_text(allocator);
  for (auto const& [tag, name] : names.all()) {
    number[tag] = number.size() + 1;
    put_text(name);
  }
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  bool good = file != nullptr;
  auto const flush = [&] {
    good = good && std::fwrite(words.data(), 8, words.size(), file) == words.size();
    words.clear();
  };
  if (good) flush();
  for (block_info const& block : live) {
    std::uint64_t const tag = block.tag == 0 ? 0 : number[block.tag] & 0xffff;
    words.push_back(((block.address - base) / 16 & 0x3fffffffffull) | tag << 38 | std::uint64_t{block.thread & 1023} << 54);
    words.push_back((block.bytes & 0x3fffffffffull) | std::uint64_t{block.block & 0x3ffffff} << 38);
    if (words.size() == std::size_t{1} << 16) flush();
    if (!good) break;
  }
  if (good) flush();
  int const failed = errno;
  if (file != nullptr) good = std::fclose(file) == 0 && good;
  if (!good) {
    throw plain_error(
        text_of("gpuheap: the dump of %zu blocks cannot be written to '%s': %s. Name a file in a folder that can be written to",
                live.size(), path.c_str(), std::generic_category().message(failed).c_str()));
  }
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE

// The part of GPUHEAP_INSTANTIATE that compiles this header's functions.
#undef GPUHEAP_INSTANTIATE_INSPECTION
#define GPUHEAP_INSTANTIATE_INSPECTION(...)                                                                 \
  template class ::gpuheap::heap_inspection<::gpuheap::heap<__VA_ARGS__, ::gpuheap::counted>, __VA_ARGS__>; \
  template class ::gpuheap::heap_inspection<::gpuheap::heap<__VA_ARGS__, ::gpuheap::uncounted>, __VA_ARGS__>;
#endif
