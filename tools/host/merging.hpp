// Pairs of host and device buffers whose downloads need no copy: under zero-copy pools both are host memory, so the pages of the pool can
// stand in the host buffer (host_blocks.hpp). With GPUHEAP_HOST_MERGE unset nothing here does anything.
//
// A download is merged instead of copied. Before any call that may change device memory, the host buffer is separated again, which makes
// the copy after all. So the program reads what it would read without merging, whatever it does. A validation run
// (GPUHEAP_HOST_MERGE=rehearse) finds the pairs for which no such call comes while the host buffer lives, and only these are merged
// (GPUHEAP_HOST_MERGE=elide, pairs of the plan).
//
// Uploads stay copies. After one the program may read two versions, its own and what kernels make of it, and one memory holds one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <shared_mutex>

#include "driver.hpp"

namespace gpuheap::interpose {

// The effects that a call may have on device memory.
enum class device_use {
  none,
  in_stream,  // changes it, in order with the stream that the call's record names
  anywhere,   // changes it in a way that waiting for the default stream does not cover
};

// The end of a period in which a download could stand merged: rehearsals record it (kind::merge, `detail`).
// python/gpuheap/host/rehearsal.py knows the numbers.
enum class period_end : std::uint16_t {
  kept = 1,       // the host buffer was freed or filled again, or the process ended
  separated = 2,  // device memory could change, and the host buffer was as downloaded
  written = 3,    // device memory could change, and the host had written its buffer
  changed = 4,    // device memory had changed, and no call was seen that could have done it
  differed = 5,   // right after the download both were not the same
  elsewhere = 6,  // the process works in streams, contexts or graphs that waiting for the default stream does not cover
  fixed = 7,      // the program registered the host buffer, or changed its mapping itself
};

[[nodiscard]] bool merging_on();

// Around a call that may let device memory change: before it merged buffers are separated, and no download is merged until it has returned.
class device_work {
 public:
  explicit device_work(device_use what);
  ~device_work();
  device_work(device_work const&) = delete;
  device_work& operator=(device_work const&) = delete;

  // After the call: the stream that its record names, and whether null means a stream of the thread's.
  void was_in(std::uint64_t stream, bool of_thread);

 private:
  device_use what_;
  std::shared_lock<std::shared_mutex> held_;
};

// A blocking download in the legacy default stream, before the driver is asked. True: it is done, without a copy.
[[nodiscard]] bool download_merged(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
// Called when the driver has made a blocking download: rehearsals look at both sides. `of_thread`: in the calling thread's own default
// stream.
void download_made(std::uint64_t to, std::uint64_t from, std::uint64_t bytes, bool of_thread);

// The program has the driver register host memory: blocks there keep their pages.
void merging_registered(void const* address, std::size_t bytes);

// Called before the pool at these addresses is unmapped. Merged host buffers keep its pages, which do not change any more.
void merging_pool_gone(std::uint64_t base, std::uint64_t bytes);

// At exit: ends the periods of a rehearsal.
void merging_ended();

void merging_before_fork();
void merging_after_fork_in_parent();
void merging_after_fork_in_child();

// --- for host_heap.cpp, at any time in the process's life, from any thread

// Whether requests of so many bytes may be served here.
[[nodiscard]] bool host_serves(std::size_t bytes);
// Zeros; nullptr: malloc serves it.
[[nodiscard]] void* host_request(std::size_t bytes, std::size_t alignment);
// False: malloc's.
[[nodiscard]] bool host_free(void const* address);
// The size of the block that begins there, as requested; 0 if malloc's own heap has it.
[[nodiscard]] std::size_t host_bytes(void const* address);
// The program changes the mapping of these pages itself.
void host_fix(void const* address, std::size_t bytes);

}  // namespace gpuheap::interpose
