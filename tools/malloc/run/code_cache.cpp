#include "code_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "sha256.hpp"

namespace gpuheap::unchanged {

namespace {

namespace fs = std::filesystem;

constexpr char suffix[] = ".cubin";
constexpr char mark[16] = "gpuheap run 1\n";

// The beginning of a file; the code follows.
struct file_head {
  char mark[16];
  std::uint64_t bytes;
  std::array<std::byte, 32> digest;
};

std::array<std::byte, 32> digest_of(bytes_view code) {
  sha256 hash;
  hash.add(code);
  return hash.digest();
}

bool read_all(int file, void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    ssize_t const got = read(file, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int file, void const* from, std::size_t bytes) {
  auto const* at = static_cast<char const*>(from);
  while (bytes > 0) {
    ssize_t const put = write(file, at, bytes);
    if (put <= 0) return false;
    at += put;
    bytes -= static_cast<std::size_t>(put);
  }
  return true;
}

std::optional<std::vector<std::byte>> read_entry(int file) {
  file_head head;
  struct stat facts;
  if (!read_all(file, &head, sizeof head) || std::memcmp(head.mark, mark, sizeof mark) != 0) return std::nullopt;
  if (fstat(file, &facts) != 0 || static_cast<std::uint64_t>(facts.st_size) != head.bytes + sizeof head) return std::nullopt;
  std::vector<std::byte> code(head.bytes);
  if (!read_all(file, code.data(), code.size()) || digest_of(code) != head.digest) return std::nullopt;
  return code;
}

}  // namespace

std::optional<std::vector<std::byte>> code_cache::find(std::string const& name) const {
  if (folder_.empty()) return std::nullopt;
  int const file = open((folder_ + "/" + name + suffix).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  auto found = read_entry(file);
  if (found) futimens(file, nullptr);  // its time of change tells shrink() when it was last read
  close(file);
  return found;
}

void code_cache::keep(std::string const& name, bytes_view code) const {
  if (folder_.empty() || code.size() + sizeof(file_head) > at_most_bytes_) return;
  std::error_code failed;
  fs::create_directories(folder_, failed);
  std::string open_name = folder_ + "/" + name + ".XXXXXX";
  int const file = mkostemp(open_name.data(), O_CLOEXEC);
  if (file < 0) return;
  file_head head{};
  std::memcpy(head.mark, mark, sizeof mark);
  head.bytes = code.size();
  head.digest = digest_of(code);
  bool const whole = write_all(file, &head, sizeof head) && write_all(file, code.data(), code.size());
  if (close(file) != 0 || !whole || std::rename(open_name.c_str(), (folder_ + "/" + name + suffix).c_str()) != 0) {
    unlink(open_name.c_str());
    return;
  }
  shrink();
}

// Deletes the files that were read least recently, until the rest is within the bound. Also deletes files that a killed process left
// half-written.
void code_cache::shrink() const {
  struct file {
    fs::path path;
    fs::file_time_type read;
    std::uint64_t bytes;
  };
  std::vector<file> files;
  std::uint64_t total = 0;
  std::error_code failed;
  auto const now = fs::file_time_type::clock::now();
  for (auto entry = fs::directory_iterator{folder_, failed}; !failed && entry != fs::directory_iterator{}; entry.increment(failed)) {
    std::error_code gone;
    file const each{entry->path(), entry->last_write_time(gone), entry->file_size(gone)};
    if (gone) continue;
    if (each.path.extension() != suffix) {
      bool const half_written = each.path.filename().string().size() == 2 * sizeof(file_head::digest) + 7;  // a name and .XXXXXX
      if (half_written && now - each.read > std::chrono::hours{1}) fs::remove(each.path, gone);
      continue;
    }
    files.push_back(each);
    total += each.bytes;
  }
  std::sort(files.begin(), files.end(), [](file const& a, file const& b) { return a.read < b.read; });
  for (file const& each : files) {
    if (total <= at_most_bytes_) break;
    if (fs::remove(each.path, failed)) total -= each.bytes;
  }
}

}  // namespace gpuheap::unchanged
