// Memory and facts about the machine, from the operating system.
#include <gpuheap_simulator/memory.hpp>
#include <gpuheap_simulator/settings.hpp>

#include <unistd.h>

#include <fstream>
#include <new>

namespace gpuheap::simulator {

namespace {
constexpr std::align_val_t allocation_alignment{4096};

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
std::size_t total_bytes() { return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes(); }

// MemAvailable of /proc/meminfo in bytes; 0 where there is none.
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
  return bytes > total_bytes() ? nullptr : ::operator new(bytes, allocation_alignment, std::nothrow);
}
void deallocate(void* p) noexcept { ::operator delete(p, allocation_alignment); }

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
