// Changes to files: collected by place, shown as a unified diff, written all or none.
#pragma once

#include "facts.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace coalesce {

// Replacements in the texts of some files. Two equal replacements count as one; other replacements that overlap are a conflict.
class edits {
 public:
  // Lines that are inserted into one of these files end as the file's first line does: in a line feed, or in a carriage return and a line
  // feed.
  void keep_line_ends(std::map<std::string, std::string> const& texts);
  // Replaces `where` by `text`. Insertions at one offset are made in the order of the calls.
  void replace(stretch const& where, std::string const& text);
  void insert(stretch const& before, std::string const& text) { replace({before.file, before.offset, 0, before.editable}, text); }

  [[nodiscard]] bool empty() const { return files_.empty(); }
  [[nodiscard]] std::vector<std::string> files() const;
  // Places where two replacements overlap. Only their file and offset are set.
  [[nodiscard]] std::vector<place> const& conflicts() const { return conflicts_; }
  [[nodiscard]] std::string apply(std::string const& file, std::string const& text) const;
  // The offset in the old text of `file` that corresponds to `offset` in the new one; for inserted text, the place of the insertion.
  [[nodiscard]] unsigned origin(std::string const& file, unsigned offset) const;
  // The changes in the form of diff -u, with three lines of context, under `name`.
  [[nodiscard]] std::string diff(std::string const& file, std::string const& text, std::string const& name) const;

 private:
  struct change {
    unsigned length = 0;
    std::vector<std::string> texts;  // the insertions, in order; then the replacement, if `length` is not 0
  };
  std::map<std::string, std::map<unsigned, change>> files_;
  std::vector<place> conflicts_;
  std::set<std::string> with_returns_;  // files whose lines end in a carriage return and a line feed
};

// The changes from `before` to `after` in the form of diff -u. `origins` has, for each line of `after`, the offset in `before` that it
// comes from.
[[nodiscard]] std::string diff_of(std::string const& before, std::string const& after, std::vector<unsigned> const& origins,
                                  std::string const& name_before, std::string const& name_after);

// A file to be written: its path, its present text, and its new text.
struct rewritten_file {
  std::string path, before, after;
};
// Writes all files or none. Returns the error's text, or an empty one. `must_match`: fails if a file's text is no longer `before`.
[[nodiscard]] std::string write_all(std::vector<rewritten_file> const& files, bool must_match);

// Reads a file into `text`. Returns false if it cannot be read.
[[nodiscard]] bool read_file(std::string const& path, std::string& text);

}  // namespace coalesce
