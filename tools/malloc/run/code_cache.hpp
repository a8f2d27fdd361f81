// Linked code on disk, because a link of large PTX takes seconds: one file for each link, named by a hash of all its inputs.
//
// Processes share the folder without locks: a file appears complete, by rename. A file that is damaged, cut off or of another version does
// not count as an entry. If another process deletes a file before it is read, the link is made again. If all files together exceed a bound,
// those that were read least recently are deleted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fat_binary.hpp"

namespace gpuheap::unchanged {

class code_cache {
 public:
  /// @param folder Made when the first entry is written; "": nothing is kept, and nothing is found.
  /// @param at_most_bytes The bound for all entries together.
  code_cache(std::string folder, std::uint64_t at_most_bytes) : folder_{std::move(folder)}, at_most_bytes_{at_most_bytes} {}

  /// @param name A file name without a suffix.
  [[nodiscard]] std::optional<std::vector<std::byte>> find(std::string const& name) const;

  /// Keeps `code` if it can. A full or read-only disk is no error for the program.
  void keep(std::string const& name, bytes_view code) const;

 private:
  void shrink() const;

  std::string folder_;
  std::uint64_t at_most_bytes_;
};

}  // namespace gpuheap::unchanged
