#include "host_blocks.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace gpuheap::interpose {

namespace {

constexpr int own_pages = MAP_PRIVATE | MAP_ANONYMOUS;

std::uint64_t in_pages(std::uint64_t bytes) {
  return (bytes + host_blocks::page_bytes - 1) / host_blocks::page_bytes * host_blocks::page_bytes;
}
std::uint64_t whole_pages(std::uint64_t bytes) { return bytes / host_blocks::page_bytes * host_blocks::page_bytes; }

void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }

// Makes the operating system replace each page of a private mapping by a copy of the mapping's own, as a write to the page would.
void own(std::uint64_t address, std::uint64_t bytes) {
  // Not madvise(), because host_heap.cpp replaces that function for the program.
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE
  if (syscall(SYS_madvise, at(address), bytes, populate_write) == 0) return;
  // For Linux before 5.14. The write changes nothing, and loses no write that another thread makes at the same time.
  for (std::uint64_t offset = 0; offset < bytes; offset += host_blocks::page_bytes) {
    asm volatile("lock; orb $0, %0" : "+m"(*static_cast<unsigned char*>(at(address + offset))) : : "memory", "cc");
  }
}

// Replaces a file's mapping by anonymous memory with the same bytes, at the same address.
bool moved_into_memory(std::uint64_t address, std::uint64_t bytes) {
  void* const room = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, own_pages, -1, 0);
  if (room == MAP_FAILED) return false;
  std::memcpy(room, at(address), bytes);
  // Not mremap(), because host_heap.cpp replaces that function for the program.
  if (syscall(SYS_mremap, room, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at(address)) >= 0) return true;
  munmap(room, bytes);
  return false;
}

}  // namespace

void* host_blocks::allocate(std::size_t bytes, std::size_t alignment, std::uint64_t site) {
  std::uint64_t const length = in_pages(bytes);
  std::uint64_t const spare = alignment > page_bytes ? alignment : 0;
  if (length < bytes || length + spare < length) return nullptr;
  void* const room = mmap(nullptr, length + spare, PROT_READ | PROT_WRITE, own_pages, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  auto address = reinterpret_cast<std::uint64_t>(room);
  if (spare != 0) {
    std::uint64_t const first = (address + alignment - 1) / alignment * alignment;
    if (first > address) munmap(at(address), first - address);
    if (address + spare > first) munmap(at(first + length), address + spare - first);
    address = first;
  }
  std::lock_guard const held{lock_};
  live_[address] = {bytes, site};
  num_blocks_.fetch_add(1, std::memory_order_relaxed);
  return at(address);
}

bool host_blocks::release(void const* address) {
  std::lock_guard const held{lock_};
  auto const found = live_.find(reinterpret_cast<std::uint64_t>(address));
  if (found == live_.end()) return false;
  munmap(at(found->first), in_pages(found->second.bytes));
  if (found->second.merged) num_merged_.fetch_sub(1, std::memory_order_relaxed);
  live_.erase(found);
  num_blocks_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

host_blocks::block host_blocks::begins_at(void const* address) const {
  std::lock_guard const held{lock_};
  auto const found = live_.find(reinterpret_cast<std::uint64_t>(address));
  return found == live_.end() ? block{} : block_of(*found);
}

bool host_blocks::merge(void const* address, int file, std::uint64_t offset, void const* bytes_there, std::uint64_t twin) {
  std::lock_guard const held{lock_};
  auto const found = live_.find(reinterpret_cast<std::uint64_t>(address));
  if (found == live_.end() || found->second.fixed || offset % page_bytes != 0) return false;
  entry& of = found->second;
  std::uint64_t const whole = whole_pages(of.bytes);
  if (mmap(at(found->first), whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, static_cast<off_t>(offset)) == MAP_FAILED) {
    // If the old pages are already gone, the block has zeros until the caller copies the bytes.
    if (of.merged) num_merged_.fetch_sub(1, std::memory_order_relaxed);
    of.merged = false;
    mmap(at(found->first), whole, PROT_READ | PROT_WRITE, own_pages | MAP_FIXED, -1, 0);
    return false;
  }
  std::memcpy(at(found->first + whole), static_cast<unsigned char const*>(bytes_there) + whole, of.bytes - whole);
  if (!of.merged) num_merged_.fetch_add(1, std::memory_order_relaxed);
  of.merged = true;
  of.of_file = true;
  of.twin = twin;
  return true;
}

void host_blocks::separate(std::uint64_t address, entry& of) {
  own(address, whole_pages(of.bytes));
  of.merged = false;
  num_merged_.fetch_sub(1, std::memory_order_relaxed);
}

std::vector<host_blocks::block> host_blocks::separate_all() {
  std::lock_guard const held{lock_};
  std::vector<block> found;
  for (auto& each : live_) {
    if (!each.second.merged) continue;
    separate(each.first, each.second);
    found.push_back(block_of(each));
  }
  return found;
}

void host_blocks::fix(void const* address, std::size_t bytes) {
  auto const first = reinterpret_cast<std::uint64_t>(address);
  std::lock_guard const held{lock_};
  for (auto& [begin, of] : live_) {
    if (begin >= first + bytes || first >= begin + in_pages(of.bytes)) continue;
    if (of.merged) separate(begin, of);
    if (of.of_file) of.of_file = !moved_into_memory(begin, whole_pages(of.bytes));
    of.fixed = true;
  }
}

void host_blocks::before_fork() {
  lock_.lock();
  for (auto& [begin, of] : live_) {
    if (of.merged) separate(begin, of);
  }
}

}  // namespace gpuheap::interpose
