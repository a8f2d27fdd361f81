#include "edits.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

namespace coalesce {

void edits::keep_line_ends(std::map<std::string, std::string> const& texts) {
  for (auto const& [file, text] : texts) {
    auto const end = text.find('\n');
    if (end != std::string::npos && end > 0 && text[end - 1] == '\r') with_returns_.insert(file);
  }
}

void edits::replace(stretch const& where, std::string const& new_text) {
  std::string text = new_text;
  for (std::size_t at = 0; with_returns_.count(where.file) != 0 && (at = text.find('\n', at)) != std::string::npos; ++at) {
    if (at == 0 || text[at - 1] != '\r') text.insert(at++, 1, '\r');
  }
  auto& changes = files_[where.file];
  auto const conflict = [&] { conflicts_.push_back({where.file, where.offset, 0, 0}); };
  // A change that begins after this one and overlaps it.
  auto const next = changes.lower_bound(where.offset + 1);
  if (where.length > 0 && next != changes.end() && next->first < where.offset + where.length) return conflict();
  if (auto const before = changes.lower_bound(where.offset); before != changes.begin()) {
    auto const& [offset, change] = *std::prev(before);
    if (offset + change.length > where.offset) return conflict();
  }
  auto& change = changes[where.offset];
  auto const insertions_end = change.length > 0 ? std::prev(change.texts.end()) : change.texts.end();
  if (where.length == 0 && std::find(change.texts.begin(), insertions_end, text) != insertions_end) return;
  if (where.length > 0 && change.length == where.length && change.texts.back() == text) return;
  if (where.length > 0 && change.length > 0) return conflict();
  if (where.length > 0) {
    change.length = where.length;
    change.texts.push_back(text);  // earlier insertions here stay in front
  } else if (change.length > 0) {
    change.texts.insert(std::prev(change.texts.end()), text);
  } else {
    change.texts.push_back(text);
  }
}

std::vector<std::string> edits::files() const {
  std::vector<std::string> names;
  for (auto const& [name, changes] : files_) names.push_back(name);
  return names;
}

std::string edits::apply(std::string const& file, std::string const& text) const {
  auto const found = files_.find(file);
  if (found == files_.end()) return text;
  std::string result;
  std::size_t at = 0;
  for (auto const& [offset, change] : found->second) {
    result.append(text, at, offset - at);
    for (auto const& part : change.texts) result += part;
    at = offset + change.length;
  }
  return result.append(text, at, std::string::npos);
}

unsigned edits::origin(std::string const& file, unsigned offset) const {
  auto const found = files_.find(file);
  if (found == files_.end()) return offset;
  std::size_t before = 0, after = 0;  // the offsets in the old and the new text that the loop has reached
  for (auto const& [at, change] : found->second) {
    if (offset < after + (at - before)) break;
    after += at - before;
    before = at;
    std::size_t made = 0;
    for (auto const& part : change.texts) made += part.size();
    if (offset < after + made) return at;
    after += made;
    before += change.length;
  }
  return static_cast<unsigned>(before + (offset - after));
}

namespace {

// The lines of a text, each with its line feed.
std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const end = std::min(text.find('\n', at), text.size() - 1);
    lines.push_back(text.substr(at, end + 1 - at));
    at = end + 1;
  }
  return lines;
}

// The lines [from, to) of the old text, which become `after`.
struct hunk_part {
  std::size_t from, to;
  std::vector<std::string> after;
};

void print(std::string& out, char mark, std::string const& line) {
  out += mark;
  out += line;
  if (line.empty() || line.back() != '\n') out += "\n\\ No newline at end of file\n";
}

// The parts as the hunks of a unified diff.
std::string print_parts(std::vector<std::string> const& lines, std::vector<hunk_part> const& parts, std::string const& name_before,
                        std::string const& name_after) {
  constexpr std::size_t context = 3;
  std::string out = "--- " + name_before + "\n+++ " + name_after + "\n";
  std::ptrdiff_t shift = 0;
  for (std::size_t i = 0; i < parts.size();) {
    std::size_t last = i;
    while (last + 1 < parts.size() && parts[last + 1].from <= parts[last].to + 2 * context) ++last;
    std::size_t const from = parts[i].from - std::min(parts[i].from, context);
    std::size_t const to = std::min(parts[last].to + context, lines.size());
    std::string body;
    std::size_t line = from, added = 0, removed = 0;
    for (std::size_t k = i; k <= last; ++k) {
      for (; line < parts[k].from; ++line) print(body, ' ', lines[line]);
      for (; line < parts[k].to; ++line) print(body, '-', lines[line]);
      for (auto const& text_line : parts[k].after) print(body, '+', text_line);
      added += parts[k].after.size();
      removed += parts[k].to - parts[k].from;
    }
    for (; line < to; ++line) print(body, ' ', lines[line]);
    std::size_t const old_count = to - from, new_count = old_count + added - removed;
    char head[96];
    std::snprintf(head, sizeof head, "@@ -%zu,%zu +%zu,%zu @@\n", old_count == 0 ? from : from + 1, old_count,
                  static_cast<std::size_t>(static_cast<std::ptrdiff_t>(from) + shift) + (new_count == 0 ? 0 : 1), new_count);
    out += head + body;
    shift += static_cast<std::ptrdiff_t>(added) - static_cast<std::ptrdiff_t>(removed);
    i = last + 1;
  }
  return out;
}

}  // namespace

std::string edits::diff(std::string const& file, std::string const& text, std::string const& name) const {
  auto const found = files_.find(file);
  if (found == files_.end()) return "";
  auto const lines = lines_of(text);
  std::vector<std::size_t> starts;
  std::size_t at = 0;
  for (auto const& line : lines) starts.push_back(at), at += line.size();
  auto const line_at = [&](std::size_t offset) {
    return starts.empty() ? 0 : static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), offset) - starts.begin()) - 1;
  };

  // Groups of consecutive lines that change.
  std::vector<hunk_part> parts;
  for (auto change = found->second.begin(); change != found->second.end();) {
    std::size_t const from = line_at(change->first);
    std::size_t to = from;
    std::string now;
    std::size_t copied = starts.empty() ? 0 : starts[from];
    for (; change != found->second.end() && line_at(change->first) <= to; ++change) {
      now.append(text, copied, change->first - copied);
      for (auto const& part : change->second.texts) now += part;
      copied = change->first + change->second.length;
      to = std::max(to, line_at(copied == change->first ? copied : copied - 1));
    }
    std::size_t const end = to + 1 < starts.size() ? starts[to + 1] : text.size();
    now.append(text, copied, end - copied);
    auto after = lines_of(now);
    std::size_t first = from, last = std::min(to + 1, lines.size());
    // Lines at both ends of a group that stay the same do not belong to it.
    while (first < last && !after.empty() && after.back() == lines[last - 1]) after.pop_back(), --last;
    while (first < last && !after.empty() && after.front() == lines[first]) after.erase(after.begin()), ++first;
    parts.push_back({first, last, after});
  }

  return print_parts(lines, parts, name, name);
}

std::string diff_of(std::string const& before, std::string const& after, std::vector<unsigned> const& origins,
                    std::string const& name_before, std::string const& name_after) {
  auto const lines = lines_of(before), now = lines_of(after);
  std::vector<std::size_t> starts;
  std::size_t at = 0;
  for (auto const& line : lines) starts.push_back(at), at += line.size();
  std::vector<hunk_part> parts;
  hunk_part open{0, 0, {}};
  auto const close = [&](std::size_t to) {
    open.to = to;
    if (open.from != open.to || !open.after.empty()) parts.push_back(open);
    open = {to + 1, to + 1, {}};
  };
  for (std::size_t i = 0; i < now.size(); ++i) {
    auto const line = static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), origins[i]) - starts.begin()) - 1;
    if (line < lines.size() && line >= open.from && now[i] == lines[line]) {
      close(line);
    } else {
      open.after.push_back(now[i]);
    }
  }
  close(lines.size());
  return parts.empty() ? "" : print_parts(lines, parts, name_before, name_after);
}

bool read_file(std::string const& path, std::string& text) {
  std::ifstream in{path, std::ios::binary};
  if (!in) return false;
  std::ostringstream all;
  all << in.rdbuf();
  text = all.str();
  return !in.bad();
}

namespace {

// Temporary files of this process. The destructor removes those that still exist.
class temporaries {
 public:
  temporaries() = default;
  temporaries(temporaries const&) = delete;
  temporaries& operator=(temporaries const&) = delete;
  ~temporaries() {
    for (auto const& path : paths_) ::unlink(path.c_str());
  }
  void add(std::string const& path) { paths_.push_back(path); }

 private:
  std::vector<std::string> paths_;
};

std::string problem_of(std::string const& doing, std::string const& path) {
  return "cannot " + doing + " " + path + ": " + std::strerror(errno);
}

// Makes a new file with `text` and the permissions of `like`. Returns the error's text, or an empty one.
std::string make_file(std::string const& path, std::string const& text, std::string const& like) {
  std::FILE* const f = std::fopen(path.c_str(), "wbx");
  if (f == nullptr) return problem_of("write", path);
  struct stat status;
  bool const modes = ::stat(like.c_str(), &status) != 0 || ::fchmod(fileno(f), status.st_mode & 07777) == 0;
  bool const written = std::fwrite(text.data(), 1, text.size(), f) == text.size() && std::fflush(f) == 0 && ::fsync(fileno(f)) == 0;
  std::string const problem = modes && written ? "" : problem_of("write", path);
  return std::fclose(f) == 0 ? problem : problem_of("write", path);
}

}  // namespace

std::string write_all(std::vector<rewritten_file> const& files, bool must_match) {
  std::string const suffix = ".coalesce-" + std::to_string(::getpid());
  temporaries made;
  std::vector<bool> existed;
  // All steps that can fail for lack of space or permission come before the first file is replaced.
  for (auto const& file : files) {
    std::string now;
    bool const there = read_file(file.path, now);
    if (must_match && (!there || now != file.before)) return file.path + " has changed since it was read: nothing is written; run again";
    existed.push_back(there);
    made.add(file.path + suffix);
    if (auto problem = make_file(file.path + suffix, file.after, file.path); !problem.empty()) return problem + ": nothing is written";
    if (there) {
      made.add(file.path + suffix + ".old");
      if (auto problem = make_file(file.path + suffix + ".old", now, file.path); !problem.empty()) return problem + ": nothing is written";
    }
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (std::rename((files[i].path + suffix).c_str(), files[i].path.c_str()) == 0) continue;
    std::string const problem = problem_of("replace", files[i].path);
    while (i-- > 0) {
      if (existed[i]) {
        (void)std::rename((files[i].path + suffix + ".old").c_str(), files[i].path.c_str());
      } else {
        ::unlink(files[i].path.c_str());
      }
    }
    return problem + ": the files are as they were";
  }
  return "";
}

}  // namespace coalesce
