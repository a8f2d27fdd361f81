// The heaps behind a program's device malloc: one for each context, made before the first kernel that may use it, and grown after launches
// whose requests were refused memory. The service calls only the driver, and starts no work on the device except through a provider.
//
// A library that intercepts a program's launches has one service. It calls before_launch() before each launch and context_ends() before a
// context ends, and writes the heap's state to where the program's kernels read it.
#pragma once

#include <cuda.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tools/malloc/contexts.hpp"
#include "tools/malloc/provider.hpp"
#include "tools/malloc/watch.hpp"

namespace gpuheap::device_malloc {

/// The driver's functions that the service calls.
struct driver_calls {
  CUresult (*context_current)(CUcontext* context);
  CUresult (*context_id)(CUcontext context, unsigned long long* id);
  CUresult (*context_limit)(std::size_t* value, CUlimit limit);
  CUresult (*context_device)(CUdevice* device);
  CUresult (*device_name)(char* name, int length, CUdevice device);
  CUresult (*push_context)(CUcontext context);
  CUresult (*pop_context)(CUcontext* context);
  CUresult (*primary_state)(CUdevice device, unsigned* flags, int* active);
  CUresult (*primary_retain)(CUcontext* context, CUdevice device);
  CUresult (*primary_release)(CUdevice device);
  CUresult (*is_capturing)(CUstream stream, CUstreamCaptureStatus* status);
  CUresult (*capture_mode)(CUstreamCaptureMode* mode);
  /// Called first on each thread that the service makes, so that the calls of this thread do not count as the program's. May be null.
  void (*thread_begins)();
  /// The text of a place of the program, as provider::findings asks for it. May be null: the program's calls have no places.
  provider_place_text* text_of_place;
};

/// A context's heap.
struct served_context : known_context {
  explicit served_context(known_context const& of) : known_context{of} {}

  void* heap = nullptr;          // null: it could not be made, or the context has ended
  std::vector<std::byte> state;  // the contents of gpuheap_malloc_state; all zero if there is no heap
  std::mutex in_use;             // held while the provider reads or changes the heap; where both are held, taken after service::mutex_
};

/// Called for every stream capture of the program, by any thread: before the capture begins, and after it has ended or could not begin.
/// While a capture is open no heap grows, because growing waits for the context, which would invalidate every capture in it.
void capture_begins();
void capture_ends();

class service {
 public:
  /// @param table the allocator's table, which stays valid until the process ends. Its refusal is null.
  service(provider const& table, driver_calls const& driver);
  service(service const&) = delete;
  service& operator=(service const&) = delete;

  /// Called before a launch in the current context, by any thread. Makes the context's heap if there is none, and grows it if it has
  /// refused memory, unless a stream is being captured.
  /// @return the context with its heap, valid until the process ends. Null if no context is current.
  /// @note If the heap needs no change, this costs two calls of the driver and a read.
  served_context const* before_launch(CUstream stream);

  /// Called before the current context ends, as by cudaDeviceReset. Prints what GPUHEAP_STATS asks for and the misuse that the heap has
  /// found, and forgets the heap. Asks nothing of a context that has ended before, unseen.
  void context_ends();

  /// Called at the end of the process, while the driver still answers. For every heap whose context can be entered, it prints what
  /// GPUHEAP_STATS asks for, the misuse that the heap has found, and, under GPUHEAP_WATCH, a last sample. For the other heaps it prints
  /// their number, and why nothing is known of them.
  void process_ends();

  [[nodiscard]] provider const& table() const { return table_; }

 private:
  [[nodiscard]] served_context* find(std::uint64_t id);
  served_context* make(CUcontext context, std::uint64_t id);
  void grow(served_context& served);
  void look_at_all();
  void look_at(served_context& served);
  void print_sample(served_context const& served) const;
  void print_report(served_context const& served) const;
  void print_unknown(CUdevice device, std::size_t num_heaps) const;
  [[nodiscard]] std::string name_of(CUdevice device) const;
  void print_findings(served_context const& served, std::string const& head) const;

  provider const& table_;
  driver_calls driver_;
  bool const stats_;       // GPUHEAP_STATS
  bool const stats_json_;  // GPUHEAP_STATS is "json"
  watch_settings const watched_;
  unsigned const number_;  // no other service of the process has it
  std::mutex mutex_;       // guards all below, and calls that make or grow a heap
  std::list<served_context> contexts_;
  bool failure_told_ = false;
  std::chrono::steady_clock::time_point began_;  // when the first heap was made
  std::unique_ptr<watch_lines> lines_;           // under GPUHEAP_WATCH, once there is a heap
  std::unique_ptr<watch> watch_;                 // likewise; its thread uses all of the above
};

}  // namespace gpuheap::device_malloc
