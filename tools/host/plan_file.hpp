// The plan that `gpuheap host pool` makes of a profile: a text with one fact on each line. The last line is a checksum of all lines before
// it.
//
//   gpuheap-host-plan 1
//   driver 13000
//   device 0 151397597184 NVIDIA H200
//   pool 0 device 0 4194304          number, memory, device, bytes
//   slot 0 512 4096 9f3c...          pool, offset, bytes, site
//   pair 71aa... 9f3c...             site of the host buffer, site of the device buffer: validated, for merging.cpp
//   checksum 1c2f...
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "slots.hpp"
#include "trace_format.hpp"

namespace gpuheap::interpose {

struct planned_pool {
  memory what = memory::unknown;
  int device = 0;
  std::uint64_t bytes = 0;
  std::vector<planned_slot> slots;
};

struct planned_device {
  int ordinal = 0;
  std::uint64_t total_bytes = 0;
  std::string name;
};

// Buffers from these two call sites are copied only to each other, and a validation run showed that downloads between them need no copy.
struct proven_pair {
  std::uint64_t host_site = 0;
  std::uint64_t device_site = 0;
};

struct plan {
  int driver = 0;
  std::vector<planned_device> devices;
  std::vector<planned_pool> pools;
  std::vector<proven_pair> pairs;
};

// Reads a plan. On failure `why` says what is wrong, and the plan is empty.
[[nodiscard]] plan read_plan(std::string const& path, std::string* why);
[[nodiscard]] plan read_plan(std::istream& text, std::string* why);

}  // namespace gpuheap::interpose
