#include "workloads/graph/reference.hpp"

#include <algorithm>
#include <iterator>

namespace gpuheap::bench::graph {

namespace {

std::uint64_t key_of(edge e) { return std::uint64_t{e.from} << 32 | e.to; }
std::string name_of(std::uint64_t key) { return std::to_string(key >> 32) + " -> " + std::to_string(key & 0xffffffffu); }

std::vector<std::uint64_t> sorted_keys(std::vector<edge> const& edges) {
  std::vector<std::uint64_t> keys(edges.size());
  std::transform(edges.begin(), edges.end(), keys.begin(), key_of);
  std::sort(keys.begin(), keys.end());
  return keys;
}

// The first key that one of two sorted multisets has more often than the other, or null.
std::uint64_t const* first_surplus(std::vector<std::uint64_t> const& of, std::vector<std::uint64_t> const& over) {
  auto other = over.begin();
  for (auto const& key : of) {
    while (other != over.end() && *other < key) ++other;
    if (other == over.end() || *other != key) return &key;
    ++other;
  }
  return nullptr;
}

}  // namespace

reference_graph::reference_graph(std::vector<edge> const& edges, bool complete) : edges_{sorted_keys(edges)}, refused_{!complete} {}

std::string reference_graph::apply(std::span<update const> batch, std::span<std::uint8_t const> results) {
  std::vector<edge> inserted, deleted;
  edge const* undone_delete = nullptr;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    auto const& [what, is_delete] = batch[i];
    if ((results[i] & was_done) != 0) {
      (is_delete != 0 ? deleted : inserted).push_back(what);
    } else if (is_delete != 0) {
      undone_delete = &what;
    } else if ((results[i] & got_null) != 0) {
      refused_ = true;
    } else {
      return "edge " + name_of(key_of(what)) + " was not inserted, although no memory was refused";
    }
  }
  if (undone_delete != nullptr && !refused_) return "edge " + name_of(key_of(*undone_delete)) + " was not found to delete";

  auto const inserted_keys = sorted_keys(inserted), deleted_keys = sorted_keys(deleted);
  std::vector<std::uint64_t> with_inserts, after;
  with_inserts.reserve(edges_.size() + inserted_keys.size());
  std::merge(edges_.begin(), edges_.end(), inserted_keys.begin(), inserted_keys.end(), std::back_inserter(with_inserts));
  if (auto const* key = first_surplus(deleted_keys, with_inserts))
    return "edge " + name_of(*key) + " was deleted more often than it was there";
  std::set_difference(with_inserts.begin(), with_inserts.end(), deleted_keys.begin(), deleted_keys.end(), std::back_inserter(after));
  edges_ = std::move(after);
  return "";
}

std::string reference_graph::compare(std::vector<edge> const& edges) const {
  auto const keys = sorted_keys(edges);
  if (auto const* key = first_surplus(keys, edges_)) return "edge " + name_of(*key) + " is there more often than it should be";
  if (auto const* key = first_surplus(edges_, keys)) return "edge " + name_of(*key) + " is missing";
  return "";
}

}  // namespace gpuheap::bench::graph
