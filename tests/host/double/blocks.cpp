#include "blocks.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <atomic>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace driver_double {

namespace {

struct all_blocks {
  std::mutex lock;
  std::map<std::uintptr_t, block> live;
  std::array<std::size_t, 16> used{};
};

all_blocks& all() {
  static all_blocks* const only = new all_blocks;  // programs free after static destruction too
  return *only;
}

std::size_t rounded(std::size_t bytes) { return (bytes + redzone_bytes - 1) / redzone_bytes * redzone_bytes; }

bool on_device(memory what) { return what == memory::device || what == memory::managed; }

void check_redzones(block const& of) {
  auto const* const before = reinterpret_cast<unsigned char const*>(of.begin - redzone_bytes);
  auto const* const after = reinterpret_cast<unsigned char const*>(of.begin + of.bytes);
  for (std::size_t i = 0; i < redzone_bytes; ++i) {
    if (before[i] != redzone_byte) broken("written before a block", before + i);
    if (after[i] != redzone_byte) broken("written past a block", after + i);
  }
}

void unmake(all_blocks& blocks, block const& of) {
  if (of.what != memory::registered) {
    check_redzones(of);
    if (on_device(of.what)) blocks.used[static_cast<std::size_t>(of.device)] -= rounded(of.bytes);
    std::memset(reinterpret_cast<void*>(of.begin), freed_byte, of.bytes);
    std::free(reinterpret_cast<void*>(of.begin - redzone_bytes));
  }
  blocks.live.erase(of.begin);
}

std::size_t total_bytes() { return static_cast<std::size_t>(setting("DOUBLE_MEMORY", 64L << 30)); }

}  // namespace

void* make_block(memory what, std::size_t bytes, int device, void const* owner) {
  all_blocks& blocks = all();
  std::lock_guard const held{blocks.lock};
  std::size_t& used = blocks.used[static_cast<std::size_t>(device)];
  if (on_device(what) && used + rounded(bytes) > total_bytes()) return nullptr;
  auto* const room = static_cast<unsigned char*>(std::aligned_alloc(redzone_bytes, rounded(bytes) + 3 * redzone_bytes));
  if (room == nullptr) return nullptr;
  if (on_device(what)) used += rounded(bytes);
  std::memset(room, redzone_byte, rounded(bytes) + 3 * redzone_bytes);
  std::memset(room + redzone_bytes, fresh_byte, bytes);
  auto const begin = reinterpret_cast<std::uintptr_t>(room) + redzone_bytes;
  blocks.live[begin] = {begin, bytes, what, device, owner};
  return room + redzone_bytes;
}

bool end_block(memory what, void const* begin) {
  all_blocks& blocks = all();
  std::lock_guard const held{blocks.lock};
  auto const found = blocks.live.find(reinterpret_cast<std::uintptr_t>(begin));
  if (found == blocks.live.end()) return false;
  bool const fits = what == memory::pinned ? found->second.what == memory::pinned : on_device(found->second.what);
  if (!fits) return false;
  block const ended = found->second;
  unmake(blocks, ended);
  return true;
}

block block_of(void const* at, std::size_t bytes) {
  all_blocks& blocks = all();
  std::lock_guard const held{blocks.lock};
  auto const address = reinterpret_cast<std::uintptr_t>(at);
  auto found = blocks.live.upper_bound(address);
  if (found == blocks.live.begin()) return {};
  --found;
  block const& candidate = found->second;
  bool const inside = address - candidate.begin < candidate.bytes && bytes <= candidate.bytes - (address - candidate.begin);
  return inside ? candidate : block{};
}

bool register_block(void* at, std::size_t bytes, void const* owner) {
  all_blocks& blocks = all();
  std::lock_guard const held{blocks.lock};
  auto const begin = reinterpret_cast<std::uintptr_t>(at);
  return blocks.live.try_emplace(begin, block{begin, bytes, memory::registered, 0, owner}).second;
}

bool unregister_block(void const* at) {
  all_blocks& blocks = all();
  std::lock_guard const held{blocks.lock};
  auto const found = blocks.live.find(reinterpret_cast<std::uintptr_t>(at));
  if (found == blocks.live.end() || found->second.what != memory::registered) return false;
  blocks.live.erase(found);
  return true;
}

std::size_t free_bytes(int device) {
  all_blocks& blocks = all();
  std::lock_guard const held{blocks.lock};
  return total_bytes() - blocks.used[static_cast<std::size_t>(device)];
}

void end_all_of(void const* owner) {
  all_blocks& blocks = all();
  std::lock_guard const held{blocks.lock};
  std::map<std::uintptr_t, block> const before = blocks.live;
  for (auto const& [begin, each] : before) {
    if (each.owner == owner && (on_device(each.what) || each.what == memory::registered)) unmake(blocks, each);
  }
}

void log(char const* format, ...) {
  static int const file = [] {
    char const* const name = std::getenv("DOUBLE_LOG");
    return name == nullptr || *name == '\0' ? -1 : open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  }();
  if (file < 0) return;
  char line[512];
  va_list values;
  va_start(values, format);
  int const length = std::vsnprintf(line, sizeof line - 1, format, values);
  va_end(values);
  line[length] = '\n';
  if (write(file, line, static_cast<std::size_t>(length) + 1) < 0) broken("cannot write DOUBLE_LOG", nullptr);
}

void broken(char const* what, void const* where) {
  std::fprintf(stderr, "driver double: %s: %p\n", what, where);
  _exit(99);
}

bool fails(char const* call) {
  static std::atomic<long> calls{0};
  static long const nth = setting("DOUBLE_FAILS", -1);
  if (nth < 0 || calls.fetch_add(1) != nth) return false;
  log("failed %s", call);
  return true;
}

long setting(char const* name, long otherwise) {
  char const* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::atol(value);
}

}  // namespace driver_double
