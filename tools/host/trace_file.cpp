#include "trace_file.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>

#include "messages.hpp"
#include "settings.hpp"

namespace gpuheap::interpose {

namespace {

constexpr std::size_t blocks_per_extent = 64;  // 1 MiB is reserved on disk and mapped at a time

struct open_file {
  std::mutex lock;  // guards all but atomics and the words of blocks, which their owners write
  int descriptor = -1;
  bool failed = false;
  file_header* header = nullptr;
  std::byte* extent = nullptr;
  std::size_t next_in_extent = blocks_per_extent;
  std::uint64_t start_ns = 0;
  std::array<event*, 256> partly_filled{};  // blocks of ended threads; beyond this many, the rest of a block stays empty
  std::size_t num_partly_filled = 0;
  std::uint32_t num_threads = 0;
};

// The place at which a thread writes next. `generation` distinguishes a block of this process from one inherited over fork.
struct position {
  event* next = nullptr;
  event* end = nullptr;
  std::uint32_t thread = 0;
  std::uint32_t generation = 0;
};

// Constant initialised and trivially destroyed: other libraries call the driver before this one's constructors have run, and after its
// destructors.
static_assert(std::is_trivially_destructible_v<open_file>);
constinit open_file first_file;
constinit open_file* file = &first_file;
std::atomic<std::uint32_t> current_generation{1};
std::atomic<file_header*> header_of_file{nullptr};  // the release at the opening, with a ready header, pairs with the acquire in count()
constinit thread_local position mine __attribute__((tls_model("initial-exec")));

bool reserve(std::uint64_t from, std::uint64_t bytes) {
  // Space on disk is taken now: a store to a mapped page that the disk has no room for would kill the program.
  return posix_fallocate(file->descriptor, static_cast<off_t>(from), static_cast<off_t>(bytes)) == 0;
}

bool open_now() {
  settings const& wanted = configured();
  std::string path;
  // Ends: only finitely many earlier processes had this process number and left a file, and every error but "the file exists" leaves the
  // loop.
  for (int attempt = 0;; ++attempt) {
    path = wanted.folder + "/" + program_name() + "." + std::to_string(getpid()) + (attempt == 0 ? "" : "-" + std::to_string(attempt)) +
           ".trace";
    file->descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file->descriptor >= 0 || errno != EEXIST) break;
  }
  if (file->descriptor < 0) {
    complain("cannot make " + path + ": " + std::strerror(errno) + ": nothing is recorded of this process");
    return false;
  }
  if (!reserve(0, header_bytes)) {
    complain("no room on disk for " + path + ": nothing is recorded of this process");
    close(file->descriptor);
    unlink(path.c_str());
    return false;
  }
  void* const page = mmap(nullptr, header_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->descriptor, 0);
  if (page == MAP_FAILED) {
    complain("cannot map " + path + ": " + std::strerror(errno) + ": nothing is recorded of this process");
    close(file->descriptor);
    return false;
  }
  file->header = static_cast<file_header*>(page);
  file->start_ns = now_ns();
  timespec wall{};
  clock_gettime(CLOCK_REALTIME, &wall);
  file->header->version = trace_version;
  file->header->process = static_cast<std::uint32_t>(getpid());
  file->header->parent = static_cast<std::uint32_t>(getppid());
  file->header->start_unix_ns = static_cast<std::uint64_t>(wall.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(wall.tv_nsec);
  std::memcpy(file->header->magic, trace_magic, sizeof trace_magic);
  header_of_file.store(file->header, std::memory_order_release);
  return true;
}

bool opened() {
  if (file->header != nullptr) return true;
  if (file->failed) return false;
  file->failed = !open_now();
  return !file->failed;
}

// Takes a block for the calling thread. The caller holds the lock. Returns false if there is no room.
bool take_block() {
  if (file->num_partly_filled > 0) {
    mine.next = file->partly_filled[--file->num_partly_filled];
    auto const from = reinterpret_cast<std::uintptr_t>(mine.next);
    mine.end = mine.next + (block_bytes - from % block_bytes) / slot_bytes;
    return true;
  }
  if (file->next_in_extent == blocks_per_extent) {
    std::uint64_t const at = header_bytes + file->header->num_blocks * block_bytes;
    constexpr std::uint64_t bytes = blocks_per_extent * block_bytes;
    if (!reserve(at, bytes)) return false;
    // Each block must start at a multiple of its size in memory, because the end of a partly filled block is computed from its address. So
    // the mapping is placed at such an address.
    void* const room = mmap(nullptr, bytes + block_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return false;
    auto const aligned = (reinterpret_cast<std::uintptr_t>(room) + block_bytes - 1) / block_bytes * block_bytes;
    void* const mapped = mmap(reinterpret_cast<void*>(aligned), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file->descriptor,
                              static_cast<off_t>(at));
    if (mapped == MAP_FAILED) return false;
    file->extent = static_cast<std::byte*>(mapped);
    file->next_in_extent = 0;
    file->header->num_blocks += blocks_per_extent;
  }
  mine.next = reinterpret_cast<event*>(file->extent + file->next_in_extent * block_bytes);
  mine.end = mine.next + slots_per_block;
  ++file->next_in_extent;
  return true;
}

void give_block_back(void*) {
  if (mine.next == nullptr || mine.next == mine.end || mine.generation != current_generation.load(std::memory_order_relaxed)) return;
  std::lock_guard const held{file->lock};
  if (file->num_partly_filled < file->partly_filled.size()) file->partly_filled[file->num_partly_filled++] = mine.next;
  mine.next = mine.end = nullptr;
}

// The key's destructor, give_block_back(), runs at the end of each thread that has recorded.
pthread_key_t end_of_thread() {
  static pthread_key_t const key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, give_block_back);
    return made;
  }();
  return key;
}

// Makes room for `slots` slots in the calling thread's block. Returns false if there is no file or no room. relaxed: a generation changes
// in a child of fork only, which has one thread.
bool make_room(std::size_t slots) {
  if (mine.generation == current_generation.load(std::memory_order_relaxed) && static_cast<std::size_t>(mine.end - mine.next) >= slots)
    return true;
  std::lock_guard const held{file->lock};
  if (!opened()) return false;
  if (mine.generation != current_generation.load(std::memory_order_relaxed)) {
    mine = position{nullptr, nullptr, file->num_threads++, current_generation.load(std::memory_order_relaxed)};
    pthread_setspecific(end_of_thread(), file);
  }
  // Ends: a block that an ended thread left may have too little room for a long record, but only finitely many such blocks come before a
  // fresh one.
  while (take_block()) {
    if (static_cast<std::size_t>(mine.end - mine.next) >= slots) return true;
  }
  if (file->header->counters[static_cast<std::size_t>(counter::lost_events)].load(std::memory_order_relaxed) == 0) {
    complain("no room on disk for the trace: the calls from here on are not recorded");
  }
  mine.next = mine.end = nullptr;
  return false;
}

void place(event* slot, event const& record) {
  event copy = record;
  copy.kind = 0;
  copy.thread = mine.thread;
  copy.begin_ns = record.begin_ns > file->start_ns ? record.begin_ns - file->start_ns : 0;
  std::memcpy(static_cast<void*>(slot), &copy, sizeof copy);
  // release: a reader that sees the kind, also after a crash, sees the whole slot and the payload after it.
  std::atomic_ref{slot->kind}.store(record.kind, std::memory_order_release);
}

}  // namespace

std::uint64_t now_ns() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return static_cast<std::uint64_t>(at.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(at.tv_nsec);
}

void append(event record) {
  if (!make_room(1)) return count(counter::lost_events);
  place(mine.next++, record);
}

void append_text(event record, std::string_view payload) {
  payload = payload.substr(0, block_bytes - slot_bytes);
  std::size_t const slots = 1 + (payload.size() + slot_bytes - 1) / slot_bytes;
  if (!make_room(slots)) return count(counter::lost_events);
  record.bytes = payload.size();
  std::memcpy(static_cast<void*>(mine.next + 1), payload.data(), payload.size());
  place(mine.next, record);
  mine.next += slots;
}

void append_fact(std::string_view key, std::string_view value) {
  event record{};
  record.kind = static_cast<std::uint16_t>(kind::fact);
  record.begin_ns = now_ns();
  append_text(record, std::string{key} + "=" + std::string{value});
}

void count(counter which, std::uint64_t amount) {
  file_header* header = header_of_file.load(std::memory_order_acquire);
  if (header == nullptr) {
    std::lock_guard const held{file->lock};
    if (!opened()) return;
    header = file->header;
  }
  // relaxed: a sum, on which no other data depend.
  header->counters[static_cast<std::size_t>(which)].fetch_add(amount, std::memory_order_relaxed);
}

void mark_ended() {
  file_header* const header = header_of_file.load(std::memory_order_acquire);
  if (header != nullptr) header->ended = 1;
}

void forget_after_fork() {
  // The mappings stay, unused, because the file is the parent's. A thread that this process does not have may have held the lock, so the
  // child makes a new object.
  if (file->descriptor >= 0) close(file->descriptor);
  file = new open_file;
  header_of_file.store(nullptr, std::memory_order_relaxed);
  current_generation.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace gpuheap::interpose
