// Linked code on disk, since a link of large PTX costs seconds: one file for each link, named by a hash of all that went into it.
//
// Processes share the folder without locks: a file appears whole, by rename; one that is damaged, cut off or of another version is no
// entry; one that another process deletes meanwhile was read or is made again. The files read last are kept, up to a bound for all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fat_binary.hpp"

namespace gpuheap::unchanged {

class code_cache {
 public:
  /// @param folder Made when the first entry is written; "": nothing is kept and nothing found.
  /// @param at_most_bytes Of all entries together.
  code_cache(std::string folder, std::uint64_t at_most_bytes) : folder_{std::move(folder)}, at_most_bytes_{at_most_bytes} {}

  /// @param name A file name without a suffix.
  [[nodiscard]] std::optional<std::vector<std::byte>> find(std::string const& name) const;

  /// Keeps `code`, or does not: a full or read-only disk is no error of the program's.
  void keep(std::string const& name, bytes_view code) const;

 private:
  void shrink() const;

  std::string folder_;
  std::uint64_t at_most_bytes_;
};

}  // namespace gpuheap::unchanged
