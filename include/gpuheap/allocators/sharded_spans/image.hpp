// A copy of a heap's metadata in host memory, for checks of a heap that no kernel uses. Host only.
#pragma once

#include <gpuheap/allocators/sharded_spans/spans.hpp>
#include <gpuheap/simt/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#include <vector>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

namespace detail {

// The copy, whose arrays have the layout of the heap's. A template, so that programs that do not use it compile none of it. Waits for the
// stream.
template <class Spans>
struct image {
  layout at;
  Spans block;
  std::vector<uint64_t> shards, trees, pages, words;
  std::vector<char> records;
  std::vector<unsigned> groups;
  std::vector<span_tag::word> segment_tags;

  image(layout const& geometry, Spans const* heap, stream_ref stream) : at{geometry} {
    simt::copy(&block, heap, sizeof block, stream);
    simt::synchronize(stream);
    size_t const num_pages = block.pages_there;
    copy_array(shards, at.shards, (size_t{at.num_classes} << at.lg_shards) * at.shard_stride, stream);
    copy_array(trees, at.trees, at.tree_words(), stream);
    copy_array(pages, at.pages, at.num_segments(), stream);
    copy_array(segment_tags, at.segment_tags, size_t{at.num_segments()} * at.tag_stride, stream);
    copy_array(records, at.records, size_t{block.segments_there} * at.record_bytes, stream);
    copy_array(words, at.words, num_pages * at.words_per_page, stream);
    copy_array(groups, at.groups, num_pages * at.groups_per_page * at.group_stride, stream);
    simt::synchronize(stream);
  }
  template <class T>
  static void copy_array(std::vector<T>& to, T const* from, size_t count, stream_ref stream) {
    to.resize(count);
    simt::copy(to.data(), from, count * sizeof(T), stream);
  }

  // A view of the tree over the words of the copy.
  [[nodiscard]] bitmap_tree here(bitmap_tree tree) const {
    auto const moved = [&](uint64_t* p) { return const_cast<uint64_t*>(trees.data()) + (p - at.trees); };
    if (tree.leaf_stride == at.record_bytes / 8) {
      // A partial list: its leaves lie in the records of the segments.
      tree.leaves = reinterpret_cast<uint64_t*>(const_cast<char*>(records.data())) + at.class_of_partial(tree);
    } else {
      tree.leaves = moved(tree.leaves);
    }
    tree.mids = moved(tree.mids);
    tree.tops = moved(tree.tops);
    return tree;
  }
  template <class T>
  [[nodiscard]] T in_record(unsigned page, size_t at_byte) const {
    T value;
    __builtin_memcpy(&value, records.data() + size_t{page / 64} * at.record_bytes + at_byte, sizeof value);
    return value;
  }
  [[nodiscard]] span_header header(unsigned page) const {
    return {in_record<uint64_t>(page, at.headers_at() + size_t{page % 64} * at.header_bytes())};
  }
  [[nodiscard]] span_tag::word page_tag(unsigned page) const {
    return in_record<span_tag::word>(page, at.headers_at() - layout::tag_bytes + size_t{page % 64} * sizeof(span_tag::word));
  }
  [[nodiscard]] static uint64_t leaf(bitmap_tree const& tree, unsigned i) { return tree.leaves[size_t{i} * tree.leaf_stride]; }
  [[nodiscard]] static bool has(bitmap_tree const& tree, unsigned bit) { return (leaf(tree, bit / 64) >> (bit % 64) & 1) != 0; }
  [[nodiscard]] span_tag::word segment_tag(unsigned s) const { return segment_tags[size_t{s} * at.tag_stride]; }
  [[nodiscard]] bool is_whole(unsigned s) const { return has(here(at.whole_tree()), s); }
  [[nodiscard]] bool is_free(unsigned page) const {
    unsigned const s = page >> at.lg_pages;
    return is_whole(s) || (pages[s] >> (page - (s << at.lg_pages)) & 1) != 0;
  }
  // Describes the first summary bit that the tree lacks; "" if it lacks none. The tree has `leaves_there` leaves that have memory.
  [[nodiscard]] static std::string missing_summary(bitmap_tree const& tree, unsigned leaves_there) {
    for (unsigned i = 0; i < leaves_there; ++i) {
      if (leaf(tree, i) == 0) continue;
      if ((tree.mids[i / 64] >> (i % 64) & 1) == 0) return "a leaf that its summary misses";
      if (tree.num_tops() != 0 && (tree.tops[i / 4096] >> (i / 64 % 64) & 1) == 0) return "a middle word that its summary misses";
    }
    return "";
  }
};

}  // namespace detail

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
#endif
