// The heaps behind a program's device malloc: one for each context, made before the first kernel that may use it, grown after launches that
// were refused memory. It calls the driver alone, and of the device's work nothing but what a provider does.
//
// A library between a program and its launches has one service, calls before_launch() before each and context_ends() before a context
// goes, and brings the state to where the program's kernels read it.
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
  /// Called first on a thread of the service's own: what it calls is not the program's. May be null.
  void (*thread_begins)();
};

/// A context's heap.
struct served_context {
  CUcontext context = nullptr;
  std::uint64_t id = 0;  // of the context; no other of the process ever has it
  CUdevice device = 0;
  void* heap = nullptr;          // null: it could not be had, or the context has gone
  std::vector<std::byte> state;  // what goes into gpuheap_malloc_state; all zero where there is no heap
  std::mutex in_use;             // held while the provider is asked of the heap, or changes it; taken after the service's own
};

/// Told of every stream capture of the program, by any thread, before it begins and after it has ended or could not begin. While one is
/// under way no heap is grown: growing waits for the context, which would end every capture in it.
void capture_begins();
void capture_ends();

class service {
 public:
  /// @param table stays valid for good; its refusal is null.
  service(provider const& table, driver_calls const& driver);
  service(service const&) = delete;
  service& operator=(service const&) = delete;

  /// Before a launch in the current context: its heap, made now if there is none, grown if it refused memory. While any stream
  /// captures nothing is grown. Any thread.
  /// @return null where no context is current. It stays valid until the process ends.
  /// @note a launch that finds its heap in order pays two calls of the driver and a read.
  served_context const* before_launch(CUstream stream);

  /// Before the current context goes, as by cudaDeviceReset: prints what GPUHEAP_STATS asks for, and forgets the heap.
  void context_ends();

  /// At the end of the process, while the driver still answers: prints what GPUHEAP_STATS asks for of every heap whose context can be had,
  /// what a heap that finds misuse has found, and, under GPUHEAP_WATCH, how much each heap holds at last. Of heaps whose context cannot be
  /// had it prints how many there are, and why nothing is known of them.
  void process_ends();

  [[nodiscard]] provider const& table() const { return table_; }

 private:
  [[nodiscard]] served_context* find(std::uint64_t id);
  served_context* make(CUcontext context, std::uint64_t id);
  void grow(served_context& served);
  template <class Ask>
  bool in_context_of(served_context const& served, Ask ask);
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
  bool const stats_json_;  // it is "json"
  watch_settings const watched_;
  unsigned const number_;  // no other service of the process has it
  std::mutex mutex_;       // of all below, and of calls into a heap that is being made or grown
  std::list<served_context> contexts_;
  bool failure_told_ = false;
  std::chrono::steady_clock::time_point began_;  // when the first heap was made
  std::unique_ptr<watch_lines> lines_;           // under GPUHEAP_WATCH, once there is a heap
  std::unique_ptr<watch> watch_;                 // likewise; its thread uses all of the above
};

}  // namespace gpuheap::device_malloc
