// The memory of the driver double: every block stands between redzones, is filled when it is made and when it is freed, and is known while
// it lives.
#pragma once

#include <cstddef>
#include <cstdint>

namespace driver_double {

enum class memory { device, managed, pinned, registered };

struct block {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;  // 0: none
  memory what = memory::device;
  int device = 0;
  void const* owner = nullptr;  // its context
};

inline constexpr std::size_t redzone_bytes = 512;  // also what a block begins at a multiple of
inline constexpr unsigned char fresh_byte = 0xa5;
inline constexpr unsigned char freed_byte = 0xdd;
inline constexpr unsigned char redzone_byte = 0xfb;

// nullptr when the device's memory does not suffice.
void* make_block(memory what, std::size_t bytes, int device, void const* owner);

// False: no live block of that kind begins there. Ends the process if the redzones were written to.
bool end_block(memory what, void const* begin);

// The live block that holds all of [at, at + bytes); bytes == 0 in the answer: none does.
block block_of(void const* at, std::size_t bytes);
bool register_block(void* at, std::size_t bytes, void const* owner = nullptr);
bool unregister_block(void const* at);

std::size_t free_bytes(int device);
void end_all_of(void const* owner);

// A line into the file that DOUBLE_LOG names.
void log(char const* format, ...) __attribute__((format(printf, 1, 2)));
// Ends the process with a message.
[[noreturn]] void broken(char const* what, void const* where);
// Counts a call. True, and a line in the log: it is to fail, as DOUBLE_FAILS says.
bool fails(char const* call);
// An environment variable as a number.
long setting(char const* name, long otherwise);

}  // namespace driver_double
