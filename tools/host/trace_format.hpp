// The format of a trace file. python/gpuheap/host/trace.py reads it; a change of the format must change both files and trace_version.
//
//   0                     4096                 4096 + 16 KiB
//   | file_header, zeros  | block: 256 slots   | block | ...
//
// A slot is 64 bytes. A block is filled from its start, and its records end before its first slot whose kind is 0. So a file can be read no
// matter at which instruction its process died. A text record is an event whose `bytes` counts the payload in the slots after it; a record
// never crosses the end of a block.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpuheap::interpose {

inline constexpr char trace_magic[16] = "gpuheap-trace\n";
inline constexpr std::uint32_t trace_version = 2;
inline constexpr std::size_t header_bytes = 4096;
inline constexpr std::size_t slot_bytes = 64;
inline constexpr std::size_t block_bytes = 16384;
inline constexpr std::size_t slots_per_block = block_bytes / slot_bytes;

enum class kind : std::uint16_t {
  none = 0,
  allocate = 1,
  release = 2,
  copy = 3,
  set = 4,
  launch = 5,
  synchronise = 6,
  context = 7,  // `flags` 0: made, 2: destroyed or released, 3: reset; `address`: its handle
  capture = 8,  // `flags` 1: begins, 2: ends
  other = 9,
  merge = 10,  // of a validation run: the end of a period after a download (merging.hpp); address, other: sites of the host's and the
               // device's buffer; detail: period_end
  // Text records.
  module = 32,   // address: where it is mapped; other: its length; payload: build id in hex, tab, path
  stack = 33,    // stack: its number; address: the site's hash, the same in every run; payload: frame[], nearest first
  name = 34,     // address: a kernel's handle; payload: its name
  fact = 35,     // payload: key, '=', value
  message = 36,  // payload: code, tab, words
};

// The kind of memory that a call allocates or releases.
enum class memory : std::uint16_t {
  unknown = 0,
  device = 1,
  managed = 2,
  pinned = 3,
  stream_ordered = 4,
  registered = 5,
  array = 6,
  physical = 7,
  imported = 8
};

// The direction of a copy, as its entry point says. `by_address`: the trace's reader, which knows every live allocation, finds the
// direction from the addresses.
enum class direction : std::uint16_t {
  by_address = 0,
  host_to_device = 1,
  device_to_host = 2,
  device_to_device = 3,
  host_to_host = 4,
  peer = 5
};

inline constexpr std::uint8_t flag_async = 1;   // of a copy, set, allocation or release: ordered in a stream, the host need not wait
inline constexpr std::uint8_t flag_pooled = 2;  // an allocation or release that a pool served
inline constexpr std::uint8_t flag_array = 4;   // of a copy: one side is a CUDA array
inline constexpr std::uint8_t flag_elided = 8;  // of a copy: done without the driver (merging.hpp)
inline constexpr std::uint8_t no_device = 255;

struct event {
  std::uint16_t kind;   // written last, with release: the reader of a live or torn file sees whole slots only
  std::uint16_t entry;  // row of the table of entry points, whose names are the fact `entries`
  std::uint32_t thread;
  std::uint64_t begin_ns;     // since the file was made
  std::uint32_t duration_ns;  // 2^32 - 1 stands for longer
  std::int32_t result;        // the driver's CUresult
  std::uint64_t address;      // allocation; copy and set: destination; launch: the kernel
  std::uint64_t other;        // copy: source; allocation: its pitch, or the flags of managed and pinned memory; launch: blocks
  std::uint64_t bytes;        // launch: dynamic shared memory
  std::uint64_t stream;       // of a call that works in a stream
  std::uint32_t stack;        // number of the call stack; 0: not recorded
  std::uint16_t detail;       // memory, direction, period_end, or threads of a block
  std::uint8_t device;
  std::uint8_t flags;
};
static_assert(sizeof(event) == slot_bytes);

struct frame {
  std::uint64_t module_base;  // 0: code outside any module
  std::uint64_t offset;       // in the module, as the module's file counts addresses; without a module: the address
};

// Counters of the running process. A reader of a file whose process has died finds their last values.
enum class counter : std::uint32_t {
  lookups,      // of driver entry points
  hooks,        // rows of the table whose wrapper the program got
  lost_events,  // the disk was full
  served,       // requests that a pool served
  served_bytes,
  driver_allocations,  // requests that went to the driver although a pool was on
  unprofiled,          // E04
  too_large,           // E06
  slot_busy,           // E05
  foreign_frees,       // E07
  pool_bytes,          // bytes reserved for pools
  refused,             // strict: requests that failed
  elided,              // downloads that needed no copy
  elided_bytes,
  not_elided,       // E09: downloads of proven pairs that were copied
  separated,        // E09: elided downloads that were copied after all
  separated_bytes,  // bytes of their host buffers
  num
};

struct file_header {
  char magic[16];
  std::uint32_t version;
  std::uint32_t process;
  std::uint32_t parent;
  std::uint32_t ended;  // 1: by exit or return from main
  std::uint64_t start_unix_ns;
  std::uint64_t num_blocks;  // reserved so far
  std::atomic<std::uint64_t> counters[static_cast<std::size_t>(counter::num)];
};
static_assert(sizeof(file_header) <= header_bytes);

}  // namespace gpuheap::interpose
