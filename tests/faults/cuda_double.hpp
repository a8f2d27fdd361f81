// A CUDA runtime and the part of the driver that gpuheap's host code calls, without a device: memory is the host's, and a launch runs
// nothing. Any call can be made to fail, and resources that were made and not given back are counted.
#pragma once

#include <cstdint>
#include <string>

namespace faults {

// The resources that the code under test has made and not given back. All numbers are 0 again once that code has cleaned up.
struct resources {
  long allocations = 0;  // cudaMalloc and its like
  long streams = 0;
  long events = 0;
  long reservations = 0;  // of addresses
  long handles = 0;       // of memory to map
  long mappings = 0;
  int device_changes = 0;  // 1 while another device than device 0 is current

  friend bool operator==(resources const&, resources const&) = default;
};
[[nodiscard]] resources held();
[[nodiscard]] std::string text_of(resources const& r);

// The choice of the call that fails.
struct plan {
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  std::uint64_t nth = none;  // counted from 0 by arm()
  bool ever_after = false;   // all later calls fail as well, as in a context that was lost
  bool of_memory = false;    // with the code for lack of memory, which callers may treat apart
};
// Counts calls anew. Calls that give something back count too: their failure is told, and the double takes the thing back all the same.
void arm(plan p);
void disarm();
// Between the two no call fails, and none is counted.
void pause();
void resume();
// Makes device 0 current, where the code under test could not.
void restore_device();
// How much of its 256 MiB the device tells to be free from now on, whatever is allocated.
void tell_free(std::uint64_t bytes);
// The number of calls that arm() has seen, and the name of the first that failed; "" if none did.
[[nodiscard]] std::uint64_t calls();
[[nodiscard]] std::string failed_call();

// A call of the runtime by name, as a launch is; false: it fails.
[[nodiscard]] bool passes(char const* name);

}  // namespace faults
