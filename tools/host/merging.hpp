// Pairs of host and device buffers whose downloads (copies from device to host) can be avoided: under zero-copy pools both buffers are host
// memory, so the pages of the pool can be mapped into the host buffer (host_blocks.hpp). Without GPUHEAP_HOST_MERGE the functions here do
// nothing.
//
// A download is merged instead of copied. Before any call that may change device memory, the host buffer is separated again, which makes
// the copy after all. So the program always reads what it would read without merging. A validation run (GPUHEAP_HOST_MERGE=rehearse) finds
// the pairs for which no such call comes while the host buffer lives, and the plan names them. GPUHEAP_HOST_MERGE=elide merges only pairs
// of the plan.
//
// Uploads stay copies. After an upload the program may read two versions, the host's and the one that kernels change, and shared pages hold
// only one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <shared_mutex>

#include "driver.hpp"

namespace gpuheap::interpose {

// The effects that a call may have on device memory.
enum class device_use {
  none,
  in_stream,  // may change it, in order with the stream that the call's record names
  anywhere,   // may change it in a way that waiting for the default stream does not cover
};

// The end of a period in which a host buffer could stay merged. Validation runs (rehearsals) record it (kind::merge, `detail`).
// python/gpuheap/host/rehearsal.py knows the numbers.
enum class period_end : std::uint16_t {
  kept = 1,       // the host buffer was freed or filled again, or the process ended
  separated = 2,  // device memory could change, and the host buffer was as downloaded
  written = 3,    // device memory could change, and the host had written its buffer
  changed = 4,    // device memory had changed, and no call was seen that could have done it
  differed = 5,   // right after the download the two buffers differed
  elsewhere = 6,  // the process works in streams, contexts or graphs that waiting for the default stream does not cover, or has a library
                  // that hands pages to other devices
  fixed = 7,      // the program registered the host buffer, or changed its mapping itself
};

[[nodiscard]] bool merging_on();

// An object of this class lives around a call that may change device memory. The constructor separates merged buffers, and no download is
// merged while the object lives.
class device_work {
 public:
  explicit device_work(device_use what);
  ~device_work();
  device_work(device_work const&) = delete;
  device_work& operator=(device_work const&) = delete;

  // Called after the call that may change device memory, with the stream that the call's record names. `of_thread`: a null stream means the
  // calling thread's own default stream.
  void was_in(std::uint64_t stream, bool of_thread);

 private:
  device_use what_;
  std::shared_lock<std::shared_mutex> held_;
};

// Called before the driver makes a blocking download in the legacy default stream. Returns whether the download is done, without a copy.
[[nodiscard]] bool download_merged(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
// Called when the driver has made a blocking download. A validation run compares both buffers. `of_thread`: in the calling thread's own
// default stream.
void download_made(std::uint64_t to, std::uint64_t from, std::uint64_t bytes, bool of_thread);

// Called when the program has the driver register host memory. Blocks there keep their own pages.
void merging_registered(void const* address, std::size_t bytes);

// Called before the pool at these addresses is unmapped. Merged host buffers keep its pages, which do not change any more.
void merging_pool_gone(std::uint64_t base, std::uint64_t bytes);

// Called at exit. Ends the periods of a validation run.
void merging_ended();

void merging_before_fork();
void merging_after_fork_in_parent();
void merging_after_fork_in_child();

// --- for host_heap.cpp, at any time in the process's life, from any thread

// Whether requests of so many bytes may be served here.
[[nodiscard]] bool host_serves(std::size_t bytes);
// Serves a request with zeroed memory. Returns nullptr if malloc has to serve it.
[[nodiscard]] void* host_request(std::size_t bytes, std::size_t alignment);
// Frees a block that host_request() returned. Returns false for any other address, which malloc has to free.
[[nodiscard]] bool host_free(void const* address);
// The requested size of the block that begins at `address`; 0 if it is not one of host_request().
[[nodiscard]] std::size_t host_bytes(void const* address);
// Called when the program itself changes the mapping of these pages. Blocks there keep their own pages.
void host_fix(void const* address, std::size_t bytes);

}  // namespace gpuheap::interpose
