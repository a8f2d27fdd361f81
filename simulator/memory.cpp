// Memory, and facts about the machine, from the operating system.
#include <gpuheap_simulator/memory.hpp>
#include <gpuheap_simulator/settings.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <new>

namespace gpuheap::simulator {

namespace {
constexpr std::align_val_t allocation_alignment{4096};

// Counts of the whole process. All accesses are relaxed, because a count orders nothing.
std::atomic<std::size_t> mapped_bytes{0};  // by map_memory()
std::atomic<std::size_t> num_blocks{0};    // of allocate()

std::size_t total_bytes() { return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes(); }

// MemAvailable of /proc/meminfo in bytes; 0 if the file has no such line.
std::size_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::size_t kib = 0;
  // Ends: each pass reads a line.
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    file.ignore(256, '\n');
  }
  return 0;
}
}  // namespace

void* allocate(std::size_t bytes) noexcept {
  void* const p = bytes > total_bytes() ? nullptr : ::operator new(bytes, allocation_alignment, std::nothrow);
  if (p != nullptr) num_blocks.fetch_add(1, std::memory_order_relaxed);
  return p;
}
void deallocate(void* p) noexcept {
  if (p != nullptr) num_blocks.fetch_sub(1, std::memory_order_relaxed);
  ::operator delete(p, allocation_alignment);
}
held_memory memory_held() noexcept { return {num_blocks.load(std::memory_order_relaxed), mapped_bytes.load(std::memory_order_relaxed)}; }

std::size_t page_bytes() noexcept { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

void* reserve_addresses(std::size_t bytes) noexcept {
  void* const p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}
void release_addresses(void* base, std::size_t bytes) noexcept { munmap(base, bytes); }

bool map_memory(void* at, std::size_t bytes) noexcept {
  // The operating system overcommits memory, so mapped bytes are counted here. relaxed: a count, which orders nothing.
  bool const mapped =
      mapped_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes <= total_bytes() && mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
  if (!mapped) mapped_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  return mapped;
}
void unmap_memory(void* at, std::size_t bytes) noexcept {
  // New pages replace the old ones, because a change of the protection alone would keep the memory.
  (void)mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  mapped_bytes.fetch_sub(bytes, std::memory_order_relaxed);  // relaxed: a count, which orders nothing
}

device_facts describe_device() {
  settings const& s = current_settings();
  device_facts facts;
  facts.name = "simulated GPU (" + std::to_string(s.num_sms) + " SMs)";
  facts.num_sms = s.num_sms;
  facts.total_bytes = total_bytes();
  facts.free_bytes = available_bytes();
  if (facts.free_bytes == 0) facts.free_bytes = static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) * page_bytes();
  return facts;
}

}  // namespace gpuheap::simulator
